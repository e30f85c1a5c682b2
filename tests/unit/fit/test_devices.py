"""Devices of dynamic resource allocation: what gangs need, and what nodes can have."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.fit.gangs import single
from tests.unit.fit.limited_gangs import gang, member
from webhook.fit.gang_shapes import GangShape, shapes_of_workload
from webhook.fit.resource_requests import (
    ALL_DRIVERS,
    UNBOUNDED,
    NodeDevices,
    PodDevices,
    device_needs_of,
    device_refusals,
    devices_on,
)
from webhook.fit.verdict import FitFamily, FitScope, Witness
from webhook.model.facts import ClusterFacts
from webhook.model.projections import Projection
from webhook.model.reading import Malformed
from webhook.model.resources import (
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Summarized,
)
from webhook.validators.examples import job, pod_template
from webhook.workloads.job import Job

DRIVER = "gpu.example.com"
IS_GPU = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}


def sliced(name: str, gpus: int = 0, **spec: Any) -> dict[str, Any]:
    """A slice of a complete pool, for one node unless `spec` says otherwise."""
    where = {} if spec.keys() & {"allNodes", "nodeSelector", "perDeviceNodeSelection"} else {"nodeName": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            **where,
            "devices": [{"name": f"gpu-{n}"} for n in range(gpus)],
            **spec,
        },
    }


def read(projection: Projection, *objects: dict[str, Any]) -> Any:
    entries = projection.entries()
    for raw in objects:
        found = projection.read(raw)
        if found is not None:
            entries[found[0]] = found[1]
    return entries


def in_slices(*slices: dict[str, Any]) -> NodeDevices:
    found = devices_on(ClusterFacts(resource_slices=read(RESOURCE_SLICES, *slices)))
    assert found is not None
    return found


def test_a_node_has_the_devices_of_its_slices() -> None:
    found = in_slices(sliced("n1", 8), sliced("n2", 4))
    assert (found.devices_of("n1"), found.devices_of("n2")) == (
        {DRIVER: 8, ALL_DRIVERS: 8},
        {DRIVER: 4, ALL_DRIVERS: 4},
    )
    assert found.drivers == {DRIVER}


@pytest.mark.parametrize("where", [{"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": []}}])
def test_devices_that_several_nodes_can_use_count_for_each_of_them(where: dict[str, Any]) -> None:
    found = in_slices(sliced("n1", 8), sliced("net", 2, **where))
    assert found.devices_of("n1")[DRIVER] == 10


def test_a_slice_may_say_for_each_device_which_node_can_use_it() -> None:
    devices = [{"name": "a", "nodeName": "n1"}, {"name": "b", "nodeName": "n1"}, {"name": "c", "allNodes": True}]
    found = in_slices(sliced("any", perDeviceNodeSelection=True, devices=devices))
    assert found.devices_of("n1")[DRIVER] == 3


def test_on_a_node_without_devices_of_a_driver_it_may_not_have_started() -> None:
    found = in_slices(sliced("n1", 8), sliced("empty", 0))
    assert found.devices_of("n2") == {DRIVER: UNBOUNDED, ALL_DRIVERS: UNBOUNDED}
    assert found.devices_of("empty")[DRIVER] == UNBOUNDED


def test_nothing_is_claimed_of_a_driver_whose_slices_are_being_written() -> None:
    pool = {"name": "n1", "generation": 2, "resourceSliceCount": 2}
    found = in_slices(sliced("n1", 8), sliced("n1-new", 4, nodeName="n1", pool=pool), sliced("n2", 8))
    assert (found.drivers, found.devices_of("n2")[DRIVER]) == (frozenset(), UNBOUNDED)


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    pool = {"name": "n1", "generation": 2, "resourceSliceCount": 1}
    found = in_slices(sliced("n1", 8), {**sliced("n1-new", 4), "spec": {**sliced("n1", 4)["spec"], "pool": pool}})
    assert found.devices_of("n1")[DRIVER] == 4


def test_a_node_that_a_newer_generation_does_not_concern_still_has_the_older_one() -> None:
    """kube-scheduler looks for newer slices among those of the node only, if the older ones are complete."""
    pool = {"name": "gpus", "generation": 1, "resourceSliceCount": 1}
    older = sliced("old", 8, nodeName="n1", pool=pool)
    newer = sliced("new", 8, nodeName="n2", pool={**pool, "generation": 2})
    found = in_slices(older, newer, sliced("n1", 1))
    assert (found.drivers, found.devices_of("n1")[DRIVER]) == (frozenset(), UNBOUNDED)
    assert in_slices(sliced("old", 8, allNodes=True, pool=pool), newer, sliced("n1", 1)).drivers == frozenset()


def test_a_device_that_can_be_allocated_several_times_is_not_counted() -> None:
    found = in_slices(sliced("n1", devices=[{"name": "a", "allowMultipleAllocations": True}]))
    assert (found.drivers, found.devices_of("n1")[DRIVER]) == (frozenset(), UNBOUNDED)


def test_devices_of_the_first_version_of_the_api_are_read() -> None:
    shared = {"name": "a", "basic": {"allowMultipleAllocations": True}}
    assert in_slices(sliced("n1", devices=[shared])).drivers == frozenset()
    assert in_slices(sliced("n1", devices=[{"name": "a", "basic": {}}])).devices_of("n1")[DRIVER] == 1


def test_unknown_slices_and_some_slices_say_nothing() -> None:
    assert devices_on(ClusterFacts()) is None
    some = ClusterFacts(resource_slices=read(RESOURCE_SLICES), partial=frozenset({"resource_slices"}))
    assert devices_on(some) is None


def test_a_change_that_changes_no_count_leaves_the_facts_as_they_are() -> None:
    slices = read(RESOURCE_SLICES, sliced("n1", 8))
    facts = ClusterFacts(resource_slices=slices)
    before = devices_on(facts)
    raw = deepcopy(sliced("n1", 8))
    for device in raw["spec"]["devices"]:
        device |= {"attributes": {"temperature": {"int": 80}}, "taints": [{"key": "a", "effect": "NoSchedule"}]}
    name, same = RESOURCE_SLICES.read(raw) or ("", None)
    slices[name] = same
    assert devices_on(facts) is before
    name, other = RESOURCE_SLICES.read(sliced("n1", 4)) or ("", None)
    slices[name] = other
    assert (devices_on(facts) or in_slices()).devices_of("n1")[DRIVER] == 4


def test_a_removed_entry_is_forgotten() -> None:
    slices: Summarized[str, Any] = read(RESOURCE_SLICES, sliced("n1", 8), sliced("n2", 8))
    facts = ClusterFacts(resource_slices=slices)
    assert (devices_on(facts) or in_slices()).devices_of("n1")[DRIVER] == 8
    del slices["n1"]
    assert (devices_on(facts) or in_slices()).devices_of("n1")[DRIVER] == UNBOUNDED
    slices.pop("n2")
    assert devices_on(facts) == NodeDevices({}, {}, frozenset())


def exactly(count: int | None = None, name: str = "a", device_class: str = "gpu", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count, **more}}


def of_class(name: str = "gpu", selectors: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selectors": [IS_GPU] if selectors is None else selectors, **spec}}


BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
BY_NAME = {"name": "gpu", "resourceClaimName": "gpus"}


def facts(
    *requests: dict[str, Any],
    slices: tuple[dict[str, Any], ...] = (sliced("n1", 8),),
    classes: tuple[dict[str, Any], ...] = (of_class(),),
) -> ClusterFacts:
    spec = {"devices": {"requests": list(requests)}}
    metadata = {"name": "gpus", "namespace": "team"}
    return ClusterFacts(
        resource_slices=read(RESOURCE_SLICES, *slices),
        device_classes=read(DEVICE_CLASSES, *classes),
        resource_claim_templates=read(RESOURCE_CLAIM_TEMPLATES, {"metadata": metadata, "spec": {"spec": spec}}),
        resource_claims=read(RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec}),
    )


def needs(known: ClusterFacts, *claims: dict[str, str], **spec: Any) -> PodDevices:
    pods = member(resourceClaims=list(claims or (BY_TEMPLATE,)), **spec)
    return device_needs_of(pods, gang(pods), known)


def counts(known: ClusterFacts, *claims: dict[str, str]) -> list[tuple[str, int, str | None]]:
    return [(need.device_class, need.number, need.driver) for need in needs(known, *claims).each]


def test_a_claim_needs_as_many_different_devices_as_it_counts() -> None:
    assert counts(facts(exactly(2), exactly(name="b"))) == [("gpu", 2, DRIVER), ("gpu", 1, DRIVER)]


def test_of_alternatives_the_least_is_needed() -> None:
    ways = [{"name": str(n), "deviceClassName": "gpu", "count": n} for n in (4, 2)]
    assert counts(facts({"name": "a", "firstAvailable": ways})) == [("gpu", 2, DRIVER)]


def test_alternatives_of_several_drivers_may_take_any() -> None:
    ways = [{"name": name, "deviceClassName": name, "count": 2} for name in ("gpu", "other")]
    classes = (of_class(), of_class("other", [{"cel": {"expression": 'device.driver == "other.example.com"'}}]))
    assert counts(facts({"name": "a", "firstAvailable": ways}, classes=classes)) == []


def test_all_devices_are_at_least_one() -> None:
    assert counts(facts(exactly(allocationMode="All"))) == [("gpu", 1, DRIVER)]


def test_admin_access_takes_no_device() -> None:
    assert counts(facts(exactly(4, adminAccess=True))) == []


def test_an_allocation_mode_of_a_later_release_may_need_none() -> None:
    assert counts(facts(exactly(4, allocationMode="Some"))) == []


def test_requests_of_the_first_version_of_the_api_are_read() -> None:
    flat = {"name": "a", "deviceClassName": "gpu", "count": 3}
    assert counts(facts(flat)) == [("gpu", 3, DRIVER)]
    assert counts(facts({**flat, "adminAccess": True})) == []


def test_a_claim_that_pods_name_is_counted_once_for_all_of_them() -> None:
    found = needs(facts(exactly(4)), BY_NAME)
    assert found.each == ()
    assert [(one.claim, [need.number for need in one.devices]) for one in found.shared] == [("gpus", [4])]


def test_a_job_that_lists_claims_for_its_pod_group_is_not_judged() -> None:
    manifest = job(template=pod_template({"resourceClaims": [BY_TEMPLATE]}))
    assert len(shapes_of_workload(Job(manifest))) == 1
    manifest["spec"]["scheduling"] = {"resourceClaims": [BY_TEMPLATE]}
    assert shapes_of_workload(Job(manifest)) == []


def test_claims_of_a_pod_in_a_group_that_others_wrote_are_left_out() -> None:
    group = {"podGroupName": "some"}
    assert needs(facts(exactly(4)), schedulingGroup=group) == PodDevices()
    pods = member(resourceClaims=[BY_TEMPLATE], schedulingGroup=group)
    assert len(device_needs_of(pods, gang(pods, stored=True), facts(exactly(4))).each) == 1


SELECTORS: dict[str, tuple[str, str | None]] = {
    "the driver alone": ("device.driver == 'gpu.example.com'", DRIVER),
    "the driver and more": (
        f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"',
        DRIVER,
    ),
    "the driver or more": (f'device.driver == "{DRIVER}" && true || true', None),
    "the driver in a condition": (f'device.driver == "{DRIVER}" && true ? true : true', None),
    "not the driver": (f'device.driver != "{DRIVER}"', None),
    "the driver at the end": (f'true || device.driver == "{DRIVER}"', None),
    "the start of a driver": ('device.driver.startsWith("gpu")', None),
    "another comparison": (f'device.driver == "{DRIVER}" == false', None),
    "a calculated name": ('device.driver == "gpu." + "example.com"', None),
    "a text with an escape": ('device.driver == "gpu.exampl\\x65.com"', None),
}


@pytest.mark.parametrize(("expression", "driver"), SELECTORS.values(), ids=SELECTORS)
def test_only_an_exact_comparison_tells_the_driver(expression: str, driver: str | None) -> None:
    classes = (of_class(selectors=[{"cel": {"expression": expression}}]),)
    assert counts(facts(exactly(2), classes=classes)) == ([] if driver is None else [("gpu", 2, driver)])


def test_a_request_may_tell_the_driver_itself() -> None:
    known = facts(exactly(2, selectors=[IS_GPU]), classes=(of_class(selectors=[]),))
    assert counts(known) == [("gpu", 2, DRIVER)]


def test_nothing_is_needed_of_a_driver_without_slices_or_of_an_unsure_one() -> None:
    assert counts(facts(exactly(2), slices=())) == []
    shared = sliced("n1", devices=[{"name": "a", "allowMultipleAllocations": True}])
    assert counts(facts(exactly(2), slices=(shared,))) == []


def test_of_a_claim_whose_devices_are_not_counted_no_node_is_known_to_have_them() -> None:
    """So the gang is not said to fit."""
    any_driver = (of_class(selectors=[{"cel": {"expression": "device.attributes['a'].model == 'b'"}}]),)
    for known in (facts(exactly(2), slices=()), facts(exactly(2), classes=any_driver), facts(exactly(2), classes=())):
        assert "ResourceClaimTemplate gpus" in single(needs(known).unknown)
    assert "ResourceClaimTemplate gpus" in single(needs(facts(exactly(2, adminAccess=True))).unknown)
    assert needs(facts(exactly(2))).unknown == ()


def test_of_the_claims_of_a_pod_some_are_read() -> None:
    many = [{"name": f"gpu-{index}", "resourceClaimTemplateName": "gpus"} for index in range(10_000)]
    found = needs(facts(exactly(1)), *many)
    assert len(found.each) == 16
    assert "ResourceClaims of a pod" in single(found.unknown)


def test_what_is_unknown_is_told() -> None:
    known = facts(exactly(2))
    other = {"name": "x", "resourceClaimTemplateName": "other"}
    assert "ResourceClaimTemplate other" in single(needs(known, other).unknown)
    assert "ResourceSlices" in single(needs(ClusterFacts()).unknown)
    pods = member()
    assert device_needs_of(pods, gang(pods), ClusterFacts()) == PodDevices()


def test_a_claim_that_was_made_for_a_pod_is_not_kept() -> None:
    raw: Any = {"metadata": {"name": "a", "namespace": "team", "ownerReferences": [{"kind": "Pod"}]}, "spec": {}}
    assert RESOURCE_CLAIMS.read(raw) is None
    raw["metadata"]["ownerReferences"] = [{"kind": ["Pod"]}]
    with pytest.raises(Malformed):
        RESOURCE_CLAIMS.read(raw)


def test_a_claim_that_has_its_devices_needs_no_more() -> None:
    """Its driver may have removed a device since: kube-scheduler places pods by what was allocated."""
    known = facts(exactly(4))
    raw = {
        "metadata": {"name": "gpus", "namespace": "team"},
        "spec": {"devices": {"requests": [exactly(4)]}},
        "status": {"allocation": {"devices": {"results": []}}},
    }
    allocated = replace(known, resource_claims=read(RESOURCE_CLAIMS, raw))
    found = needs(allocated, BY_NAME)
    assert "ResourceClaim gpus has its devices" in single(found.unknown)
    assert found == PodDevices(unknown=found.unknown)


def claiming(minimum: int = 4, claim: dict[str, str] | None = None) -> GangShape:
    return gang(member(minimum=minimum, resourceClaims=[claim or BY_TEMPLATE]))


def refusals(minimum: int, known: ClusterFacts, claim: dict[str, str] | None = None) -> tuple[Witness, ...]:
    shape = claiming(minimum, claim)
    return device_refusals(shape, known, {shape.members[0].called: minimum})


def test_pods_that_start_alone_may_use_a_claim_in_turn() -> None:
    shape = claiming(257, BY_NAME)
    assert device_refusals(shape, facts(exactly()), {shape.members[0].called: 1}) == ()


def test_a_claim_of_more_than_32_devices_is_never_allocated() -> None:
    (found,) = refusals(4, facts(exactly(30), exactly(3, name="b")))
    # A new ResourceClaimTemplate of that name cures it, too.
    assert (found.family, found.scope, found.own_change) == (FitFamily.DEVICES, FitScope.EVER, False)
    assert found.why == ("the ResourceClaimTemplate gpus requests at least 33 devices, and a claim has 32 at most")
    assert str(found.at) == "spec.templates[0].spec.resourceClaims[0]"
    assert refusals(4, facts(exactly(30), exactly(2, name="b"))) == ()


def test_all_devices_of_a_node_may_be_few() -> None:
    assert refusals(4, facts(exactly(32), exactly(name="b", allocationMode="All"))) == ()


@pytest.mark.parametrize(("pods", "refused"), [(256, 0), (257, 1)])
def test_a_shared_claim_has_256_consumers_at_most(pods: int, refused: int) -> None:
    found = refusals(pods, facts(exactly()), BY_NAME)
    assert [one.own_change for one in found] == [True] * refused
    assert refusals(pods, facts(exactly())) == ()
