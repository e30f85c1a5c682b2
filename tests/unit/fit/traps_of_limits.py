"""The traps about quotas, queues and devices."""

from __future__ import annotations

from typing import Any

from tests.unit.fit.trap_world import GPU, Mutant, instead, is_never, manifest, may_start, node, of, pods, trap
from webhook.fit import resource_requests
from webhook.fit.packing import Ceilings
from webhook.fit.pod_needs import DeviceNeed
from webhook.model.reading import Manifest

_BIG = node(amounts={"cpu": "1k", "memory": "10Ti", GPU: "64"})


# Volcano


def _volcano(name: str, **spec: Any) -> Manifest:
    return manifest("Queue", name, "scheduling.volcano.sh/v1beta1", spec, status={"state": "Open"})


_VOLCANO: dict[str, Any] = {"scheduler": "volcano", "config": {"defaultQueue": "team-a", "enableHierarchy": False}}


@trap(20, instead("webhook.backends.volcano.backend._NEVER_ZERO", frozenset()))
def a_queue_without_cpu_or_with_none_of_it_does_not_limit_cpu() -> None:
    shape = of(pods(4, {"cpu": "2", GPU: "1"}), stored=True)
    for capability in ({"cpu": "0", "memory": "0"}, {GPU: "4"}):
        may_start(shape, _BIG, _volcano("team-a", capability=capability), **_VOLCANO)
    is_never(shape, _BIG, _volcano("team-a", capability={GPU: "0"}), **_VOLCANO)
    is_never(shape, _BIG, _volcano("team-a", capability={"cpu": "7"}), **_VOLCANO)


def _deserved_as_capability(mapping: Any) -> Any:
    def read(value: object) -> Any:
        found = mapping(value)
        return {**found, "capability": found["deserved"]} if "deserved" in found else found

    return read


@trap(21, Mutant("webhook.backends.volcano.keys.mapping", _deserved_as_capability))
def what_a_queue_deserves_is_no_ceiling() -> None:
    queue = _volcano("team-a", deserved={"cpu": "1"}, capability={"cpu": "8"})
    may_start(of(pods(4, {"cpu": "2"})), _BIG, queue, **_VOLCANO)
    is_never(of(pods(5, {"cpu": "2"})), _BIG, queue, **_VOLCANO)


# Koordinator


def _quota(name: str = "team-a", *, parent: str | None = None, most: Any = None, **spec: Any) -> Manifest:
    labels = {"quota.scheduling.koordinator.sh/is-parent": "false"}
    if parent is not None:
        labels["quota.scheduling.koordinator.sh/parent"] = parent
    metadata = {"namespace": "team", "labels": labels, "annotations": spec.pop("annotations", {})}
    return manifest("ElasticQuota", name, "scheduling.sigs.k8s.io/v1alpha1", {"max": most or {}, **spec},
                    metadata=metadata, status={"used": {"cpu": "0"}})  # fmt: skip


def _above(name: str, **most: str) -> Manifest:
    found = _quota(name, most=most)
    found["metadata"]["labels"]["quota.scheduling.koordinator.sh/is-parent"] = "true"
    return found


def _in(*modes: bool) -> dict[str, Any]:
    names = ("enableRuntimeQuota", "enableCheckParentQuota")
    return {"scheduler": "koordinator", "config": dict(zip(names, modes or (False, False), strict=True))}


_GANG = of(pods(4, {"cpu": "2", GPU: "1"}), quota="team-a")


def _absent_is_zero(original: Any) -> Any:
    return lambda quota, below: {GPU: 0, "cpu": 0, **(original(quota, below) or {})}


@trap(23, Mutant("webhook.backends.koordinator.quotas._limit", _absent_is_zero))
def a_resource_that_a_quota_does_not_name_is_not_limited() -> None:
    may_start(_GANG, _BIG, _quota(most={"cpu": "8"}), **_in())
    is_never(_GANG, _BIG, _quota(most={"cpu": "7"}), **_in())
    is_never(_GANG, _BIG, _quota(most={GPU: "0"}), **_in())


