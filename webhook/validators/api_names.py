"""Rules about names of the API in an object: keys of labels and annotations, fields, and kinds.

A misspelt or misplaced key has no effect, and nothing says so. The rules about fields and kinds judge files only: an
API server drops unknown fields before it calls a webhook. No other rule judges an object whose kind is misspelt or is
not one that Rollcall makes gangs of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from webhook.model import grove, known_kinds
from webhook.model.any_object import KNOWN_KEYS, RETIRED_KEYS, ROLLCALL_DOMAIN, AnyObject, KeyPlace, Marks, MisspeltKeys
from webhook.model.capabilities import QUOTA_ANNOTATION
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ITEMS, LABELS, LONGEST_KEY, OBJECT_META, ROOT, FieldPath, KindFields, NearMisses, Part
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import Api
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Context, Example, Results, Subject, rule

# Read only on the workload itself.
_OF_WORKLOADS = (SCHEDULER_LABEL, "rollcall.dev/disruption-mode")
# Labels of the object itself, and those that a TrainJob gives to the JobSet that Trainer makes, are as short.
_OBJECT_LABELS = ("metadata", "labels")
# An object with keys of more domains is looked at key by key: each may be compared with all known ones.
_MOST_DOMAINS = 16
# A CronJob has no gang. Each of its Jobs has one, and gets the labels of this template.
_OF_CRON_JOBS: tuple[Part, ...] = ("spec", "jobTemplate", "metadata", "labels")


@rule(
    "keys/unknown",
    subject=Subject.KEYS,
    default=Action.WARN,
    passes=Example(pod_clique_set(annotations={QUOTA_ANNOTATION: "team-a", "example.com/owner": "team-a"})),
    fails=Example(pod_clique_set(annotations={f"{QUOTA_ANNOTATION}s": "team-a"})),
)
def unknown_key(manifest: AnyObject, context: Context[Any]) -> Results:
    """A misspelt key of a label or an annotation has no effect: no program reads it, and Kubernetes accepts any key.
    Reported are keys that resemble a known key of Grove, of a scheduler or of Rollcall, and keys that only earlier
    releases or documents have, unless a profile of the configuration says that its scheduler reads them.

    Source: the key constants of these projects; Kubernetes checks only the form of a key
    (k8s.io/apimachinery, pkg/api/validation).
    """
    misspelt = MisspeltKeys()
    for parts, keys in manifest.holders:
        for key, value in keys.items():
            if key in KNOWN_KEYS or key in context.configured_keys:
                continue
            if key in RETIRED_KEYS:
                successor = RETIRED_KEYS[key]
                why = "no current release reads this key, so it has no effect"
                remedy = "remove it" if successor is None else f"write {successor} instead"
                yield Finding(at=FieldPath((*parts, key)), value=value, why=why, remedy=remedy)
                continue
            if (likely := misspelt.likely(key)) is not None:
                reader, remedy = "no program reads this", f"did you mean {likely}? write that key"
            elif key.startswith(f"{ROLLCALL_DOMAIN}/"):
                reader, remedy = "this version of Rollcall reads no such", "remove it, or correct its name"
            else:
                continue
            why = f"{reader} key, so it has no effect"
            yield Finding(at=FieldPath((*parts, key)), value=value, why=why, remedy=remedy)


@rule(
    "keys/misplaced",
    subject=Subject.KEYS,
    default=Action.WARN,
    passes=Example(pod_clique_set(labels={SCHEDULER_LABEL: "koord-scheduler"})),
    fails=Example(pod_clique_set(annotations={SCHEDULER_LABEL: "koord-scheduler"})),
)
def misplaced_key(manifest: AnyObject, _: Context[Any]) -> Results:
    """A key has no effect as an annotation if programs read it only as a label, and the other way round. The label of a
    namespace has no effect on an object in it, and the label of a workload has no effect in its templates.

    Source: the code that reads each key, in the projects that define them. Rollcall reads its choice only as a label
    (webhook/validators/gang_scheduler.py).
    """
    is_namespace = manifest.kind[::2] == ("", "Namespace")
    # Tools that label everything in a file label the workload too, and then nothing is missing.
    of_workload: tuple[Part, ...] = _OF_CRON_JOBS if manifest.kind[::2] == ("batch", "CronJob") else _OBJECT_LABELS
    labels: Mapping[str, Any] = next((keys for parts, keys in manifest.holders if parts == of_workload), {})
    lacking = [key for key in _OF_WORKLOADS if key not in labels]
    for parts, keys in manifest.holders:
        written = KeyPlace.LABEL if parts[-1] == "labels" else KeyPlace.ANNOTATION
        of_namespace = is_namespace and written is KeyPlace.LABEL
        in_template = len(parts) > len(_OBJECT_LABELS) and parts != of_workload
        for key, value in keys.items():
            holder = KNOWN_KEYS.get(key, KeyPlace.EITHER)
            # Most keys are in the right place, and this runs in the webhook.
            right = holder is KeyPlace.EITHER or holder is written or (holder is KeyPlace.NAMESPACE and of_namespace)
            if right and not (in_template and key in lacking):
                continue
            where = "on the workload itself" if right else f"as {holder.value}"
            why = f"it is read only {where}, so it has no effect here"
            remedy = _remedy(key, parts, holder, of_workload, is_namespace=is_namespace)
            yield Finding(FieldPath((*parts, key)), value, why, remedy)


def are_unremarkable(marks: Iterable[Marks]) -> bool:
    """Returns whether the rules of this module surely find nothing in the labels and annotations of an object. Quick,
    because it is asked of every object, and nearly all have the same few keys. False if these are of many domains.
    """
    domains = set[str]()
    for name, of_object, keys in marks:
        for key in keys:
            domain = None if len(key) > LONGEST_KEY else _unremarkable_domain(key, name, of_object)
            if domain is None:
                return False
            if domain not in domains:
                domains.add(domain)
                if len(domains) > _MOST_DOMAINS:
                    return False
    return True


@lru_cache(maxsize=4096)
def _unremarkable_domain(key: str, mark: str, of_object: bool) -> str | None:
    """Returns the domain of a key, empty if it has none. None if a rule of this module finds anything in the key, among
    the `labels` or `annotations` of an object itself, or of a template.
    """
    domain = key.partition("/")[0] if "/" in key else ""
    holder = KNOWN_KEYS.get(key)
    if holder is not None:
        written = KeyPlace.LABEL if mark == _OBJECT_LABELS[-1] else KeyPlace.ANNOTATION
        return domain if holder in {KeyPlace.EITHER, written} and (of_object or key not in _OF_WORKLOADS) else None
    if key in RETIRED_KEYS or domain == ROLLCALL_DOMAIN or MisspeltKeys().likely(key) is not None:
        return None
    return domain


def _remedy(
    key: str, parts: tuple[Part, ...], holder: KeyPlace, of_workload: tuple[Part, ...], *, is_namespace: bool
) -> str:
    if holder is KeyPlace.NAMESPACE and not is_namespace:
        return "remove it here, and set the label on the namespace"
    if key in _OF_WORKLOADS:
        return f"move it to {FieldPath(of_workload)}"
    name = "annotations" if holder is KeyPlace.ANNOTATION else "labels"
    return f"move it to {FieldPath((*parts[:-1], name))}"


_POD_SPEC = {"containers": None, "schedulerName": None}
_CLIQUE = {"name": None, "spec": {"roleName": None, "replicas": None, "minAvailable": None, "podSpec": _POD_SPEC}}
_SET = {"replicas": None, "template": {"cliques": {ITEMS: _CLIQUE}}}
_NAMES = {"apiVersion": None, "kind": None, "metadata": OBJECT_META, "spec": _SET}
# Part of the fields of a PodCliqueSet.
_FACTS = ClusterFacts(
    field_names={Api(grove.GROUP, "v1alpha1", "PodCliqueSet"): KindFields(_NAMES, "Grove v0.1.0-alpha.12-rc1")}
)


_MISSPELT = clique("worker")
_MISSPELT["spec"]["minAvailabe"] = 2
# What does the work of a field that a later release has no more: by group, the field above it, and its name.
_REMOVED: Mapping[tuple[str, ...], str] = {
    # Up to v2.1 of Trainer (TorchMLPolicySource).
    ("trainer.kubeflow.org", "torch", "numProcPerNode"): (
        "remove it, as Trainer has done in v2.2, and set spec.trainer.numProcPerNode in the TrainJob"
    )
}


@rule(
    "fields/unknown",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", minimum=2)), facts=_FACTS),
    fails=Example(pod_clique_set(_MISSPELT), facts=_FACTS),
)
def unknown_field(manifest: AnyObject, _: Context[Any]) -> Results:
    """The API server drops a field that the kind does not have, or refuses the object if the client asks for strict
    validation. A dropped field has no effect, and its default applies instead.

    Source: pruning of structural schemas (k8s.io/apiextensions-apiserver); `kubectl apply --validate`. The field names
    are those of a CRD in `--schemas` or `--facts`, else those of known releases (webhook/offline/field_lists.json).
    """
    for field in manifest.unknown_fields:
        if field.belongs is None:
            meant = f"did you mean {field.likely}? rename it" if field.likely else "remove it, or correct its name"
            meant = _REMOVED.get((manifest.kind.group, *map(str, field.at.parts[-2:])), meant)
            yield Finding(field.at, field.value, _why_dropped(manifest.fields or manifest.pod_fields), meant)


@rule(
    "fields/misplaced",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", pod={"schedulerName": "koord-scheduler"})), facts=_FACTS),
    fails=Example(pod_clique_set(schedulerName="koord-scheduler"), facts=_FACTS),
)
def misplaced_field(manifest: AnyObject, _: Context[Any]) -> Results:
    """The kind has a field of that name, but at another place. Where it is written, the API server drops it or refuses
    the object.

    Source: pruning of structural schemas (k8s.io/apiextensions-apiserver), as for `fields/unknown`.
    """
    for field in manifest.unknown_fields:
        if field.belongs is not None:
            meant = f"did you mean {field.belongs}? move it there"
            yield Finding(field.at, field.value, _why_dropped(manifest.fields or manifest.pod_fields), meant)


def _why_dropped(fields: KindFields | None) -> str:
    origin = "its kind" if fields is None else fields.origin
    return f"{origin} has no such field here, so the API server drops it or refuses the object"


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
    if (meant := _likely_kind(manifest)) is None:
        return
    likely_group, likely_kind = meant
    at, wrong, likely = (
        (ROOT / "kind", kind, f"kind {likely_kind}")
        if likely_kind != kind
        else (ROOT / "apiVersion", manifest.raw.get("apiVersion"), f"the API group {likely_group or '(core)'}")
    )
    why = "Rollcall knows no such kind, so nothing in the object is judged"
    yield Finding(at, wrong, why, f"did you mean {likely}? correct it")


def _likely_kind(manifest: AnyObject) -> tuple[str, str] | None:
    """Returns the group and kind that an unknown kind most likely means, or None."""
    group, _, kind = manifest.kind
    if (
        (group, kind) in manifest.judged
        or (group, kind) in manifest.kinds_with_fields
        or (group, kind) in known_kinds.RETIRED_KINDS
    ):
        return None
    groups: dict[str, list[str]] = {}
    for other, name in (*manifest.judged, *manifest.kinds_with_fields):
        groups.setdefault(name, []).append(other)
    if not kind or group in groups.get(kind, ()):
        return None
    near = NearMisses()
    if kind in groups:
        likely_group = near.likely(group, groups[kind], _SIMILAR_GROUP) if group else None
        if likely_group is None and kind not in known_kinds.SHARED_NAMES:
            likely_group = groups[kind][0]
        return None if likely_group is None else (likely_group, kind)
    # The name must be similar, and the group the right one; or the names must be equal but for upper and lower case.
    likely = near.likely(kind, groups, _SIMILAR_KIND) if kind not in known_kinds.REAL_KINDS else None
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
    if (successor := known_kinds.RETIRED_KINDS.get((group, kind))) is not None:
        renamed = successor[1] != kind
        yield Finding(
            at=ROOT / ("kind" if renamed else "apiVersion"),
            value=kind if renamed else manifest.raw.get("apiVersion"),
            why="no current release serves this kind, so the API server refuses the object",
            remedy=f"write it as {successor[1]} of {successor[0]}",
        )
        return
    here = sorted(api.version for api in facts.apis or () if (api.group, api.kind) == (group, kind))
    served = tuple(here) or known_kinds.SERVED_VERSIONS.get((group, kind), ())
    if not served or version in served or (not here and (manifest.is_declared or api in (facts.field_names or {}))):
        return
    earlier = known_kinds.LAST_SERVED.get((group, kind, version))
    if earlier is not None and not here and (context.kueue.release or _NEWEST_KUEUE) < _NEWEST_KUEUE:
        return
    reader = "this cluster does not serve" if here else "no current release serves"
    spec = manifest.raw.get("spec")
    fields = spec.keys() if isinstance(spec, Mapping) else ()
    changes = [
        change for name, change in known_kinds.CHANGED_FIELDS.get((group, kind, version), {}).items() if name in fields
    ]
    written = " or ".join(f"{group}/{number}" if group else number for number in served)
    yield Finding(
        at=ROOT / "apiVersion",
        value=manifest.raw.get("apiVersion"),
        why=f"{reader} {kind} in the version {shown(version)}, so the API server refuses the object"
        + (f" (only {earlier} serve it)" if earlier else ""),
        remedy="; ".join((f"write apiVersion: {written}", *changes)),
        # An edit of the version alone would lose the fields that have changed.
        instead=() if changes else tuple(f"{group}/{number}" if group else number for number in served[:1]),
    )


# The only project of which earlier releases in use serve a version that the newest one does not.
_NEWEST_KUEUE = Version(0, 20)


_REPLICA_SET: Manifest = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "demo", "namespace": "default", "labels": {SCHEDULER_LABEL: "koord-scheduler"}},
    "spec": {"replicas": 2},
}


@rule(
    "kinds/no-gangs",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(pod_clique_set(labels={SCHEDULER_LABEL: "koord-scheduler"})),
    fails=Example(_REPLICA_SET),
)
def no_gangs(manifest: AnyObject, context: Context[Any]) -> Results:
    """Rollcall makes gangs of PodCliqueSets, TrainJobs, JobSets, LeaderWorkerSets, Jobs, and the kinds that a
    WorkloadShape declares. On a workload of another kind its label has no effect: the pods start one by one, under the
    scheduler that their template names.

    Source: the webhooks of Rollcall select only these kinds (webhook/installation/webhooks.py).
    """
    kind = manifest.kind[::2]
    if kind in manifest.judged or kind in manifest.kinds_with_fields:
        return
    if SCHEDULER_LABEL not in manifest.labels:
        yield from _opted_in_by_namespace(manifest, context)
        return
    remedy = known_kinds.OTHER_WORKLOADS.get(kind) or (
        known_kinds.UNKNOWN_WORKLOAD if _has_pods(manifest.raw) else None
    )
    if remedy is not None and _likely_kind(manifest) is None:
        why = f"Rollcall makes no gangs of the kind {manifest.kind.kind[:63]}, so the label has no effect"
        yield Finding(LABELS / SCHEDULER_LABEL, manifest.labels[SCHEDULER_LABEL], why, remedy)


def _opted_in_by_namespace(manifest: AnyObject, context: Context[Any]) -> Results:
    """Yields one finding about a workload of an unknown kind that a namespace opts in, unless it is no gang in most
    clusters, such as a DaemonSet.
    """
    kind = manifest.kind[::2]
    if (
        kind in known_kinds.OTHER_WORKLOADS
        or kind in known_kinds.NO_GANGS
        or not _has_pods(manifest.raw)
        or _likely_kind(manifest) is not None
    ):
        return
    chosen = context.facts.namespace_label(manifest.namespace, SCHEDULER_LABEL)
    if chosen is not None:
        why = f"its namespace is opted in to {chosen}, but Rollcall makes no gangs of this kind"
        yield Finding(ROOT / "kind", manifest.kind.kind, why, known_kinds.UNKNOWN_WORKLOAD)


def _has_pods(raw: Manifest) -> bool:
    """Returns whether the object has a pod template at the usual place. A label that a tool adds to every object is not
    reported on other objects.
    """
    value: Any = raw
    for name in ("spec", "template", "spec", "containers"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return isinstance(value, list)
