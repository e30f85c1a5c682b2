"""Findings about KAI's and Volcano's own objects that a user applied: the tables, with known and unknown facts."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.applied_objects import (
    KAI,
    KAI_WORLD,
    PAIR,
    RACK,
    ROLES,
    VOLCANO,
    VOLCANO_WITHOUT_TOPOLOGY,
    VOLCANO_WORLD,
    Applied,
    near,
)
from tests.unit.worlds import request, rules, settings_of, validate
from webhook import admission
from webhook.admission.decision import doubtful_facts
from webhook.backends.kai import pod_clique_sets as kai
from webhook.backends.kai.gangs import Tree
from webhook.backends.kai.pod_clique_sets import subgroup
from webhook.backends.volcano import pod_clique_sets as volcano
from webhook.backends.volcano.pod_clique_sets import policy
from webhook.config.settings import Settings
from webhook.model.admission_request import Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Needed, ObjectKey
from webhook.model.known_objects import KaiQueue, QueuedGroups, QueueTree
from webhook.model.reading import Manifest
from webhook.offline.fact_files import facts_from
from webhook.offline.judgement import judge
from webhook.offline.manifests import Document, read_text
from webhook.offline.worlds import one_world
from webhook.server.admission_review import MAX_WARNING_BYTES


def documents(*manifests: Manifest) -> list[Document]:
    """The manifests as a file has them."""
    return list(read_text(yaml.safe_dump_all(manifests), "world.yaml"))


KAI_SETTINGS = settings_of("kai-scheduler")
VOLCANO_SETTINGS = settings_of("volcano", {"topology": "hypernode"})
WORLDS = {
    "kai-scheduler": facts_from(documents(*KAI_WORLD)),
    "volcano": facts_from(documents(*VOLCANO_WORLD)),
}
TABLES = (
    (KAI, KAI_SETTINGS),
    (VOLCANO, VOLCANO_SETTINGS),
    (VOLCANO_WITHOUT_TOPOLOGY, settings_of("volcano")),
)
CASES = [
    pytest.param(case, settings, id=f"{settings.default}-{name}")
    for table, settings in TABLES
    for name, case in table.items()
]


def by_action(verdict: Verdict, action: Action) -> set[str]:
    return {finding.rule for finding in verdict.findings if finding.action is action}


@pytest.mark.parametrize(("case", "settings"), CASES)
def test_an_object_gets_the_expected_findings(case: Applied, settings: Settings) -> None:
    verdict = validate(case.manifest, case.before, settings=settings, facts=WORLDS[settings.default])
    assert by_action(verdict, Action.DENY) == case.refused
    assert by_action(verdict, Action.WARN) == case.warned
    assert not verdict.unjudged
    assert verdict.allowed is not bool(case.refused)
    for finding in verdict.findings:
        assert finding.action is Action.DENY or len(str(finding).encode()) <= MAX_WARNING_BYTES


@pytest.mark.parametrize(("case", "settings"), CASES)
def test_an_update_is_not_refused_for_old_faults(case: Applied, settings: Settings) -> None:
    labelled = deepcopy(case.manifest)
    labelled["metadata"]["labels"] = {**labelled["metadata"].get("labels", {}), "example.com/touched": "yes"}
    assert validate(labelled, case.manifest, settings=settings, facts=WORLDS[settings.default]).allowed


@pytest.mark.parametrize(("case", "settings"), CASES)
def test_without_a_cluster_unknown_facts_cause_no_refusal(case: Applied, settings: Settings) -> None:
    known = WORLDS[settings.default]
    verdict = validate(case.manifest, case.before, settings=settings)
    assert by_action(verdict, Action.DENY) <= case.refused
    for finding in validate(case.manifest, case.before, settings=settings, facts=known).denials:
        assert finding.rule in rules(verdict) or finding.rule in {missing.rule for missing in verdict.unjudged}, finding


class Unsearched(QueuedGroups):
    """PodGroups that can be looked up by key only, and not iterated, once all are added."""

    def __iter__(self) -> Iterator[ObjectKey]:
        raise AssertionError("a rule goes through all PodGroups")

    items = values = keys = __iter__  # type: ignore[assignment]


@pytest.mark.parametrize(("case", "settings"), CASES)
def test_the_cost_of_judging_an_object_does_not_grow_with_the_number_of_pod_groups(
    case: Applied, settings: Settings
) -> None:
    known = WORLDS[settings.default]
    kai_groups, volcano_groups = (
        Unsearched(groups or {}) for groups in (known.kai_pod_groups, known.volcano_pod_groups)
    )
    facts = replace(known, kai_pod_groups=kai_groups, volcano_pod_groups=volcano_groups)
    verdict = validate(case.manifest, case.before, settings=settings, facts=facts)
    assert {finding.rule for finding in verdict.findings} == case.refused | case.warned


def test_the_index_finds_every_object_after_every_change() -> None:
    tree = QueueTree({"a": KaiQueue(None), "b": KaiQueue("a"), "c": KaiQueue("a")})
    tree["c"] = KaiQueue("b")
    del tree["b"]
    assert (list(tree.having("a")), list(tree.having("b")), list(tree.having(None))) == ([], ["c"], ["a"])
    assert tree.pop("c") == KaiQueue("b")
    assert tree.pop("c", None) is None
    assert dict(tree) == {"a": KaiQueue(None)}
    assert set(tree.every_term) == {None}
    learned = ClusterFacts(kai_queues=tree).learned({Needed("kai_queues", "d"): KaiQueue("a")})
    assert isinstance(learned.kai_queues, QueueTree)
    assert (list(learned.kai_queues.having("a")), list(tree.having("a"))) == (["d"], [])


def test_preemptibility_is_read_from_the_annotation() -> None:
    group = volcano.pod_group(annotations={"volcano.sh/preemptable": "true"})
    group["metadata"]["labels"] = {"volcano.sh/preemptable": "false"}
    verdict = validate(group, settings=VOLCANO_SETTINGS, facts=WORLDS["volcano"])
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("volcano/group-keys", "metadata.labels[volcano.sh/preemptable]")
    ]


ABSENT: dict[str, tuple[Manifest, Needed]] = {
    "a queue": (kai.pod_group(queue="nope"), Needed("kai_queues", "nope")),
    "a parent": (kai.pod_group(queue="lost"), Needed("kai_queues", "gone")),
    "a shard": (kai.pod_group(labels={"kai.scheduler/node-pool": "nope"}), Needed("kai_shards")),
    "a topology": (
        kai.pod_group(topologyConstraint={"topology": "x", "requiredTopologyLevel": RACK}),
        Needed("kai_topologies", "x"),
    ),
    "a priority class": (kai.pod_group(priorityClassName="nope"), Needed("priority_classes", "nope")),
    "a queue of Volcano's": (volcano.pod_group(queue="nope"), Needed("volcano_queues", "nope")),
    "a parent of Volcano's": (volcano.queue_object("new", "nope"), Needed("volcano_queues", "nope")),
    "a tier": (
        volcano.pod_group(networkTopology={"mode": "hard", "highestTierAllowed": 7}),
        Needed("hyper_nodes"),
    ),
}


@pytest.mark.parametrize(("manifest", "needed"), ABSENT.values(), ids=ABSENT)
def test_missing_objects_are_read_live_before_a_refusal(manifest: Manifest, needed: Needed) -> None:
    settings = VOLCANO_SETTINGS if "volcano" in manifest["apiVersion"] else KAI_SETTINGS
    assert doubtful_facts(validate(manifest, settings=settings, facts=WORLDS[settings.default])) == (needed,)


def test_a_queue_with_children_is_judged_as_a_parent() -> None:
    """Its PodGroups are as badly off as before."""
    facts = facts_from(
        documents(kai.queue_object("busy"), kai.queue_object("below", "busy"), kai.pod_group(queue="busy"))
    )
    assert validate(kai.queue_object("team-b", "busy"), settings=KAI_SETTINGS, facts=facts).findings == ()
    assert "kai/queue-in-use" in rules(
        validate(kai.queue_object("below", "busy"), settings=KAI_SETTINGS, facts=ONLY_CHILD)
    )


# The child that is judged is known itself.
ONLY_CHILD = facts_from(
    documents(kai.queue_object("busy"), kai.queue_object("below", "busy"), kai.pod_group(queue="busy"))
)


def test_a_queue_below_a_cycle_of_others_is_refused() -> None:
    facts = facts_from(
        documents(
            volcano.queue_object("a", "b"),
            volcano.queue_object("b", "a"),
            kai.queue_object("a", "b"),
            kai.queue_object("b", "a"),
        )
    )
    facts = replace(facts, kai_pod_groups=WORLDS["kai-scheduler"].kai_pod_groups)
    facts = replace(facts, volcano_pod_groups=WORLDS["volcano"].volcano_pod_groups)
    assert by_action(validate(kai.queue_object("c", "a"), settings=KAI_SETTINGS, facts=facts), Action.DENY) == {
        "kai/queue-cycle"
    }
    assert by_action(validate(volcano.queue_object("c", "a"), settings=VOLCANO_SETTINGS, facts=facts), Action.DENY) == {
        "volcano/queue-cycle"
    }


def test_the_priority_class_matters_only_with_a_default_that_may_not_be_preempted() -> None:
    group = kai.pod_group(priorityClassName="nope")
    known = WORLDS["kai-scheduler"]
    for value, found in ((99, ()), (100, ("kai/group-priority-class",))):
        classes = {"usual": (known.priority_classes or {})["usual"]._replace(value=value)}
        verdict = validate(group, settings=KAI_SETTINGS, facts=replace(known, priority_classes=classes))
        assert tuple(rules(verdict)) == found


# One folder


FOLDER = (kai.queue_object("research"), kai.queue_object("team-a", "research"), kai.pod_group(queue="team-a"))


def judged_together(*manifests: Manifest, known: ClusterFacts = NO_FACTS) -> dict[str, list[str]]:
    """By object name: the findings and what is not judged, with all objects in one folder."""
    facts = one_world(known, documents(*manifests))
    said: dict[str, list[str]] = {}
    for manifest in manifests:
        for judgement in judge(deepcopy(manifest), facts, KAI_SETTINGS):
            verdict = judgement.verdict
            said[f"{manifest['kind']} {manifest['metadata']['name']}"] = [
                *rules(verdict),
                *(f"? {missing.rule}" for missing in verdict.unjudged),
            ]
    return said


def test_objects_of_one_folder_are_judged_together() -> None:
    # Groups of other namespaces may be in the parent.
    alone = {"Queue research": [], "Queue team-a": ["? kai/queue-in-use"], "PodGroup demo": []}
    assert judged_together(*FOLDER) == alone
    parent = judged_together(*FOLDER, kai.queue_object("team-b", "team-a"))
    assert parent["PodGroup demo"] == ["kai/group-queue"]
    assert parent["Queue team-b"] == ["kai/queue-in-use"]


def test_a_folder_with_some_queues_does_not_make_other_queues_missing() -> None:
    elsewhere = kai.pod_group(queue="default-queue")
    assert judged_together(kai.queue_object("research"), elsewhere)["PodGroup demo"] == ["? kai/group-queue"]
    told = facts_from(documents(kai.queue_object("another")))
    assert judged_together(kai.queue_object("research"), elsewhere, known=told)["PodGroup demo"] == ["kai/group-queue"]


# Any JSON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from(["", "a", "b", "root", "team-a", "hard", "-1s"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "parent", "x"]), inner),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        "minMember",
        "minSubGroup",
        "queue",
        "parent",
        "parentQueue",
        "subGroups",
        "topologyConstraint",
        "networkTopology",
        "subGroupPolicy",
        "minTaskMember",
        "priorityClassName",
        "matchLabelKeys",
        "highestTierAllowed",
        "highestTierName",
        "topology",
        "requiredTopologyLevel",
        "name",
    ]
)
SPECS = st.dictionaries(FIELDS, VALUES | st.lists(st.dictionaries(FIELDS, VALUES, max_size=4), max_size=4), max_size=6)
KINDS = st.sampled_from([kai.pod_group(), kai.queue_object(), volcano.pod_group(), volcano.queue_object()])


@given(KINDS, SPECS | VALUES, SPECS | VALUES | st.none(), st.booleans())
def test_any_object_gets_a_verdict(kind: Manifest, spec: Any, before: Any, known: bool) -> None:
    settings = VOLCANO_SETTINGS if "volcano" in kind["apiVersion"] else KAI_SETTINGS
    facts = WORLDS[settings.default] if known else NO_FACTS
    old = None if before is None else {**kind, "spec": before}
    verdict = admission.validate(request({**kind, "spec": spec}, old), facts, settings)
    assert verdict.allowed is not bool(verdict.denials)
    assert all(len(str(finding).encode()) < 1024 for finding in verdict.findings)


# Trees of any shape: our reading of them against one that follows the words of the scheduler's code.

TREES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(-1, 7), st.none() | st.integers(0, 2)),
    max_size=8,
    unique_by=lambda t: t[0],
)


@given(TREES)
def test_a_tree_is_interpreted_as_the_scheduler_does(nodes: list[tuple[int, int, int | None]]) -> None:
    names = {number for number, _, _ in nodes}
    parents = {number: (parent if parent >= 0 else None) for number, parent, _ in nodes}
    pods = {number: count for number, _, count in nodes}
    spec = {
        "subGroups": [subgroup(f"s{n}", pods[n], None if parents[n] is None else f"s{parents[n]}") for n in parents]
    }
    tree = Tree(spec)

    def has_root(number: int) -> bool:
        for _ in range(len(names) + 1):
            above = parents.get(number, "missing")
            if above is None:
                return True
            if above not in names:
                return False
            number = int(above)
        return False

    assert tree.lost() == {f"s{n}" for n in names if not has_root(n)}
    inner = set(parents.values())
    assert {leaf.name for leaf in tree.leaves} == {f"s{n}" for n in names if n not in inner}
    for number in names | {None}:
        children = [child for child, parent in parents.items() if parent == number]
        needs = [n for n in names if n not in inner and pods[n] and _is_below(n, number, parents)]
        name = "" if number is None else f"s{number}"
        if children and (number is None or has_root(number)):
            assert (name in tree.demanding()) is bool([n for n in needs if has_root(n)])


def _is_below(number: int, above: int | None, parents: dict[int, int | None]) -> bool:
    at: int | None = number
    for _ in range(len(parents) + 1):
        if at is None:
            return above is None
        at = parents.get(at)
        if at == above:
            return True
    return False


def test_a_tree_can_be_as_deep_as_the_object_size_allows() -> None:
    chain = [subgroup("s0", minSubGroup=1)]
    chain += [subgroup(f"s{n}", parent=f"s{n - 1}", pods=1 if n == 5000 else None) for n in range(1, 5001)]
    verdict = validate(kai.pod_group(*chain), settings=KAI_SETTINGS, facts=WORLDS["kai-scheduler"])
    assert verdict.findings == ()


def test_reordering_a_list_does_not_change_its_findings() -> None:
    before, after = (kai.pod_group(*order, topologyConstraint=near(), minSubGroup=1) for order in (PAIR, PAIR[::-1]))
    roles = [ROLES[0], policy("worker", matchLabelKeys=None)]
    assert validate(after, before, settings=KAI_SETTINGS, facts=WORLDS["kai-scheduler"]).allowed
    assert validate(
        volcano.pod_group(*roles[::-1]), volcano.pod_group(*roles), settings=VOLCANO_SETTINGS, facts=WORLDS["volcano"]
    ).allowed
