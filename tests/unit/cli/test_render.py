"""`rollcall render`: the gang objects of a workload, written by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from ruamel.yaml import YAML

from tests.unit.cli.conftest import Run, documents
from webhook.model.grove import SHORTENED
from webhook.offline.manifests import read_text

KOORD = ("--scheduler", "koord-scheduler")
SET = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo, namespace: team-a}
spec:
  replicas: 1
  template:
    cliques:
    - name: leader
      spec: {replicas: 1, podSpec: {containers: [{name: main, image: example.com/main}]}}
    podCliqueScalingGroups:
    - {name: pool, cliqueNames: [leader], replicas: 2, minAvailable: 1}
"""
GANG = """\
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata:
  name: demo-0
  namespace: team-a
  uid: 5f1d
  ownerReferences: [{apiVersion: grove.io/v1alpha1, kind: PodCliqueSet, name: demo, uid: 9c0e, controller: true}]
spec:
  podgroups:
  - name: demo-0-worker
    minReplicas: 2
    podReferences: [{namespace: team-a, name: a}, {namespace: team-a, name: b}]
"""
GROUP = """\
---
# PodGang demo-0, koord-scheduler
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: demo-0-worker
  namespace: team-a
  labels:
    app.kubernetes.io/managed-by: rollcall
    grove.io/podgang: demo-0
    rollcall.dev/gang: demo-0
    grove.io/podclique: demo-0-worker
  annotations:
    gang.scheduling.koordinator.sh/groups: '["team-a/demo-0-worker"]'
    gang.scheduling.koordinator.sh/mode: Strict
    gang.scheduling.koordinator.sh/match-policy: waiting-and-running
    gang.scheduling.koordinator.sh/total-number: '2'
  ownerReferences:
  - apiVersion: grove.io/v1alpha1
    kind: PodCliqueSet
    name: demo
    uid: 9c0e
    controller: true
    blockOwnerDeletion: true
spec:
  minMember: 2
  scheduleTimeoutSeconds: 600
"""


def test_a_pod_gang_gets_exactly_its_pod_groups(rollcall: Run) -> None:
    assert rollcall("render", *KOORD, "-", stdin=GANG) == (0, GROUP, "")


def test_the_names_of_gangs_have_an_epoch_that_is_not_known_yet(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "-", stdin=SET)
    assert (ran.code, ran.err) == (0, "")
    comments = [line for line in ran.out.splitlines() if line.startswith("#")]
    assert comments[::2] == [
        "# PodGang demo-0-<epoch>, koord-scheduler",
        "# PodGang demo-0-<epoch>, koord-scheduler: one of its pods",
        "# PodGang demo-0-<epoch>-pool-1, koord-scheduler",
        "# PodGang demo-0-<epoch>-pool-1, koord-scheduler: one of its pods",
    ]
    assert all(comment.startswith("# not to be applied: ") for comment in comments[1::2])
    assert all("<epoch>" in comment for comment in comments[1::2])
    assert ["<digest>" in comment for comment in comments[1::2]] == [False, True, False, True]
    group, pod, *_ = list(YAML(typ="safe").load_all(ran.out))
    assert group["metadata"]["name"] == "demo-0-<epoch>-demo-0-pool-0-leader"
    assert pod["metadata"]["labels"]["grove.io/podgang"] == "demo-0-<epoch>"
    assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] == "demo-0-<epoch>-demo-0-pool-0-leader"
    assert pod["metadata"]["annotations"]["rollcall.dev/stamp"] == "koord-scheduler/<digest>"


def test_a_name_that_grove_will_shorten_is_shown_in_full(rollcall: Run) -> None:
    # The longest that Grove accepts with these names of the clique and of the scaling group.
    name = "a-name-of-forty-three-characters-no-more-xx"
    long = SET.replace("name: demo", f"name: {name}").replace("leader", "x").replace("pool", "p")
    ran = rollcall("render", "--scheduler", "volcano", "-", stdin=long)
    lines = [line for line in ran.out.splitlines() if line.startswith("#")]
    assert lines[0] == f"# PodGang {name}-0-<epoch>, volcano"
    assert re.match("# not to be applied: .*<epoch>.*<digest>", lines[1])
    assert lines[2] == f"# {SHORTENED}"
    explained = rollcall("explain", "--scheduler", "volcano", "-", stdin=long)
    assert f"    {SHORTENED}\n" in explained.out
    explained = rollcall("explain", "--scheduler", "volcano", "-", stdin=SET)
    assert "Grove shortens" not in explained.out


CRDS = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podcliquesets.grove.io}
spec:
  group: grove.io
  names: {kind: PodCliqueSet, plural: podcliquesets}
  versions: [{name: v1alpha1, served: true}]
