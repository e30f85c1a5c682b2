"""LimitRanges that refuse the pods of a gang."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.fit.gangs import single
from tests.unit.fit.limited_gangs import container, gang, member
from webhook.fit.ceilings import refusals_of
from webhook.fit.gang_shapes import GangShape
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.facts import ClusterFacts
from webhook.model.resources import LIMIT_RANGES, InNamespaces


def known(kind: str, namespace: str = "team", **item: Any) -> ClusterFacts:
    raw = {"metadata": {"name": "limits", "namespace": namespace}, "spec": {"limits": [{"type": kind, **item}]}}
    read = LIMIT_RANGES.read(raw)
    assert read is not None
    return ClusterFacts(limit_ranges=InNamespaces({read[0]: read[1]}))


def refused(shape: GangShape, kind: str, **item: Any) -> bool:
    found, unknown = refusals_of(shape, known(kind, **item))
    assert unknown == ()
    return bool(found)


TWO = gang(member(requests={"cpu": "1"}, limits={"cpu": "2"}))
PLAIN = gang(member())
ITEMS: dict[str, tuple[GangShape, str, dict[str, Any], bool]] = {
    "a limit at the max": (TWO, "Container", {"max": {"cpu": "2"}}, False),
    "a limit above the max": (TWO, "Container", {"max": {"cpu": "1999m"}}, True),
    "a request above the max": (gang(member(requests={"cpu": "3"})), "Container", {"max": {"cpu": "2"}}, True),
    "a container without a limit gets the max": (PLAIN, "Container", {"max": {"cpu": "2"}}, False),
    "a pod without a limit may get one": (PLAIN, "Pod", {"max": {"cpu": "2"}}, False),
    "a request at the min": (TWO, "Container", {"min": {"cpu": "1"}}, False),
    "a request below the min": (TWO, "Container", {"min": {"cpu": "1001m"}}, True),
    "a missing request may be filled in": (PLAIN, "Container", {"min": {"cpu": "1"}}, False),
    "another resource": (TWO, "Container", {"max": {"memory": "1"}, "min": {"memory": "1Gi"}}, False),
    "the ratio": (TWO, "Container", {"maxLimitRequestRatio": {"cpu": "2"}}, False),
    "more than the ratio": (TWO, "Container", {"maxLimitRequestRatio": {"cpu": "1500m"}}, True),
    "a limit without a request is its own request": (
        gang(member(limits={"cpu": "2"})),
        "Container",
        {"maxLimitRequestRatio": {"cpu": "1"}},
        False,
    ),
    "a storage claim is no pod": (TWO, "PersistentVolumeClaim", {"max": {"cpu": "1"}}, False),
    "defaults refuse nothing": (TWO, "Container", {"default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}, False),
    "a limit that overflows in the API server counts as 0": (
        gang(member(limits={"memory": "10E"})),
        "Container",
        {"max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"memory": "1"}},
        False,
    ),
    "so does a min": (gang(member(requests={"memory": "1"})), "Container", {"min": {"memory": "10E"}}, False),
    "what cannot be read demands nothing": (TWO, "Container", {"max": {"cpu": "many"}}, False),
}


@pytest.mark.parametrize(("shape", "kind", "item", "expected"), ITEMS.values(), ids=ITEMS)
def test_a_limit_range_refuses_pods(shape: GangShape, kind: str, item: dict[str, Any], expected: bool) -> None:
    assert refused(shape, kind, **item) is expected


def test_the_containers_of_a_pod_are_summed_for_the_pod_and_not_for_a_container() -> None:
    both = gang(member(containers=[container({"cpu": "2"}), container({"cpu": "2"})]))
    assert refused(both, "Pod", max={"cpu": "4"}) is False
    assert refused(both, "Pod", max={"cpu": "3"}) is True
    assert refused(both, "Container", max={"cpu": "3"}) is False


def test_the_sum_of_a_pod_may_still_grow_to_the_min() -> None:
    both = gang(member(containers=[container(cpu="1"), container()]))
    assert refused(both, "Pod", min={"cpu": "2"}) is False


def test_init_containers_are_held_against_the_range_as_well() -> None:
    shape = gang(member(initContainers=[container({"cpu": "3"})]))
    assert refused(shape, "Container", max={"cpu": "2"}) is True
    assert refused(shape, "Pod", max={"cpu": "2"}) is True


def test_the_limit_of_the_whole_pod_replaces_those_of_its_containers() -> None:
    shape = gang(member(limits={"cpu": "2"}, resources={"limits": {"cpu": "1"}}))
    assert refused(shape, "Pod", max={"cpu": "1"}, min={}) is True
    assert refused(gang(member(resources={"limits": {"cpu": "2"}})), "Pod", max={"cpu": "1"}) is True


def test_amounts_are_rounded_up_before_they_are_compared() -> None:
    shape = gang(member(requests={"cpu": "0.1m"}, limits={"cpu": "1m"}))
    assert refused(shape, "Container", maxLimitRequestRatio={"cpu": "1"}) is False


def test_a_witness_names_the_field_and_what_to_do() -> None:
    (found,), _ = refusals_of(TWO, known("Container", max={"cpu": "1500m"}))
    assert str(found.at) == "spec.templates[0].spec.containers[0].resources.limits.cpu"
    assert (
        found.why == 'the LimitRange "limits" allows at most 1500m cpu of a Container, so no pod of worker is created'
    )
    assert (found.value, found.remedy) == ("2", "set it to 1500m or less")
    assert (found.family, found.scope, found.own_change) == (FitFamily.QUOTA, FitScope.EVER, False)


def test_memory_is_written_with_its_suffix() -> None:
    shape = gang(member(limits={"memory": "64Gi"}))
    (found,), _ = refusals_of(shape, known("Pod", max={"memory": "32Gi"}))
    assert (found.value, found.remedy) == ("64Gi", "set it to 32Gi or less")


def test_stored_pods_have_passed_and_other_namespaces_do_not_count() -> None:
    facts = known("Pod", max={"cpu": "1"})
    assert refusals_of(TWO._replace(stored=True), facts) == ((), ())
    assert refusals_of(TWO, known("Pod", namespace="other", max={"cpu": "1"})) == ((), ())


def test_unknown_ranges_are_told() -> None:
    found, unknown = refusals_of(TWO, ClusterFacts())
    assert found == ()
    assert "LimitRanges" in single(unknown)


def test_of_several_limit_ranges_the_strictest_counts() -> None:
    """The work for a container does not grow with their number, as a tenant may have many."""
    entries = InNamespaces[Any]()
    for name, most, least, ratio in (("a", "3", "500m", "3"), ("b", "1500m", "250m", "2"), ("c", "2", "1", "1")):
        item = {
            "type": "Container",
            "max": {"cpu": most},
            "min": {"cpu": least},
            "maxLimitRequestRatio": {"cpu": ratio},
        }
        raw = {"metadata": {"name": name, "namespace": "team"}, "spec": {"limits": [item]}}
        key, value = LIMIT_RANGES.read(raw) or (("", ""), ())
        entries[key] = value

    def why(**resources: Any) -> list[str]:
        found, _ = refusals_of(gang(member(**resources)), ClusterFacts(limit_ranges=entries))
        return [one.why.partition(",")[0] for one in found]

    assert why(requests={"cpu": "1"}, limits={"cpu": "2"}) == [
        'the LimitRange "b" allows at most 1500m cpu of a Container'
    ]
    assert why(requests={"cpu": "900m"}) == ['the LimitRange "c" demands at least 1 cpu of a Container']
    assert why(requests={"cpu": "1"}, limits={"cpu": "1500m"}) == [
        'the LimitRange "c" allows at most a limit of 1 times the request for cpu of a Container'
    ]


def test_of_many_limit_ranges_some_are_read() -> None:
    many = InNamespaces[Any]({("team", f"l{index:02}"): () for index in range(33)})
    found, unknown = refusals_of(TWO, ClusterFacts(limit_ranges=many))
    assert found == ()
    assert "above 32" in single(unknown)


def test_of_huge_pages_the_containers_are_summed_even_if_the_pod_states_more() -> None:
    pages = "hugepages-2Mi"
    own = {"requests": {pages: "8Mi"}, "limits": {pages: "8Mi"}}
    shape = gang(member(requests={pages: "2Mi"}, limits={pages: "2Mi"}, resources=own))
    assert refused(shape, "Pod", max={pages: "2Mi"}) is False
    assert refused(shape, "Pod", max={pages: "1Mi"}) is True
