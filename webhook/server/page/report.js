// The report: findings, and for each workload the matrix of schedulers, the smallest edit and the picture.

const CELLS = {
  yes: ["yes", "good"],
  no: ["no", "bad"],
  inPart: ["in part", "warn"],
  unknown: ["not judged", "unsure"],
  unstated: ["not stated", "quiet"],
};
const ANSWERS = {
  runs: ["runs as written", "good"],
  partly: ["admitted, not as written", "warn"],
  refused: ["refused", "bad"],
  unknown: ["not known", "unsure"],
};
// In the table, where a cell has little room.
const SHORT = { runs: "runs", partly: "in part", refused: "refused", unknown: "not known" };
// More lines than a person reads.
const MOST_SHOWN = 200;

/** Returns findings, what was not judged, and notes, in the order of their lines. */
function entriesOf(report) {
  const findings = report.findings
    .filter((one) => one.level !== "audit")
    .map((one) => ({ ...one, severity: one.level }));
  const unjudged = report.notJudged.map((one) => ({
    ...one,
    severity: "unjudged",
    message: [`${one.rule} at ${one.field}: not judged: needs ${one.needs}`, one.remedy].filter(Boolean).join("; "),
  }));
  const left = (word) => (one) => ({ ...one, severity: "unjudged", message: `${word}: ${one.message}` });
  const omitted = [
    ...report.objectsNotJudged.map(left("not judged")),
    ...report.objectsJudgedInPart.map(left("judged in part")),
  ];
  const notes = report.notes.map((one) => ({ ...one, severity: "note" }));
  const order = ["error", "warning", "unjudged", "note"];
  return [...findings, ...unjudged, ...omitted, ...notes].sort(
    (a, b) => a.line - b.line || order.indexOf(a.severity) - order.indexOf(b.severity),
  );
}

/** Returns the report in one line, and whether it is good or bad. */
function summaryOf(report, entries, trees) {
  const count = (severity) => entries.filter((one) => one.severity === severity).length;
  const errors = count("error");
  const said = [counted(errors, "error"), counted(count("warning"), "warning")];
  if (report.counts.fixable) said.push(`${report.counts.fixable} fixable`);
  if (count("unjudged")) said.push(`${count("unjudged")} not judged`);
  const stuck = trees.filter((one) => one.answer === "cannot").length;
  if (stuck) said.push(`${counted(stuck, "tree")} of groups that can never start`);
  const ignored = report.ignored ? `, ${counted(report.ignored, "object")} without rules` : "";
  const text = `${counted(report.judged, "object")} judged${forWhich(report.schedulers)}${ignored}: ${said.join(", ")}.`;
  return [text, errors || stuck ? "bad" : report.judged && !count("unjudged") ? "good" : ""];
}

/** Returns for which scheduler all objects were judged, and what chose it, as far as that is one and the same. */
function forWhich(schedulers) {
  const names = new Set(schedulers.map((one) => one.scheduler));
  if (names.size !== 1) return "";
  const [{ scheduler, chosenBy }, ...others] = schedulers;
  return ` for ${scheduler}${chosenBy && !others.length ? ` (${byWhom(chosenBy)})` : ""}`;
}

/** Returns what chose a scheduler, in words of the page. */
function byWhom(words) {
  return words.replace("the scheduler parameter", "your choice");
}

/** Returns the list of findings. The first finding of an object has its smallest edit. */
function findingsList(entries, workloads, acts) {
  const edited = new Set();
  const editOnce = (one) => {
    const key = JSON.stringify([one.object, one.fix]);
    if (!one.fix || edited.has(key)) return [];
    edited.add(key);
    const workload = workloads.find((other) => sameObject(one.object, other));
    const then = workload?.schedulers.find((view) => view.scheduler === one.fix.scheduler)?.edit?.then;
    // Without a text, such as when another place uses the same anchor, it can only be read.
    const button = one.fix.edits.length
      ? actButton("Apply", () => acts.apply(one.fix.edits))
      : element("p", { class: "quiet" }, "Make this change by hand: it cannot be written here without changing something else.");
    return [editOf("Smallest edit", one.fix, then, button)];
  };
  const items = entries.slice(0, MOST_SHOWN).map((one) =>
    element(
      "li",
      { class: one.severity },
      lineButton(one.line, acts),
      " ",
      element("strong", { class: { error: "bad", warning: "warn", unjudged: "unsure" }[one.severity] ?? "quiet" },
        { error: "error", warning: "warning", unjudged: "not judged", note: "note" }[one.severity]),
      " ",
      ...wordsOfEntry(one),
      ...editOnce(one),
    ),
  );
  if (entries.length > MOST_SHOWN) items.push(element("li", {}, `and ${entries.length - MOST_SHOWN} more`));
  return element("ol", { class: "findings" }, items);
}

