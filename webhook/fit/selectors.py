"""Whether a label selector surely matches the pods of a template, whatever other labels they get.

Controllers add labels to each pod, such as its index, and replace those that a template has under the same keys. So
only labels that no controller writes are sure, and those of which it is known what the controller writes. Source:
apimachinery labels/selector.go of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.model.reading import mapping, sequence, text

# More entries of one selector are not judged.
_MOST_ENTRIES, _MOST_VALUES = 64, 1024
# The domains of labels that controllers write, and the keys without a domain.
_WRITTEN_DOMAINS = (
    "kubernetes.io",
    "k8s.io",
    "grove.io",
    "kubeflow.org",
    "volcano.sh",
    "koordinator.sh",
    "kai.scheduler",
    "run.ai",
    "ray.io",
    "dask.org",
    "argoproj.io",
    "codeflare.dev",
    "rollcall.dev",
)
_WRITTEN_KEYS = frozenset(
    {
        "job-name",
        "controller-uid",
        "controller-revision-hash",
        "pod-template-hash",
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "app.kubernetes.io/name",
        "app.kubernetes.io/component",
        "app.kubernetes.io/part-of",
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/created-by",
        "spark-role",
        "spark-app-name",
        "spark-app-selector",
        "spark-exec-id",
    }
)
# People write these, except the keys above, which Grove writes.
_OF_PEOPLE = "app.kubernetes.io"


def is_sure(key: str) -> bool:
    """Return whether a pod surely has what its template has for a label key."""
    if key in _WRITTEN_KEYS:
        return False
    domain, slash, name = key.rpartition("/")
    # Koordinator's label for the group of a pod has no slash.
    return domain == _OF_PEOPLE or not _is_below(domain if slash else name, _WRITTEN_DOMAINS)


def _is_below(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == one or domain.endswith((f".{one}", f"-{one}")) for one in domains)


def sure_labels(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that all pods of a template surely have. Raises `Malformed`."""
    return {key: text(value) or "" for key, value in labels.items() if is_sure(key)}


class PodLabels(NamedTuple):
    """The labels that all pods of a role surely have. Only labels that controllers write may be there besides, and in
    `stored` pods only those that differ from pod to pod.
    """

    sure: Mapping[str, str]
    stored: bool = False

    @classmethod
    def of(cls, labels: Mapping[str, Any], written: Mapping[str, str], *, stored: bool) -> PodLabels:
        """Return the labels of a template with those that are known to be `written` into its pods. Raises
        `Malformed`.
        """
        if stored:
            return cls({key: text(value) or "" for key, value in labels.items() if key not in OF_ONE_POD}, stored)
        return cls({**sure_labels(labels), **written})

    def may_have(self, key: str) -> bool:
        """Return whether the pods may have a label with any value."""
        return key not in self.sure and (key in OF_ONE_POD if self.stored else not is_sure(key))


def entries_of(selector: object) -> int:
    """Return how many entries a selector has. Raises `Malformed`."""
    if selector is None:
        return 0
    return len(mapping(mapping(selector).get("matchLabels"))) + len(_expressions(selector))


def matches(selector: object, labels: PodLabels) -> bool | None:
    """Return whether a selector matches all pods with these labels (True) or none of them (False); None if that is not
    known. Without a selector none match. Raises `Malformed`.
    """
    if selector is None:
        return False
    if entries_of(selector) > _MOST_ENTRIES:
        return None
    pairs, expressions = mapping(mapping(selector).get("matchLabels")), _expressions(selector)
    found = [_is(labels, key, (text(value) or "",)) for key, value in pairs.items()]
    found += [_holds(mapping(one), labels) for one in expressions]
    return all_hold(found)


def surely_matches(selector: object, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches all pods with these sure labels. Raises `Malformed`."""
    return matches(selector, PodLabels(labels)) is True


def all_hold(answers: Iterable[bool | None]) -> bool | None:
    """Return whether all hold; None if one that may fail is not known."""
    found = set(answers)
    return False if False in found else None if None in found else True


def _expressions(selector: object) -> Any:
    return sequence(mapping(selector).get("matchExpressions"))


def _is(labels: PodLabels, key: str, values: Sequence[Any]) -> bool | None:
    """Return whether a label is there with one of these values."""
    if (value := labels.sure.get(key)) is not None:
        return value in values
    return None if labels.may_have(key) else False


def _holds(expression: Mapping[str, Any], labels: PodLabels) -> bool | None:
    """Return whether an expression holds. A label that a template lacks may still come, so only a stored pod surely
    lacks one.
    """
    key, values = text(expression.get("key")) or "", sequence(expression.get("values"))
    if len(values) > _MOST_VALUES:
        return None
    operator = expression.get("operator")
    if operator == "In":
        return _is(labels, key, values)
    there = key in labels.sure
    if operator == "Exists":
        return True if there else None if labels.may_have(key) else False
    if operator == "NotIn" and there:
        return labels.sure[key] not in values
    if operator == "DoesNotExist" and there:
        return False
    lacks = labels.stored and not labels.may_have(key)
    return True if lacks and operator in {"NotIn", "DoesNotExist"} else None


# Labels that Kubernetes and others give each pod of a template another value of.
OF_ONE_POD = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "grove.io/podclique-pod-index",
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-index",
        "jobset.sigs.k8s.io/job-key",
        "leaderworkerset.sigs.k8s.io/worker-index",
    }
)
