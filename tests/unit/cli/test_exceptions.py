"""Exceptions on the command line: `config check` prints them, `check` and `explain` honour them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.checked_manifests import NVLINK
from tests.unit.cli.conftest import Run

CONFIGURATION = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler:
  defaultProfileName: koord-scheduler
  profiles:
  - name: koord-scheduler
exceptions:
- name: mnnvl-pool-b
  rules: [koordinator/mnnvl]
  namespaces: [default]
  workloads: {kinds: [PodCliqueSet], names: [demo], matchLabels: {}}
  reason: one NVLink domain
  grantedBy: anna@example.com
  until: %s
"""


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """A configuration with an exception that does not end while people read this."""
    file = tmp_path / "rollcall.yaml"
    file.write_text(CONFIGURATION % "9998-12-31")
    return file


def test_the_configuration_is_shown_with_its_exceptions(rollcall: Run, configuration: Path) -> None:
    ran = rollcall("config", "check", str(configuration))
    assert ran.code == 0
    shown = ran.out.partition("exception ")[2].splitlines()[:6]
    assert shown[0].startswith("mnnvl-pool-b: ends in ")
    assert shown[0].endswith(" days, at 9999-01-01T00:00:00Z")
    assert shown[1:] == [
        "  rules: koordinator/mnnvl",
        "  namespaces: default",
        "  workloads: PodCliqueSet demo",
        "  grantedBy: anna@example.com",
        "  reason: one NVLink domain",
    ]


def test_one_that_has_ended_is_shown_and_covers_nothing(rollcall: Run, configuration: Path) -> None:
    configuration.write_text(CONFIGURATION % "2020-01-31")
    assert "exception mnnvl-pool-b: ended " in rollcall("config", "check", str(configuration)).out
    assert rollcall("check", "--config", str(configuration), "-", stdin=NVLINK).code == 1


def test_check_passes_what_is_excepted(rollcall: Run, configuration: Path) -> None:
    for options in ((), ("--fail-on", "warning"), ("--no-suppress",)):
        ran = rollcall("check", "--config", str(configuration), *options, "-", stdin=NVLINK)
        assert ran.code == 0, ran.out
        assert "excepted koordinator/mnnvl" in ran.out
    elsewhere = NVLINK.replace("  name: demo\n", "  name: demo\n  namespace: team-b\n")
    assert rollcall("check", "--config", str(configuration), "-", stdin=elsewhere).code == 1


def test_render_makes_the_objects_of_an_excepted_workload(rollcall: Run, configuration: Path) -> None:
    assert rollcall("render", "--config", str(configuration), "-", stdin=NVLINK).code == 0
    configuration.write_text(CONFIGURATION % "2020-01-31")
    assert rollcall("render", "--config", str(configuration), "-", stdin=NVLINK).code == 1


def test_explain_shows_the_exception_and_no_edit(rollcall: Run, configuration: Path) -> None:
    ran = rollcall("explain", "--config", str(configuration), "-", stdin=NVLINK)
    assert ran.code == 0
    assert "koordinator/mnnvl: excepted by anna@example.com until 9999-01-01T00:00:00Z: one NVLink domain" in ran.out
    assert "smallest edit" not in ran.out
    found = json.loads(rollcall("explain", "--config", str(configuration), "-o", "json", "-", stdin=NVLINK).out)
    (view,) = [one for one in found["workloads"][0]["schedulers"] if one["scheduler"] == "koord-scheduler"]
    assert (view["answer"], view["edit"]) == ("partly", None)
    assert view["findings"][0]["exception"]["name"] == "mnnvl-pool-b"
