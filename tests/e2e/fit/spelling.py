"""Amounts as manifests spell them, and the containers of a pod whose effective request is a given one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

Amounts = Mapping[str, int]
CPU, MEMORY, GPU, SLOTS = "cpu", "memory", "nvidia.com/gpu", "pods"
DONGLE, STORAGE, HUGE = "example.com/dongle", "ephemeral-storage", "hugepages-2Mi"
MIB = 1024**2
# Devices of ResourceSlices. No container requests them: a pod has a claim.
DEVICES = "devices"
# RuntimeClasses of the batch, and what a pod of each has on top.
OVERHEADS: Mapping[str, Amounts] = {
    "fit-small": {CPU: 100, MEMORY: 64 * MIB},
    "fit-large": {CPU: 250, MEMORY: 120 * MIB},
}
# What a pod may state for itself.
_POD_LEVEL = (CPU, MEMORY)
_WHOLE = (GPU, DONGLE, SLOTS)


def spelled(rng: Random, resource: str, amount: int) -> str:
    """An amount in one of its spellings: cpu is in milli, all else in units."""
    if resource == CPU:
        ways = [f"{amount}m", f"{amount * 1000}u", f"{amount / 1000:.3f}", f"{amount}e-3"]
        if amount % 1000 == 0:
            ways += [str(amount // 1000)] * 3
        return rng.choice([ways[0], ways[0], *ways])
    if resource in _WHOLE:
        return str(amount)
    ways = [str(amount)]
    for suffix, unit in (("Ki", 1024), ("Mi", MIB), ("Gi", 1024**3), ("k", 1000), ("M", 10**6), ("e3", 1000)):
        if amount and amount % unit == 0:
            ways.append(f"{amount // unit}{suffix}")
    if resource == MEMORY:
        ways.append(f"{amount * 1000}m")
    return rng.choice([ways[-1], *ways])


def resources(rng: Random, amounts: Amounts, *, limits_only: bool = False) -> dict[str, Any]:
    """The `resources` of a container."""
    said = {name: spelled(rng, name, amount) for name, amount in amounts.items()}
    # Extended resources and huge pages are not overcommitted: their limit is their request.
    limits = {name: said[name] for name in said if limits_only or name in {GPU, DONGLE, HUGE}}
    found: dict[str, Any] = {}
    if not limits_only and said:
        found["requests"] = said
    if limits:
        found["limits"] = limits
    return found


def _container(rng: Random, name: str, amounts: Amounts, **fields: Any) -> dict[str, Any]:
    limits_only = rng.random() < 0.15
    return {
        "name": name,
        "image": "example.com/main",
        "resources": resources(rng, amounts, limits_only=limits_only),
        **fields,
    }


def _shares(rng: Random, amounts: Amounts, parts: int) -> list[dict[str, int]]:
    """`amounts` as a sum of so many."""
    found: list[dict[str, int]] = [{} for _ in range(parts)]
    for name, amount in amounts.items():
        rest = amount
        for index in range(parts - 1):
            part = rng.randint(0, rest)
            rest -= part
            if part or rng.random() < 0.3:
                found[index][name] = part
        found[-1][name] = rest
    return found


def _some(rng: Random, amounts: Amounts) -> dict[str, int]:
    """No more than `amounts`, of each."""
    return {name: rng.randint(0, amount) for name, amount in amounts.items() if rng.random() < 0.7}


def _plain(rng: Random, amounts: Amounts) -> dict[str, Any]:
    return {"containers": [_container(rng, "main", amounts)]}


def _several(rng: Random, amounts: Amounts) -> dict[str, Any]:
    parts = _shares(rng, amounts, rng.randint(2, 3))
    return {"containers": [_container(rng, f"c{index}", part) for index, part in enumerate(parts)]}


def _with_init(rng: Random, amounts: Amounts) -> dict[str, Any]:
    """An init container needs the most of some resources, the containers of the others."""
    first = {name: amount for name, amount in amounts.items() if rng.random() < 0.5}
    running = {name: rng.randint(0, amount) if name in first else amount for name, amount in amounts.items()}
    inits = [_container(rng, "init", first)]
    if rng.random() < 0.5:
        inits.insert(rng.randint(0, 1), _container(rng, "other", _some(rng, amounts)))
    return {"initContainers": inits, "containers": [_container(rng, "main", running)]}


def _with_sidecar(rng: Random, amounts: Amounts) -> dict[str, Any]:
    side, *running = _shares(rng, amounts, rng.randint(2, 3))
    inits = [_container(rng, "side", side, restartPolicy="Always")]
    if rng.random() < 0.6:
        # Before the sidecar it has the whole pod for itself, behind it what the sidecar leaves.
        inits.insert(0, _container(rng, "before", _some(rng, amounts)))
    if rng.random() < 0.6:
        rest = {name: amounts[name] - side.get(name, 0) for name in amounts}
        inits.append(_container(rng, "behind", rest if rng.random() < 0.5 else _some(rng, rest)))
    return {
        "initContainers": inits,
        "containers": [_container(rng, f"c{index}", part) for index, part in enumerate(running)],
    }


def _with_overhead(rng: Random, amounts: Amounts) -> dict[str, Any]:
    name, over = rng.choice(list(OVERHEADS.items()))
    if any(amounts.get(one, 0) < more for one, more in over.items()):
        return _plain(rng, amounts)
    rest = {one: amount - over.get(one, 0) for one, amount in amounts.items()}
    inner = rng.choice([_plain, _several, _with_init, _with_sidecar])(rng, rest)
    # Admission copies it from the RuntimeClass; a template may state it already.
    stated = {"overhead": {one: spelled(rng, one, more) for one, more in over.items()}} if rng.random() < 0.5 else {}
    return {**inner, "runtimeClassName": name, **stated}


def _with_pod_level(rng: Random, amounts: Amounts) -> dict[str, Any]:
    """The pod states some of it for itself, and its containers less."""
    whole = {name: amount for name, amount in amounts.items() if name in _POD_LEVEL and rng.random() < 0.8}
    if not whole:
        return _plain(rng, amounts)
    inside = {
        name: rng.randint(0, amount) if name in whole else amount
        for name, amount in amounts.items()
        if name not in whole or rng.random() < 0.6
    }
    inner = rng.choice([_plain, _several])(rng, inside)
    # As a limit alone it is the request only if no container names the resource.
    free = not any(name in inside for name in whole)
    return {**inner, "resources": resources(rng, whole, limits_only=free and rng.random() < 0.3)}


def _in_halves(rng: Random, amounts: Amounts) -> dict[str, Any]:
    """Two containers with a part of a milli of cpu, which is rounded up."""
    parts = _shares(rng, amounts, 2)
    cpus = [part.get(CPU, 0) for part in parts]
    if min(cpus) < 1:
        return _plain(rng, amounts)
    said = [resources(rng, {name: one for name, one in part.items() if name != CPU}) for part in parts]
    short = rng.choice([(-500, 0), (-500, -250), (-1, -999)])
    for one, cpu, change in zip(said, cpus, short, strict=True):
        one.setdefault("requests", {})[CPU] = f"{cpu * 1000 + change}u"
    return {
        "containers": [
            {"name": f"c{index}", "image": "example.com/main", "resources": one} for index, one in enumerate(said)
        ]
    }


_FORMS = (_plain, _plain, _several, _with_init, _with_sidecar, _with_overhead, _with_pod_level, _in_halves)


def containers(rng: Random, amounts: Amounts, *, simple: bool = False) -> dict[str, Any]:
    """The part of a pod spec whose effective request is `amounts`. With `simple`, in one container."""
    wanted = {name: amount for name, amount in amounts.items() if name not in {SLOTS, DEVICES}}
    # Each container with huge pages must name cpu or memory, too.
    found = (_plain if simple or HUGE in wanted else rng.choice(_FORMS))(rng, wanted)
    if rng.random() < 0.1:
        # A resource that no node has, and none of which is wanted.
        found["containers"][0]["resources"].setdefault("requests", {})["example.com/none"] = "0"
        found["containers"][0]["resources"].setdefault("limits", {})["example.com/none"] = "0"
    return found
