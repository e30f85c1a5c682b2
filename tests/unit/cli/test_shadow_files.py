"""The files of shadows in what is installed: in the ConfigMap of the configuration, in kustomizations, in the chart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import CONFIG, Run, documents

NEXT = CONFIG.replace("koord-scheduler", "volcano")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with two shadows, one of which is a file beside it."""
    (tmp_path / "next.yaml").write_text(NEXT)
    file = tmp_path / "rollcall.yaml"
    file.write_text(CONFIG + "shadow: [kai-scheduler, {config: next.yaml}]\n")
    return file


def test_the_configuration_shows_its_shadows(rollcall: Run, config: Path) -> None:
    code, out, _ = rollcall("config", "check", str(config))
    assert code == 0
    assert re.search(
        r"^shadow\n  kai-scheduler: every workload.*\n  next.yaml: another .* volcano\n", out, re.MULTILINE
    )


def test_the_config_map_has_the_file_and_another_name(rollcall: Run, config: Path) -> None:
    def mounted() -> tuple[str, dict[str, str]]:
        printed = documents(rollcall("manifests", "all", "--config", str(config)).out)
        (found,) = (one for one in printed if one["kind"] == "ConfigMap")
        return found["metadata"]["name"], found["data"]

    name, data = mounted()
    assert data == {"configuration.yaml": config.read_text(), "next.yaml": NEXT}
    (config.parent / "next.yaml").write_text(NEXT + "# changed\n")
    assert mounted()[0] != name


def test_a_shadow_must_not_hide_the_configuration(rollcall: Run, config: Path) -> None:
    (config.parent / "configuration.yaml").write_text(NEXT)
    config.write_text(CONFIG + "shadow: [{config: configuration.yaml}]\n")
    code, _, err = rollcall("manifests", "all", "--config", str(config))
    assert code == 2
    assert 'shadow[0].config: "configuration.yaml": is the name under which ' in err


def test_kustomizations_and_the_chart_have_the_file(rollcall: Run, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    assert rollcall("manifests", "write", str(folder), "--config", str(config)).code == 0
    for variant in ("base", "self-managed"):
        assert (folder / variant / "shadows" / "next.yaml").read_text() == NEXT
        generated = yaml.safe_load((folder / variant / "kustomization.yaml").read_text())["configMapGenerator"]
        assert generated[0]["files"] == ["configuration.yaml", "next.yaml=shadows/next.yaml"]
    values = yaml.safe_load((folder / "chart" / "values.yaml").read_text())
    assert values["shadowConfigurations"] == {"next.yaml": yaml.safe_load(NEXT)}
    assert values["configuration"]["shadow"] == ["kai-scheduler", {"config": "next.yaml"}]
