"""Volcano's profile, and its rules beyond their own examples: one table per rule, one sentence per row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.worlds import gang_pod, rules, settings_of, validate
from webhook.admission.decision import doubtful_facts
from webhook.backends.volcano.keys import HYPER_NODES, PROJECTIONS, QUEUE_FACTS, VolcanoSettings
from webhook.config.file import settings_from
from webhook.errors import ConfigurationError
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api, Needed
from webhook.model.known_objects import HyperNode, PodGangFacts, VolcanoQueue
from webhook.model.projections import Missing
from webhook.validators.examples import clique, pod_clique_set, scaling_group

KEY = "scheduling.grove.io/volcano-queue"
ON_SET = f"metadata.annotations[{KEY}]"
ON_FIRST, ON_SECOND = (f"spec.template.cliques[{index}].annotations[{KEY}]" for index in range(2))
UNNAMED = "metadata.annotations[scheduling.grove.io/volcano-queue]"


def queues(**more: VolcanoQueue) -> ClusterFacts:
    known = {
        "default": VolcanoQueue("root", "Open"),
        "root": VolcanoQueue(None, "Open"),
        "team-a": VolcanoQueue("root", "Open"),
        "team-b": VolcanoQueue(None, "Open"),
        "closed": VolcanoQueue("root", "Closed"),
        "closing": VolcanoQueue("root", "Closing"),
        "fresh": VolcanoQueue("root", None),
        "all-teams": VolcanoQueue("root", "Open"),
        "team-c": VolcanoQueue("all-teams", "Open"),
        "orphan": VolcanoQueue("gone", "Open"),
        "lost": VolcanoQueue("gone", "Open"),
        "orphans-child": VolcanoQueue("lost", "Open"),
        "around": VolcanoQueue("about", "Open"),
        "about": VolcanoQueue("circle", "Open"),
        "circle": VolcanoQueue("about", "Open"),
    }
    return ClusterFacts(volcano_queues={**known, **more})


def on_set(queue: str, *cliques: Any, **fields: Any) -> dict[str, Any]:
    return pod_clique_set(*cliques, annotations={KEY: queue}, **fields)


def of(name: str, queue: str | None = None) -> dict[str, Any]:
    return clique(name) if queue is None else clique(name, annotations={KEY: queue})


QUEUE, DISAGREE, PARTLY = "volcano/queue", "volcano/queue-disagree", "volcano/queue-partly-named"
TABLE: dict[str, tuple[Any, dict[str, Any], list[tuple[str, str]]]] = {
    "an open leaf": (on_set("team-a"), {}, []),
    "a leaf whose parent is not said": (on_set("team-b"), {}, []),
    "a leaf below another queue": (on_set("team-c"), {}, []),
    "with spaces around its name": (on_set(" team-a "), {}, []),
    "none, and the default is open": (pod_clique_set(), {}, []),
    "nothing but spaces, and the default is open": (on_set("  "), {}, []),
    "none, and the profile's default is closed": (pod_clique_set(), {"defaultQueue": "closed"}, [(QUEUE, UNNAMED)]),
    "none, and the profile's default is missing": (pod_clique_set(), {"defaultQueue": "gone"}, [(QUEUE, UNNAMED)]),
    "its own, whatever the profile's default is": (on_set("team-a"), {"defaultQueue": "closed"}, []),
    "one that does not exist": (on_set("nobody"), {}, [(QUEUE, ON_SET)]),
    "a closed one": (on_set("closed"), {}, [(QUEUE, ON_SET)]),
    "a closing one": (on_set("closing"), {}, [(QUEUE, ON_SET)]),
    "one without a state": (on_set("fresh"), {}, [(QUEUE, ON_SET)]),
    "one with children": (on_set("all-teams"), {}, [(QUEUE, ON_SET)]),
    "the root of all": (on_set("root"), {}, [(QUEUE, ON_SET)]),
    "one whose parent is missing": (on_set("orphan"), {}, [(QUEUE, ON_SET)]),
    "one below a queue whose parent is missing": (on_set("orphans-child"), {}, [(QUEUE, ON_SET)]),
    "one below queues that go in a circle": (on_set("around"), {}, []),
    "no name of an object": (on_set("Team_A"), {}, [("volcano/queue-name", ON_SET)]),
    "a name that is too long": (on_set("q" * 254), {}, [("volcano/queue-name", ON_SET)]),
    "the same on the set and on a clique": (on_set("team-a", of("leader"), of("worker", "team-a")), {}, []),
    "the same but for spaces": (on_set("team-a ", of("worker", " team-a")), {}, []),
    "the same on all cliques": (pod_clique_set(of("leader", "team-a"), of("worker", "team-a")), {}, []),
    "another on a clique than on the set": (
        on_set("team-a", of("leader"), of("worker", "team-b")),
        {},
        [(DISAGREE, ON_SECOND)],
    ),
    "two cliques that disagree": (
        pod_clique_set(of("leader", "team-a"), of("worker", "team-b")),
        {},
        [(DISAGREE, ON_SECOND)],
    ),
    "a clique without one beside a clique with one": (
        pod_clique_set(of("leader", "team-a"), of("worker")),
        {},
        [(PARTLY, ON_FIRST)],
    ),
    "a clique without one beside one that names the default": (
        pod_clique_set(of("leader", "team-a"), of("worker")),
        {"defaultQueue": "team-a"},
        [],
    ),
    "spaces on one clique beside a clique with one": (
        pod_clique_set(of("leader", " "), of("worker", "team-a")),
        {},
        [(PARTLY, ON_SECOND)],
    ),
}


@pytest.mark.parametrize(("manifest", "config", "expected"), TABLE.values(), ids=TABLE)
def test_the_queue_rule_gives_the_expected_findings(
    manifest: Any, config: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    verdict = validate(manifest, settings=settings_of("volcano", config), facts=queues())
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == expected
    assert verdict.allowed is not bool(expected)


WHY = {
    "nobody": Text("no Queue of this cluster"),
    "closed": Text('it is "Closed"'),
    "fresh": Text("no state yet"),
    "all-teams": Text('child "team-c"'),
    "root": Text("parent of all queues"),
    "orphan": Text('below "gone"'),
    "orphans-child": Text('below "gone"'),
    "Team_A": Text("DNS subdomain"),
}


@pytest.mark.parametrize(("queue", "why"), WHY.items(), ids=WHY)
def test_the_refusal_of_a_queue_has_its_reason(queue: str, why: str) -> None:
    (finding,) = validate(on_set(queue), settings=settings_of("volcano"), facts=queues()).findings
    assert (finding.value, finding.why) == (queue, why)


def test_the_message_names_the_profile_s_default_queue() -> None:
    (finding,) = validate(
        pod_clique_set(), settings=settings_of("volcano", {"defaultQueue": "closed"}), facts=queues()
    ).findings
    assert finding.value == "closed"
    assert finding.why == Text('defaultQueue is "Closed"')


@pytest.mark.parametrize(
    ("queue", "needed"),
    [
        ("nobody", (Needed("volcano_queues", "nobody"),)),
        ("orphan", (Needed("volcano_queues", "gone"),)),
        ("orphans-child", (Needed("volcano_queues", "gone"),)),
        ("fresh", (Needed("volcano_queues", "fresh"),)),
        ("closed", ()),
        ("root", ()),
        ("all-teams", ()),
    ],
)
def test_only_missing_objects_are_read_live_before_a_refusal(queue: str, needed: tuple[Needed, ...]) -> None:
    assert doubtful_facts(validate(on_set(queue), settings=settings_of("volcano"), facts=queues())) == needed


def test_messages_with_long_names_stay_short() -> None:
    long = "q" * 253
    facts = queues(**{long: VolcanoQueue("p" * 253, "Open")})
    manifest = on_set(long, *(of(f"c{index}", "r" * 253) for index in range(12)))
    verdict = validate(manifest, settings=settings_of("volcano"), facts=facts)
    assert {finding.rule for finding in verdict.findings} == {QUEUE, DISAGREE}
    assert all(len(str(finding).encode()) <= 512 for finding in verdict.findings)


def test_unknown_queues_are_not_judged_but_rules_without_facts_are() -> None:
    for manifest in (pod_clique_set(), on_set("team-a")):
        verdict = validate(manifest, settings=settings_of("volcano"))
        assert verdict.allowed
        assert [(unjudged.rule, unjudged.needs) for unjudged in verdict.unjudged] == [(QUEUE, "the Volcano Queues")]
    assert rules(validate(on_set("root"), settings=settings_of("volcano"))) == [QUEUE]
    assert rules(validate(on_set("Team_A"), settings=settings_of("volcano"))) == ["volcano/queue-name"]


def test_a_queue_that_was_closed_later_refuses_no_update() -> None:
    old = on_set("closed", labels={"rollcall.dev/scheduler": "volcano"})
    new = on_set("closed", clique("worker", replicas=3), labels={"rollcall.dev/scheduler": "volcano"})
    verdict = validate(new, old, settings=settings_of("volcano"), facts=queues())
    assert verdict.allowed
    assert rules(verdict) == [QUEUE]


LIVING = {("default", "demo-0"): PodGangFacts("demo")}
CHANGES: dict[str, tuple[str | None, str | None, Any, list[str]]] = {
    "to another": ("team-a", "team-b", LIVING, ["volcano/queue-change"]),
    "to none": ("team-a", None, LIVING, ["volcano/queue-change"]),
    "from none to one": (None, "team-a", LIVING, ["volcano/queue-change"]),
    "from none to the default's name": (None, "default", LIVING, []),
    "by spaces only": ("team-a", " team-a ", LIVING, []),
    "when gangs are unknown": ("team-a", "team-b", None, ["volcano/queue-change"]),
    "when there is no gang": ("team-a", "team-b", {}, []),
    "when only another set's gang lives": ("team-a", "team-b", {("default", "x"): PodGangFacts("other")}, []),
    "when only another namespace's gang lives": ("team-a", "team-b", {("x", "demo-0"): PodGangFacts("demo")}, []),
}


@pytest.mark.parametrize(("before", "now", "gangs", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_queue_cannot_change_while_a_gang_may_have_pods(
    before: str | None, now: str | None, gangs: Any, expected: list[str]
) -> None:
    labels = {"rollcall.dev/scheduler": "volcano"}
    old, new = (
        pod_clique_set(labels=labels, annotations=None if queue is None else {KEY: queue}) for queue in (before, now)
    )
    facts = ClusterFacts(volcano_queues=queues().volcano_queues, pod_gangs=gangs)
    verdict = validate(new, old, settings=settings_of("volcano"), facts=facts)
    assert rules(verdict) == expected
    assert all(finding.forbidden and str(finding.at) == ON_SET for finding in verdict.findings)
    assert verdict.allowed is not bool(expected)


def test_a_queue_key_of_another_scheduler_gets_a_warning() -> None:
    kai = {"kai.scheduler/queue": "team-a"}
    verdict = validate(pod_clique_set(labels=kai), settings=settings_of("volcano"), facts=queues())
    assert [(found.rule, str(found.at)) for found in verdict.warnings] == [
        ("volcano/queue-key", "metadata.labels[kai.scheduler/queue]")
    ]
    both = pod_clique_set(labels=kai, annotations={"scheduling.grove.io/volcano-queue": "team-a"})
    assert validate(both, settings=settings_of("volcano"), facts=queues()).findings == ()


def test_a_warning_on_volcano_s_queue_annotation_names_the_right_key() -> None:
    manifest = pod_clique_set(clique("worker", annotations={"volcano.sh/queue-name": "team-a"}))
    verdict = validate(manifest, settings=settings_of("volcano"), facts=queues())
    assert verdict.allowed
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("volcano/queue-key", "spec.template.cliques[0].annotations[volcano.sh/queue-name]")
    ]


GPU = {"nvidia.com/gpu": "8"}
GROUP = "grove.io/mnnvl-group"
REFUSED: dict[str, tuple[Any, str, str]] = {
    "an NVLink group of the set": (
        pod_clique_set(clique("worker", requests=GPU), annotations={GROUP: "train"}),
        "volcano/mnnvl",
        f"metadata.annotations[{GROUP}]",
    ),
    "an NVLink group of a scaling group": (
        pod_clique_set(
            clique("worker", requests=GPU), groups=[scaling_group("decode", "worker", annotations={GROUP: "train"})]
        ),
        "volcano/mnnvl",
        f"spec.template.podCliqueScalingGroups[0].annotations[{GROUP}]",
    ),
    "resource claims": (
        pod_clique_set(clique("worker", pod={"resourceClaims": [{"name": "gpu"}]})),
        "volcano/resource-claims",
        "spec.template.cliques[0].spec.podSpec.resourceClaims",
    ),
    "a template that names a Volcano group": (
        pod_clique_set(clique("worker", annotations={"scheduling.volcano.sh/group-name": "other"})),
        "volcano/claimed-pods",
        "spec.template.cliques[0].annotations[scheduling.volcano.sh/group-name]",
    ),
    "a template that names a Koordinator group": (
        pod_clique_set(clique("worker", labels={"pod-group.scheduling.sigs.k8s.io": "other"})),
        "volcano/claimed-pods",
        "spec.template.cliques[0].labels[pod-group.scheduling.sigs.k8s.io]",
    ),
}


@pytest.mark.parametrize(("manifest", "rule", "place"), REFUSED.values(), ids=REFUSED)
def test_a_workload_that_volcano_would_mishandle_is_refused(manifest: Any, rule: str, place: str) -> None:
    verdict = validate(manifest, settings=settings_of("volcano"), facts=queues())
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [(rule, place)]
    assert not verdict.allowed


def test_a_prepared_pod_does_not_count_as_claimed() -> None:
    assert validate(gang_pod(), settings=settings_of("volcano")).findings == ()


def test_a_queue_of_the_wrong_type_is_a_shape_error() -> None:
    assert rules(validate(pod_clique_set(annotations={KEY: 7}), settings=settings_of("volcano"))) == ["grove/shape"]  # type: ignore[dict-item]


# The profile


def test_the_settings_have_defaults() -> None:
    assert settings_of("volcano").profiles["volcano"].backend.settings == VolcanoSettings(
        defaultQueue="default", topology="off"
    )


PROFILE = "scheduler.profiles[0]"
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown topology": (
        {"config": {"topology": "rack"}},
        f'{PROFILE}.config.topology: "rack": is not allowed (allowed: off, hypernode)',
    ),
    "a topology that YAML took for true": (
        {"config": {"topology": True}},
        f"{PROFILE}.config.topology: true: is not allowed (allowed: off, hypernode)",
    ),
    "a default queue that no Queue can be": (
        {"config": {"defaultQueue": "Team A"}},
        Text(f'{PROFILE}.config.defaultQueue: "Team A": ', "not a valid name"),
    ),
    "the root as the default queue": (
        {"config": {"defaultQueue": "root"}},
        Text(f'{PROFILE}.config.defaultQueue: "root": ', "leaf queue"),
    ),
    "an unknown key": (
        {"config": {"queue": "team-a"}},
        f'{PROFILE}.config.queue: "team-a": is an unknown key (allowed: defaultQueue, topology, '
        "topologyBinding, topologyObjects, enableHierarchy)",
    ),
    "a version without subgroups": (
        {"schedulerVersion": "1.13.2"},
        Text(f'{PROFILE}.schedulerVersion: "1.13.2": ', "1.14.1", "subgroups"),
    ),
    "the version that never schedules them": (
        {"schedulerVersion": "v1.14.0"},
        Text(f'{PROFILE}.schedulerVersion: "v1.14.0": ', "1.14.1", "subgroups"),
    ),
    "a rule that fails closed, softened": (
        {"enforcement": {"rules": {"volcano/topology-tier": "warn"}}},
        Text(f'{PROFILE}.enforcement.rules[volcano/topology-tier]: "warn": cannot be set', "(allowed: deny)"),
    ),
}


@pytest.mark.parametrize(("profile", "problem"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_the_profile_is_reported(profile: dict[str, Any], problem: str) -> None:
    document = {
        "apiVersion": "rollcall.dev/v1alpha1",
        "kind": "RollcallConfiguration",
        "scheduler": {"profiles": [{"name": "volcano", **profile}]},
    }
    with pytest.raises(ConfigurationError) as error:
        settings_from(document, "test")
    assert [str(found) for found in error.value.problems] == [problem]


def test_an_unquoted_off_that_yaml_reads_as_false_means_off() -> None:
    assert settings_of("volcano", {"topology": False}).profiles["volcano"].backend.settings.topology == "off"


def test_hyper_nodes_are_needed_only_if_topology_is_on() -> None:
    groups = Api("scheduling.volcano.sh", "v1beta1", "PodGroup")
    nodes = Api("topology.volcano.sh", "v1alpha1", "HyperNode")
    off, on = (settings_of("volcano", {"topology": mode}).profiles["volcano"].backend for mode in ("off", "hypernode"))
    assert (off.required_apis, on.required_apis) == ((groups,), (groups, nodes))
    served = ClusterFacts(apis=frozenset({groups}))
    assert off.init(served) == ()
    assert on.init(served) == (Text("volcano: ", "v1alpha1 HyperNode"),)
    assert on.init(ClusterFacts(hyper_nodes={})) == (Text("volcano: topology", "no HyperNode"),)
    assert on.init(ClusterFacts()) == off.init(ClusterFacts(hyper_nodes={})) == ()


def test_queues_and_hyper_nodes_are_read_by_name() -> None:
    queue = {"metadata": {"name": "team-a"}, "spec": {"parent": "root"}, "status": {"state": "Open"}}
    assert QUEUE_FACTS.read(queue) == ("team-a", VolcanoQueue("root", "Open"))
    assert QUEUE_FACTS.read({"metadata": {"name": "fresh"}}) == ("fresh", VolcanoQueue(None, None))
    node = {"metadata": {"name": "rack-1"}, "spec": {"tier": 0, "tierName": "rack"}}
    assert HYPER_NODES.read(node) == ("rack-1", HyperNode(0, "rack"))
    assert HYPER_NODES.read({"metadata": {"name": "x"}, "spec": {"tier": 2}}) == ("x", HyperNode(2, None))
    with pytest.raises(Missing, match=r"spec\.tier is missing"):
        HYPER_NODES.read({"metadata": {"name": "x"}, "spec": {}})
    assert [(found.part, found.resource.plural, found.resource.namespaced) for found in PROJECTIONS] == [
        ("volcano_queues", "queues", False),
        ("hyper_nodes", "hypernodes", False),
        ("volcano_pod_groups", "podgroups", True),
    ]
