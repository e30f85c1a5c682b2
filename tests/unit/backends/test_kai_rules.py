"""The rules of kai-scheduler: cases beyond each rule's own two examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.worlds import rules, settings_of, validate
from webhook.backends.kai.pod_clique_sets import pod_group
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed
from webhook.model.known_objects import (
    KaiQueue,
    PodGangFacts,
    PriorityClass,
    QueuedGroup,
    QueuedGroups,
    TopologyBinding,
)
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

POOL = "kai.scheduler/node-pool"
QUEUE = "kai.scheduler/queue"
KEYS = {"zone": "example.com/zone", "rack": "example.com/rack"}
FACTS = ClusterFacts(
    kai_queues={
        "research": KaiQueue(None),
        "team-a": KaiQueue("research"),
        "team-b": KaiQueue("research"),
        "alone": KaiQueue(None),
        "lost": KaiQueue("gone"),
        "deep": KaiQueue("lost"),
        "round": KaiQueue("about"),
        "about": KaiQueue("round"),
        "pools": KaiQueue(None, {POOL: "h100"}),
        "pooled": KaiQueue("pools", {POOL: "h100"}),
        "astray": KaiQueue("research", {POOL: "h100"}),
    },
    kai_shards={"default": None, "h100": "h100"},
    kai_topologies={},
    topology_bindings={"dc": TopologyBinding(KEYS)},
    priority_classes={"inference": PriorityClass(125, is_default=False)},
    pod_gangs={},
)
LIVING = replace(FACTS, pod_gangs={("default", "demo-0"): PodGangFacts("demo")})


def judged(
    manifest: Manifest,
    old: Manifest | None = None,
    facts: ClusterFacts = FACTS,
    config: dict[str, Any] | None = None,
    **profile: Any,
) -> Any:
    # None of these has a stated version or a served API; whether its kinds are served is another rule's matter.
    return validate(manifest, old, settings=settings_of("kai-scheduler", config, **profile), facts=facts)


def queued(*cliques: Manifest, queue: str = "team-a", **fields: Any) -> Manifest:
    labels = {QUEUE: queue, **fields.pop("labels", {})}
    return pod_clique_set(*cliques, labels=labels, **fields)


FINE = {
    "a leaf below a parent": queued(),
    "a queue without parent and children": queued(queue="alone"),
    "a queue by annotation": pod_clique_set(annotations={QUEUE: "team-a"}),
    "a label wins over an annotation": pod_clique_set(labels={QUEUE: "team-a"}, annotations={QUEUE: "nowhere"}),
    "cliques that agree where the set is silent": pod_clique_set(
        clique("a", labels={QUEUE: "team-a"}), clique("b", annotations={QUEUE: "team-a"}), clique("c")
    ),
    "a clique that repeats the set's queue": queued(clique("a", labels={QUEUE: "team-a"})),
    "a node pool with a shard and a queue of its own": queued(queue="pooled", labels={POOL: "h100"}),
    "a preferred level that is the required one": queued(
        topologyConstraint={"topologyName": "dc", "pack": {"required": "rack", "preferred": "rack"}}
    ),
    "topology at three levels": queued(
        clique("a", topologyConstraint=required("rack")),
        clique("b"),
        groups=[scaling_group("g", "a", "b", topologyConstraint=required("rack"))],
        topologyConstraint={"topologyName": "dc", "pack": {"required": "zone", "preferred": "rack"}},
    ),
    "a preference alone": queued(topologyConstraint=preferred("rack")),
    "multi-node NVLink": queued(
        clique("a", requests={"nvidia.com/gpu": "8"}), annotations={"grove.io/mnnvl-group": "train"}
    ),
    "a clique with pods above its minimum": queued(clique("a", replicas=4, minimum=2)),
    "a priority class that exists": queued(priorityClassName="inference"),
    "part of a GPU": queued(clique("a", annotations={"gpu-memory": "2000"})),
}


@pytest.mark.parametrize("manifest", FINE.values(), ids=FINE)
def test_a_workload_that_kai_scheduler_can_run_is_allowed(manifest: Manifest) -> None:
    verdict = judged(manifest)
    assert (verdict.allowed, rules(verdict), verdict.unjudged) == (True, [], ())


REFUSED = {
    "no queue at all": (pod_clique_set(), "kai/no-queue", "metadata.labels[kai.scheduler/queue]"),
    "a queue that is missing": (queued(queue="nowhere"), "kai/queue", "metadata.labels[kai.scheduler/queue]"),
    "a queue with children": (queued(queue="research"), "kai/queue", "metadata.labels[kai.scheduler/queue]"),
    "an orphan": (queued(queue="lost"), "kai/queue", "metadata.labels[kai.scheduler/queue]"),
    "a name that no queue can have": (queued(queue="Team A"), "kai/queue", "metadata.labels[kai.scheduler/queue]"),
    "a queue by annotation that is missing": (
        pod_clique_set(annotations={QUEUE: "nowhere"}),
        "kai/queue",
        "metadata.annotations[kai.scheduler/queue]",
    ),
    "a clique in another queue than the set": (
        queued(clique("a", labels={QUEUE: "team-b"})),
        "kai/queue-disagree",
        "spec.template.cliques[0].labels[kai.scheduler/queue]",
    ),
    "cliques in two queues": (
        pod_clique_set(clique("a", labels={QUEUE: "team-a"}), clique("b", labels={QUEUE: "team-b"})),
        "kai/queue-disagree",
        "spec.template.cliques[1].labels[kai.scheduler/queue]",
    ),
    "a node pool without a shard": (
        queued(labels={POOL: "default"}),
        "kai/node-pool",
        "metadata.labels[kai.scheduler/node-pool]",
    ),
    "a queue of another pool": (queued(queue="pooled"), "kai/node-pool", "metadata.labels[kai.scheduler/node-pool]"),
    "a queue below one of another pool": (
        queued(queue="astray", labels={POOL: "h100"}),
        "kai/node-pool",
        "metadata.labels[kai.scheduler/node-pool]",
    ),
    "a broader preference": (
        queued(topologyConstraint={"topologyName": "dc", "pack": {"required": "rack", "preferred": "zone"}}),
        "kai/topology",
        "spec.template.topologyConstraint.pack.preferred",
    ),
    "a class that is missing": (
        queued(priorityClassName="inferrence"),
        "kai/priority-class",
        "spec.template.priorityClassName",
    ),
    "a preemptibility that KAI does not know": (
        queued(labels={"kai.scheduler/preemptibility": "never"}),
        "kai/preemptibility",
        "metadata.labels[kai.scheduler/preemptibility]",
    ),
    "a template in another gang": (
        queued(clique("a", labels={"kai.scheduler/subgroup-name": "x"})),
        "kai/claimed-pods",
        "spec.template.cliques[0].labels[kai.scheduler/subgroup-name]",
    ),
    "a fraction and an amount of GPU memory": (
        queued(clique("a", annotations={"gpu-fraction": "0.5", "gpu-memory": "2000"})),
        "kai/gpu-sharing",
        "spec.template.cliques[0].annotations.gpu-fraction",
    ),
}


@pytest.mark.parametrize(("manifest", "rule", "place"), REFUSED.values(), ids=REFUSED)
def test_a_workload_that_kai_scheduler_would_mishandle_is_refused(manifest: Manifest, rule: str, place: str) -> None:
    verdict = judged(manifest)
    assert [(finding.rule, str(finding.at)) for finding in verdict.denials] == [(rule, place)]


def test_a_queue_in_a_circle_ends_the_search_and_is_not_a_leaf() -> None:
    (finding,) = judged(queued(queue="round")).denials
    assert "has the child" in finding.why


def test_a_queue_by_a_key_that_is_not_read_is_warned_about() -> None:
    config = {"defaultQueue": "team-a", "queueLabelKey": "example.com/queue"}
    verdict = judged(queued(queue="team-b"), config=config)
    assert [(found.rule, str(found.at)) for found in verdict.warnings] == [
        ("kai/queue-key", "metadata.labels[kai.scheduler/queue]")
    ]
    assert judged(queued(queue="team-b", labels={"example.com/queue": "team-a"}), config=config).findings == ()


def test_the_default_node_pool_is_named_in_messages() -> None:
    (other,) = judged(queued(labels={POOL: "h100"})).findings
    assert other.why == Text('"team-a"', "default node pool")
    (above,) = judged(queued(queue="astray", labels={POOL: "h100"})).findings
    assert above.why == Text('"research"', '"astray"', "default node pool")


def test_a_missing_ancestor_of_a_queue_is_found_at_any_height() -> None:
    facts = replace(FACTS, kai_queues={"deep": KaiQueue("middle"), "middle": KaiQueue("gone")})
    (finding,) = judged(queued(queue="deep"), facts=facts).denials
    assert (finding.absent, '"gone"' in finding.why) == (Needed("kai_queues", "gone"), True)


def test_the_profile_s_queue_is_judged_like_one_that_the_set_names() -> None:
    assert judged(pod_clique_set(), config={"defaultQueue": "team-a"}).allowed
    (finding,) = judged(pod_clique_set(), config={"defaultQueue": "research"}).denials
    assert finding.why == Text("defaultQueue", "child")


def test_the_keys_of_the_configuration_count() -> None:
    config = {"queueLabelKey": "runai/queue", "nodePoolLabelKey": "example.com/pool"}
    facts = replace(FACTS, kai_queues={"team-a": KaiQueue(None, {"example.com/pool": "h100"})})
    asked = pod_clique_set(labels={"runai/queue": "team-a", "example.com/pool": "h100", QUEUE: "nowhere"})
    assert judged(asked, facts=facts, config=config).allowed
    (finding,) = judged(queued(), facts=facts, config=config).denials
    assert str(finding.at) == "metadata.labels[runai/queue]"


UNKNOWN = {
    "queues": (queued(), {"kai_queues": None}, "kai/queue"),
    "shards": (queued(queue="pooled", labels={POOL: "h100"}), {"kai_shards": None}, "kai/node-pool"),
    "priority classes": (queued(priorityClassName="inference"), {"priority_classes": None}, "kai/priority-class"),
    "topologies of a binding that is not known either": (
        queued(topologyConstraint=required("rack")),
        {"kai_topologies": None, "topology_bindings": None},
        "kai/topology",
    ),
    "the binding of a topology that is kept": (
        queued(topologyConstraint=required("rack")),
        {"kai_topologies": {"dc": ("example.com/rack",)}, "topology_bindings": None},
        "kai/topology",
    ),
}


@pytest.mark.parametrize(("manifest", "lost", "rule"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_facts_are_reported_as_not_judged(manifest: Manifest, lost: dict[str, Any], rule: str) -> None:
    verdict = judged(manifest, facts=replace(FACTS, **lost))
    assert verdict.denials == ()
    assert [unjudged.rule for unjudged in verdict.unjudged if unjudged.rule != "grove/topology-domain"] == [rule]


def test_a_topology_that_cannot_be_created_from_its_binding_counts_as_missing() -> None:
    upside_down = TopologyBinding({"host": "kubernetes.io/hostname", "rack": "example.com/rack"})
    facts = replace(FACTS, topology_bindings={"dc": upside_down})
    verdict = judged(queued(topologyConstraint=required("rack")), facts=facts)
    assert rules(verdict) == ["kai/topology"]
    assert "the narrowest level" in verdict.findings[0].why
    unknown = judged(queued(topologyConstraint=required("rack")), facts=replace(facts, kai_topologies=None))
    assert [missing.needs for missing in unknown.unjudged] == ["the KAI Topologies"]
    # One that is there all the same counts as it is.
    there = replace(facts, kai_topologies={"dc": ("example.com/rack",)})
    assert judged(queued(topologyConstraint=required("rack")), facts=there).allowed


def test_a_missing_binding_is_refused_as_by_grove() -> None:
    facts = replace(FACTS, topology_bindings={}, kai_topologies={"dc": ("example.com/rack",)})
    verdict = judged(queued(topologyConstraint=required("rack")), facts=facts)
    assert (rules(verdict), verdict.unjudged) == (["grove/topology-domain"], ())


def test_a_referenced_topology_must_exist_and_have_the_level() -> None:
    asked = queued(topologyConstraint=required("rack"))
    kept = replace(FACTS, topology_bindings={"dc": TopologyBinding(KEYS, {"kai-scheduler": "racks"})})
    (finding,) = judged(asked, facts=kept).denials
    assert (finding.value, finding.absent) == ("dc", Needed("kai_topologies", "racks"))
    (finding,) = judged(asked, facts=replace(kept, kai_topologies={"racks": ("example.com/zone",)})).denials
    assert finding.value == "rack"
    assert judged(asked, facts=replace(kept, kai_topologies={"racks": ("example.com/rack",)})).allowed


CHANGES = {
    "a raised minimum": (
        queued(clique("a", replicas=4, minimum=2)),
        queued(clique("a", replicas=4, minimum=4)),
        ["kai/raised-minimum"],
    ),
    "a clique that is added": (queued(clique("a")), queued(clique("a"), clique("b")), ["kai/raised-minimum"]),
    "a scaling group whose base gang grows": (
        queued(clique("a"), groups=[scaling_group("g", "a", replicas=4, minAvailable=1)]),
        queued(clique("a"), groups=[scaling_group("g", "a", replicas=4, minAvailable=2)]),
        ["kai/raised-minimum"],
    ),
    "a lowered minimum": (
        queued(clique("a", replicas=4, minimum=4)),
        queued(clique("a", replicas=4, minimum=2)),
        [],
    ),
    "more replicas above the minimum": (
        queued(clique("a", replicas=4, minimum=2)),
        queued(clique("a", replicas=8, minimum=2)),
        [],
    ),
    "another queue": (queued(), queued(queue="team-b"), ["kai/queue-change"]),
    "another node pool": (
        queued(queue="alone"),
        queued(queue="alone", labels={POOL: "h100"}),
        ["kai/queue-change", "kai/node-pool"],
    ),
}


@pytest.mark.parametrize(("old", "new", "told"), CHANGES.values(), ids=CHANGES)
def test_a_gang_with_pods_cannot_be_changed(old: Manifest, new: Manifest, told: list[str]) -> None:
    assert sorted(finding.rule for finding in judged(new, old, LIVING).denials) == sorted(told)


def test_a_set_without_gangs_can_be_changed_and_one_with_unknown_gangs_cannot() -> None:
    old, new = queued(clique("a", replicas=2)), queued(clique("a", replicas=4), queue="team-b")
    assert judged(new, old, FACTS).allowed
    unknown = judged(new, old, replace(FACTS, pod_gangs=None))
    assert [finding.rule for finding in unknown.denials] == ["kai/raised-minimum", "kai/queue-change"]
    assert all("unknown" in finding.why for finding in unknown.denials)


@pytest.mark.parametrize(
    ("version", "names"), [(None, ["kai/group-name"]), ("0.16.8", ["kai/group-name"]), ("0.17.2", [])]
)
def test_a_name_in_two_namespaces_is_no_trap_from_the_fix_on(version: str | None, names: list[str]) -> None:
    stated: dict[str, Any] = {} if version is None else {"schedulerVersion": version}
    facts = replace(FACTS, kai_pod_groups=QueuedGroups({("other", "demo"): QueuedGroup(None)}))
    group = pod_group(name="demo", queue="team-a")
    assert [rule for rule in rules(judged(group, facts=facts, **stated)) if rule == "kai/group-name"] == names
