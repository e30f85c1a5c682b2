"""The roles as templates: each rule has the verbs of the enabled features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from webhook.installation.chart.features import Feature, roles
from webhook.installation.chart.template import literal
from webhook.model.reading import Manifest

_Key = tuple[tuple[str, ...], ...]
# For each kind and name: verbs, and the features that need them.
_Rules = dict[_Key, dict[str, list[str]]]
_PARTS = ("apiGroups", "resources", "resourceNames")


def role_rules(kind: str, name: str, features: Sequence[Feature]) -> str:
    """The text of a role's `rules`, for the end of its template."""
    rules: _Rules = {}
    for feature in features:
        for role in roles(feature.settings):
            if (role["kind"], role["metadata"]["name"]) == (kind, name):
                _gather(role["rules"], feature.name, rules)
    lines = []
    for key, verbs in rules.items():
        rule = {part: list(values) for part, values in zip(_PARTS, key, strict=True) if values}
        arguments = f'"features" $features "rule" {literal(rule)} "verbs" {literal(verbs)}'
        lines.append(f'{{{{- include "rollcall.rule" (dict {arguments}) }}}}\n')
    return "rules:\n" + "".join(lines)


def of_features(kind: str, name: str, features: Sequence[Feature], made: Callable[[Feature], list[Manifest]]) -> str:
    """The template condition under which the object exists: one of the features that have it is enabled."""
    having = [
        feature.name
        for feature in features
        if any((one["kind"], one["metadata"]["name"]) == (kind, name) for one in made(feature))
    ]
    if len(having) == len(features):
        return ""
    return f'include "rollcall.any" (dict "features" $features "of" {literal(having)})'


def _gather(found: list[Manifest], feature: str, rules: _Rules) -> None:
    for rule in found:
        key = tuple(tuple(rule.get(part, ())) for part in _PARTS)
        wanted = rules.setdefault(key, {})
        # Verbs that are always granted are not repeated.
        known = wanted.get("always", [])
        verbs = [verb for verb in rule["verbs"] if verb not in known]
        if verbs:
            wanted[feature] = verbs