"""


def test_the_known_kinds_of_a_cluster_tell_its_generation_of_grove(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "before.yaml").write_text(CRDS)
    both = CRDS + "---\n" + CRDS.replace("PodCliqueSet", "PodGangMap").replace("podcliquesets", "podgangmaps")
    (tmp_path / "after.yaml").write_text(both)
    (tmp_path / "rollcall.yaml").write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\ngrove: {generation: legacy}\n"
        "scheduler: {profiles: [{name: koord-scheduler}]}\n"
    )

    def first(*options: str) -> str:
        ran = rollcall("render", *KOORD, *options, "-", stdin=SET)
        return ran.out.splitlines()[1].partition(",")[0]

    config, before, after = (str(tmp_path / f"{name}.yaml") for name in ("rollcall", "before", "after"))
    assert first("--config", config) == "# PodGang demo-0"
    assert first("--config", config, "--grove", "podgangmap") == "# PodGang demo-0-<epoch>"
    for file, gang in ((before, "demo-0"), (after, "demo-0-<epoch>")):
        ran = rollcall("explain", "--facts", file, "-", stdin=SET)
        assert f"── PodGang {gang}: " in ran.out


def test_a_set_gets_the_pod_groups_and_one_stamped_pod_of_each_gang(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "--grove", "legacy", "-", stdin=SET)
    assert (ran.code, ran.err) == (0, "")
    assert [line for line in ran.out.splitlines() if line.startswith("#")] == [
        "# PodGang demo-0, koord-scheduler",
        "# PodGang demo-0, koord-scheduler: one of its pods",
        "# PodGang demo-0-pool-0, koord-scheduler",
        "# PodGang demo-0-pool-0, koord-scheduler: one of its pods",
    ]
    objects = list(YAML(typ="safe").load_all(ran.out))
    assert [(found["kind"], found["metadata"].get("name")) for found in objects] == [
        ("PodGroup", "demo-0-pool-0-leader"),
        ("Pod", None),
        ("PodGroup", "demo-0-pool-0-demo-0-pool-1-leader"),
        ("Pod", None),
    ]
    for group, pod in (objects[:2], objects[2:]):
        assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] == group["metadata"]["name"]
        assert pod["spec"]["schedulerName"] == "koord-scheduler"


def test_a_scaling_group_without_cliques_has_no_gang(rollcall: Run) -> None:
    empty = SET + "    - {name: empty, cliqueNames: [], replicas: 3, minAvailable: 1}\n"
    assert rollcall("render", *KOORD, "-", stdin=empty) == rollcall("render", *KOORD, "-", stdin=SET)


def test_json_output_is_a_list_that_kubectl_accepts(rollcall: Run) -> None:
    found = json.loads(rollcall("render", *KOORD, "-o", "json", "-", stdin=GANG).out)
    assert (found["kind"], [item["kind"] for item in found["items"]]) == ("List", ["PodGroup"])


def test_a_pod_is_printed_as_the_webhook_patches_it(rollcall: Run) -> None:
    pod = """\
apiVersion: v1
kind: Pod
metadata:
  generateName: demo-0-worker-
  labels: {app.kubernetes.io/managed-by: grove-operator, grove.io/podgang: demo-0, grove.io/podclique: demo-0-worker}
