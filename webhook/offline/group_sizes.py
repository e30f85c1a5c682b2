"""How many pods name each group in some files, without I/O: pods, and objects that make pods from a template.

A group's number is unknown if an object names it whose number of pods the files do not say: a DaemonSet, a controller
with an autoscaler, or a kind that is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from webhook.model.claims import CLAIMS, claims_on
from webhook.model.fields import SPEC
from webhook.model.projections import key_of
from webhook.model.reading import Malformed, Manifest, integer, mapping, text
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.shapes.kinds import WorkloadKinds
from webhook.model.workloads.trainjob import TrainJob
from webhook.model.workloads.workload import template_at
from webhook.offline.judgement import kind_of

# The system of a group as `webhook.model.claims` names it, the group's namespace, and its name.
Group = tuple[str, str, str]
Sizes = dict[Group, int | None]
# Kinds with a pod template, besides the opted-in workloads.
REPLICATED = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})
# Marks of a pod that do not name its group.
_NO_NAMES = frozenset({"kai.scheduler/subgroup-name", "kai.scheduler/skip-podgrouper"})
_NAMES = {mark.key: system for mark, system in CLAIMS if mark.part != "spec" and mark.key not in _NO_NAMES}


def group_sizes(manifests: Iterable[Manifest], kinds: WorkloadKinds) -> Sizes:
    """Return the number of pods of each group that an object names; None for an unknown number."""
    found: dict[Hashable, Sizes] = {}
    scaled: set[Hashable] = set()
    for manifest in manifests:
        try:
            own, groups = _identity(manifest), _groups_of(manifest, kinds)
            scaled |= set(_scaled_by(manifest))
        except Malformed:
            # The API server refuses such an object. Which groups it would name is unknown.
            own, groups = object(), _mentioned(manifest)
        if groups:
            # Without a name each object is separate. Of two versions of an object the last counts.
            found[own] = groups
    sizes: Sizes = {}
    for own, groups in found.items():
        for group, pods in groups.items():
            before = sizes.get(group, 0)
            sizes[group] = None if pods is None or before is None or own in scaled else before + pods
    return sizes


def _identity(manifest: Manifest) -> Hashable:
    kind = kind_of(manifest)
    named = text(mapping(manifest.get("metadata")).get("name"))
    return object() if named is None else (kind.group, kind.kind, *key_of(manifest))


def _groups_of(manifest: Manifest, kinds: WorkloadKinds) -> Sizes:
    """Return the groups that the pods of an object name. Raises `Malformed`."""
    group, _, kind = kind_of(manifest)
    namespace = text(mapping(manifest.get("metadata")).get("namespace")) or "default"
    counted: Counter[Group] = Counter()
    for template, pods in _templates(group, kind, manifest, kinds):
        # Two marks of one system may name one group.
        for named in {_group(namespace, claim.key, claim.value) for claim in claims_on(template)}:
            if named is not None:
                counted[named] += pods
    # A name elsewhere in the object, such as in a custom resource: how many pods have it is unknown.
    return {**_mentioned(manifest), **counted}


def _templates(group: str, kind: str, manifest: Manifest, kinds: WorkloadKinds) -> Iterator[tuple[PodTemplate, int]]:
    spec = mapping(manifest.get("spec"))
    if (group, kind) == ("", "Pod"):
        yield template_at(manifest, SPEC), 1
    elif (group, kind) in REPLICATED:
        yield template_at(mapping(spec.get("template")), SPEC / "template"), replicas_of(spec)
    elif (view := kinds.views.get((group, kind))) is not None and view is not TrainJob:
        for part in view(manifest).parts:
            yield part.template, part.pods


def replicas_of(spec: Mapping[str, Any]) -> int:
    """Return the number of pods that a controller's spec asks for. Raises `Malformed`."""
    found = integer(spec.get("replicas"))
    return 1 if found is None else found


def _group(namespace: str, key: str, name: object) -> Group | None:
    return (_NAMES[key], namespace, name) if key in _NAMES and isinstance(name, str) else None


def _mentioned(manifest: Manifest) -> Sizes:
    """Return every group that is named anywhere in an object, with an unknown number of pods."""
    found: Sizes = {}
    metadata = manifest.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    waiting: list[Any] = [manifest]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                named = _group(namespace if isinstance(namespace, str) else "default", str(key), inner)
                if named is not None:
                    found[named] = None
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def _scaled_by(manifest: Manifest) -> Iterator[Hashable]:
    """Yield the controller whose number of pods an autoscaler sets."""
    target = mapping(manifest.get("spec")).get("scaleTargetRef")
    if isinstance(target, dict):
        of_target = {"apiVersion": target.get("apiVersion"), "kind": target.get("kind")}
        kind, name = kind_of(of_target), text(target.get("name"))
        namespace = text(mapping(manifest.get("metadata")).get("namespace")) or "default"
        yield kind.group, kind.kind, namespace, name
