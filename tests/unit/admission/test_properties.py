"""Properties of admission for every input, with generated inputs."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import pod_clique_sets, reviews
from tests.unit.worlds import koordinator, request, settings_of
from webhook import admission
from webhook.admission.decision import request_from
from webhook.errors import ReviewError
from webhook.model.facts import NO_FACTS
from webhook.model.findings import Action
from webhook.model.keys import pod_group_name
from webhook.model.quantity import parse_quantity
from webhook.offline.judgement import judge
from webhook.testing.strategies import dns_labels, gang_pods

SETTINGS = [koordinator(), koordinator({"defaultQoSClass": "LSR"}, gate=True)]
EVERY_BACKEND = [
    *SETTINGS,
    settings_of("volcano", {"topology": "hypernode"}),
    settings_of("kai-scheduler"),
    settings_of("scheduler-plugins-scheduler"),
]


@given(reviews(), st.sampled_from(EVERY_BACKEND))
def test_any_object_gets_a_verdict(review: dict[str, Any], settings: Any) -> None:
    try:
        asked = request_from(deepcopy(review))
    except ReviewError:
        return
    mutated = admission.mutate(asked, NO_FACTS, settings)
    assert jsonpatch.apply_patch(review["request"]["object"] or {}, list(mutated.patch)) == (asked.object or {})
    judged = admission.validate(asked, NO_FACTS, settings)
    assert judged.allowed is not bool(judged.denials)
    assert all(len(str(finding).encode()) < 2048 for finding in judged.findings)


@given(reviews())
def test_a_failed_review_check_always_has_a_reason(review: dict[str, Any]) -> None:
    try:
        list(judge(review, NO_FACTS, SETTINGS[0]))
    except ReviewError as error:
        assert "\n" not in str(error)


@given(gang_pods() | pod_clique_sets(), st.sampled_from(EVERY_BACKEND))
def test_mutation_is_idempotent(manifest: dict[str, Any], settings: Any) -> None:
    first = admission.mutate(request(manifest), NO_FACTS, settings)
    patched = jsonpatch.apply_patch(manifest, list(first.patch))
    assert admission.mutate(request(patched), NO_FACTS, settings).patch == ()


TOUCHED_ON_PODS = {
    "/metadata/labels/pod-group.scheduling.sigs.k8s.io",
    "/metadata/labels/koordinator.sh~1qosClass",
    "/metadata/labels/quota.scheduling.koordinator.sh~1name",
    "/metadata/annotations",
    "/metadata/annotations/rollcall.dev~1stamp",
    "/spec/schedulerName",
    "/spec/schedulingGates",
    "/spec/schedulingGates/-",
}


@given(gang_pods(), st.sampled_from(SETTINGS))
def test_a_pod_s_patch_changes_only_the_listed_fields(pod: dict[str, Any], settings: Any) -> None:
    patch = list(admission.mutate(request(pod), NO_FACTS, settings).patch)
    assert {op["path"] for op in patch} <= TOUCHED_ON_PODS
    assert {op["op"] for op in patch} <= {"add", "replace"}
    patched = jsonpatch.apply_patch(pod, patch)
    # Maps and lists that were there are never replaced: all they held is still in them.
    assert pod["metadata"]["labels"].items() <= patched["metadata"]["labels"].items()
    assert (pod["metadata"].get("annotations") or {}).items() <= patched["metadata"]["annotations"].items()
    before = pod["spec"].get("schedulingGates") or []
    assert (patched["spec"].get("schedulingGates") or [])[: len(before)] == before
    for key in ("hostname", "subdomain", "containers"):
        assert patched["spec"][key] == pod["spec"][key]


@given(pod_clique_sets())
def test_a_set_s_patch_contains_only_its_record(manifest: dict[str, Any]) -> None:
    patch = admission.mutate(request(manifest), NO_FACTS, SETTINGS[0]).patch
    assert {op["path"] for op in patch} <= {"/metadata/labels", "/metadata/labels/rollcall.dev~1scheduler"}


@given(pod_clique_sets(), st.randoms(use_true_random=False))
def test_an_unchanged_object_is_never_refused_in_any_order_of_its_lists(manifest: dict[str, Any], random: Any) -> None:
    shuffled = deepcopy(manifest)
    random.shuffle(shuffled["spec"]["template"]["cliques"])
    # Which of two divergent cliques is named depends on which comes first; everything else keeps its place.
    if any(finding.rule == "koordinator/divergent-topology" for finding in _create(manifest).findings):
        shuffled = deepcopy(manifest)
    verdict = admission.validate(request(shuffled, manifest), NO_FACTS, SETTINGS[0])
    assert verdict.allowed
    assert all(finding.action < Action.DENY for finding in verdict.findings)


@given(pod_clique_sets(), pod_clique_sets())
def test_the_ratchet_forgives_only_what_was_there(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = {finding.identity for finding in _create(old).findings}
    update = admission.validate(request(new, old), NO_FACTS, SETTINGS[0])
    refused = {finding.identity for finding in update.denials if not finding.forbidden}
    assert refused == {finding.identity for finding in _create(new).denials} - before


def _create(manifest: dict[str, Any]) -> Any:
    return admission.validate(request(manifest), NO_FACTS, SETTINGS[0])


@given(st.text(max_size=300), st.text(max_size=300))
def test_every_gang_has_a_stable_pod_group_name_that_fits_a_label(podgang: str, podgroup: str) -> None:
    name = pod_group_name(podgang, podgroup)
    assert name == pod_group_name(podgang, podgroup)
    assert len(name) <= 63


@given(dns_labels, dns_labels, dns_labels, st.integers(0, 3), st.integers(0, 12))
def test_a_pod_group_name_of_legal_names_is_a_legal_label_value(
    pcs: str, group: str, clique: str, replica: int, index: int
) -> None:
    name = pod_group_name(f"{pcs}-{replica}", f"{pcs}-{replica}-{group}-{index}-{clique}")
    assert name[0].isalnum()
    assert name[-1].isalnum()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@given(
    dns_labels,
    dns_labels,
    st.lists(dns_labels, min_size=1, max_size=4, unique=True),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_the_pod_group_names_of_a_set_never_collide(
    pcs: str, group: str, cliques: list[str], minimum: int, extra: int
) -> None:
    """Every (PodGang, PodClique) pair that Grove makes for one set: base gangs, and scaled ones above the minimum."""
    pairs = set()
    for replica in range(2):
        base = f"{pcs}-{replica}"
        pairs |= {(base, f"{base}-{group}-{index}-{name}") for index in range(minimum) for name in cliques}
        for index in range(minimum, minimum + extra):
            scaled = f"{base}-{group}-{index - minimum}"
            pairs |= {(scaled, f"{base}-{group}-{index}-{name}") for name in cliques}
    names = [pod_group_name(*pair) for pair in pairs]
    assert len(set(names)) == len(names)


@given(st.text(max_size=40) | st.integers() | st.floats() | st.none() | st.booleans())
def test_a_quantity_is_a_number_or_none(value: Any) -> None:
    parsed = parse_quantity(value)
    assert parsed is None or isinstance(parsed, Fraction)