def _always_checked(original: Any) -> Any:
    def found(shape: Any, roles: Any, facts: Any, settings: Any) -> Ceilings:
        result: Ceilings = original(shape, roles, facts, settings.model_copy(update={"enableCheckParentQuota": True}))
        return result

    return found


@trap(24, Mutant("webhook.backends.koordinator.backend.ceilings_of", _always_checked))
def a_quota_above_limits_only_where_the_scheduler_checks_it() -> None:
    quotas = [_above("org", cpu="4"), _quota(parent="org", most={"cpu": "100"})]
    may_start(_GANG, _BIG, *quotas, **_in(False, False))
    may_start(_GANG, _BIG, *quotas, scheduler="koordinator")
    is_never(_GANG, _BIG, *quotas, **_in(True, False))
    is_never(_GANG, _BIG, *quotas, **_in(False, True))


def _runtime_too(original: Any) -> Any:
    return lambda quota, below: {**(original(quota, below) or {}), "cpu": 1}


@trap(25, Mutant("webhook.backends.koordinator.quotas._limit", _runtime_too))
def what_a_quota_gives_now_is_no_ceiling() -> None:
    now = {"quota.scheduling.koordinator.sh/runtime": '{"cpu":1}'}
    may_start(_GANG, _BIG, _quota(most={"cpu": "8"}, annotations=now), **_in(True, False))
    # What it has for sure it has above its maximum, too.
    may_start(_GANG, _BIG, _quota(most={"cpu": "1"}, min={"cpu": "8"}), **_in(True, False))


# Namespaces


def _limited(hard: dict[str, str], **spec: Any) -> Manifest:
    used = {"hard": hard, "used": hard}
    return manifest("ResourceQuota", "limit", "v1", {"hard": hard, **spec}, metadata={"namespace": "team"}, status=used)


@trap(45, instead("webhook.fit.ceilings._surely_matches", lambda scope, template, *, requesting: True))
def a_quota_counts_only_pods_that_its_scopes_match_and_none_that_ended() -> None:
    shape = of(pods(4, {"cpu": "2"}))
    is_never(shape, _BIG, _limited({"requests.cpu": "7"}))
    # All of it is used now, by pods that end.
    may_start(shape, _BIG, _limited({"requests.cpu": "8", "pods": "4"}))
    for scope in ("Terminating", "BestEffort", "CrossNamespacePodAffinity"):
        may_start(shape, _BIG, _limited({"pods": "1"}, scopes=[scope]))
    high = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    may_start(shape, _BIG, _limited({"pods": "1"}, scopeSelector={"matchExpressions": [high]}))
    may_start(shape, _BIG, _limited({"count/pods": "4"}))


# KAI


def _kai(name: str, parent: str | None = None, **limits: float) -> Manifest:
    stated = {"gpu": -1, "cpu": -1, "memory": -1, **limits}
    shares = {resource: {"limit": limit, "quota": -1} for resource, limit in stated.items()}
    return manifest("Queue", name, "scheduling.run.ai/v2", {"parentQueue": parent, "resources": shares})


_KAI: dict[str, Any] = {"scheduler": "kai", "config": {"defaultQueue": "team-a"}}


def _as_numbers(original: Any) -> Any:
    def amounts(stated: Any, *, whole: bool) -> Any:
        return original({name: 0 if amount is None else amount for name, amount in stated.items()}, whole=whole)

    return amounts


@trap(46, Mutant("webhook.backends.kai.backend._amounts", _as_numbers))
def minus_one_is_no_limit_and_memory_counts_millions_of_bytes() -> None:
    shape = of(pods(4, {"cpu": "2", "memory": "1G", GPU: "1"}), stored=True)
    may_start(shape, _BIG, _kai("team-a", "org"), _kai("org"), **_KAI)
    may_start(shape, _BIG, _kai("team-a", memory=4000), **_KAI)
    is_never(shape, _BIG, _kai("team-a", memory=3999), **_KAI)
    is_never(shape, _BIG, _kai("team-a", cpu=7999), **_KAI)
    is_never(shape, _BIG, _kai("team-a", "org"), _kai("org", gpu=3), **_KAI)


# Devices

