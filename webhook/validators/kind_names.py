"""Rules about objects that no other rule judges, because their kind is misspelt or is not one that Rollcall makes gangs
of. They judge files only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.any_object import AnyObject
from webhook.model.fields import LABELS, ROOT
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import Api
from webhook.model.known_kinds import (
    CHANGED_FIELDS,
    LAST_SERVED,
    NO_GANGS,
    OTHER_WORKLOADS,
    REAL_KINDS,
    RETIRED_KINDS,
    SERVED_VERSIONS,
    SHARED_NAMES,
    UNKNOWN_WORKLOAD,
)
from webhook.model.near_names import NearMisses
from webhook.model.reading import Manifest
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.version import Version
from webhook.validators.examples import pod_clique_set
from webhook.validators.registry import Context, Example, Results, Subject, rule

_SIMILAR_KIND, _SIMILAR_GROUP = 0.8, 0.8


@rule(
    "kinds/unknown",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(pod_clique_set()),
    fails=Example({**pod_clique_set(), "kind": "PodcliqueSet"}),
)
def unknown_kind(manifest: AnyObject, _: Context[Any]) -> Results:
    """No rule judges an object of an unknown kind, and no API server accepts it. Reported are kinds and API groups that
    resemble one that Rollcall judges.

    Source: an API server serves a kind only by its exact group and name (k8s.io/apimachinery, pkg/api/meta).
    """
    kind = manifest.kind.kind
    if (meant := _meant(manifest)) is None:
        return
    likely_group, likely_kind = meant
    at, wrong, likely = (
        (ROOT / "kind", kind, f"kind {likely_kind}")
        if likely_kind != kind
        else (ROOT / "apiVersion", manifest.raw.get("apiVersion"), f"the API group {likely_group or '(core)'}")
    )
    yield Finding(
        at=at,
        found=wrong,
        why="Rollcall knows no such kind, so nothing in the object is judged",
        remedy=f"did you mean {likely}? correct it",
    )


def _meant(manifest: AnyObject) -> tuple[str, str] | None:
    """Return the group and kind that an unknown kind most likely means, or None."""
    group, _, kind = manifest.kind
    if (group, kind) in manifest.judged or (group, kind) in manifest.known or (group, kind) in RETIRED_KINDS:
        return None
    groups: dict[str, list[str]] = {}
    for one, name in (*manifest.judged, *manifest.known):
        groups.setdefault(name, []).append(one)
    if not kind or group in groups.get(kind, ()):
        return None
    near = NearMisses()
    if kind in groups:
        likely_group = near.likely(group, groups[kind], _SIMILAR_GROUP) if group else None
        if likely_group is None and kind not in SHARED_NAMES:
            likely_group = groups[kind][0]
        return None if likely_group is None else (likely_group, kind)
    # The name must be similar, and the group the right one; or the names must be equal but for upper and lower case.
    likely = near.likely(kind, groups, _SIMILAR_KIND) if kind not in REAL_KINDS else None
    if likely is None or not (group in groups[likely] or likely.casefold() == kind.casefold()):
        return None
    return (group if group in groups[likely] else groups[likely][0]), likely


@rule(
    "kinds/version",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(pod_clique_set()),
    fails=Example({**pod_clique_set(), "apiVersion": "grove.io/v1"}),
)
def served_version(manifest: AnyObject, context: Context[Any]) -> Results:
    """An API server refuses an object in a version that it does not serve. A version counts as served if a
    CustomResourceDefinition in the schemas or the facts has it, if a WorkloadShape declares it, or if a current release
    of its project has it. Where the facts say what the cluster serves, only that counts. The v1beta1 of Kueue, which
    0.19 is the last release to serve, is not reported if `kueue.version` of the configuration is 0.19.

    Source: the CustomResourceDefinitions of each project, and the API versions of Kubernetes 1.36 to 1.38;
    kubernetes-sigs/kueue, CHANGELOG-0.20 (pull request 14558).
    """
    group, version, kind = manifest.kind
    facts, api = context.facts, Api(group, version, kind)
    if (successor := RETIRED_KINDS.get((group, kind))) is not None:
        renamed = successor[1] != kind
        yield Finding(
            at=ROOT / ("kind" if renamed else "apiVersion"),
            found=kind if renamed else manifest.raw.get("apiVersion"),
            why="no current release serves this kind, so the API server refuses the object",
            remedy=f"write it as {successor[1]} of {successor[0]}",
        )
        return
    here = sorted(one.version for one in facts.apis or () if (one.group, one.kind) == (group, kind))
    served = tuple(here) or SERVED_VERSIONS.get((group, kind), ())
    if not served or version in served or (not here and (manifest.is_declared or api in (facts.field_names or {}))):
        return
    earlier = LAST_SERVED.get((group, kind, version))
    if earlier is not None and not here and (context.kueue.release or _NEWEST_KUEUE) < _NEWEST_KUEUE:
        return
    reader = "this cluster does not serve" if here else "no current release serves"
    spec = manifest.raw.get("spec")
    fields = spec.keys() if isinstance(spec, Mapping) else ()
    changes = [change for name, change in CHANGED_FIELDS.get((group, kind, version), {}).items() if name in fields]
    written = " or ".join(f"{group}/{one}" if group else one for one in served)
    yield Finding(
        at=ROOT / "apiVersion",
        found=manifest.raw.get("apiVersion"),
        why=f"{reader} {kind} in the version {shown(version)}, so the API server refuses the object"
        + (f" (only {earlier} serve it)" if earlier else ""),
        remedy="; ".join((f"write apiVersion: {written}", *changes)),
        # An edit of the version alone would lose the fields that have changed.
        instead=() if changes else tuple(f"{group}/{one}" if group else one for one in served[:1]),
    )


# The only project of which earlier releases in use serve a version that the newest one does not.
_NEWEST_KUEUE = Version(0, 20)


def _other_workload(kind: str, **spec: Any) -> Manifest:
    metadata = {"name": "demo", "namespace": "default", "labels": {SCHEDULER_LABEL: "koord-scheduler"}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


@rule(
    "kinds/no-gangs",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(pod_clique_set(labels={SCHEDULER_LABEL: "koord-scheduler"})),
    fails=Example(_other_workload("ReplicaSet", replicas=2)),
)
def no_gangs(manifest: AnyObject, context: Context[Any]) -> Results:
    """Rollcall makes gangs of PodCliqueSets, TrainJobs, JobSets, LeaderWorkerSets, Jobs, and the kinds that a
    WorkloadShape declares. On a workload of another kind its label has no effect: the pods start one by one, under the
    scheduler that their template names.

    Source: the webhooks of Rollcall select only these kinds (webhook/installation/webhooks.py).
    """
    kind = manifest.kind[::2]
    if kind in manifest.judged or kind in manifest.known:
        return
    if SCHEDULER_LABEL not in manifest.labels:
        yield from _in_namespace(manifest, context)
        return
    remedy = OTHER_WORKLOADS.get(kind) or (UNKNOWN_WORKLOAD if _has_pods(manifest.raw) else None)
    if remedy is not None and _meant(manifest) is None:
        yield Finding(
            at=LABELS / SCHEDULER_LABEL,
            found=manifest.labels[SCHEDULER_LABEL],
            why=f"Rollcall makes no gangs of the kind {manifest.kind.kind[:63]}, so the label has no effect",
            remedy=remedy,
        )


def _in_namespace(manifest: AnyObject, context: Context[Any]) -> Results:
    """One finding about a workload of an unknown kind that a namespace opts in, unless it is no gang in most clusters,
    such as a DaemonSet.
    """
    kind = manifest.kind[::2]
    if kind in OTHER_WORKLOADS or kind in NO_GANGS or not _has_pods(manifest.raw) or _meant(manifest) is not None:
        return
    chosen = context.facts.namespace_label(manifest.namespace, SCHEDULER_LABEL)
    if chosen is not None:
        yield Finding(
            at=ROOT / "kind",
            found=manifest.kind.kind,
            why=f"its namespace is opted in to {chosen}, but Rollcall makes no gangs of this kind",
            remedy=UNKNOWN_WORKLOAD,
        )


def _has_pods(raw: Manifest) -> bool:
    """Return whether the object has a pod template at the usual place. A label that a tool adds to every object is not
    reported on other objects.
    """
    value: Any = raw
    for name in ("spec", "template", "spec", "containers"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return isinstance(value, list)
