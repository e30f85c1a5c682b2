"""Published faults that Grove's own webhook refuses: topology, templates, defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.cases.published_cases import FOLDER, Case, findings, needs_cases, report
from tests.unit.cli.conftest import Run

TEMPLATE = "spec.template"
TOPOLOGY = f"{TEMPLATE}.topologyConstraint"
CLIQUE, SECOND = f"{TEMPLATE}.cliques[0]", f"{TEMPLATE}.cliques[1]"
KAI = "--config config-kai.yaml --facts facts.yaml"
CASES = [
    Case(
        "grove-no-topology-name",
        "--facts facts.yaml pcs.yaml",
        frozenset({("grove/topology-name", f"{CLIQUE}.topologyConstraint.topologyName")}),
    ),
    Case("grove-no-topology-name", "--facts facts.yaml fixed.yaml"),
    Case(
        "grove-no-topology-name",
        "--facts facts.yaml wrongname.yaml",
        frozenset({("grove/topology-domain", f"{CLIQUE}.topologyConstraint.topologyName")}),
    ),
    Case(
        "grove-topology-hierarchy",
        "--facts facts.yaml pcs.yaml",
        frozenset(
            {
                ("grove/topology-hierarchy", f"{CLIQUE}.topologyConstraint.pack.required"),
                ("grove/topology-name", f"{SECOND}.topologyConstraint.topologyName"),
            }
        ),
    ),
    Case(
        "peers", f"{KAI} topo-binding-missing.yaml", frozenset({("grove/topology-domain", f"{TOPOLOGY}.topologyName")})
    ),
    Case(
        "peers", f"{KAI} topo-domain-missing.yaml", frozenset({("grove/topology-domain", f"{TOPOLOGY}.pack.required")})
    ),
    Case("peers", f"{KAI} topo-name-missing.yaml", frozenset({("grove/topology-name", f"{TOPOLOGY}.topologyName")})),
    Case(
        "peers",
        f"{KAI} topo-names-differ.yaml",
        frozenset({("grove/topology-name", f"{SECOND}.topologyConstraint.topologyName")}),
    ),
    Case("peers", f"{KAI} topo-no-pack.yaml", frozenset({("grove/topology-pack", f"{TOPOLOGY}.pack")})),
    Case("peers", f"{KAI} topo-packdomain.yaml", frozenset({("grove/pack-domain", f"{TOPOLOGY}.packDomain")})),
    Case(
        "peers",
        f"{KAI} topo-parent-narrower.yaml",
        frozenset({("grove/topology-hierarchy", f"{CLIQUE}.topologyConstraint.pack.required")}),
    ),
    Case(
        "peers",
        f"{KAI} grove-replicas-missing.yaml",
        frozenset({("grove/min-available", f"{CLIQUE}.spec.replicas")}),
    ),
]
REFUSED = {
    "autoscale-in-group": f"{CLIQUE}.spec.autoScalingConfig",
    "nodename": f"{CLIQUE}.spec.podSpec.nodeName",
    "spread": f"{CLIQUE}.spec.podSpec.topologySpreadConstraints",
    "termination-zero": f"{TEMPLATE}.terminationDelay",
    "autoscale-below-min": f"{CLIQUE}.spec.autoScalingConfig.minReplicas",
    "autoscale-max-below": f"{CLIQUE}.spec.autoScalingConfig.maxReplicas",
    "startsafter-unknown": f"{CLIQUE}.spec.startsAfter[0]",
    "min-over": f"{CLIQUE}.spec.minAvailable",
    "two-schedulers": f"{SECOND}.spec.podSpec.schedulerName",
    "group-clique-twice": f"{TEMPLATE}.podCliqueScalingGroups[1].cliqueNames",
    "scale-config-min": f"{TEMPLATE}.podCliqueScalingGroups[0].scaleConfig.minReplicas",
    "role-twice": f"{SECOND}.spec.roleName",
    "upper-name": f"{CLIQUE}.name",
    "no-replicas-clique": f"{CLIQUE}.spec.minAvailable",
    "pcs-replicas-neg": "spec.replicas",
}


@needs_cases
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_grove_refuses_is_an_error_at_its_field(
    rollcall: Run, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    parsed = report(rollcall, monkeypatch, case)
    assert case.findings <= findings(parsed)
    assert parsed["passed"] is not bool(case.findings)


@needs_cases
def test_each_of_fifteen_sets_is_refused_at_its_field(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = report(rollcall, monkeypatch, Case("grove-own-refusals", "--facts facts.yaml pcs.yaml"))
    errors = [one for one in parsed["findings"] if one["level"] == "error"]
    assert {one["object"]["name"]: one["field"] for one in errors} == REFUSED


@needs_cases
@pytest.mark.parametrize("case", [case for case in CASES if case.findings], ids=lambda case: case.name)
def test_nothing_is_rendered_of_a_set_that_grove_refuses(
    rollcall: Run, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    assert FOLDER is not None
    monkeypatch.chdir(Path(FOLDER, case.folder))
    ran = rollcall("render", *case.arguments.split())
    assert ran.code == 1
    assert "PodGroup" not in ran.out
