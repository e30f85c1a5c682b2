"""Worlds: what stands among the files counts as facts, whatever the order of the files."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.unit.offline.fact_files import facts
from webhook.errors import InputError
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Needed
from webhook.offline import worlds as sources_worlds
from webhook.offline.fact_files import load_facts
from webhook.offline.manifests import Document, read_text
from webhook.offline.worlds import Worlds

BINDING = """\
apiVersion: grove.io/v1alpha1
kind: ClusterTopologyBinding
metadata: {name: dc}
spec: {levels: [{domain: rack, key: KEY}]}
"""
QUOTA = """\
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: team, namespace: team}
spec: {max: {cpu: MOST}}
"""
QUEUE = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: etl}
spec: {capability: {cpu: "MOST"}}
"""
CLASS = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: build}, value: VALUE}\n"
NODE = "{apiVersion: v1, kind: Node, metadata: {name: NAME}, status: {allocatable: {cpu: '8', pods: '110'}}}\n"
JOB = "{apiVersion: batch/v1, kind: Job, metadata: {name: train}}\n"
EMPTY = "{apiVersion: KIND_API, kind: KINDList, items: []}\n"


def documents(**files: str) -> list[Document]:
    """The documents of files; `a__q` is a/q.yaml."""
    return [one for name, text in files.items() for one in read_text(text, f"{name.replace('__', '/')}.yaml")]


def only(text: str, known: ClusterFacts = NO_FACTS) -> tuple[ClusterFacts, list[str]]:
    worlds = Worlds(known, documents(all=text))
    return worlds.common, [one.message for one in worlds.remarks]


COUNTED: dict[str, tuple[str, str, Any]] = {
    "a binding": (BINDING.replace("KEY", "example.com/rack"), "topology_bindings", "dc"),
    "an ElasticQuota": (QUOTA.replace("MOST", "4"), "elastic_quotas", "team"),
    "a PriorityClass": (CLASS.replace("VALUE", "100"), "priority_classes", "build"),
    "a Volcano Queue": (QUEUE.replace("MOST", "8"), "volcano_queues", "etl"),
    "a node": (NODE.replace("NAME", "n1"), "nodes", "n1"),
    "a node in a List": (f"apiVersion: v1\nkind: List\nitems:\n- {NODE.replace('NAME', 'n1')}", "nodes", "n1"),
}


@pytest.mark.parametrize(("text", "part", "key"), COUNTED.values(), ids=COUNTED)
def test_an_object_among_the_files_counts_and_others_of_its_kind_may_exist(text: str, part: str, key: Any) -> None:
    found, remarks = only(text)
    assert list(getattr(found, part)) == [key]
    # Nodes among files are all nodes.
    assert found.is_whole(part) is (part == "nodes")
    assert remarks == []


EMPTIED: dict[str, tuple[str, str, str]] = {
    "ElasticQuotas": ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "elastic_quotas"),
    "ResourceQuotas": ("v1", "ResourceQuota", "resource_quotas"),
    "LimitRanges": ("v1", "LimitRange", "limit_ranges"),
    "ClusterTopologyBindings": ("grove.io/v1alpha1", "ClusterTopologyBinding", "topology_bindings"),
    "LocalQueues": ("kueue.x-k8s.io/v1beta2", "LocalQueue", "local_queues"),
    "nodes": ("v1", "Node", "nodes"),
}


@pytest.mark.parametrize(("api", "kind", "part"), EMPTIED.values(), ids=EMPTIED)
def test_an_empty_list_says_that_there_are_none_whatever_else_is_known(api: str, kind: str, part: str) -> None:
    known = facts(QUOTA.replace("MOST", "4") + "---\n" + NODE.replace("NAME", "n1"))
    found, _ = only(EMPTY.replace("KIND_API", api).replace("KIND", kind), known)
    assert (dict(getattr(found, part)), found.is_whole(part)) == ({}, True)


def test_an_object_among_the_files_beats_the_other_facts_and_both_places_are_said(tmp_path: Path) -> None:
    (tmp_path / "facts.yaml").write_text(QUOTA.replace("MOST", "4"))
    known = load_facts([tmp_path])
    found, (remark,) = only(QUOTA.replace("MOST", "8"), known)
    assert (found.elastic_quotas or {})["team"].max == {"cpu": 8000}
    assert f"{tmp_path}/facts.yaml:1" in remark
    # What says the same needs no word.
    assert only(QUOTA.replace("MOST", "4"), known)[1] == []
    # A file has no state of a queue.
    queue = QUEUE.replace("MOST", "8")
    assert only(queue, facts(f"{queue}status: {{state: Open}}\n"))[1] == []