spec: {containers: []}
"""
    ran = rollcall("render", *KOORD, "-", stdin=pod)
    assert ran.out.startswith("---\n# Pod, koord-scheduler\n")
    assert "schedulerName: koord-scheduler\n" in ran.out
    alone = rollcall("render", *KOORD, "-", stdin="apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n")
    assert alone.out.startswith("---\n# Pod, left as it is\n")


def test_a_refused_set_prints_no_objects(rollcall: Run) -> None:
    refused = SET.replace(
        "minAvailable: 1", "minAvailable: 1, topologyConstraint: {topologyName: dc, pack: {required: rack}}"
    )
    ran = rollcall("render", *KOORD, "-", stdin=refused)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("rollcall: <stdin>:11:73: koordinator/scaling-group-topology at ")


def test_a_gang_that_cannot_be_expressed_is_reported_with_its_place(rollcall: Run) -> None:
    gang = GANG + "  topologyConstraint: {packConstraint: {required: example.com/rack}}\n"
    facts = "kind: ClusterNetworkTopologyList\napiVersion: scheduling.koordinator.sh/v1alpha1\nitems: []\n"
    unknown = rollcall("render", *KOORD, "-", stdin=gang)
    assert (unknown.code, unknown.out) == (3, "")
    assert "ClusterNetworkTopology unknown" in unknown.err
    ran = rollcall("check", *KOORD, "-", stdin=f"{gang}---\n{facts}")
    assert (ran.code, ": error koordinator/topology-unavailable\n" in ran.out) == (1, True)


def test_missing_facts_give_no_verdict(rollcall: Run) -> None:
    asking = SET.replace(
        "  template:\n", "  template:\n    topologyConstraint: {topologyName: dc, pack: {required: rack}}\n"
    )
    ran = rollcall("render", *KOORD, "-", stdin=asking)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("rollcall: spec.template.topologyConstraint needs ")
    assert ran.err.count("\n") == 1
    assert ran.err.endswith(" ClusterTopologyBinding dc\n")


def test_a_number_of_the_wrong_type_is_not_rendered(rollcall: Run) -> None:
    for old, new in (
        ("  replicas: 1\n", "  replicas: 1000000000\n"),
        ("spec: {replicas: 1,", "spec: {replicas: 1000000000,"),
    ):
        ran = rollcall("render", *KOORD, "-", stdin=SET.replace(old, new))
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("rollcall: <stdin>:1:1: demo ")
        assert re.findall(r"\d{3,}", ran.err) == ["2000000000", "100000"]


def test_a_set_with_a_generated_name_has_a_placeholder_in_its_names(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "-", stdin=SET.replace("name: demo", "generateName: demo-", 1))
    assert (ran.code, ran.err) == (0, "")
    assert "  name: demo-added-0-" in ran.out
    assert "# `added` stands for " in ran.out


def test_a_set_without_replicas_is_reported_to_have_no_gang(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "-", stdin=SET.replace("  replicas: 1\n", "  replicas: 0\n"))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("rollcall: <stdin>:1:1: PodCliqueSet team-a/demo makes no pods")


def test_empty_input_is_reported(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "-", stdin="apiVersion: v1\nkind: Service\nmetadata: {name: x}\n")
    assert (ran.code, ran.out) == (0, "")
    left_out, empty = ran.err.splitlines()
    assert left_out.startswith("rollcall: <stdin>:1:1: Service is left out: ")
    assert left_out.endswith(": it has no gang")
    assert empty.startswith("rollcall: nothing to render: ")


def test_the_plain_scheduler_has_no_gang_objects(rollcall: Run) -> None:
    assert rollcall("render", "--scheduler", "default-scheduler", "-", stdin=GANG).out == ""


def test_each_item_of_typed_and_nested_lists_is_rendered(rollcall: Run) -> None:
    gang = GANG.replace("apiVersion: scheduler.grove.io/v1alpha1\nkind: PodGang\n", "").replace("\n", "\n  ").rstrip()
    typed = f"apiVersion: scheduler.grove.io/v1alpha1\nkind: PodGangList\nitems:\n- {gang}\n"
    assert rollcall("render", *KOORD, "-", stdin=typed) == (0, GROUP, "")
    outer = "apiVersion: v1\nkind: List\nitems:\n- " + typed.replace("\n", "\n  ").rstrip() + "\n"
    assert rollcall("render", *KOORD, "-", stdin=outer) == (0, GROUP, "")


def test_each_item_of_a_kubectl_list_is_rendered(rollcall: Run) -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + GANG.replace("\n", "\n  ").rstrip() + "\n"
    assert rollcall("render", *KOORD, "-", stdin=listed) == (0, GROUP, "")
    refused = listed + "  topologyConstraint: {packConstraint: {required: example.com/rack}}\n"
    ran = rollcall("render", *KOORD, "-", stdin=refused.replace("  topology", "    topology"))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("rollcall: <stdin>:16:")


def test_words_that_kubectl_would_misread_are_quoted(rollcall: Run) -> None:
    words = ["on", "y", "No", "012", "0o7", "1e3", "1_000", ".5", "0x1F", "null", "~", ".nan", "2020-01-01", "plain"]
    args = json.dumps(words)
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\nspec: {{containers: [{{name: m, args: {args}}}]}}\n"
    ran = rollcall("render", *KOORD, "-", stdin=pod)
    (again,) = read_text(ran.out, "rendered")
    assert again.manifest["spec"]["containers"][0]["args"] == words
    assert "    - 'on'\n    - 'y'\n    - 'No'\n" in ran.out
    assert "    - plain\n" in ran.out


def test_an_invalid_object_is_reported_with_its_place(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "-", stdin="apiVersion: v1\nkind: Pod\nmetadata: 5\n")
    assert ran == (2, "", "rollcall: <stdin>:1:1: expected an object, found a number\n")


def test_an_object_without_a_gang_is_left_out_with_a_note(rollcall: Run) -> None:
    ran = rollcall("render", *KOORD, "-", stdin=f"apiVersion: v1\nkind: ConfigMap\n---\n{GANG}")
    assert (ran.code, ran.out, ran.err.count("\n")) == (0, GROUP, 1)
    assert ran.err.startswith("rollcall: <stdin>:1:1: ConfigMap is left out: ")
    assert ran.err.endswith(": it has no gang\n")


BINDING = """\
apiVersion: grove.io/v1alpha1
kind: ClusterTopologyBinding
metadata: {name: dc}
spec: {levels: [{domain: rack, key: example.com/rack}, {domain: host, key: kubernetes.io/hostname}]}
"""


def test_a_topology_binding_becomes_the_topology_objects_of_the_schedulers(rollcall: Run) -> None:
    ran = rollcall("render", "-", stdin=BINDING)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("---\n# ClusterTopologyBinding dc, kai-scheduler\n")
    assert yaml.safe_load(ran.out) == {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "dc", "labels": {"app.kubernetes.io/managed-by": "rollcall"}},
        "spec": {"levels": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    none = rollcall("render", "--scheduler", "koord-scheduler", "-", stdin=BINDING)
    assert (none.code, none.out) == (0, "")
    assert none.err.startswith("rollcall: nothing to render")


FED = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler:
  profiles:
  - {name: koord-scheduler, config: {topologyBinding: dc}}
  - {name: volcano, config: {topologyBinding: dc}}
  defaultProfileName: volcano
"""
NODES = """\
apiVersion: v1
kind: NodeList
items:
- {metadata: {name: n1, labels: {example.com/rack: r1, kubernetes.io/hostname: n1}}}
- {metadata: {name: n2, labels: {kubernetes.io/hostname: n2}}}
"""


