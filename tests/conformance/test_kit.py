"""The conformance kit: a sound backend passes it, and each of its checks catches a broken backend."""

from __future__ import annotations

import inspect
import itertools
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tests.conformance.broken import (
    Lenient,
    Strict,
    adopting,
    broken,
    emptied,
    freezing,
    judging,
    mapped,
    mapping_out,
    named,
    preparing,
    racked,
    racking,
    raising,
    referring,
    settling,
    translating,
    vandal,
    with_metadata,
)
from tests.conformance.sound import GANG, GROUP, MAP, REMEDY, WHY, MappedBackend, RackedBackend, SoundBackend, topology
from webhook.backends.base import BackendSettings
from webhook.model.capabilities import Capability, capabilities_used, unsupported
from webhook.model.claims import Mark
from webhook.model.findings import Action, Finding
from webhook.model.grove import ClusterTopologyBinding, PodGang
from webhook.model.projections import Resource
from webhook.model.topology_tree import DriftReason, TopologyDrift
from webhook.testing import BackendConformance
from webhook.validators.examples import pod_clique_set
from webhook.validators.pod_guard import NEEDS_WORKLOAD
from webhook.validators.registry import Subject
from webhook.workloads.pod_clique_set import PodCliqueSet

CONFIGURATIONS: tuple[dict[str, Any], ...] = ({}, {"queue": "other"})
CHECKS = sorted(name for name in dir(BackendConformance) if name.startswith("test_"))


class TestSoundBackend(BackendConformance):
    backend = SoundBackend
    configurations = CONFIGURATIONS


class TestMappedBackend(BackendConformance):
    backend = MappedBackend
    configurations = CONFIGURATIONS


class TestRackedBackend(BackendConformance):
    backend = RackedBackend


class Case(NamedTuple):
    backend: type[SoundBackend]
    told: str