def _of(api: str, kind: str, spec: str = "{}", extra: str = "") -> str:
    return f"{{apiVersion: {api}, kind: {kind}, metadata: {{name: x, namespace: a{extra}}}, spec: {spec}}}\n"


_POLICY = "{schedulingPolicy: {gang: {minCount: 1}}}"
_PLAIN = "{spec: {containers: [{name: c, image: example.com/c}]}}"
_JOBS = f"[{{name: r, template: {{spec: {{template: {_PLAIN}}}}}}}]"
_LABEL = ", labels: {rollcall.dev/scheduler: koord-scheduler}"
# An object of the namespace a, and its part of the facts.
OF_NAMESPACES: dict[str, tuple[str, str]] = {
    "a PodGroup of KAI": (_of("scheduling.run.ai/v2alpha2", "PodGroup", "{minMember: 1}"), "kai_pod_groups"),
    "a PodGroup of Volcano": (_of("scheduling.volcano.sh/v1beta1", "PodGroup", "{minMember: 1}"), "volcano_pod_groups"),
    "a PodGroup of Koordinator": (
        _of("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "{minMember: 1}"),
        "koordinator_pod_groups",
    ),
    "a PodGroup of Kubernetes": (_of("scheduling.k8s.io/v1beta1", "PodGroup", _POLICY), "pod_groups"),
    "a CompositePodGroup": (
        _of("scheduling.k8s.io/v1beta1", "CompositePodGroup", "{schedulingPolicy: {gang: {minGroupCount: 1}}}"),
        "composite_pod_groups",
    ),
    "a Workload": (
        _of("scheduling.k8s.io/v1beta1", "Workload", f"{{podGroupTemplates: [{{name: x, {_POLICY[1:-1]}}}]}}"),
        "workloads",
    ),
    "a pod of a group": (
        _of("v1", "Pod", "{schedulingGroup: {podGroupName: g}, containers: [{name: c, image: example.com/c}]}"),
        "group_pods",
    ),
    "a JobSet": (_of("jobset.x-k8s.io/v1alpha2", "JobSet", f"{{replicatedJobs: {_JOBS}}}", _LABEL), "job_sets"),
    "a Job": (_of("batch/v1", "Job", f"{{parallelism: 2, template: {_PLAIN}}}", _LABEL), "jobs"),
    "a LeaderWorkerSet": (
        _of(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            f"{{replicas: 1, leaderWorkerTemplate: {{size: 2, workerTemplate: {_PLAIN}}}}}",
            _LABEL,
        ),
        "leader_worker_sets",
    ),
    "a TrainJob": (
        _of("trainer.kubeflow.org/v1alpha1", "TrainJob", "{runtimeRef: {name: torch}}", _LABEL),
        "train_jobs",
    ),
}
# Of these a folder may have only some, also of one namespace.
OF_PARTS: dict[str, tuple[str, str]] = {
    "a LocalQueue": (_of("kueue.x-k8s.io/v1beta2", "LocalQueue", "{clusterQueue: q}"), "local_queues"),
    "an ElasticQuota": (_of("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota"), "elastic_quotas"),
    "a ResourceQuota": (_of("v1", "ResourceQuota", "{hard: {pods: 1}}"), "resource_quotas"),
    "a LimitRange": (_of("v1", "LimitRange", "{limits: []}"), "limit_ranges"),
    "a TrainingRuntime": (
        _of("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "{template: {spec: {replicatedJobs: []}}}"),
        "training_runtimes",
    ),
    "a ResourceClaim": (_of("resource.k8s.io/v1", "ResourceClaim", "{devices: {requests: []}}"), "resource_claims"),
    "a ResourceClaimTemplate": (
        _of("resource.k8s.io/v1", "ResourceClaimTemplate", "{spec: {devices: {requests: []}}}"),
        "resource_claim_templates",
    ),
    "a Namespace": ("{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n", "namespaces"),
}


@pytest.mark.parametrize(
    ("text", "part", "whole"),
    [
        *((*row, True) for row in OF_NAMESPACES.values()),
        *((*row, False) for row in OF_PARTS.values()),
    ],
    ids=[*OF_NAMESPACES, *OF_PARTS],
)
def test_what_stands_in_one_namespace_says_nothing_of_another(text: str, part: str, whole: bool) -> None:
    found, remarks = only(text)
    assert len(getattr(found, part)) == 1
    assert remarks == []
    assert (found.is_whole(part, "a"), found.is_whole(part, "b"), found.is_whole(part)) == (whole, False, False)
    if whole:
        assert [found.may_exist(Needed(part, (name, "y"))) for name in "ab"] == [False, True]
    # All others are known from elsewhere: facts are those of a whole cluster.
    both, _ = only(text, facts(text.replace("namespace: a", "namespace: c")))
    assert both.is_whole(part, "b")


def test_an_object_that_differs_leaves_only_its_namespace_unknown() -> None:
    texts = [_of("scheduling.volcano.sh/v1beta1", "PodGroup", f"{{minMember: 1, queue: q{index}}}") for index in (1, 2)]
    elsewhere = texts[0].replace("namespace: a", "namespace: b")
    found, _ = only("---\n".join([*texts, elsewhere]))
    assert [found.is_whole("volcano_pod_groups", name) for name in "abc"] == [False, True, False]


def test_the_nodes_among_the_files_are_all_nodes() -> None:
    found, (remark,) = only(NODE.replace("NAME", "n1"), facts(NODE.replace("NAME", "n2")))
    assert list(found.nodes or ()) == ["n1"]
    assert "nodes" in remark


NEAREST: dict[str, tuple[dict[str, str], str, Any]] = {
    "of its own file": ({"a__q": "1", "b__q": "2"}, "a/q.yaml", 1),
    "of its own folder": ({"a__q": "1", "b__q": "2"}, "b/job.yaml", 2),
    "of the folder above": ({"a__queues__q": "1", "b__queues__q": "2"}, "a/jobs/job.yaml", 1),
    "of an overlay rather than of the base": ({"q": "1", "prod__q": "2"}, "prod/jobs/job.yaml", 2),
    "of none where two are equally near": ({"a__q": "1", "b__q": "2"}, "job.yaml", None),
    "of none where a folder has two": ({"a__q": "1", "a__r": "2"}, "a/job.yaml", None),
    "of none for standard input": ({"a__q": "1", "b__q": "2"}, "<stdin>", None),
}


@pytest.mark.parametrize(("files", "of", "expected"), NEAREST.values(), ids=NEAREST)
def test_the_nearest_of_different_objects_counts_in_any_order(files: dict[str, str], of: str, expected: Any) -> None:
    (judged,) = read_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}", of)
    said = set()
    for order in permutations(files.items()):
        texts = {name: QUOTA.replace("MOST", most) for name, most in order}
        worlds = Worlds(NO_FACTS, documents(**texts))
        quota = (worlds.facts_for(judged).elastic_quotas or {}).get("team")
        assert (None if quota is None else quota.max) == (None if expected is None else {"cpu": 1000 * expected})
        assert not worlds.facts_for(judged).is_whole("elastic_quotas")
        said.add(tuple(one.message for one in worlds.remarks))
    ((remark,),) = said
    assert all(f"{name.replace('__', '/')}.yaml:1:1" in remark for name in files)


def test_equal_objects_are_said_in_one_line_and_count() -> None:
    worlds = Worlds(NO_FACTS, documents(a=QUOTA.replace("MOST", "4"), b=QUOTA.replace("MOST", "4000m")))
    assert (worlds.common.elastic_quotas or {}).keys() == {"team"}
    (remark,) = worlds.remarks
    assert "a.yaml:1:1" in remark.message
    assert "b.yaml:1:1" in remark.message


def test_facts_that_contradict_each_other_are_an_error_with_both_places(tmp_path: Path) -> None:
    errors = set()
    for first, second in (("a", "b"), ("b", "a")):
        for name, most in (("a", "4"), ("b", "8")):
            (tmp_path / f"{name}.yaml").write_text(QUOTA.replace("MOST", most))
        with pytest.raises(InputError) as error:
            load_facts([tmp_path / f"{first}.yaml", tmp_path / f"{second}.yaml"])
        errors.add(str(error.value))
    (said,) = errors
    assert all(f"{tmp_path}/{name}.yaml:1" in said for name in "ab")
    (tmp_path / "b.yaml").write_text(QUOTA.replace("MOST", "4000m"))
    assert (load_facts([tmp_path]).elastic_quotas or {}).keys() == {"team"}


def test_an_object_that_cannot_be_read_is_left_out_with_a_word() -> None:
    broken = "{apiVersion: grove.io/v1alpha1, kind: ClusterTopologyBinding, metadata: {name: dc}, spec: [1]}"
    found, (remark,) = only(broken)
    assert not found.is_whole("topology_bindings")
    assert "ClusterTopologyBinding" in remark
    # Another ConfigMap than that of the Cluster Autoscaler is none of the facts.
    assert only("{apiVersion: v1, kind: ConfigMap, metadata: []}")[1] == []


def test_very_many_different_objects_take_little_time_and_few_words() -> None:
    many = "---\n".join(QUOTA.replace("MOST", str(most)) for most in range(1, 400))
    found, (remark,) = only(many)
    assert found.elastic_quotas == {}
    assert "more places" in remark
    others = "---\n".join(
        QUOTA.replace("MOST", str(most)).replace("name: team,", f"name: team-{index},")
        for index in range(100)
        for most in (1, 2)
    )
    assert len(only(others)[1]) == 20


@pytest.mark.parametrize("many", [4, 8])
def test_each_folder_decides_once_which_objects_are_nearest(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = [
        "".join(CLASS.replace("build", f"c{n}").replace("VALUE", str(n + off)) + "---\n" for n in range(many))
        for off in (0, 9)
    ]
    files = {"one__x": classes[0], "two__x": classes[1], **{f"jobs__j{n}__job": JOB for n in range(many)}}
    decided: list[set[int]] = []
    only_of = sources_worlds._only

    def counted(variants: set[int]) -> int | None:
        decided.append(variants)
        return only_of(variants)

    monkeypatch.setattr(sources_worlds, "_only", counted)
    every = documents(**files)
    worlds = Worlds(NO_FACTS, every)
    chosen = [worlds.facts_for(document) for document in every]
    # The folders above both, each of the two folders, and its file; no file without such objects decides.
    above = len(Path.cwd().parts)
    assert len(decided) == many * (above + 4)
    assert [len(one.priority_classes or ()) for one in chosen] == [many] * (2 * many) + [0] * many


GROUP = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: train}, spec: {minMember: 4}}\n"
PODS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: NUMBER
  template: {metadata: {annotations: {scheduling.k8s.io/group-name: train}}, spec: {schedulerName: volcano}}
