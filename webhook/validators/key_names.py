"""Rules about the keys of labels and annotations: a misspelt or misplaced key has no effect, and nothing says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from webhook.model.any_object import AnyObject, Marks
from webhook.model.capabilities import QUOTA_ANNOTATION
from webhook.model.fields import LONGEST_KEY, FieldPath, Part
from webhook.model.findings import Action, Finding
from webhook.model.known_keys import KNOWN_KEYS, OWN_DOMAIN, RETIRED_KEYS, Holder, MisspeltKeys
from webhook.model.record import SCHEDULER_LABEL
from webhook.validators.examples import pod_clique_set
from webhook.validators.registry import Context, Example, Results, Subject, rule

# Read only on the workload itself.
_OF_WORKLOADS = (SCHEDULER_LABEL, "rollcall.dev/disruption-mode")
# Labels of the object itself, and those that a TrainJob gives to the JobSet that Trainer makes, are as short.
_OWN = ("metadata", "labels")
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
def unknown_key(found: AnyObject, context: Context[Any]) -> Results:
    """A misspelt key of a label or an annotation has no effect: no program reads it, and Kubernetes accepts any key.
    Reported are keys that resemble a known key of Grove, of a scheduler or of Rollcall, and keys that only earlier
    releases or documents have, unless a profile of the configuration says that its scheduler reads them.

    Source: the key constants of these projects; Kubernetes checks only the form of a key
    (k8s.io/apimachinery, pkg/api/validation).
    """
    misspelt = MisspeltKeys()
    for parts, keys in found.holders:
        for key, value in keys.items():
            if key in KNOWN_KEYS or key in context.configured_keys:
                continue
            if key in RETIRED_KEYS:
                successor = RETIRED_KEYS[key]
                why = "no current release reads this key, so it has no effect"
                remedy = "remove it" if successor is None else f"write {successor} instead"
                yield Finding(at=FieldPath((*parts, key)), found=value, why=why, remedy=remedy)
                continue
            if (likely := misspelt.likely(key)) is not None:
                reader, remedy = "no program reads this", f"did you mean {likely}? write that key"
            elif key.startswith(f"{OWN_DOMAIN}/"):
                reader, remedy = "this version of Rollcall reads no such", "remove it, or correct its name"
            else:
                continue
            why = f"{reader} key, so it has no effect"
            yield Finding(at=FieldPath((*parts, key)), found=value, why=why, remedy=remedy)


@rule(
    "keys/misplaced",
    subject=Subject.KEYS,
    default=Action.WARN,
    passes=Example(pod_clique_set(labels={SCHEDULER_LABEL: "koord-scheduler"})),
    fails=Example(pod_clique_set(annotations={SCHEDULER_LABEL: "koord-scheduler"})),
)
def misplaced_key(found: AnyObject, _: Context[Any]) -> Results:
    """A key has no effect as an annotation if programs read it only as a label, and the other way round. The label of a
    namespace has no effect on an object in it, and the label of a workload has no effect in its templates.

    Source: the code that reads each key, in the projects that define them. Rollcall reads its choice only as a label
    (webhook/validators/selection.py).
    """
    is_namespace = found.kind[::2] == ("", "Namespace")
    # Tools that label everything in a file label the workload too, and then nothing is missing.
    of_workload: tuple[Part, ...] = _OF_CRON_JOBS if found.kind[::2] == ("batch", "CronJob") else _OWN
    labels: Mapping[str, Any] = next((keys for parts, keys in found.holders if parts == of_workload), {})
    lacking = [key for key in _OF_WORKLOADS if key not in labels]
    for parts, keys in found.holders:
        written = Holder.LABEL if parts[-1] == "labels" else Holder.ANNOTATION
        of_namespace = is_namespace and written is Holder.LABEL
        in_template = len(parts) > len(_OWN) and parts != of_workload
        for key, value in keys.items():
            holder = KNOWN_KEYS.get(key, Holder.EITHER)
            # Most keys are in the right place, and this runs in the webhook.
            right = holder is Holder.EITHER or holder is written or (holder is Holder.NAMESPACE and of_namespace)
            if right and not (in_template and key in lacking):
                continue
            where = "on the workload itself" if right else f"as {holder.value}"
            yield Finding(
                at=FieldPath((*parts, key)),
                found=value,
                why=f"it is read only {where}, so it has no effect here",
                remedy=_remedy(key, parts, holder, of_workload, is_namespace=is_namespace),
            )


def are_unremarkable(marks: Iterable[Marks]) -> bool:
    """Whether the rules of this module surely find nothing in the labels and annotations of an object. Quick, because
    it is asked of every object, and nearly all have the same few keys. False if these are of many domains.
    """
    domains = set[str]()
    for name, own, keys in marks:
        for key in keys:
            domain = None if len(key) > LONGEST_KEY else _unremarkable_domain(key, name, own)
            if domain is None:
                return False
            if domain not in domains:
                domains.add(domain)
                if len(domains) > _MOST_DOMAINS:
                    return False
    return True


@lru_cache(maxsize=4096)
def _unremarkable_domain(key: str, mark: str, own: bool) -> str | None:
    """The domain of a key, empty if it has none. None if a rule of this module finds anything in the key, among the
    `labels` or `annotations` of an object itself, or of a template.
    """
    domain = key.partition("/")[0] if "/" in key else ""
    holder = KNOWN_KEYS.get(key)
    if holder is not None:
        written = Holder.LABEL if mark == _OWN[-1] else Holder.ANNOTATION
        return domain if holder in {Holder.EITHER, written} and (own or key not in _OF_WORKLOADS) else None
    if key in RETIRED_KEYS or domain == OWN_DOMAIN or MisspeltKeys().likely(key) is not None:
        return None
    return domain


def _remedy(
    key: str, parts: tuple[Part, ...], holder: Holder, of_workload: tuple[Part, ...], *, is_namespace: bool
) -> str:
    if holder is Holder.NAMESPACE and not is_namespace:
        return "remove it here, and set the label on the namespace"
    if key in _OF_WORKLOADS:
        return f"move it to {FieldPath(of_workload)}"
    name = "annotations" if holder is Holder.ANNOTATION else "labels"
    return f"move it to {FieldPath((*parts[:-1], name))}"
