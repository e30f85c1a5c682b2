"""The web page as a person uses it: paste, read, press."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.browser.chromium import CONTROL, Browser

CONTENT = "#editor >>> .cm-content"
_PASTE = """
const data = new DataTransfer();
const spread = { bubbles: true, cancelable: true, composed: true };
data.setData("text/plain", arguments[1]);
arguments[0].dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, ...spread }));
"""
_DROP = """
const data = new DataTransfer();
const spread = { bubbles: true, cancelable: true, composed: true };
for (const [name, text] of arguments[1]) data.items.add(new File([text], name));
arguments[0].dispatchEvent(new DragEvent("drop", { dataTransfer: data, ...spread }));
"""


class Page:
    """The page in a browser."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser = browser
        self.address = address

    def open(self, fragment: str = "") -> None:
        """Open the page and wait until it offers its schedulers."""
        self.browser.open(f"{self.address}/{fragment}")
        self.browser.until(lambda: len(self.schedulers()) > 1, "the page offers schedulers")

    def schedulers(self) -> list[str]:
        """What the choice of the scheduler offers."""
        found: list[str] = self.browser.run(
            "return [...document.getElementById('scheduler').options].map((o) => o.value)"
        )
        return found

    def paste(self, text: str) -> None:
        """Paste instead of everything in the editor."""
        content = self.browser.element(CONTENT)
        self.browser.click(content)
        self.browser.press(CONTROL, "a")
        self.browser.run(_PASTE, content, text)

    def drop(self, **files: str) -> None:
        """Drop files on the page."""
        self.browser.run(_DROP, self.browser.element(CONTENT), [[f"{name}.yaml", text] for name, text in files.items()])

    def choose(self, control: str, value: str) -> None:
        """Choose an option, once it is offered."""
        script = f"return document.querySelector(\"#{control} option[value='{value}']\")"
        self.browser.click(self.browser.until(lambda: self.browser.run(script), f"{control} offers {value}"))

    def press(self, words: str) -> None:
        """Click the first button with these words."""
        found = self.browser.run(
            "return [...document.querySelectorAll('button')].find((b) => b.textContent.includes(arguments[0]))", words
        )
        assert found, f"no button {words!r}; the page says: {self.report()}"
        self.browser.click(found)

    def text(self) -> str:
        """The text in the editor. Only the visible part of a long one."""
        found: str = self.browser.run(
            "return [...document.getElementById('editor').shadowRoot.querySelectorAll('.cm-line')]"
            ".map((line) => line.textContent).join('\\n')"
        )
        return found

    def summary(self) -> str:
        """The line above the findings."""
        return str(self.browser.run("return document.getElementById('summary').textContent"))

    def report(self) -> str:
        """Everything that is said below the summary, as it is seen."""
        return str(self.browser.run("return document.getElementById('report').innerText"))

    def until_it_says(self, text: str) -> str:
        """Wait until the summary contains a text and the report is complete; the summary."""

        def said() -> str:
            now = self.summary()
            assert text in now, now
            assert self.browser.run("return document.getElementById('report').ariaBusy") is None, "it is busy"
            return now

        return self.browser.until(said, f"the page says {text!r}")

    def see(self, name: str) -> None:
        """Keep a picture in the folder that ROLLCALL_PICTURES names, for a person to look at."""
        if folder := os.environ.get("ROLLCALL_PICTURES"):
            self.browser.picture(Path(folder) / f"{name}.png")

    def wide(self) -> bool:
        """Whether a person must scroll to the side."""
        return bool(self.browser.run("return document.documentElement.scrollWidth > innerWidth"))

    def long(self) -> bool:
        """Whether a person must scroll down to see the end of the editor."""
        return bool(
            self.browser.run("return document.getElementById('editor').getBoundingClientRect().bottom > innerHeight")
        )

    def faint(self) -> list[Any]:
        """Texts whose contrast with their background is below 4.5 to 1 (WCAG 2, AA)."""
        found: list[Any] = self.browser.run(_FAINT)
        return found


_FAINT = """
const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = (colour) => numbers(colour).slice(0, 3)
  .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (e) => {
  for (let at = e; at; at = at.parentElement ?? at.getRootNode().host) {
    const { backgroundColor } = getComputedStyle(at);
    if ((numbers(backgroundColor)[3] ?? 1) === 1) return backgroundColor;
  }
  return "rgb(255, 255, 255)";
};
const found = [];
const look = (root) => {
  for (const e of root.querySelectorAll("*")) {
    if (e.shadowRoot) look(e.shadowRoot);
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("svg, style, script, option, noscript") || !e.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([e.localName, e.className, e.textContent.slice(0, 40), ratio.toFixed(2)]);
  }
};
look(document);
return found;
"""
