"""ResourceQuotas as ceilings on a gang."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.fit.gangs import single
from tests.unit.fit.limited_gangs import container, gang, member, too_low
from webhook.fit.ceilings import namespace_ceilings
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import Ceilings
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.facts import ClusterFacts
from webhook.model.resources import RESOURCE_QUOTAS, InNamespaces, NamespaceQuota, requests_in

GPU = "nvidia.com/gpu"
# 4 pods with 2 cores, 1 GiB and 8 GPUs each, which may use twice the cores.
GANG = gang(member(requests={"cpu": "2", "memory": "1Gi", GPU: "8"}, limits={"cpu": "4", GPU: "8"}))


def known(hard: dict[str, Any], name: str = "quota", namespace: str = "team", **spec: Any) -> ClusterFacts:
    status = {"hard": hard, "used": hard}
    raw = {"metadata": {"name": name, "namespace": namespace}, "spec": {"hard": hard, **spec}, "status": status}
    read = RESOURCE_QUOTAS.read(raw)
    assert read is not None
    return ClusterFacts(resource_quotas=InNamespaces({read[0]: read[1]}))


def refused(hard: dict[str, Any], shape: GangShape = GANG, **spec: Any) -> bool:
    return too_low(namespace_ceilings(shape, known(hard, **spec)), shape) == ["quota"]


HARD: dict[str, tuple[dict[str, Any], bool]] = {
    "enough": ({"pods": "4", "cpu": "8", "requests.memory": "4Gi", f"requests.{GPU}": "32"}, False),
    "too few pods": ({"pods": "3"}, True),
    "too few objects": ({"count/pods": "3"}, True),
    "enough objects": ({"count/pods": "4"}, False),
    "cpu means requests": ({"cpu": "7999m"}, True),
    "requests.cpu is the same": ({"requests.cpu": "7999m"}, True),
    "the lower of both counts": ({"cpu": "8", "requests.cpu": "7"}, True),
    "memory": ({"memory": "4095Mi"}, True),
    "limits": ({"limits.cpu": "15999m"}, True),
    "enough limits": ({"limits.cpu": "16"}, False),
    "limits that no pod states": ({"limits.memory": "1"}, False),
    "devices": ({f"requests.{GPU}": "31"}, True),
    "devices without the prefix are no key of a quota": ({GPU: "1"}, False),
    "other objects": ({"services": "0", "count/secrets": "0", "requests.storage": "0"}, False),
    "nothing": ({}, False),
}


# A pod with resources that the API server does not count against quotas, and one that it does.
ODD = gang(
    member(
        requests={
            "kubernetes.io/batch-cpu": "1000",
            "cpu.example.com/core": "1",
            "deviceclass.resource.kubernetes.io/gold": "1",
            "hugepages-2Mi": "2Mi",
        },
        limits={"cpu.example.com/core": "1", "hugepages-2Mi": "2Mi"},
    )
)
ODD_HARD: dict[str, tuple[dict[str, Any], bool]] = {
    "native": ({"requests.kubernetes.io/batch-cpu": "1"}, False),
    "extended, without the prefix": ({"cpu.example.com/core": "1"}, False),
    "extended, as a limit": ({"limits.cpu.example.com/core": "1"}, False),
    "extended": ({"requests.cpu.example.com/core": "3"}, True),
    "by its class": ({"requests.deviceclass.resource.kubernetes.io/gold": "3"}, True),
    "huge pages": ({"requests.hugepages-2Mi": "7Mi"}, True),
    "huge pages, as a limit": ({"limits.hugepages-2Mi": "7Mi"}, False),
}


@pytest.mark.parametrize(("hard", "expected"), ODD_HARD.values(), ids=ODD_HARD)
def test_only_what_the_api_server_counts_is_counted(hard: dict[str, Any], expected: bool) -> None:
    assert refused(hard, ODD) is expected


def _stored_quota(spec: dict[str, Any], **status: Any) -> ClusterFacts:
    raw = {"metadata": {"name": "quota", "namespace": "team"}, "spec": {"hard": spec}, **status}
    read = RESOURCE_QUOTAS.read(raw)
    assert read is not None
    return ClusterFacts(resource_quotas=InNamespaces({read[0]: read[1]}))


IN_FORCE: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "in a file": ({}, True, False),
    "new, and seen by no controller": ({"status": {}}, False, True),
    "just lowered": ({"status": {"hard": {"pods": "4"}}}, False, False),
    "just raised": ({"status": {"hard": {"pods": "2"}}}, True, False),
    "with a new key": ({"status": {"hard": {"cpu": "1"}}}, False, True),
}


@pytest.mark.parametrize(("status", "expected", "unknown"), IN_FORCE.values(), ids=IN_FORCE)
def test_the_api_server_holds_pods_against_the_status(status: dict[str, Any], expected: bool, unknown: bool) -> None:
    found = namespace_ceilings(GANG, _stored_quota({"pods": "3"}, **status))
    assert (too_low(found, GANG) == ["quota"]) is expected
    assert found.unknown == (('the ResourceQuota "quota" is not in force yet',) if unknown else ())


@pytest.mark.parametrize(("hard", "expected"), HARD.values(), ids=HARD)
def test_the_hard_limits_of_a_quota_limit_the_gang(hard: dict[str, Any], expected: bool) -> None:
    assert refused(hard) is expected


def test_what_is_used_now_takes_nothing_away() -> None:
    """The facts in these tests say that everything is used: pods that ended count no more, and others may end."""
    assert refused({"pods": "4", "count/pods": "4"}) is False


def test_a_ceiling_says_what_it_is_and_has_only_what_the_gang_counts() -> None:
    (found,) = namespace_ceilings(GANG, known({"requests.cpu": "1", "services": "3", "limits.memory": "1Gi"})).ceilings
    assert (found.called, found.name, found.amounts) == ("the ResourceQuota", "quota", {"cpu": 1000})
    assert (found.family, found.scope) == (FitFamily.QUOTA, FitScope.EVER)


def test_a_quota_of_another_namespace_does_not_count() -> None:
    assert namespace_ceilings(GANG, known({"pods": "0"}, namespace="other")) == Ceilings()


def test_stored_pods_have_passed_the_quota() -> None:
    assert namespace_ceilings(GANG._replace(stored=True), known({"pods": "0"})) == Ceilings()


def test_of_many_quotas_some_are_read() -> None:
    many = InNamespaces({("team", f"q{index:02}"): NamespaceQuota({"pods": 3}) for index in range(33)})
    found = namespace_ceilings(GANG, ClusterFacts(resource_quotas=many))
    assert len(found.ceilings) == 32
    assert "above 32" in single(found.unknown)


def test_unknown_quotas_are_told() -> None:
    assert "ResourceQuotas" in single(namespace_ceilings(GANG, ClusterFacts()).unknown)
    unread = ClusterFacts(resource_quotas=InNamespaces({("team", "q"): NamespaceQuota(None)}))
    assert namespace_ceilings(GANG, unread) == Ceilings((), ('the ResourceQuota "q" cannot be read',))


def _selecting(name: str, operator: str, *values: str) -> dict[str, Any]:
    selector = {"scopeName": name, "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [selector]}}


BY_PRIORITY = "PriorityClass"
SCOPES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "not terminating": ({"scopes": ["NotTerminating"]}, {}, True),
    "not terminating, with a deadline": ({"scopes": ["NotTerminating"]}, {"activeDeadlineSeconds": 60}, False),
    "terminating": ({"scopes": ["Terminating"]}, {}, False),
    "terminating, with a deadline": ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 60}, True),
    "not best effort": ({"scopes": ["NotBestEffort"]}, {}, True),
    "empty resources of the pod": ({"scopes": ["NotBestEffort"]}, {"resources": {}}, False),
    "resources of the pod": ({"scopes": ["NotBestEffort"]}, {"resources": {"requests": {"cpu": "2"}}}, True),
    "best effort": ({"scopes": ["BestEffort"]}, {}, False),
    "of several scopes all must match": ({"scopes": ["NotBestEffort", "Terminating"]}, {}, False),
    "a class that is listed": (_selecting(BY_PRIORITY, "In", "high"), {"priorityClassName": "high"}, True),
    "a class that is not listed": (_selecting(BY_PRIORITY, "In", "high"), {"priorityClassName": "low"}, False),
    "a class that is excluded": (_selecting(BY_PRIORITY, "NotIn", "high"), {"priorityClassName": "high"}, False),
    "a class that is not excluded": (_selecting(BY_PRIORITY, "NotIn", "high"), {"priorityClassName": "low"}, True),
    "any class": (_selecting(BY_PRIORITY, "Exists"), {"priorityClassName": "low"}, True),
    "without a class there may be a default": (_selecting(BY_PRIORITY, "NotIn", "high"), {}, False),
    "no class": (_selecting(BY_PRIORITY, "DoesNotExist"), {}, False),
    "a scope of a later release": ({"scopes": ["Other"]}, {}, False),
}


@pytest.mark.parametrize(("scopes", "pod", "expected"), SCOPES.values(), ids=SCOPES)
def test_a_quota_counts_only_pods_that_its_scopes_surely_match(
    scopes: dict[str, Any], pod: dict[str, Any], expected: bool
) -> None:
    shape = gang(member(requests={"cpu": "2"}, **pod))
    assert refused({"pods": "1"}, shape, **scopes) is expected


def test_a_pod_without_requests_may_get_some_and_is_not_surely_best_effort() -> None:
    for scopes in (["BestEffort"], ["NotBestEffort"]):
        assert refused({"pods": "1"}, gang(member(requests={"cpu": "0", GPU: "1"})), scopes=scopes) is False


def test_only_the_roles_that_a_quota_counts_are_summed() -> None:
    shape = gang(member("a", 2, priorityClassName="high"), member("b", 2, priorityClassName="low"))
    assert refused({"pods": "2"}, shape, **_selecting(BY_PRIORITY, "In", "high")) is False
    assert refused({"pods": "1"}, shape, **_selecting(BY_PRIORITY, "In", "high")) is True


def test_requests_of_the_whole_pod_sidecars_and_overhead_count() -> None:
    sidecar = {**container(cpu="1"), "restartPolicy": "Always"}
    first = container(cpu="3")
    shape = gang(member(requests={"cpu": "2"}, initContainers=[sidecar, first], overhead={"cpu": "500m"}))
    assert (refused({"cpu": "18"}, shape), refused({"cpu": "17999m"}, shape)) == (False, True)
    whole = gang(member(requests={"cpu": "1"}, resources={"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}))
    assert (refused({"cpu": "16"}, whole), refused({"cpu": "15999m"}, whole)) == (False, True)
    assert (refused({"limits.cpu": "32"}, whole), refused({"limits.cpu": "31"}, whole)) == (False, True)


def test_a_limit_counts_as_request() -> None:
    assert refused({"cpu": "15"}, gang(member(limits={"cpu": "4"}))) is True


CLASS = "gpu.example.com.deviceclass.resource.k8s.io/devices"
TEMPLATE = ("team", "gpus")


def claiming(requests: list[dict[str, Any]], hard: dict[str, Any], **entry: str) -> bool:
    shape = gang(member(resourceClaims=[{"name": "gpu", **(entry or {"resourceClaimTemplateName": "gpus"})}]))
    claim = requests_in({"devices": {"requests": requests}})
    quotas = known(hard).resource_quotas
    facts = ClusterFacts(
        resource_quotas=quotas, resource_claim_templates={TEMPLATE: claim}, resource_claims={TEMPLATE: claim}
    )
    return too_low(namespace_ceilings(shape, facts), shape) == ["quota"]


def _exactly(count: int | None = None, mode: str = "ExactCount", name: str = "gpu.example.com") -> dict[str, Any]:
    return {"name": "a", "exactly": {"deviceClassName": name, "allocationMode": mode, "count": count}}


def test_devices_of_claims_count_by_their_class() -> None:
    assert claiming([_exactly(2)], {CLASS: "7"}) is True
    assert claiming([_exactly(2)], {CLASS: "8"}) is False
    assert claiming([_exactly()], {CLASS: "3"}) is True
    assert claiming([_exactly(2, name="nic.example.com")], {CLASS: "0"}) is False


def test_of_alternatives_a_quota_counts_the_most_of_each_class() -> None:
    ways = [{"name": str(n), "deviceClassName": "gpu.example.com", "count": n} for n in (4, 1)]
    assert claiming([{"name": "a", "firstAvailable": ways}], {CLASS: "15"}) is True
    assert claiming([{"name": "a", "firstAvailable": ways}], {CLASS: "16"}) is False


def test_a_request_for_all_devices_counts_as_many_as_a_claim_can_have() -> None:
    assert claiming([_exactly(mode="All")], {CLASS: "127"}) is True
    assert claiming([_exactly(mode="All")], {CLASS: "128"}) is False


def test_a_claim_that_pods_share_exists_already() -> None:
    assert claiming([_exactly(8)], {CLASS: "0"}, resourceClaimName="gpus") is False
