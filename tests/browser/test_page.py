"""The page at / in a real Chromium: paste, verdict, picture, edit, share, dark mode, many pods, hostile manifests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.chromium import CONTROL, ENTER, TAB
from tests.browser.page import CONTENT, Page

REFUSED = """\
# A comment that stays.
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: training # 😀 and so does this
  annotations:
    grove.io/auto-mnnvl: "enabled"
    owner: 'team-a'
spec:
  replicas: 1
  template:
    cliques:
    - {name: worker, spec: {replicas: 4, podSpec: {containers: [{name: main, image: x}]}}}
"""
TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: demo, labels: {rollcall.dev/scheduler: koord-scheduler}}
spec: {runtimeRef: {name: own-runtime}}
"""
FIXED = REFUSED.replace('    grove.io/auto-mnnvl: "enabled"\n', "")


def clique(name: str, replicas: int) -> str:
    pod = "podSpec: {containers: [{name: main, image: x}]}"
    return f"    - {{name: {name}, spec: {{roleName: {name}, replicas: {replicas}, {pod}}}}}\n"


def four_hundred_pods() -> str:
    head = FIXED.partition("    - {name: worker")[0].replace("replicas: 1", "replicas: 4")
    cliques = [clique(f"worker-{number}", 1) for number in range(90)]
    groups = (
        "    podCliqueScalingGroups:\n    - {name: ring, replicas: 5, minAvailable: 2, cliqueNames: [head, tail]}\n"
    )
    return head + "".join([*cliques, clique("head", 1), clique("tail", 1)]) + groups


def test_a_refused_manifest_is_marked_at_its_line_and_the_button_mends_it(page: Page, tmp_path: Path) -> None:
    page.paste(REFUSED)
    assert (
        page.until_it_says("1 error")
        == "1 object judged for koord-scheduler (default): 1 error, 0 warnings, 1 fixable."
    )
    assert "line 7 error koordinator/mnnvl" in page.report().replace("\n", " ")
    assert page.browser.label(page.browser.element("#editor >>> .cm-lint-marker-error"))
    page.see("refused")
    page.press("line 7")
    assert page.browser.label(page.browser.focused()) == "textbox: Manifests, YAML or JSON"
    page.press("Apply")
    page.until_it_says("0 errors")
    assert page.text() == FIXED
    manifest = tmp_path / "set.yaml"
    manifest.write_text(REFUSED)
    command = [sys.executable, "-m", "webhook", "check", "--scheduler", "koord-scheduler", "--fix", str(manifest)]
    subprocess.run(command, check=True, capture_output=True)
    assert manifest.read_text() == page.text()
    # The report has the focus; the editor takes it back with Ctrl+Z.
    page.browser.click(page.browser.element(CONTENT))
    page.browser.press(CONTROL, "z")
    page.until_it_says("1 error")
    assert page.text() == REFUSED


def test_an_edit_is_not_applied_to_a_text_that_has_changed_since(page: Page) -> None:
    page.paste(REFUSED)
    page.until_it_says("1 error")
    # In one turn, so that the page has no time to check the new text.
    page.browser.run(
        "const content = document.getElementById('editor').shadowRoot.querySelector('.cm-content');"
        "const data = new DataTransfer(); data.setData('text/plain', '# more\\n');"
        "content.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}));"
        "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Apply').click();"
        "window.said = document.getElementById('summary').textContent;"
    )
    assert page.browser.run("return window.said").startswith("The edit was not applied: the manifests have changed")
    page.until_it_says("1 error")
    assert 'grove.io/auto-mnnvl: "enabled"' in page.text()


def test_an_edit_that_cannot_be_written_is_shown_without_a_button(page: Page) -> None:
    anchored = REFUSED.replace("annotations:", "annotations: &shared").replace(
        "replicas: 1", "replicas: 1\n  x: *shared"
    )
    page.paste(anchored)
    page.until_it_says("1 error")
    assert "Make this change by hand" in page.report()
    assert "Apply" not in page.report()


def test_files_are_dropped_and_checked_together(page: Page) -> None:
    page.drop(one=FIXED, two=REFUSED.replace("training", "other"))
    page.until_it_says("2 objects judged for koord-scheduler (default): 1 error")
    page.press("Apply")
    page.until_it_says("0 errors")


