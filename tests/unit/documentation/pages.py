"""Reading the pages of the documentation: their links, anchors, and fenced blocks."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
# Made from the code; `test_reference.py` compares them, and the examples of the rules are tests of their own.
GENERATED = frozenset(
    {*(ROOT / "docs" / "reference" / "rules").glob("*.md"), ROOT / "docs" / "reference" / "doctor.md"}
)
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """What is fenced in a page: the page's path, the number of the text's first line, its language and the text."""

    page: str
    line: int
    language: str
    text: str


class Command(NamedTuple):
    """A command of a page, and the lines of its output that the page shows."""

    page: str
    line: int
    text: str
    shown: tuple[str, ...]


def pages() -> list[Path]:
    """Return every page that a reader is meant to read: README, docs, and the READMEs of folders."""
    folders = ("certs", "manifests", "manifests/chart", "benchmarks", "examples/rollcall-scheduler-plugins")
    loose = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return sorted([*loose, *(ROOT / folder / "README.md" for folder in folders), *(ROOT / "docs").rglob("*.md")])


def blocks(page: Path) -> Iterator[Block]:
    """Return what is fenced in a page, without the indentation of the fence."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        indent = found["indent"]
        body = "".join(line.removeprefix(indent) for line in found["text"].splitlines(keepends=True))
        line = text[: found.start()].count("\n") + 2
        yield Block(page.relative_to(ROOT).as_posix(), line, found["language"], body)


def links(page: Path) -> list[str]:
    """Return the targets of a page's links to other pages, files and anchors of the checkout."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return [target for target in _LINK.findall(_INLINE.sub("", text)) if "://" not in target]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    slugs: Counter[str] = Counter()
    anchors: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        anchors.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
        slugs[slug] += 1
    return frozenset(anchors)


def inline_commands(page: Path) -> list[str]:
    """Return the commands in a page's sentences and tables that call `rollcall`."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found = [code.replace("\\|", "|") for code in _INLINE.findall(text)]
    return [code for code in found if re.search(r"(^|\| )rollcall ", code)]


def sessions(block: Block) -> list[Command]:
    """Return the commands of a block in which each command follows a `$`, with what the page shows of their output."""
    found: list[Command] = []
    lines = block.text.splitlines()
    at = 0
    while at < len(lines):
        line, command = block.line + at, lines[at].removeprefix("$ ")
        at += 1
        # A command continues until a shell accepts it as complete.
        while at < len(lines) and not lines[at].startswith("$ ") and not is_complete(command):
            command += "\n" + lines[at]
            at += 1
        shown: list[str] = []
        while at < len(lines) and not lines[at].startswith("$ "):
            shown.append(lines[at])
            at += 1
        found.append(Command(block.page, line, command, tuple(shown)))
    return found


@cache
def is_complete(command: str) -> bool:
    """Return whether bash reads this as one or more whole commands."""
    if command.endswith("\\"):
        return False
    ran = subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True, check=False)
    return ran.returncode == 0 and not ran.stderr
