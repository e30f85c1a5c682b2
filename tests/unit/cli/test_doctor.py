"""`rollcall doctor`: the printed diagnosis and the exit code."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.cli.conftest import Run, without_prose
from tests.unit.cluster.scripted import NO_TLS
from webhook.cli.operations_text import print_diagnosis
from webhook.cluster import access, client
from webhook.config.defaults import default_settings
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.model.reading import Manifest
from webhook.operations import cluster_facts, snapshot_reader
from webhook.operations.certificate_checks import certified_installation, signed_pair
from webhook.operations.checks import EVERY_CHECK
from webhook.operations.diagnosis import deployment, examine, namespace
from webhook.operations.snapshot import BUDGETS, LEASE, Snapshot, Unread

DOCUMENTED = Path(__file__).parents[3] / "docs" / "reference" / "doctor.md"
Reads = Callable[[Snapshot], None]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Makes the command read this snapshot, whatever cluster it is given."""

    async def reached(_: access.Access) -> None:
        pass

    monkeypatch.setattr(client, "reach", reached)
    monkeypatch.setattr(access, "find_access", lambda *_: access.Access("https://c", NO_TLS, lambda: None))

    def reads(snapshot: Snapshot) -> None:
        async def read(settings: Settings, _: access.Access, namespace: str) -> Snapshot:
            assert namespace == "rollcall-system"
            return snapshot

        async def installed_here(_: access.Access, __: str) -> cluster_facts.InstalledSettings:
            return cluster_facts.InstalledSettings(snapshot.settings)

        monkeypatch.setattr(snapshot_reader, "read_world", read)
        monkeypatch.setattr(cluster_facts, "installed_settings", installed_here)

    return reads


def passes(*more: Manifest) -> Snapshot:
    """Nothing is wrong here."""
    shown = certified_installation(signed_pair())
    runs = deployment("koord-scheduler", "koordinator-sh/koord-scheduler:v1.8.0")
    parts = {
        part: (*found, *(raw for raw in (runs, *more) if part.has(raw, shown.namespace)))
        for part, found in shown.parts.items()
        if not isinstance(found, Unread)
    }
    return replace(shown, parts=parts)


def test_a_healthy_installation_has_no_findings(rollcall: Run, cluster: Reads) -> None:
    cluster(passes())
    assert rollcall("doctor") == (0, "70 checks, no problems found\n", "")
    assert rollcall("doctor", "--strict").code == 0
    found = json.loads(rollcall("doctor", "-o", "json").out)
    assert (found["well"], found["findings"], found["notKnown"], len(found["checks"])) == (True, [], [], 70)


def test_faults_are_printed_with_remedies(rollcall: Run, cluster: Reads) -> None:
    cluster(passes(namespace("team-b", scheduler="koord-schedular", exempt="")))
    assert rollcall("doctor") == (
        1,
        """\
error namespaces/scheduler
    where  Namespace team-b
    found  rollcall.dev/scheduler=koord-schedular, which is not a profile
    why    every new workload there that does not name a scheduler itself is refused
    do     set it to one of koord-scheduler, default-scheduler, or enable koord-schedular in the configuration
note namespaces/exempt
    where  Namespace team-b
    found  it has the label rollcall.dev/exempt
    why    the API server does not call Rollcall for it: gangs are neither checked nor made there
    do     when the emergency is over: kubectl label namespace team-b rollcall.dev/exempt-
70 checks, 1 error, 1 note
""",
        "",
    )


def test_a_warning_fails_only_with_strict(rollcall: Run, cluster: Reads) -> None:
    snapshot = passes()
    cluster(
        Snapshot(
            snapshot.settings,
            snapshot.now,
            parts={**snapshot.parts, BUDGETS: ()},
            presented=snapshot.presented,
            apis=snapshot.apis,
        )
    )
    ran = rollcall("doctor")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "70 checks, 1 warning")
    assert rollcall("doctor", "--strict").code == 1
    said = [json.loads(rollcall("doctor", "-o", "json", *options).out)["well"] for options in ((), ("--strict",))]
    assert said == [True, False]


