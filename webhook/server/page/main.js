// Connects the controls, the editor and the report.

const REST_MILLISECONDS = 500;
// A file that is larger is not read: no server takes it.
const MOST_FILE_BYTES = 32 * 1024 * 1024;
const EXAMPLE = `apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: inference
  annotations:
    grove.io/auto-mnnvl: enabled
spec:
  replicas: 1
  template:
    cliques:
    - name: frontend
      spec:
        replicas: 2
        podSpec:
          containers:
          - {name: main, image: registry.example.com/frontend:1.0}
    - name: leader
      spec:
        replicas: 1
        podSpec:
          containers:
          - name: main
            image: registry.example.com/decode:1.0
            resources: {limits: {nvidia.com/gpu: "8"}}
    - name: worker
      spec:
        replicas: 3
        podSpec:
          containers:
          - name: main
            image: registry.example.com/decode:1.0
            resources: {limits: {nvidia.com/gpu: "8"}}
    podCliqueScalingGroups:
    - name: decode
      replicas: 2
      minAvailable: 1
      cliqueNames: [leader, worker]
`;

const SUPPLY = "Not judged: paste the object that is named too, or start the server with --facts.";

const at = (id) => document.getElementById(id);
const editor = new Editor(at("editor"), changed, check);
let resting = 0;
let asking = new AbortController();
// The last report, and the text that it is about.
let reported = null;
let checked = "";

function changed() {
  at("shared").replaceChildren();
  clearTimeout(resting);
  resting = setTimeout(check, REST_MILLISECONDS);
}

function choices() {
  return { configuration: at("configuration").value, scheduler: at("scheduler").value };
}

async function check() {
  clearTimeout(resting);
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const { text } = editor;
  reported = null;
  if (text.trim() === "") {
    tell("Nothing is checked yet.", "");
    at("report").replaceChildren();
    editor.mark([]);
    return;
  }
  at("report").setAttribute("aria-busy", "true");
  try {
    // Bytes, not the string: its size is what the server limits.
    const body = new Blob([text]);
    const report = await ask("check", { ...choices(), fixes: "true" }, body, signal);
    const explained = await explanationOf(body, signal);
    reported = report;
    checked = text;
    present(report, explained);
  } catch (error) {
    if (!signal.aborted) failed(error, text);
  } finally {
    if (!signal.aborted) at("report").removeAttribute("aria-busy");
  }
}

/** Returns the explanation. If it is refused, for example of too many workloads, the findings are shown without it. */
async function explanationOf(body, signal) {
  try {
    return await ask("capabilities", { ...choices(), pictures: "true" }, body, signal);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { workloads: [], trees: [], refused: error.message };
  }
}

function tell(text, style) {
  at("summary").className = style;
  at("summary").replaceChildren(visible(text));
}

function present(report, explained) {
  const entries = entriesOf(report);
  tell(...summaryOf(report, entries, explained.trees));
  const severities = { error: "error", warning: "warning", unjudged: "info", note: "hint" };
  editor.mark(entries.map((one) => ({ ...one, severity: severities[one.severity] })));
  const acts = { choose, apply, applyFor, show: (line) => editor.show(line) };
  at("report").replaceChildren(
    findingsList(entries, explained.workloads, acts),
    report.notJudged.length ? element("p", { class: "quiet" }, SUPPLY) : "",
    explained.refused ? element("p", { class: "quiet" }, `Not explained: ${explained.refused}`) : "",
    ...explained.workloads.map((one) => workloadSection(one, acts)),
    ...explained.trees.map((one) => treeSection(one, acts)),
    explained.treesNotRead ? element("p", { class: "quiet" }, `Trees of groups: ${explained.treesNotRead}`) : "",
  );
}