AT = next(iter(capabilities_used(PodCliqueSet(deepcopy(topology.fails.object)))[Capability.TOPOLOGY_WORKLOAD])).path
COUNTER = itertools.count()
BROKEN: dict[str, list[Case]] = {
    "test_its_name_can_be_a_scheduler_name": [Case(broken(name="Sound_Scheduler"), "lower-case letters")],
    "test_its_settings_have_defaults_and_refuse_unknown_keys": [
        Case(broken(settings_model=Strict), "every field a default"),
        Case(broken(settings_model=Lenient), "takes the unknown key"),
    ],
    "test_it_takes_the_configurations_of_its_suite": [
        Case(broken(settings_model=type("Other", (BackendSettings,), {})), "take the configuration")
    ],
    "test_each_rule_about_pods_sees_the_pods_that_it_judges": [
        Case(judging(Finding(AT, "x", WHY, REMEDY), subject=Subject.POD, guard=NEEDS_WORKLOAD), "no trait of its guard")
    ],
    "test_each_rule_looks_at_what_it_judges": [
        Case(
            judging(Finding(AT, "x", WHY, REMEDY), looks_at=frozenset({"example.com/none"})),
            "nothing of its `looks_at`",
        )
    ],
    "test_its_capability_table_says_why_and_what_to_do": [
        Case(broken(capabilities={Capability.QUEUE: unsupported("it has none", "")}), "is empty"),
        Case(
            broken(capabilities={Capability.QUEUE: unsupported("Pods have no queue", "use none")}),
            "capitalised word Pods",
        ),
        Case(broken(capabilities={Capability.QUEUE: unsupported("it has none", "use none.")}), "ends in '.'"),
        Case(broken(capabilities={"queues": unsupported("it has none", "use none")}), "keys of Capability"),
    ],
    "test_its_apis_and_projections_are_of_the_declared_types": [
        Case(broken(required_apis=("v1/Gang",)), "Api values"),
        Case(broken(projections=("gangs",)), "Projection values"),
    ],
    "test_it_starts_whatever_is_known_of_the_cluster": [
        Case(broken(init=lambda self, facts: tuple(map(str, facts.volcano_queues))), "init or dialect raised"),
        Case(broken(init=lambda self, facts: ["no list"]), "a tuple of reasons"),
    ],
    "test_it_says_at_start_that_the_kinds_it_writes_are_not_served": [
        Case(broken(required_apis=SoundBackend.required_apis[:1]), "does not list"),
        Case(broken(required_apis=()), "init reports nothing"),
    ],
    "test_each_rule_has_an_id_of_its_own_under_one_prefix": [
        Case(broken(rules=(topology, topology)), "two rules are called sound/topology"),
        Case(broken(rules=(replace(topology, id="grove/topology"),)), "use one prefix"),
        Case(broken(rules=(replace(topology, id="Topology"),)), "name it PREFIX/"),
    ],
    "test_each_rule_says_why_it_exists_and_how_that_is_known": [
        Case(judging(), "end it with"),
    ],
    "test_each_rule_passes_the_example_that_is_right": [
        Case(judging(Finding(AT, "rack", WHY, REMEDY), capabilities=frozenset()), "its passing example")
    ],
    "test_each_rule_finds_the_example_that_is_wrong": [Case(judging(), "its failing example")],
    "test_what_the_capability_table_refuses_is_refused_by_a_rule": [
        Case(broken(rules=()), "no rule refuses it"),
        Case(broken(rules=(replace(topology, default=Action.WARN, fails_closed=False),)), "no rule refuses it"),
    ],
    "test_each_finding_is_short_and_says_what_to_do": [
        Case(judging(Finding(AT, "rack", WHY, "")), "is empty"),
        Case(judging(Finding(AT, "rack", f"{WHY}!", REMEDY)), "an exclamation mark"),
        Case(judging(Finding(AT, "rack", WHY * 9, REMEDY), default=Action.WARN, fails_closed=False), "cuts a warning"),
    ],
    "test_each_denial_is_told_whole_however_long_the_names_in_it": [
        Case(judging(Finding(AT, "rack", f"{WHY}: {pod_clique_set()}" * 3, REMEDY)), "a denial is cut")
    ],
    "test_an_update_is_not_blamed_for_what_was_there_before": [
        Case(
            broken(
                rules=(
                    replace(
                        topology,
                        check=lambda workload, context: iter([Finding(AT, next(COUNTER), WHY, REMEDY)]),
                        fails_closed=False,
                    ),
                )
            ),
            "refuses an update",
        )
    ],
    "test_what_no_rule_refuses_can_be_translated": [Case(broken(rules=()), "admit a workload")],
    "test_preparing_a_pod_gives_the_same_answer_every_time": [
        Case(preparing(lambda _, made: replace(made, inputs=(str(next(COUNTER)),))), "prepared differently")
    ],
    "test_preparing_a_pod_works_for_any_names": [
        Case(
            preparing(lambda member, made: made if member.podgang.isascii() else raising()),
            "work for every input",
        )
    ],
    "test_what_a_pod_is_given_is_legal": [
        Case(
            preparing(lambda member, made: replace(made, labels={f"{GROUP}/part": member.podgang + member.podclique})),
            "no pod can have",
        ),
        Case(preparing(lambda _, made: replace(made, scheduler_name="other")), "the backend's own name"),
        Case(preparing(lambda _, made: replace(made, annotations={"a": 1})), "annotations are strings"),  # type: ignore[dict-item]
    ],
    "test_the_stamp_changes_with_what_a_pod_is_given": [
        Case(preparing(lambda _, made: replace(made, inputs=made.inputs[:1])), "settings included")
    ],
    "test_a_prepared_pod_needs_nothing_more": [
        Case(
            preparing(
                lambda _, made: replace(
                    made,
                    labels={"scheduling.k8s.io/group-name": "a"},
                    annotations={"scheduling.k8s.io/group-name": "b", f"{GROUP}/n": str(next(COUNTER))},
                )
            ),
            "is changed again",
        )
    ],
    "test_a_patch_sets_single_keys_and_leaves_alone_what_is_others": [
        Case(preparing(lambda _, made: replace(made, labels={"grove.io/podgang": "mine"})), "touches /metadata/labels"),
        Case(preparing(lambda _, made: replace(made, default_fields={"nodeName": "n1"})), "touches /spec/nodeName"),
        Case(
            preparing(lambda _, made: replace(made, default_fields={"schedulingGates": [{"name": "mine"}]})),
            "touches /spec/schedulingGates",
        ),
    ],
    "test_a_pod_of_another_system_is_left_alone_with_a_note": [
        Case(preparing(lambda _, made: replace(made, default_fields={"pod-group-name": "mine"})), "is changed")
    ],
    "test_the_net_lets_a_prepared_pod_through": [
        Case(broken(membership=((Mark("labels", f"{GROUP}/other"),),)), "has none of"),
    ],
    "test_the_net_stops_a_pod_that_was_not_prepared": [
        Case(broken(membership=((),)), "admitted by ((),), and prepare_pod would still write"),
    ],
    "test_a_gang_that_asks_for_nothing_special_is_expressed": [
        Case(
            broken(
                gang_objects=lambda self, podgang, record, facts: SoundBackend.gang_objects(
                    self,
                    PodGang({**podgang.raw, "spec": {"topologyConstraint": {"packConstraint": {"required": "x"}}}}),
                    record,
                    facts,
                )
            ),
            "cannot be expressed",
        )
    ],
    "test_a_gang_is_expressed_as_a_whole_or_refused_with_a_reason": [
        Case(broken(gang_objects=raising), "raise Inexpressible"),
        Case(broken(rules=()), "names the rules"),
    ],
    "test_gang_objects_are_the_same_every_time_and_leave_the_podgang_as_it_is": [
        Case(translating(vandal), "argument, the PodGang"),
        Case(translating(lambda _, made: [{**made[0], "spec": {"n": next(COUNTER)}}]), "the second time"),
        Case(translating(lambda _, made: [{**made[0], "spec": {"names": ("a", "b")}}]), "what it will be in JSON"),
    ],
    "test_gang_objects_belong_to_their_podgang": [
        Case(translating(lambda _, made: [with_metadata(one, labels={}) for one in made]), "does not have"),
        Case(translating(lambda _, made: [with_metadata(one, ownerReferences=[]) for one in made]), "not controlled"),
        Case(translating(lambda _, made: [with_metadata(one, namespace="x") for one in made]), "put it into"),
        Case(translating(lambda _, made: [{**one, "status": {}} for one in made]), "sets status"),
    ],
    "test_a_pod_names_an_object_that_is_written_for_it": [
        Case(preparing(lambda _, made: replace(made, labels={f"{GROUP}/part": "other"})), "with the same function")
    ],
    "test_a_renamed_podgang_keeps_its_objects": [
        Case(
            translating(lambda gang, made: named(made, lambda at, _: f"{gang.name}-{at}")),
            "not from podgang.name",
        ),
        Case(
            translating(lambda gang, made: [{**one, "spec": {"gangName": gang.name}} for one in made]),
            "by podgang.gang",
        ),
        Case(
            translating(
                lambda gang, made: [
                    with_metadata(one, labels={**one["metadata"]["labels"], "rollcall.dev/gang": gang.name})
                    for one in made
                ]
            ),
            "does not name both",
        ),
    ],
    "test_the_gang_of_each_member_is_found_in_the_gang_heads": [
        Case(broken(gang_heads=()), "list in gang_heads"),
        Case(broken(gang_heads=(Resource(MAP, "maps"),)), "than its siblings"),
        Case(translating(lambda _, made: [with_metadata(one, labels={}) for one in made]), "with webhook.model"),
    ],
    "test_an_object_comes_after_those_that_it_refers_to": [
        Case(translating(lambda _, made: made[::-1]), "spec.gangName to an"),
        Case(translating(lambda _, made: referring(made)[::-1]), "spec.gangRef.name to an"),
    ],
    "test_names_and_labels_are_legal_however_long_the_podgang_s_are": [
        Case(translating(lambda _, made: named(made, lambda _, name: f"{name}-of-the-gang")), "cut names with"),
        Case(
            translating(lambda gang, made: [with_metadata(one, labels={"gang": gang.name}) for one in made]),
            "cut the values of labels",
        ),
    ],
    "test_names_depend_neither_on_the_order_of_members_nor_on_uids": [
        Case(translating(lambda gang, made: named(made, lambda _, name: f"{gang.uid}"[:60])), "names of the PodGang"),
        Case(translating(lambda gang, made: named(made, lambda at, _: f"{gang.members[0].name}-{at}")), "order"),
    ],
    "test_no_two_podgangs_share_an_object": [
        Case(translating(lambda gang, made: named(made, lambda at, _: f"{gang.name[:12]}-{at}")), "both have"),
        Case(translating(lambda _, made: [*made, made[-1]]), "the same kind and name"),
    ],
    "test_adoption_survives_any_live_object": [
        Case(adopting(lambda desired, live: {**desired, "was": live and live["spec"]["queue"]}), "adopt raised"),
        Case(adopting(emptied), "one of its arguments"),
    ],
    "test_adoption_keeps_whose_an_object_is_and_writes_no_status": [
        Case(adopting(lambda desired, live: with_metadata(desired, ownerReferences=[])), "adopt lost"),
        Case(adopting(lambda desired, live: {**desired, "status": {}}), "that other writers own"),
    ],
    "test_adoption_has_settled_after_one_step": [
        Case(
            adopting(lambda desired, live: {**desired, "spec": {"n": desired["spec"].get("n", 0) + 1}}),
            "make adopt idempotent",
        ),
        Case(
            adopting(
                lambda desired, live: {**desired, "spec": {"n": ((live or {}).get("spec") or {}).get("n", 0) + 1}}
            ),
            "written again",
        ),
    ],
    "test_settling_keeps_the_kinds_of_a_gang_and_changes_nothing_of_a_new_one": [
        Case(settling(lambda desired, live: [with_metadata(one, name="x") for one in desired]), "has no objects yet"),
        Case(settling(lambda desired, live: desired if not live else raising()), "settle raised"),
        Case(settling(lambda desired, live: live.clear() or desired), "changed the live objects"),
        Case(settling(lambda desired, live: [] if live else desired), "changed which kinds"),
        Case(
            settling(lambda desired, live: [with_metadata(one, labels={}) for one in desired] if live else desired),
            "their metadata",
        ),
        Case(
            settling(lambda desired, live: [with_metadata(one, name="x") for one in desired] if live else desired),
            "their metadata",
        ),
    ],
    "test_a_released_minimum_keeps_what_it_was": [
        Case(adopting(lambda desired, live: desired), "last positive minimum")
    ],
    "test_a_topology_object_is_of_the_declared_kind_and_belongs_to_its_binding": [
        Case(mapped(topology_kind=None), "topology_kind to its"),
        Case(mapped(topology_kind=MAP), "of a cluster-scoped kind"),
        Case(mapped(topology_kind=Resource(MAP, "maps")), "of a cluster-scoped kind"),
        Case(mapped(topology_kind=Resource(GANG, "gangs", namespaced=False)), "topology_kind to its"),
        Case(mapping_out(lambda made: []), "no object is made"),
        Case(mapping_out(lambda made: [*made, *made]), "make one at most"),
        Case(
            mapping_out(lambda made: [with_metadata(one, namespace="team") for one in made]),
            "that other writers set",
        ),
        Case(mapping_out(lambda made: [with_metadata(one, labels={}) for one in made]), "does not have"),
        Case(mapping_out(lambda made: [with_metadata(one, ownerReferences=[]) for one in made]), "not controlled"),
        Case(mapping_out(lambda made: [{**one, "spec": {"n": next(COUNTER)}} for one in made]), "the second time"),
    ],
    "test_a_topology_object_of_another_system_is_compared_and_not_made": [
        Case(
            mapped(
                topology_objects=lambda self, binding: MappedBackend.topology_objects(
                    self, ClusterTopologyBinding({**binding.raw, "spec": {"levels": binding.raw["spec"]["levels"]}})
                )
            ),
            "return an empty list",
        ),
        Case(mapped(topology_drift=lambda self, binding, live: None), "DriftReason.NOT_FOUND"),
        Case(
            mapped(topology_drift=lambda self, binding, live: MappedBackend.topology_drift(self, binding, None)),
            "compare the levels",
        ),
    ],
    "test_a_topology_object_is_in_step_as_it_was_made_and_not_after_a_change": [
        Case(mapped(topology_must_be_remade=lambda self, desired, live: True), "is written for ever"),
        Case(mapped(topology_drift=lambda self, binding, live: None), "one line that names both"),
        Case(
            mapped(
                topology_must_be_remade=lambda self, desired, live: False,
                adopt=lambda self, desired, live: {**desired, "spec": (live or desired)["spec"]},
            ),
            "still differs",
        ),
    ],
    "test_a_topology_from_nodes_belongs_to_its_binding_and_agrees_with_it": [
        Case(racking(lambda made: [with_metadata(one, labels={}) for one in made]), "does not have"),
        Case(racking(lambda made: []), "at least one object"),
        Case(racking(lambda made: [with_metadata(one, name="x") for one in made]), "a name of its own"),
        Case(racking(lambda made: [{**one, "spec": {"n": next(COUNTER)}} for one in made]), "the second time"),
        Case(
            racked(node_topology_drift=lambda self, binding, nodes, live: TopologyDrift("x", DriftReason.DRIFT, "x")),
            "for ever",
        ),
        Case(racked(node_topology_drift=lambda self, binding, nodes, live: None), "says what differs"),
        Case(
            racked(
                node_topology_objects=lambda self, binding, nodes, live: RackedBackend.node_topology_objects(
                    self, binding, nodes, {}
                )
            ),
            "return them as left_out",
        ),
    ],
    "test_a_topology_object_survives_whatever_is_in_the_cluster": [
        Case(mapped(topology_must_be_remade=lambda self, desired, live: live["spec"]["keys"][0] == 1), "raised"),
        Case(
            mapped(topology_must_be_remade=lambda self, desired, live: bool(desired.pop("spec"))),
            "one of its arguments",
        ),
        Case(
            mapped(adopt=lambda self, desired, live: with_metadata(desired, labels={})),
            "no longer be recognised",
        ),
        Case(
            mapped(adopt=lambda self, desired, live: {**desired, "spec": {"n": next(COUNTER)}}),
            "written again",
        ),
    ],
    "test_a_gang_that_does_not_change_is_never_frozen": [
        Case(freezing(lambda desired, live: () if len(live) < len(desired) else None), "could not be completed")
    ],
    "test_what_is_frozen_can_be_recreated": [
        Case(freezing(raising), "frozen raised"),
        Case(freezing(lambda desired, live: live.clear()), "one of its arguments"),
        Case(freezing(lambda desired, live: (*desired, {})), "not one of the live"),
        Case(freezing(lambda desired, live: live[:1]), "in an endless loop"),
    ],
}
# The first way to break each check is in the loop.
CASES = [
    pytest.param(check, case, id=check, marks=pytest.mark.exhaustive if place else ())
    for check, cases in BROKEN.items()
    for place, case in enumerate(cases)
]


def run(check: str, backend: type[SoundBackend]) -> None:
    """One check of the kit, under each configuration, as pytest would run it."""
    suite = type("Suite", (BackendConformance,), {"backend": backend, "configurations": CONFIGURATIONS})()
    method = getattr(suite, check)
    if "configuration" not in inspect.signature(method).parameters:
        method()
        return
    for configuration in CONFIGURATIONS:
        method(configuration=configuration)


@pytest.mark.parametrize(("check", "case"), CASES)
def test_the_kit_catches_a_broken_backend_and_names_the_fix(check: str, case: Case) -> None:
    with pytest.raises(AssertionError) as failure:
        run(check, case.backend)
    assert case.told in str(failure.value)


@pytest.mark.parametrize("check", CHECKS)
def test_each_check_catches_a_broken_backend(check: str) -> None:
    assert BROKEN.get(check)