def test_what_is_not_judged_says_what_supplies_the_fact(page: Page) -> None:
    page.paste(f"{TRAIN_JOB}---\n{FIXED.replace('replicas: 4', 'replicas: 4, minAvailabe: 2')}")
    page.until_it_says("2 objects judged for koord-scheduler: 0 errors, 1 warning, 1 not judged")
    said = page.report()
    assert "spec.runtimeRef.name: needs the ClusterTrainingRuntime own-runtime\nDo: give --facts a folder " in said
    assert "did you mean minAvailable?" in said
    page.see("not-judged")


def test_nodes_among_the_manifests_show_whether_the_gang_fits_them(page: Page) -> None:
    container = "{name: main, image: x, resources: {limits: {example.com/gpu: 8}}}"
    large = FIXED.replace("{name: main, image: x}", container)
    has = '{allocatable: {pods: 10, example.com/gpu: 8}, conditions: [{type: Ready, status: "True"}]}'
    nodes = [
        f"---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {has}}}\n" for name in ("n1", "n2")
    ]
    page.paste(large + "".join(nodes))
    page.until_it_says("1 warning")
    said = page.report()
    assert "Nodes for training-0" in said
    assert "never fits on these nodes: 4 pods of 8 example.com/gpu; 2 nodes of 8 take one each" in said
    assert "Do: lower the minimum of worker to 2 pods" in said
    page.see("fit")


def test_the_matrix_chooses_a_scheduler_and_shows_the_edits_for_others(page: Page) -> None:
    page.choose("configuration", "built-in")
    page.press("Example")
    page.until_it_says("default-scheduler")
    page.press("volcano")
    page.until_it_says("for volcano (your choice)")
    assert page.browser.run("return document.getElementById('scheduler').value") == "volcano"
    page.see("matrix")
    page.press("Choose kai-scheduler, and apply")
    page.until_it_says("for kai-scheduler (your choice): 0 errors")


def test_a_shared_address_has_the_manifests_and_nothing_is_stored(page: Page) -> None:
    page.choose("configuration", "built-in")
    page.choose("scheduler", "volcano")
    page.paste(REFUSED)
    page.until_it_says("for volcano")
    page.press("Share")
    fragment = page.browser.until(
        lambda: page.browser.run("return location.hash") or None, "the address has a fragment"
    )
    assert "training" not in fragment
    page.open(fragment)
    page.until_it_says("for volcano")
    assert page.text() == REFUSED
    kept = "return [localStorage.length, sessionStorage.length, document.cookie, (await indexedDB.databases()).length]"
    assert page.browser.run(f"return (async () => {{ {kept} }})()") == [0, 0, "", 0]
    asked = page.browser.run(
        "return performance.getEntriesByType('resource').map((entry) => new URL(entry.name).pathname)"
    )
    assert set(asked) == {"/check", "/capabilities"}


def test_a_damaged_shared_address_is_said(page: Page) -> None:
    page.open("#manifests=AAAA")
    page.until_it_says("The shared manifests cannot be read: ")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_both_schemes_and_nothing_is_wider_than_the_page(page: Page, scheme: str) -> None:
    page.browser.prefer(scheme)
    page.choose("configuration", "built-in")
    page.press("Example")
    page.until_it_says("for default-scheduler")
    page.press("kai-scheduler")
    page.until_it_says("for kai-scheduler")
    assert page.faint() == []
    page.see(scheme)
    for width in (1400, 1000, 700, 360):
        page.browser.size(width, 900)
        assert not page.wide(), f"at {width} pixels"
    page.see(f"{scheme}-narrow")


def test_the_button_overrides_the_preferred_scheme(page: Page) -> None:
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = page.browser.run(colour)
    page.press("Theme: automatic")
    page.press("Theme: light")
    assert page.browser.run("return document.getElementById('theme').textContent") == "Theme: dark"
    assert (light, page.browser.run(colour)) == ("rgb(255, 255, 255)", "rgb(20, 24, 29)")
    assert page.faint() == []


def test_four_hundred_pods_are_a_picture_that_fits(page: Page) -> None:
    page.paste(four_hundred_pods())
    page.until_it_says("1 object judged")
    assert "400 pods in all" in page.report()
    shapes = page.browser.run("return document.querySelectorAll('figure rect').length")
    assert shapes < 40
    assert page.browser.run(CUT) == []
    assert not page.long()
    page.see("400-pods")
    page.press("Full screen")
    page.browser.until(lambda: page.browser.run("return document.fullscreenElement !== null"), "the picture is alone")
    page.see("400-pods-full-screen")


