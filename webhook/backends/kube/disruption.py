"""The disruption mode of a gang: whether preemption takes its pods one by one, or all together.

All groups of a gang have the same mode, because a group below a group with mode `all` cannot have mode `single`. The
API server never lets the mode of an existing object change. Source: KEP-5710; k8s.io/api scheduling/v1alpha2 (1.36),
v1beta1 and v1alpha3 (1.37). 1.35 has no such field. While the gate WorkloadAwarePreemption is off, 1.36 drops the
field, and shows its default, `Pod`, in a PodGroup (seen).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.backends.kube.generation import Generation
from webhook.backends.kube.settings import KubeSettings
from webhook.model.disruption import AUTO, CHOICES, Disruption, needs_every_pod
from webhook.model.keys import Record
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.workloads.podgang import PodGang

FIELD = "disruptionMode"
TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")
# The values of 1.36.
_OF_1_36 = {Disruption.SINGLE: "Pod", Disruption.ALL: "PodGroup"}


def mode_of(podgang: PodGang, record: Record, settings: KubeSettings) -> Disruption:
    """The mode of a new gang: the workload's choice, else the profile's. An unknown choice counts as none."""
    choice = record.disruption
    if choice is None or choice not in CHOICES:
        choice = settings.disruptionMode
    if choice != AUTO:
        return Disruption(choice)
    return Disruption.ALL if needs_every_pod(podgang, record) else Disruption.SINGLE


def written(mode: Disruption, spoken: Generation) -> Manifest:
    """The field of a group or template in a generation; nothing in 1.35."""
    if spoken is Generation.V1ALPHA1:
        return {}
    return {FIELD: _OF_1_36[mode] if spoken is Generation.V1ALPHA2 else {mode.value: {}}}


def read(spec: Mapping[str, Any]) -> Disruption | None:
    """The mode that a group or template states in any generation; None if it states none. Raises `Malformed`."""
    found = spec.get(FIELD)
    if found is None:
        return None
    together = found == _OF_1_36[Disruption.ALL] if isinstance(found, str) else mapping(found).get("all") is not None
    return Disruption.ALL if together else Disruption.SINGLE


def is_written_for(value: Any, *, of_1_37: bool) -> bool:
    """Whether an API server of that version accepts a value of the field."""
    if not of_1_37:
        return value in _OF_1_36.values()
    return value in [{mode.value: {}} for mode in Disruption]


def kept(spec: Manifest, live: Mapping[str, Any]) -> Manifest:
    """`spec` with the mode of the existing object or template `live`, even if that has none. Raises `Malformed`."""
    found = {key: value for key, value in spec.items() if key != FIELD}
    return found if read(live) is None else {**found, FIELD: live[FIELD]}


def settled(desired: Sequence[Manifest], live: Sequence[Manifest]) -> list[Manifest]:
    """`desired` with the mode of the gang's existing objects, also for those that are missing. Raises `Malformed`."""
    first = next(iter([*_groups(live), *_templates(live)]), None)
    return list(desired) if first is None else [_with_mode(manifest, first) for manifest in desired]


def mode_in(objects: Sequence[Manifest]) -> Disruption | None:
    """The mode that the groups of a gang state; None if there is none. Raises `Malformed`."""
    return next((mode for spec in _groups(objects) if (mode := read(spec)) is not None), None)


def _groups(objects: Sequence[Manifest]) -> list[Mapping[str, Any]]:
    return [mapping(one.get("spec")) for one in objects if one["kind"] != "Workload"]


def _templates(objects: Sequence[Manifest]) -> list[Mapping[str, Any]]:
    specs = [mapping(one.get("spec")) for one in objects if one["kind"] == "Workload"]
    return [mapping(entry) for spec in specs for field in TEMPLATES for entry in sequence(spec.get(field))]


def _with_mode(manifest: Manifest, live: Mapping[str, Any]) -> Manifest:
    """An object of the gang with the mode of `live` in its group, or in all its templates."""
    spec = manifest["spec"]
    changed = _below(spec, live) if manifest["kind"] == "Workload" else kept(spec, live)
    return {**manifest, "spec": changed}


def _below(holder: Manifest, live: Mapping[str, Any]) -> Manifest:
    changed = {
        field: [kept(_below(entry, live), live) for entry in holder[field]] for field in TEMPLATES if field in holder
    }
    return {**holder, **changed}