/** Returns the button that puts the cursor on a line. */
function lineButton(line, acts) {
  return element("button", { type: "button", class: "line", click: () => acts.show(line) }, `line ${line}`);
}

function wordsOfEntry(one) {
  const { kind, namespace, name } = one.object;
  const object = element("div", { class: "quiet" }, `${kind} ${namespace ? `${namespace}/` : ""}${name}`);
  if (one.severity === "note") return [one.message, object];
  if (one.reason) return [element("div", {}, `Why: ${one.why}`), element("div", {}, `Do: ${one.remedy}`), object];
  if (one.severity === "unjudged") {
    const remedy = one.remedy ? element("div", {}, `Do: ${one.remedy}`) : null;
    return [element("code", {}, one.rule), element("div", {}, `${one.field}: needs ${one.needs}`), remedy, object];
  }
  return [
    element("code", {}, one.rule),
    element("div", { class: "mono" }, one.found === null ? one.field : `${one.field}: ${JSON.stringify(one.found)}`),
    element("div", {}, `Why: ${one.why}`),
    element("div", {}, `Do: ${one.remedy}`),
    object,
  ];
}

/** Returns the section of one workload. `acts` has what buttons do: show(line), choose(scheduler),
 * apply(edits), applyFor(scheduler, workload). */
function workloadSection(workload, acts) {
  const name = `${workload.kind} ${workload.namespace}/${workload.name}`;
  const section = element("section", { "aria-label": visible(name) }, element("h3", {}, name));
  if (workload.scheduler !== null) {
    const view = workload.schedulers.find((one) => one.scheduler === workload.scheduler);
    const chosen = `scheduler ${workload.scheduler}, ${byWhom(workload.chosenBy)}: `;
    section.append(element("p", {}, chosen, answerOf(workload.answer, view)));
  }
  for (const note of workload.notes) section.append(element("p", { class: "quiet" }, note));
  if (workload.pictures) section.append(...pictureOf(workload, name));
  for (const one of workload.fits ?? []) section.append(...fitOf(one));
  if (workload.schedulers.length) section.append(...matrixOf(workload, acts));
  section.append(...otherEdits(workload, acts));
  return section;
}

/** Returns an answer in words. `view` is what the scheduler that answers says, if it is known. */
function answerOf(answer, view) {
  const [word, style] = ANSWERS[answer];
  const supported = view?.capabilities.every((one) => ["yes", "unknown", "unstated"].includes(one.honoured));
  const partly = answer === "partly" && supported ? "admitted, not known to run as written" : word;
  return element("strong", { class: style }, partly);
}

function matrixOf(workload, acts) {
  const capabilities = workload.uses.map((one) => one.capability);
  const head = ["scheduler", "as written", ...capabilities].map((one) => element("th", { scope: "col" }, broken(one)));
  const rows = workload.schedulers.map((view) => {
    const honours = Object.fromEntries(view.capabilities.map((one) => [one.capability, one.honoured]));
    const chosen = view.scheduler === workload.scheduler;
    const label = `Choose ${view.scheduler}`;
    const act = () => acts.choose(view.scheduler);
    const choose = element("button", { type: "button", "aria-label": visible(label), click: act }, view.scheduler);
    const answer = [SHORT[view.answer], ANSWERS[view.answer][1]];
    const cells = [answer, ...capabilities.map((one) => CELLS[honours[one]] ?? ["", ""])];
    return element(
      "tr",
      { class: chosen ? "chosen" : undefined },
      element("th", { scope: "row" }, choose, chosen ? " (chosen)" : ""),
      cells.map(([word, style]) => element("td", { class: style }, word)),
    );
  });
  return [
    element("h4", {}, "Schedulers"),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Schedulers" },
      element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows))),
    ...workload.schedulers.filter((view) => view.answer !== "runs").map(reasonsOf).filter(Boolean),
  ];
}