"""
TRAIN = ("Volcano", "default", "train")


def pods(number: int, name: str = "d") -> str:
    return PODS.replace("NUMBER", str(number)).replace("NAME", name)


# The files, and the size of the group for each.
GROUPS: dict[str, tuple[dict[str, str], dict[str, int | None]]] = {
    "a folder each": (
        {"dev__g": GROUP, "dev__d": pods(2), "prod__g": GROUP, "prod__d": pods(4)},
        {"dev/g.yaml": 2, "prod/g.yaml": 4},
    ),
    "folders within": (
        {"dev__g__g": GROUP, "dev__d__d": pods(2, "a"), "prod__g": GROUP, "prod__d": pods(3, "b")},
        {"dev/g/g.yaml": 2, "prod/g.yaml": 3},
    ),
    "pods elsewhere": (
        {"dev__g": GROUP, "dev__d": pods(2), "prod__g": GROUP, "all__d": pods(1, "a")},
        {"dev/g.yaml": None, "prod/g.yaml": None},
    ),
    "one group": ({"g__g": GROUP, "dev__d": pods(2), "prod__d": pods(4)}, {"g/g.yaml": None}),
    "one group with the same pods twice": ({"g__g": GROUP, "dev__d": pods(2), "prod__d": pods(2)}, {"g/g.yaml": 2}),
    "one folder": ({"a__g": GROUP, "a__g2": GROUP, "a__d": pods(2)}, {"a/g.yaml": 2, "a/g2.yaml": 2}),
}


@pytest.mark.parametrize(("files", "sizes"), GROUPS.values(), ids=GROUPS)
def test_the_pods_of_a_group_in_several_folders_are_counted_within_each(
    files: dict[str, str], sizes: dict[str, int | None]
) -> None:
    for every in (documents(**files), documents(**files)[::-1]):
        worlds = Worlds(NO_FACTS, every)
        found = {one.source: (worlds.facts_for(one).group_sizes or {})[TRAIN] for one in every}
        assert {source: found[source] for source in sizes} == sizes
        unknown = [one for one in worlds.remarks if "unknown" in one.message]
        assert bool(unknown) is (None in sizes.values())


# The files, and the nodes for each job; None if they are unknown.
CLUSTERS: dict[str, tuple[tuple[str, ...], dict[str, list[str] | None]]] = {
    "one folder": (("a__n1", "a__n2"), {"a__job": ["n1", "n2"], "b__job": ["n1", "n2"], "job": ["n1", "n2"]}),
    "a folder each": (("a__n1", "b__n2"), {"a__job": ["n1"], "b__x__job": ["n2"], "job": None, "c__job": None}),
    "one within another": (("a__n1", "a__b__n2"), {"a__b__job": ["n1", "n2"], "a__job": ["n1", "n2"]}),
    "the same node in each": (("a__n1", "b__n1", "b__n2"), {"a__job": ["n1"], "b__job": ["n1", "n2"]}),
    "near and far": (("x__a__n1", "y__n2"), {"x__b__job": ["n1"], "y__job": ["n2"], "z__job": None}),
}


@pytest.mark.parametrize(("nodes", "expected"), CLUSTERS.values(), ids=CLUSTERS)
def test_nodes_in_folders_beside_each_other_are_clusters(
    nodes: tuple[str, ...], expected: dict[str, list[str] | None]
) -> None:
    files = {name: NODE.replace("NAME", name.split("__")[-1]) for name in nodes} | dict.fromkeys(expected, JOB)
    every = documents(**files)
    worlds = Worlds(NO_FACTS, every)
    found = {one.source: worlds.facts_for(one).nodes for one in every}
    for name, names in expected.items():
        there = found[f"{name.replace('__', '/')}.yaml"]
        assert (None if there is None else sorted(there)) == names
    told = any("beside each other" in one.message for one in worlds.remarks)
    assert told is any(names != sorted({name.split("__")[-1] for name in nodes}) for names in expected.values())


GROWER = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: gpus}, spec: {}}\n"
CHECK = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: nodes}
spec: {controllerName: kueue.x-k8s.io/CONTROLLER}
"""
# What stands beside the nodes of two clusters, the file it stands in, and for which of these it counts.
BELONGING: dict[str, tuple[str, str, str, set[str]]] = {
    "a NodePool of one": (GROWER, "node_pools", "a__pool", {"a"}),
    "a NodePool above both": (GROWER, "node_pools", "pool", {"a", "b"}),
    "a NodePool beside both": (GROWER, "node_pools", "c__pool", {"a", "b"}),
    "a check of one": (CHECK.replace("CONTROLLER", "provisioning-request"), "admission_checks", "b__x", {"b"}),
    "a check beside both": (
        CHECK.replace("CONTROLLER", "provisioning-request"),
        "admission_checks",
        "c__x",
        {"a", "b"},
    ),
    "a check of another kind": (CHECK.replace("CONTROLLER", "multikueue"), "admission_checks", "c__x", {"a", "b"}),
    "a HyperNode of one": (
        "{apiVersion: topology.volcano.sh/v1alpha1, kind: HyperNode, metadata: {name: h}, spec: {tier: 1}}\n",
        "hyper_nodes",
        "a__h",
        {"a"},
    ),
}


