"""`rollcall render` and `explain` of topology and of stages of opted-in workloads: expectations by hand."""

from __future__ import annotations

import json

from ruamel.yaml import YAML

from tests.unit.cli.conftest import Run

SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
GATHER = '{"gatherStrategy":[{"layer":"NodeTopologyLayer","strategy":"PreferGather"}]}'
STAGES = f"""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: tune
  namespace: team-a
  labels: {{rollcall.dev/scheduler: koord-scheduler}}
  annotations:
    {SPEC}: '{GATHER}'
spec:
  replicatedJobs:
  - name: dataset
    template:
      spec:
        parallelism: 1
        completions: 1
        template: {{spec: {{containers: [{{name: main, image: example.com/main}}]}}}}
  - name: node
    dependsOn: [{{name: dataset, status: Complete}}]
    template:
      spec:
        parallelism: 4
        completions: 4
        template: {{spec: {{containers: [{{name: main, image: example.com/main}}]}}}}
"""


def test_the_pod_groups_of_each_stage_have_the_topology_of_the_workload(rollcall: Run) -> None:
    ran = rollcall("render", "--scheduler", "koord-scheduler", "-", stdin=STAGES)
    assert ran.code == 0, ran.err
    groups = [one for one in YAML(typ="safe").load_all(ran.out) if one["kind"] == "PodGroup"]
    shown = {
        one["metadata"]["name"]: (one["spec"]["minMember"], one["metadata"]["annotations"][SPEC]) for one in groups
    }
    assert shown == {"tune-dataset": (1, GATHER), "tune-node": (4, GATHER)}


def test_explain_shows_the_topology_as_a_capability_and_in_the_tree(rollcall: Run) -> None:
    ran = rollcall("explain", "-o", "json", "-", stdin=STAGES)
    (found,) = json.loads(ran.out)["workloads"]
    field = {"field": f"metadata.annotations[{SPEC}]", "value": GATHER}
    assert found["uses"][1] == {"capability": "topology.workload", "fields": [field]}
    honoured = {
        view["scheduler"]: [one["honoured"] for one in view["capabilities"] if one["capability"] == "topology.workload"]
        for view in found["schedulers"]
    }
    assert honoured["volcano"] == ["no"]
    assert honoured["koord-scheduler"] == ["unknown"]
    tree = found["gangs"]
    assert tree["topology"] == {"required": None, "preferred": "NodeTopologyLayer"}
    assert [(gang["name"], gang.get("waitsFor")) for gang in tree["below"]] == [
        ("tune-dataset", None),
        ("tune-node", "tune-dataset"),
    ]