function failed(error, text) {
  at("report").replaceChildren();
  editor.mark([]);
  if (!(error instanceof Refused)) {
    tell(`The server cannot be reached: ${error.message}`, "bad");
    return;
  }
  tell(`${error.status}: ${error.message}`, "bad");
  if (error.status === 413) at("report").replaceChildren(element("p", {}, "rollcall check and rollcall explain read larger files."));
  const place = /^body:(\d+):(\d+): (.*)$/s.exec(error.message);
  if (place === null) return;
  tell(`${error.status}: ${place[3]}`, "bad");
  const [line, column] = [Number(place[1]), Number(place[2])];
  editor.mark([{ line, column, severity: "error", message: place[3] }]);
  at("report").replaceChildren(
    element("p", {}, lineButton(line, { show: () => editor.show(line) })),
  );
}

async function choose(scheduler) {
  at("scheduler").value = scheduler;
  at("scheduler").focus();
  at("findings").scrollTop = 0;
  await check();
}

/** Makes an edit of the report. */
function apply(edits) {
  const changed = editor.text !== checked;
  if (!changed) editor.apply(edits);
  at("findings").focus();
  at("findings").scrollTop = 0;
  check();
  if (changed) tell("The edit was not applied: the manifests have changed. They are checked again.", "bad");
}

/** Chooses a scheduler, and makes its edit of a workload. */
async function applyFor(scheduler, workload) {
  await choose(scheduler);
  const found = reported?.findings.find((one) => one.fix?.scheduler === scheduler && sameObject(one.object, workload));
  if (found?.fix.edits.length) apply(found.fix.edits);
}

async function offerSchedulers(chosen) {
  const select = at("scheduler");
  const [none] = select.options;
  const names = await schedulersOf(at("configuration").value);
  select.replaceChildren(none, ...names.map((name) => element("option", { value: name }, name)));
  select.value = names.includes(chosen) ? chosen : "";
}

async function share() {
  const fragment = await fragmentOf(editor.text, choices());
  if (fragment === null) {
    at("shared").replaceChildren("The manifests are too long for an address.");
    return;
  }
  history.replaceState(null, "", fragment);
  let said = "The address of this page now contains the manifests. Copy it to share them.";
  try {
    await navigator.clipboard.writeText(location.href);
    said = "The address with the manifests is on the clipboard. Its part after # is not sent to the server.";
  } catch {
    // Without the permission the address is still in the address bar.
  }
  at("shared").replaceChildren(said);
}

async function load(fragment) {
  try {
    const found = await sharedIn(fragment);
    if (found === null) return;
    at("configuration").value = found.configuration === "built-in" ? "built-in" : "server";
    await offerSchedulers(found.scheduler);
    editor.text = found.text;
    check();
  } catch (error) {
    tell(`The shared manifests cannot be read: ${error.message}`, "bad");
  }
}

async function openFiles(files) {
  const fitting = [...files].filter((one) => one.size <= MOST_FILE_BYTES);
  const texts = await Promise.all(fitting.map((one) => one.text()));
  if (fitting.length < files.length) tell("A file is too large for this page.", "bad");
  else if (texts.length) editor.text = texts.map((one) => one.replace(/\n?$/, "\n")).join("---\n");
}

const THEMES = [["automatic", "light dark"], ["light", "light"], ["dark", "dark"]];
let theme = 0;
at("theme").addEventListener("click", () => {
  theme = (theme + 1) % THEMES.length;
  const [name, scheme] = THEMES[theme];
  document.documentElement.style.colorScheme = scheme;
  at("theme").textContent = `Theme: ${name}`;
});

at("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  check();
});
at("configuration").addEventListener("change", () => offerSchedulers(at("scheduler").value).then(check, failed));
at("scheduler").addEventListener("change", check);
at("example").addEventListener("click", () => {
  editor.text = EXAMPLE;
});
at("share").addEventListener("click", share);
at("open").addEventListener("click", () => at("files").click());
at("files").addEventListener("change", () => openFiles(at("files").files));
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  at("editor").classList.add("dropping");
});
document.addEventListener("dragleave", () => at("editor").classList.remove("dropping"));
// Before the editor, which would insert a file at the cursor.
document.addEventListener("drop", (event) => {
  at("editor").classList.remove("dropping");
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  event.stopPropagation();
  openFiles(event.dataTransfer.files);
}, true);
window.addEventListener("hashchange", () => load(location.hash));

offerSchedulers("").then(() => load(location.hash), failed);