@pytest.mark.parametrize(("text", "part", "place", "expected"), BELONGING.values(), ids=BELONGING)
def test_what_belongs_to_nodes_counts_for_the_cluster_of_its_folder(
    text: str, part: str, place: str, expected: set[str]
) -> None:
    nodes = {f"{name}__n": NODE.replace("NAME", "n1") for name in "ab"}
    every = documents(**nodes, **{place: text}, a__job=JOB, b__job=JOB)
    worlds = Worlds(NO_FACTS, every)
    jobs = {one.source.split("/")[0]: worlds.facts_for(one) for one in every if one.source.endswith("/job.yaml")}
    assert {name for name, found in jobs.items() if getattr(found, part)} == expected
    # It costs every cluster its proofs only with a word.
    adds_nodes = part == "node_pools" or "provisioning" in text
    said = any("may get more nodes" in one.message for one in worlds.remarks)
    assert said is (adds_nodes and len(expected) > 1)


def test_a_node_that_differs_in_other_clusters_leaves_a_cluster_whole() -> None:
    other = NODE.replace("NAME", "n1").replace("'8'", "'4'")
    files = {"a__n": NODE.replace("NAME", "n1"), "b__n": other, "c__n": NODE.replace("NAME", "n2")}
    every = documents(**files, **{f"{name}__job": JOB for name in "abc"})
    worlds = Worlds(NO_FACTS, every)
    assert all(worlds.facts_for(one).is_whole("nodes") for one in every)
    twice = documents(**files, a__m=other, a__job=JOB)
    assert not Worlds(NO_FACTS, twice).facts_for(twice[-1]).is_whole("nodes")
