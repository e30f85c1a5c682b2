"""Which fields of a gang's objects are immutable, and which objects can be recreated while the gang has pods.

A Workload (read by the scheduler only in 1.35) and a CompositePodGroup can be recreated under waiting pods, which are
held until then. A PodGroup cannot: from 1.36 on it is deleted only after all of its pods. No object is recreated under
pods that are on nodes, except a Workload from 1.38 on. There the number of groups that a composite waits for is
mutable, and no component reads the Workload, whose list of templates is not. So a tree gets and loses groups under its
running pods: its Workload is recreated, the composites and the other PodGroups stay.

Source: k8s.io/api scheduling (immutability by generation), the finalizer scheduling.k8s.io/podgroup-protection; seen
with v1.35.4, v1.36.3 and v1.37.0. Read: v1.38.0-beta.0, k8s.io/api scheduling/v1beta1 (WorkloadSpec,
CompositeGangSchedulingPolicy), and pkg/scheduler and pkg/controller, which list no Workloads of other controllers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.backends.kube import keys
from webhook.backends.kube.disruption import TEMPLATES
from webhook.backends.kube.generation import COMPOSITE, COMPOSITE_BETA, GROUP, Generation
from webhook.model.frozen_changes import Frozen, Stage
from webhook.model.reading import Manifest, integer, mapping, sequence, text

# Source: kubernetes/kubernetes, pull request 141021.
COMPOSITE_PROTECTION = "scheduling.k8s.io/compositepodgroup-protection"
_Pair = tuple[Manifest, Manifest]
_WHY = "the Workload API does not allow this change"
# Of a PodGroup and a CompositePodGroup. Of the other immutable fields the API server fills in the priority, and `adopt`
# keeps the disruptionMode.
_FIXED = ("parentCompositePodGroupName", "workloadRef", "podGroupTemplateRef", "schedulingConstraints")


def frozen(desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
    """The objects of `live` that the API server would not let change to `desired`; None if there are none."""
    becomes = {_identity(manifest): manifest for manifest in desired}
    pairs = [(old, becomes[_identity(old)]) for old in live if _identity(old) in becomes]
    # A removed class shows only in the Workload: the API server may have given a group the cluster's default class.
    classed = any(_class(old) != _class(new) for old, new in pairs if old["kind"] == "Workload")
    grows = _is_of_1_38(desired)
    recreated = tuple(old for old, new in pairs if classed or _fixed(old, grows=grows) != _fixed(new, grows=grows))
    if not recreated:
        return None
    what = "; ".join(dict.fromkeys(_differences(pairs))) or "how its objects refer to each other"
    return Frozen(what, _WHY, _until(pairs, recreated, grows=grows), recreated)


def _is_of_1_38(desired: Sequence[Manifest]) -> bool:
    """Whether the gang is a tree in the versions that only 1.38 and later serve."""
    beta = f"{GROUP}/{COMPOSITE_BETA.version}", COMPOSITE_BETA.kind
    return any((manifest["apiVersion"], manifest["kind"]) == beta for manifest in desired)


def _until(pairs: Sequence[_Pair], recreated: Sequence[Manifest], *, grows: bool) -> Stage:
    """The last stage at which these objects can be recreated. Waiting pods need a group that exists afterwards, or they
    wait for ever. There is none if no leaf template stays, as when the gang changes between merged and separate
    members. Nothing waits for a Workload of a gang that `grows` in place.
    """
    kept = any(_leaves(old) & _leaves(new) for old, new in pairs if old["kind"] == "Workload")
    if kept and grows and all(manifest["kind"] == "Workload" for manifest in recreated):
        return Stage.BOUND
    protected = any(manifest["kind"] == "PodGroup" or _is_protected(manifest) for manifest in recreated)
    return Stage.WAITING if kept and not protected else Stage.EMPTY


def _is_protected(manifest: Manifest) -> bool:
    """Whether a composite is deleted only after the groups below it, as from 1.38 on."""
    return COMPOSITE_PROTECTION in sequence(mapping(manifest.get("metadata")).get("finalizers"))


def _leaves(workload: Manifest) -> set[str]:
    return {name for name, template in _templates(workload).items() if not template.composite}


def _identity(manifest: Manifest) -> tuple[str, str, str]:
    return str(manifest["apiVersion"]), str(manifest["kind"]), str(manifest["metadata"]["name"])


class _Template(NamedTuple):
    """One template of a Workload, and what is frozen in it. `minimum` counts pods, or groups for a composite."""

    parent: str
    composite: bool
    minimum: int | None
    topology: str | None
    priority_class: str | None


def _templates(workload: Manifest) -> dict[str, _Template]:
    """The templates by name, which is unique in the whole tree."""
    spec = mapping(workload.get("spec"))
    entries = sequence(spec.get("podGroups"))
    found = {_name(entry): _template(mapping(entry), "", composite=False, policy="policy") for entry in entries}
    return found | dict(_below(spec, ""))


def _below(holder: Mapping[str, Any], parent: str) -> Iterator[tuple[str, _Template]]:
    for field in TEMPLATES:
        for entry in map(mapping, sequence(holder.get(field))):
            yield _name(entry), _template(entry, parent, composite=field == TEMPLATES[1])
            yield from _below(entry, _name(entry))


def _name(entry: Any) -> str:
    return text(mapping(entry).get("name")) or ""


def _template(entry: Mapping[str, Any], parent: str, *, composite: bool, policy: str = "schedulingPolicy") -> _Template:
    gang = mapping(mapping(entry.get(policy)).get("gang"))
    minimum = integer(gang.get("minGroupCount" if composite else "minCount"))
    return _Template(parent, composite, minimum, _topology(entry), text(entry.get("priorityClassName")))


def _topology(holder: Mapping[str, Any]) -> str | None:
    keys = sequence(mapping(holder.get("schedulingConstraints")).get("topology"))
    return ", ".join(str(mapping(key).get("key")) for key in keys) or None


def _class(workload: Manifest) -> str | None:
    return next((template.priority_class for template in _templates(workload).values()), None)


def _fixed(manifest: Manifest, *, grows: bool) -> object:
    """The values that must be equal before and after. A gang that `grows` in place may wait for other numbers of
    groups.
    """
    api_version, kind, spec = manifest["apiVersion"], manifest["kind"], mapping(manifest.get("spec"))
    old = api_version in {f"{GROUP}/{Generation.V1ALPHA1}", f"{GROUP}/{Generation.V1ALPHA2}"}
    if kind == "Workload":
        # From 1.37 on, minimums of pods can change.
        return {
            name: template if old or (template.composite and not grows) else template._replace(minimum=None)
            for name, template in _templates(manifest).items()
        }
    fixed: list[object] = [spec.get(field) or None for field in _FIXED]
    if old or (kind == COMPOSITE.kind and not grows):
        gang = mapping(mapping(spec.get("schedulingPolicy")).get("gang"))
        fixed += [integer(gang.get("minCount")), integer(gang.get("minGroupCount"))]
    return fixed


def _differences(pairs: Sequence[_Pair]) -> Iterator[str]:
    """What changed, in words, from the Workloads."""
    for old, new in pairs:
        if old["kind"] == "Workload":
            before, now = _templates(old), _templates(new)
            yield from (f"{_said(name)} is new" for name in now if name not in before)
            yield from (f"{_said(name)} is gone" for name in before if name not in now)
            for name in before:
                if name in now:
                    yield from _moved(_said(name), before[name], now[name])


def _moved(name: str, before: _Template, now: _Template) -> Iterator[str]:
    parts: list[tuple[str, object, object]] = [
        (f"the topology of {name}", before.topology, now.topology),
        ("the priority class", before.priority_class, now.priority_class),
        (f"the group of {name}", before.parent and _said(before.parent), now.parent and _said(now.parent)),
    ]
    if not now.composite:
        # A composite's minimum is the number of its members, whose changes are already reported.
        parts.append((f"the minimum of {name}", before.minimum, now.minimum))
    for what, was, becomes in parts:
        if was != becomes:
            yield f"{what} goes from {was or 'none'} to {becomes or 'none'}"


def _said(name: str) -> str:
    """A template's name in a message: two names stand for the whole gang."""
    return "the whole gang" if name in {keys.ROOT, keys.MERGED} else name