def test_a_named_binding_becomes_the_topology_of_koordinator_and_volcano(rollcall: Run, tmp_path: Path) -> None:
    config, nodes = tmp_path / "rollcall.yaml", tmp_path / "nodes.yaml"
    config.write_text(FED)
    nodes.write_text(NODES)
    ran = rollcall("render", "--config", config, "--facts", nodes, "-", stdin=BINDING)
    assert ran.code == 0
    koordinator, host, rack = documents(ran.out)
    assert koordinator["spec"]["networkTopologySpec"] == [
        {"topologyLayer": "rack", "labelKey": ["example.com/rack"]},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
    ]
    assert (host["metadata"]["name"], rack["metadata"]["name"]) == ("dc-host.r1.n1", "dc-rack.r1")
    assert rack["spec"] == {
        "tier": 2,
        "tierName": "rack",
        "members": [{"type": "HyperNode", "selector": {"exactMatch": {"name": "dc-host.r1.n1"}}}],
    }
    lacks = "1 node lacks the label example.com/rack of the level rack: n2"
    assert ran.err == "".join(
        f"rollcall: <stdin>:1:1: ClusterTopologyBinding dc, {name}: {lacks}\n"
        for name in ("koord-scheduler", "volcano")
    )


def test_hyper_nodes_are_left_out_without_nodes_and_for_another_binding(rollcall: Run, tmp_path: Path) -> None:
    config = tmp_path / "rollcall.yaml"
    config.write_text(FED)
    ran = rollcall("render", "--config", config, "--scheduler", "volcano", "-", stdin=BINDING)
    assert (ran.code, ran.out) == (0, "")
    assert re.search(r"volcano: left out: .* labels of nodes; .* --facts$", ran.err, re.MULTILINE)
    other = rollcall("render", "--config", config, "-", stdin=BINDING.replace("name: dc", "name: other"))
    assert (other.code, other.out) == (0, "")
    assert len(re.findall(r"left out: .* topology from dc$", other.err, re.MULTILINE)) == 2


def test_invalid_topology_levels_are_refused_with_their_place(rollcall: Run) -> None:
    reversed_levels = BINDING.replace("example.com/rack", "x").replace("kubernetes.io/hostname", "example.com/rack")
    ran = rollcall("render", "-", stdin=reversed_levels.replace("key: x", "key: kubernetes.io/hostname"))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(
        "rollcall: <stdin>:4:8: kai/topology at spec.levels: a list of 2 items: kubernetes.io/hostname can only be"
    )
    assert ran.err.endswith(" ClusterTopologyBinding\n")


def test_a_podgang_has_its_set_s_queue_if_the_set_is_known(rollcall: Run, tmp_path: Path) -> None:
    podgang = """\
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: demo-0, namespace: team-a, labels: {app.kubernetes.io/part-of: demo}}
spec: {podgroups: [{name: demo-0-worker, minReplicas: 2, podReferences: []}]}
"""
    workload = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo, namespace: team-a}
spec: {template: {cliques: [{name: worker, labels: {kai.scheduler/queue: research}}]}}
"""
    facts = tmp_path / "facts.yaml"
    facts.write_text(workload)
    kai = ("render", "--scheduler", "kai-scheduler")
    assert rollcall(*kai, "-", stdin=podgang).code == 1
    found = yaml.safe_load(rollcall(*kai, "--facts", str(facts), "-", stdin=podgang).out)
    assert found["spec"]["queue"] == "research"