# Texts of the picture that are wider than the box around them.
CUT = """
const found = [];
for (const text of document.querySelectorAll("figure text")) {
  const own = text.getBBox();
  const inside = [...document.querySelectorAll("figure rect")].some((rect) => {
    const box = rect.getBBox();
    return own.x >= box.x && own.x + own.width <= box.x + box.width && own.y >= box.y - 1 && own.y <= box.y + box.height
      && !rect.classList.contains("paper");
  });
  if (!inside) found.push(text.textContent);
}
return found;
"""


def test_the_picture_can_be_kept(page: Page, tmp_path: Path) -> None:
    page.browser.command("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page.paste(REFUSED)
    page.until_it_says("1 error")
    page.press("Save as SVG")
    page.browser.until((tmp_path / "gangs.svg").is_file, "the file is there")
    assert (tmp_path / "gangs.svg").read_text().startswith("<svg xmlns=")


HOSTILE = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: "</script><script>window.broken=1</script>"
  namespace: "<img src=x onerror=window.broken=1>"
  annotations:
    grove.io/auto-mnnvl: "enabled"
    "\\u202e<b>evil</b>": "\\u2066x"
spec:
  replicas: 1
  template:
    cliques:
    - name: "w\\u202eorker\\"><svg onload=window.broken=1>"
      spec:
        replicas: 2
        podSpec: {schedulerName: "javascript:window.broken=1", containers: [{name: main, image: "\u202ex"}]}
"""


def test_a_hostile_manifest_is_text_and_hidden_characters_are_seen(page: Page) -> None:
    page.paste(HOSTILE)
    page.until_it_says("judged")
    said = page.report()
    assert "<script>window.broken=1</script>" in said
    assert "\u202e" not in page.browser.run("return document.body.innerHTML")
    assert page.browser.run("return document.querySelectorAll('#report script, #report img, #report b').length") == 0
    assert page.browser.run("return typeof window.broken") == "undefined"
    assert page.browser.label(page.browser.element("#editor >>> .cm-specialChar"))
    page.see("hostile")


def test_a_text_that_cannot_be_read_is_marked_where_it_ends_to_be_yaml(page: Page) -> None:
    page.paste("kind: PodCliqueSet\nmetadata: {name: [\n")
    page.until_it_says("400: is not YAML: ")
    page.press("line ")
    assert page.browser.label(page.browser.focused()) == "textbox: Manifests, YAML or JSON"
    page.see("unreadable")


COMMENT = f"# {'x' * 97}\n"


@pytest.mark.parametrize(
    ("megabytes", "line"),
    [
        pytest.param(1.5, COMMENT, id="a little larger"),
        pytest.param(5, COMMENT, id="lines"),
        pytest.param(5, "<b>\u202e</b>", id="one line"),
    ],
)
def test_above_the_limit_the_page_shows_the_413(page: Page, megabytes: float, line: str) -> None:
    page.drop(large=REFUSED + line * int(megabytes * 1024 * 1024 / len(line.encode())))
    assert page.until_it_says("413") == "413: the body is over the limit of 1048576 bytes"
    page.see("too-large")


def test_findings_are_shown_even_if_there_are_too_many_workloads_to_explain(page: Page) -> None:
    page.paste("---\n".join([REFUSED] * 51))
    page.until_it_says("51 errors")
    assert "Not explained: body: has more than 50 workloads" in page.report()


def test_the_keyboard_is_enough(page: Page) -> None:
    browser = page.browser
    browser.run("document.body.focus()")
    seen = []
    for _ in range(10):
        browser.press(TAB)
        seen.append(browser.label(browser.focused()))
    assert seen == [
        "link: Skip to the findings",
        "button: Theme: automatic",
        "link: API",
        "combobox: Configuration",
        "combobox: Scheduler",
        "button: Check",
        "button: Open files",
        "button: Example",
        "button: Share",
        "textbox: Manifests, YAML or JSON",
    ]
    browser.type(browser.focused(), "kind: Job\napiVersion: batch/v1")
    browser.press(CONTROL, ENTER)
    page.until_it_says("1 object judged")
    page.paste(REFUSED)
    page.until_it_says("1 error")
    browser.click(browser.element(CONTENT))
    for _ in range(2):
        browser.press(TAB)
    assert browser.label(browser.focused()) == "button: Apply"
    browser.press(ENTER)
    page.until_it_says("0 errors")
    assert browser.label(browser.focused()) == "region: Findings"


def test_the_description_of_the_endpoints_needs_no_script(page: Page) -> None:
    page.browser.open(f"{page.address}/docs")
    assert "POST /check" in page.browser.run("return document.body.innerText")
    assert page.faint() == []
    page.see("docs")
    page.browser.size(360, 900)
    assert not page.wide()
