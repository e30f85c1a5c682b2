"""The labels that a namespaceSelector sees, and whether a webhook has a rule about a kind.

Source: Kubernetes API reference, admissionregistration/v1 RuleWithOperations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.selectors import NAMESPACE_NAME


def namespace_labels(name: str, namespaces: Mapping[str, Manifest]) -> dict[str, Any]:
    """The labels of a namespace that a namespaceSelector is evaluated on."""
    raw = namespaces.get(name, {})
    return {NAMESPACE_NAME: name, **mapping(mapping(raw.get("metadata")).get("labels"))}


def is_about(hook: Manifest, group: str, plural: str, operation: str) -> bool:
    """Whether a webhook has a rule for that operation on that kind, in any version."""
    return any(
        not {group, "*"}.isdisjoint(sequence(rule.get("apiGroups")))
        and not {plural, "*", "*/*"}.isdisjoint(sequence(rule.get("resources")))
        and not {operation, "*"}.isdisjoint(sequence(rule.get("operations")))
        for rule in map(mapping, sequence(hook.get("rules")))
    )
