"""`rollcall fit` of manifests that a person gets wrong, or that leave little to judge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.cli.conftest import CONFIG, Run

EXAMPLES = Path(__file__).parents[3] / "manifests" / "fit"
FACTS, SMALL = str(EXAMPLES), (EXAMPLES / "small.yaml").read_text()
_POD = "      restartPolicy: Never"
# A field of the wrong type, the column and the path that are named, and what is to be written.
WRONG = {
    "affinity: {nodeAffinity: 7}": (18, "affinity.nodeAffinity", "an object"),
    "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: 5}]}}": (
        86,
        "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
        "a string",
    ),
    "tolerations: {}": (7, "tolerations", "a list"),
    "topologySpreadConstraints: [{maxSkew: a}]": (36, "topologySpreadConstraints[0].maxSkew", "a whole number"),
    "nodeSelector: {a: 5}": (22, "nodeSelector.a", "a string; quote it"),
    "resourceClaims: [{name: 5}]": (25, "resourceClaims[0].name", "a string"),
    "hostNetwork: sometimes": (7, "hostNetwork", "true or false"),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_field_of_a_pod_that_cannot_be_read_is_named_with_its_place(rollcall: Run, field: str) -> None:
    column, path, wanted = WRONG[field]
    ran = rollcall("fit", "--facts", FACTS, "-", stdin=SMALL.replace(_POD, f"{_POD}\n      {field}"))
    assert ran.code == 2
    assert ran.err.startswith(f"rollcall: <stdin>:18:{column}: spec.template.spec.{path}: ")
    assert ran.err.endswith(f"; write {wanted}\n")


@pytest.mark.parametrize("output", ["text", "json", "svg", "mermaid"])
def test_pods_that_name_their_node_are_not_placed_and_request_nothing_of_a_domain(rollcall: Run, output: str) -> None:
    placed = SMALL.replace(_POD, f"{_POD}\n      nodeName: r7-1")
    ran = rollcall("fit", "--facts", FACTS, "-o", output, "-", stdin=placed)
    assert (ran.code, ran.err) == (0, "")
    if output == "text":
        assert "why  spec.nodeName places " in ran.out
        assert "        rack  nodes\n        r6    4\n        r7    9\n" in ran.out


def test_a_scheduler_that_compares_no_resources_has_domains_without_amounts(rollcall: Run, tmp_path: Path) -> None:
    config = tmp_path / "rollcall.yaml"
    config.write_text(f"{CONFIG}fit: {{disabledFilters: [NodeResourcesFit]}}\n")
    ran = rollcall("fit", "--config", str(config), "--facts", FACTS, "-", stdin=SMALL)
    assert (ran.code, ran.err) == (0, "")
    assert "├── rack r7: 9 nodes\n" in ran.out


def test_a_gang_of_volcano_that_requests_nothing_is_not_said_to_fit(rollcall: Run) -> None:
    bare = SMALL.replace("          limits: {cpu: 16, nvidia.com/gpu: 8}", "          limits: {}")
    ran = rollcall("fit", "--scheduler", "volcano", "--facts", FACTS, "-", stdin=bare)
    assert ran.code == 0
    assert "gang small (volcano): not known" in ran.out
    assert "that request nothing" in ran.out


def test_a_gang_without_pods_is_not_said_to_fit(rollcall: Run) -> None:
    empty = "apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {name: none}\nspec: {replicas: 1}\n"
    ran = rollcall("fit", "--facts", FACTS, "-", stdin=empty)
    assert ran.code == 0
    assert re.search(r"not known\n        why  no pod .* has to be on a node", ran.out)


def test_a_pod_below_a_limit_range_assumes_that_no_webhook_raises_its_requests(rollcall: Run, tmp_path: Path) -> None:
    facts = tmp_path / "limits.yaml"
    limits = "spec: {limits: [{type: Container, min: {cpu: 32}}]}"
    facts.write_text(f"apiVersion: v1\nkind: LimitRange\nmetadata: {{name: small, namespace: research}}\n{limits}\n")
    ran = rollcall("fit", "--facts", str(facts), "-", stdin=SMALL)
    assert ran.code == 1
    assert re.search("^        if   no other webhook .* LimitRange$", ran.out, re.MULTILINE)


GROWING = """\
fit:
  templates:
  - {name: big, allocatable: {cpu: 180, memory: 1900Gi, nvidia.com/gpu: 8, pods: 110}, max: 3}
"""


def test_a_gang_that_fits_if_new_nodes_are_in_its_rack_is_not_known_to_fit_and_says_why(
    rollcall: Run, tmp_path: Path
) -> None:
    config = tmp_path / "rollcall.yaml"
    config.write_text(f"{CONFIG}{GROWING}")
    ran = rollcall("fit", "--config", str(config), "--facts", FACTS, str(EXAMPLES / "large.yaml"))
    assert ran.code == 0
    assert re.search(r"not known\n        why  .* the labels .* group that grows ", ran.out)


GANG = """\
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: train-0, namespace: research}
spec: {podgroups: [{name: train-0-w, minReplicas: 2}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: other
  namespace: research
  labels: {app.kubernetes.io/managed-by: grove-operator, grove.io/podgang: train-0, grove.io/podclique: train-0-other}
spec: {containers: [{name: main}]}
"""


@pytest.mark.parametrize("scheduler", ["koord-scheduler", "volcano", "kai-scheduler", "scheduler-plugins-scheduler"])
def test_a_stored_gang_whose_needed_pods_are_missing_is_not_said_to_fit(rollcall: Run, scheduler: str) -> None:
    ran = rollcall("fit", "--scheduler", scheduler, "--facts", FACTS, "-", stdin=GANG)
    assert (ran.code, f"({scheduler}): not known\n" in ran.out) == (0, True)
    assert "why  the pods of train-0-w, which are missing" in ran.out
