"""Whether a label selector surely matches the pods of a template, whatever other labels they get.

Controllers add labels to each pod, such as its index, and replace those that a template has under the same keys. So
only labels that no controller writes are sure. Source: apimachinery labels/selector.go of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    }
)
# People write these, except the keys above, which Grove writes.
_OF_PEOPLE = "app.kubernetes.io"


def is_sure(key: str) -> bool:
    """Return whether a pod surely has what its template has for a label key."""
    if key in _WRITTEN_KEYS:
        return False
    domain, slash, _ = key.rpartition("/")
    return not slash or domain == _OF_PEOPLE or not _is_below(domain, _WRITTEN_DOMAINS)


def _is_below(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == one or domain.endswith((f".{one}", f"-{one}")) for one in domains)


def sure_labels(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that all pods of a template surely have. Raises `Malformed`."""
    return {key: text(value) or "" for key, value in labels.items() if is_sure(key)}


def entries_of(selector: object) -> int:
    """Return how many entries a selector has. Raises `Malformed`."""
    if selector is None:
        return 0
    return len(mapping(mapping(selector).get("matchLabels"))) + len(_expressions(selector))


def surely_matches(selector: object, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches all pods with these sure labels. Without a selector none match. Raises
    `Malformed`.
    """
    if selector is None:
        return False
    if entries_of(selector) > _MOST_ENTRIES:
        return False
    pairs, expressions = mapping(mapping(selector).get("matchLabels")), _expressions(selector)
    return all(labels.get(key) == (text(value) or "") for key, value in pairs.items()) and all(
        _holds(mapping(one), labels) for one in expressions
    )


def _expressions(selector: object) -> Any:
    return sequence(mapping(selector).get("matchExpressions"))


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether an expression surely holds. A label that is not sure may be there or not."""
    value, values = labels.get(text(expression.get("key")) or ""), sequence(expression.get("values"))
    if value is None or len(values) > _MOST_VALUES:
        return False
    operator = expression.get("operator")
    if operator == "NotIn":
        return value not in values
    return operator == "Exists" or (operator == "In" and value in values)
