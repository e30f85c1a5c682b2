"""Evaluates label selectors as the API server does. Source: Kubernetes API reference, meta/v1 LabelSelector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.reading import mapping, sequence

# The API server sets this label on each namespace; a namespaceSelector selects a namespace's name by it.
NAMESPACE_NAME = "kubernetes.io/metadata.name"


def selects(selector: object, labels: Mapping[str, Any]) -> bool:
    """Whether a selector matches these labels; a missing or empty selector matches everything."""
    found = mapping(selector)
    if any(labels.get(key) != value for key, value in mapping(found.get("matchLabels")).items()):
        return False
    return all(_holds(mapping(one), labels) for one in sequence(found.get("matchExpressions")))


def _holds(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, operator = str(expression.get("key")), expression.get("operator")
    if operator in {"Exists", "DoesNotExist"}:
        return (key in labels) is (operator == "Exists")
    # NotIn also matches an object without the label.
    return (labels.get(key) in sequence(expression.get("values"))) is (operator == "In")
