"""The generated pages of `docs/reference` are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.reference_pages import reference_pages, write
from webhook.model.keys import Needed

_REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
# Written by hand.
_BY_HAND = {"configuration.md", "kueue.md", "limits.md", "workload-shapes.md"}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Every generated page, by its path. They take seconds, so all tests read the same."""
    return reference_pages()


def test_the_reference_pages_are_up_to_date(pages: dict[str, str]) -> None:
    written = {path.relative_to(_REFERENCE).as_posix(): path.read_text() for path in _REFERENCE.rglob("*.*")}
    assert set(written) == set(pages) | _BY_HAND, "run: scripts/reference"
    assert [path for path, text in pages.items() if written[path] != text] == [], "run: scripts/reference"


def test_the_page_of_a_removed_backend_is_deleted(tmp_path: Path, pages: dict[str, str]) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "gone.md").write_text("# Rules of gone\n")
    (tmp_path / "configuration.md").write_text("# Configuration\n")
    write(pages, tmp_path)
    assert not (tmp_path / "rules" / "gone.md").exists()
    assert (tmp_path / "configuration.md").read_text() == "# Configuration\n"
    assert (tmp_path / "rules" / "koord-scheduler.md").read_text().startswith("# Rules of koord-scheduler\n")


def test_the_command_line_page_lists_commands_options_and_defaults(pages: dict[str, str]) -> None:
    page = pages["command-line.md"]
    assert "| [`rollcall gangs ungate`](#rollcall-gangs-ungate) |" in page
    assert "| `--namespace`, `-n` | `NAME` | `rollcall-system` |" in page
    assert "| `--output`, `-o` | `text`, `json`, `markdown` | `text` |" in page
    assert "`rollcall check [OPTIONS] FILE|DIR|-...`" in page


def test_the_facts_about_nodes_say_who_asks_for_them(pages: dict[str, str]) -> None:
    assert "* asked for by: whether" in _section(pages["facts.md"], "Node")


def test_of_config_maps_only_the_status_of_the_cluster_autoscaler_is_asked_for(pages: dict[str, str]) -> None:
    section = _section(pages["facts.md"], str(Needed("cluster_autoscaler")))
    assert "metadata.namespace=kube-system,metadata.name=cluster-autoscaler-status -o yaml" in section


def _section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