_DRIVER = "gpu.example.com"
_SELECTOR = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
_GPUS = manifest("DeviceClass", "gpus", "resource.k8s.io/v1", {"selectors": [_SELECTOR]})


def _slice(name: str, devices: int, **pool: int) -> Manifest:
    spec = {
        "driver": _DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1, **pool},
        "devices": [{"name": f"gpu-{index}"} for index in range(devices)],
    }
    return manifest("ResourceSlice", f"{name}-{len(pool)}", "resource.k8s.io/v1", spec)


def _claim(kind: str, *requests: Manifest) -> Manifest:
    spec = {"devices": {"requests": list(requests)}}
    inner = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
    return manifest(kind, "gpus", "resource.k8s.io/v1", inner, metadata={"namespace": "team"})


def _exactly(count: int, **fields: Any) -> Manifest:
    return {"name": "gpu", "exactly": {"deviceClassName": "gpus", "count": count, **fields}}


def _claiming(count: int, kind: str = "Template") -> Any:
    named = {"resourceClaimTemplateName": "gpus"} if kind == "Template" else {"resourceClaimName": "gpus"}
    return of(pods(count, {"cpu": "1"}, resourceClaims=[{"name": "gpu", **named}]))


_NODES = [node("n0", {"cpu": "100"}), node("n1", {"cpu": "100"}), _GPUS, _slice("n0", 8), _slice("n1", 8)]
_OF_EACH = "ResourceClaimTemplate"


def _first(_: Any) -> Any:
    return lambda request: request.alternatives[0].number


def _counting_admins(_: Any) -> Any:
    def needs(claim: Any, facts: Any, known: Any) -> Any:
        for request in claim.requests or ():
            one = request.alternatives[0]
            yield DeviceNeed(
                one.device_class, resource_requests._least(request), claim.at, resource_requests._driver(request, facts)
            )

    return needs


@trap(
    43,
    Mutant("webhook.fit.resource_requests._least", _first),
    Mutant("webhook.fit.resource_requests._needs", _counting_admins),
)
def devices_count_as_few_as_may_be_enough() -> None:
    is_never(_claiming(5), *_NODES, _claim(_OF_EACH, _exactly(4)))
    may_start(_claiming(4), *_NODES, _claim(_OF_EACH, _exactly(4)))
    may_start(_claiming(5), *_NODES, _claim(_OF_EACH, _exactly(4, adminAccess=True)))
    # One claim for all of them.
    may_start(_claiming(5, "shared"), *_NODES, _claim("ResourceClaim", _exactly(4)))
    subrequests = [
        {"name": "many", "deviceClassName": "gpus", "count": 8},
        {"name": "few", "deviceClassName": "gpus", "count": 1},
    ]
    may_start(_claiming(16), *_NODES, _claim(_OF_EACH, {"name": "gpu", "firstAvailable": subrequests}))
    shared = _slice("n0", 1)
    shared["spec"]["devices"][0]["allowMultipleAllocations"] = True
    may_start(_claiming(20), *_NODES[:3], shared, _claim(_OF_EACH, _exactly(1)))
    # One that has its devices needs no more. And a scheduler may place pods without allocating anything.
    many = _claim("ResourceClaim", _exactly(9))
    is_never(_claiming(1, "shared"), *_NODES, many)
    may_start(_claiming(1, "shared"), *_NODES, {**many, "status": {"allocation": {"devices": {"results": []}}}})
    above = _claim(_OF_EACH, _exactly(33))
    is_never(_claiming(1), *_NODES, above)
    may_start(_claiming(1), *_NODES, above, scheduler="volcano")


@trap(
    44,
    Mutant(
        "webhook.fit.resource_requests._devices_in",
        lambda original: lambda known: original(known)._replace(unsure=frozenset()),
    ),
)
def slices_that_are_being_written_prove_nothing() -> None:
    claim = _claim(_OF_EACH, _exactly(8))
    is_never(_claiming(3), *_NODES, claim)
    may_start(_claiming(3), *_NODES[:4], _slice("n1", 4, resourceSliceCount=2), claim)
    # A driver that has not started on a node has no slice there.
    may_start(_claiming(3), *_NODES[:4], claim)