/** Returns a name that may be broken into lines before each of its words. */
function broken(name) {
  return name.split(/(?=[A-Z][a-z])|(?<=\.)/).flatMap((word, index) => (index ? [element("wbr"), word] : [word]));
}

function reasonsOf(view) {
  const items = [
    ...view.capabilities
      .filter((one) => one.why && !one.stoppedBy)
      .map((one) => element("li", {}, `${one.capability}: ${one.why}; ${one.remedy}`)),
    ...view.findings.slice(0, MOST_SHOWN).map((one) => element("li", {}, one.message)),
    ...view.notJudged.slice(0, MOST_SHOWN).map((one) =>
      element("li", {}, [`not judged: ${one.rule} needs ${one.needs}`, one.remedy].filter(Boolean).join("; "))),
  ];
  if (!items.length) return null;
  return element("details", {}, element("summary", {}, `Why ${view.scheduler}: `, answerOf(view.answer, view)),
    element("ul", {}, items));
}

/** Returns the edits for the schedulers that are not chosen. To apply one also chooses its scheduler. */
function otherEdits(workload, acts) {
  const others = workload.schedulers.filter((view) => view.edit !== null && view.scheduler !== workload.scheduler);
  const edits = others.map(({ scheduler, edit }) =>
    editOf(`For ${scheduler}`, edit, edit.then,
      actButton(`Choose ${scheduler}, and apply`, () => acts.applyFor(scheduler, workload))));
  return edits.length ? [element("h4", {}, "Smallest edits for other schedulers"), ...edits] : [];
}

/** Returns one edit, with the answer of the scheduler after it, if it is known, and what can be done. */
function editOf(title, { changes, patch }, then, button) {
  const items = changes.map((one, index) => {
    const { op } = patch[index];
    const was = op === "add" ? "" : ` (it is ${JSON.stringify(one.from)})`;
    const words = op === "remove" ? `remove ${one.path}` : `${op === "add" ? "add" : "set"} ${one.path}: ${JSON.stringify(one.to)}`;
    return element("li", {}, words + was);
  });
  const answer = then ? ["; then: ", element("strong", { class: ANSWERS[then][1] }, ANSWERS[then][0])] : [];
  return element("div", { class: "edit" }, element("p", {}, title, ...answer), element("ul", { class: "changes" }, items), button);
}

const FITS = { never: "bad", fits: "good", unknown: "unsure" };

/** Returns whether a gang fits the nodes among the manifests, and its picture. */
function fitOf(gang) {
  const [title, ...drawn] = gang.pictures ? pictureOf(gang, `gang ${gang.gang}`) : [element("h4", {})];
  title.replaceChildren(`Nodes for ${visible(gang.gang)}`);
  const remedy = gang.remedy ? [element("p", {}, `Do: ${gang.remedy}`)] : [];
  return [title, element("p", { class: FITS[gang.verdict] }, gang.says), ...remedy, ...drawn];
}

function actButton(label, click) {
  return element("button", { type: "button", class: "apply", click }, label);
}

function sameObject(one, other) {
  return ["kind", "namespace", "name"].every((part) => one[part] === other[part]);
}

const TREE_ANSWERS = {
  can: ["can start", "good"],
  cannot: ["can never start", "bad"],
  notTold: ["not known whether it can start", "unsure"],
};

/** Returns the section of a tree of groups that were written by hand. */
function treeSection(tree, acts) {
  const [word, style] = TREE_ANSWERS[tree.answer];
  const name = `${tree.kind} ${tree.name}`;
  const causes = tree.why.slice(0, MOST_SHOWN).map((one) => element("li", {}, one.message));
  if (tree.needs) causes.push(element("li", {}, tree.needs));
  return element(
    "section",
    { "aria-label": visible(name) },
    element("h3", {}, name, " ", lineButton(tree.line, acts)),
    element("p", {}, element("strong", { class: style }, word)),
    element("ul", {}, causes),
    ...(tree.pictures ? pictureOf(tree, name) : []),
  );
}
