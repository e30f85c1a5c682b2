"""The generated pages of `docs/reference` are up to date."""

from __future__ import annotations

from pathlib import Path

from webhook.cli.reference_pages import reference_pages, write

_REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
# Written by hand.
_BY_HAND = {"configuration.md", "kueue.md", "limits.md", "workload-shapes.md"}


def test_the_reference_pages_are_up_to_date() -> None:
    written = {path.relative_to(_REFERENCE).as_posix(): path.read_text() for path in _REFERENCE.rglob("*.*")}
    made = reference_pages()
    assert set(written) == set(made) | _BY_HAND, "run: scripts/reference"
    assert [path for path, text in made.items() if written[path] != text] == [], "run: scripts/reference"


def test_the_page_of_a_removed_backend_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "gone.md").write_text("# Rules of gone\n")
    (tmp_path / "configuration.md").write_text("# Configuration\n")
    write(tmp_path)
    assert not (tmp_path / "rules" / "gone.md").exists()
    assert (tmp_path / "configuration.md").read_text() == "# Configuration\n"
    assert (tmp_path / "rules" / "koord-scheduler.md").read_text().startswith("# Rules of koord-scheduler\n")


def test_the_command_line_page_lists_commands_options_and_defaults() -> None:
    page = reference_pages()["command-line.md"]
    assert "| [`rollcall gangs ungate`](#rollcall-gangs-ungate) |" in page
    assert "| `--namespace`, `-n` | `NAME` | `rollcall-system` |" in page
    assert "| `--output`, `-o` | `text`, `json`, `markdown` | `text` |" in page
    assert "`rollcall check [OPTIONS] FILE|DIR|-...`" in page


def test_the_facts_about_nodes_say_who_asks_for_them_and_of_config_maps_only_one_is_asked_for() -> None:
    page = reference_pages()["facts.md"]
    of_nodes, autoscaler = (
        page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        for title in ("Node", "status of the Cluster Autoscaler")
    )
    assert "* asked for by: whether a gang can ever fit\n" in of_nodes
    assert (
        "--field-selector metadata.namespace=kube-system,metadata.name=cluster-autoscaler-status -o yaml" in autoscaler
    )