def without_the_lease(snapshot: Snapshot) -> Snapshot:
    """The same, where the Lease may not be read."""
    blind = Unread("the Lease", "HTTP 403: no", "get leases")
    return replace(snapshot, parts={**snapshot.parts, LEASE: blind})


def test_an_unknown_result_is_not_a_success(rollcall: Run, cluster: Reads) -> None:
    cluster(without_the_lease(passes()))
    ran = rollcall("doctor")
    assert (ran.code, ran.err) == (3, "")
    assert without_prose(ran.out) == [
        "not known reconciler/leader",
        "not known clocks/agree",
        "70 checks, 2 not known",
    ]
    assert ran.out.count("the Lease could not be read: HTTP 403: no; ") == 2
    assert ran.out.count(" the right to get leases\n") == 2
    found = json.loads(rollcall("doctor", "-o", "json").out)
    assert found["well"] is False
    assert [one["check"] for one in found["notKnown"]] == ["reconciler/leader", "clocks/agree"]


def test_a_fault_has_precedence_over_an_unknown_result(rollcall: Run, cluster: Reads) -> None:
    cluster(without_the_lease(passes(namespace("team-b", enforcement="wran"))))
    assert rollcall("doctor").code == 1


def test_without_a_cluster_the_doctor_is_not_evaluated(
    rollcall: Run, cluster: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> Snapshot:
        raise FactsUnavailable("unreachable")

    cluster(passes())
    monkeypatch.setattr(snapshot_reader, "read_world", unreachable)
    assert rollcall("doctor") == (3, "", "rollcall: unreachable\n")


def test_the_doctor_uses_the_installed_configuration_unless_a_file_is_given(
    rollcall: Run, cluster: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Settings] = []

    async def read(settings: Settings, *_: object) -> Snapshot:
        judged.append(settings)
        return passes()

    async def unknown(*_: object) -> cluster_facts.InstalledSettings:
        return cluster_facts.InstalledSettings(default_settings(), "HTTP 403: forbidden")

    cluster(passes())
    monkeypatch.setattr(snapshot_reader, "read_world", read)
    (tmp_path / "rollcall.yaml").write_text("apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n")
    assert rollcall("doctor").err == ""
    assert rollcall("doctor", "--config", str(tmp_path / "rollcall.yaml")).err == ""
    monkeypatch.setattr(cluster_facts, "installed_settings", unknown)
    err = rollcall("doctor").err
    assert ("(HTTP 403: forbidden)" in err, err.count("\n")) == (True, 1)
    assert err.endswith("counts as enabled\n")
    assert [set(settings.profiles) for settings in judged] == [
        {"koord-scheduler", "default-scheduler"},
        {"default-scheduler"},
        set(default_settings().profiles),
    ]


def test_usage_and_configuration_errors_exit_with_2(rollcall: Run, tmp_path: Path) -> None:
    assert rollcall("doctor", "--config", str(tmp_path / "absent.yaml")).code == 2
    assert rollcall("doctor", "--kubeconfig", str(tmp_path / "absent")).code == 2
    assert rollcall("doctor", "--output", "svg").code == 2


def test_control_characters_are_escaped(rollcall: Run, cluster: Reads) -> None:
    cluster(passes(namespace("team-b", scheduler="\x1b[2J")))
    assert "\x1b" not in rollcall("doctor").out


def test_on_a_terminal_long_lines_are_wrapped_with_an_indent() -> None:
    out = Console(file=io.StringIO(), force_terminal=True, no_color=True, width=60)
    print_diagnosis(examine(passes(namespace("team-b", scheduler="nobody")), EVERY_CHECK), out)
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.splitlines()]
    assert lines[:4] == [
        "error namespaces/scheduler",
        "    where Namespace team-b",
        "    found rollcall.dev/scheduler=nobody, which is not a",
        "          profile",
    ]
    assert lines[4].startswith("    why   ")
    assert lines[5].startswith("          ")


def test_the_list_of_checks_in_the_documentation_is_up_to_date(rollcall: Run) -> None:
    made = rollcall("doctor", "-o", "markdown").out
    assert DOCUMENTED.read_text() == made, "run: scripts/reference"
