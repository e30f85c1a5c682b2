"""Every link of the documentation leads to an existing file of the checkout, and to an existing heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.documentation.pages import ROOT, anchors, links, pages

_PYTHON = re.compile(r"[\w/<>]+\.py\b")
_TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_every_page_is_linked_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    reached, waiting = {index}, [index]
    while waiting:
        page = waiting.pop()
        found = {(page.parent / target.partition("#")[0]).resolve() for target in links(page)}
        new = {path for path in found if path.suffix == ".md" and path.is_relative_to(ROOT / "docs")} - reached
        reached |= new
        waiting += new
    assert {page.relative_to(ROOT).as_posix() for page in set((ROOT / "docs").rglob("*.md")) - reached} == set()
    assert all(f"({page.relative_to(index.parent).as_posix()}" in index.read_text() for page in _of_a_purpose())


def _of_a_purpose() -> list[Path]:
    folders = ("how-to", "reference", "explanation")
    return [page for folder in folders for page in (ROOT / "docs" / folder).glob("*.md")]


def test_the_architecture_page_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    files = {path.relative_to(ROOT / "webhook").as_posix() for path in (ROOT / "webhook").rglob("*.py")}
    named = {name.removeprefix("webhook/").replace("<scheduler>/", "koordinator/") for name in _PYTHON.findall(page)}
    named = {name for name in named if not name.startswith("tests/")}
    assert {name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)} == set()


def test_the_tests_that_pages_name_exist() -> None:
    named = {found for page in pages() for found in _TEST.findall(page.read_text(encoding="utf-8"))}
    files = {file: (ROOT / file).read_text(encoding="utf-8") for file, _ in named if (ROOT / file).is_file()}
    assert [f"{file}::{test}" for file, test in sorted(named) if f"def {test}(" not in files.get(file, "")] == []


def test_the_page_of_kueue_names_the_tests_of_each_row() -> None:
    page = (ROOT / "docs" / "reference" / "kueue.md").read_text(encoding="utf-8")
    rows, _, named = page.partition("## Tests")
    shown = [int(row) for line in re.findall(r"^\| ([\d, ]+) \|", named, re.MULTILINE) for row in line.split(",")]
    assert sorted(shown) == [int(row) for row in re.findall(r"^\| (\d+) \|", rows, re.MULTILINE)]
    assert len(shown) == 55
