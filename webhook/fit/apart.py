"""Required anti-affinity between the pods of one gang.

Affinity is not read: a pod of another workload with the same labels can always make it easier. Source: Kubernetes 1.37,
pkg/scheduler/framework/plugins/interpodaffinity/filtering.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.fit.pods import Apart, PodNeeds
from webhook.fit.selectors import entries_of, sure_labels, surely_matches
from webhook.model.fields import Item
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.podtemplate import PodTemplate

# More terms are not judged, and in a gang of more roles a term is held against its own role only.
_MOST_TERMS, MOST_ROLES = 8, 8
# So is a template whose selectors have more entries than these when they are held against all roles.
_MOST_CHECKS = 256


def apart_of(
    template: PodTemplate, others: Mapping[str, PodTemplate], *, stored: bool, namespace: str
) -> tuple[Apart, ...]:
    """Return the anti-affinity of a template against the roles in `others` that surely match, itself among them.
    Raises `Malformed`.
    """
    affinity = mapping(mapping(template.spec.get("affinity")).get("podAntiAffinity"))
    terms = sequence(affinity.get(_REQUIRED))[:_MOST_TERMS]
    if not terms:
        return ()
    checks = len(others) * sum(1 + entries_of(mapping(term).get("labelSelector")) for term in terms)
    if len(others) > MOST_ROLES or checks > _MOST_CHECKS:
        others = {name: other for name, other in others.items() if other is template}
    own = sure_labels(template.labels)
    labels = {name: own if other is template else sure_labels(other.labels) for name, other in others.items()}
    found: list[Apart] = []
    for index, term in enumerate(map(mapping, terms)):
        key = text(term.get("topologyKey"))
        if key is not None and _covers(term, namespace):
            roles = frozenset(name for name, other in labels.items() if _matches(term, own, other, stored=stored))
            if roles:
                at = template.spec_path / "affinity" / "podAntiAffinity" / _REQUIRED / Item(index)
                found.append(Apart(key, roles, at))
    return tuple(found)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ONE_SIDED = "the required anti-affinity of some pods of the gang against others, which do not state it"


def mutual(needs: Mapping[str, PodNeeds]) -> dict[str, PodNeeds]:
    """Return the needs of all roles by name, with the anti-affinity that both sides state. The rest is left out.

    For a scheduler that holds a pod against its own terms alone, and not against those of the gang's pods that it has
    placed at the same moment: the pod that has no term is placed second, beside the other.
    """
    found = {}
    for name, pods in needs.items():
        apart = [
            rule._replace(roles=frozenset(other for other in rule.roles if _states(needs[other], rule.key, name)))
            for rule in pods.apart
        ]
        left_out = pods.left_out if apart == list(pods.apart) else (*pods.left_out, _ONE_SIDED)
        found[name] = replace(pods, apart=tuple(rule for rule in apart if rule.roles), left_out=left_out)
    return found


def _states(pods: PodNeeds, key: str, name: str) -> bool:
    return any(rule.key == key and name in rule.roles for rule in pods.apart)


def _covers(term: Mapping[str, Any], namespace: str) -> bool:
    """Whether a term surely is about pods of the gang's own namespace."""
    names, selector = sequence(term.get("namespaces")), term.get("namespaceSelector")
    if namespace in names or (not names and selector is None):
        return True
    # An empty selector selects every namespace. For any other, the labels of the namespace count.
    return selector is not None and not any(mapping(selector).values())


def _matches(term: Mapping[str, Any], own: Mapping[str, str], other: Mapping[str, str], *, stored: bool) -> bool:
    """Whether a term of a pod with the sure labels `own` surely matches those of `other`."""
    if not surely_matches(term.get("labelSelector"), other):
        return False
    # The API server writes both into the selector of a pod. A key that is not sure may have any value.
    same, different = (list(_keys(term, field)) for field in ("matchLabelKeys", "mismatchLabelKeys"))
    return stored or (
        all(key in own and own[key] == other.get(key) for key in same)
        and all(key in own and key in other and own[key] != other[key] for key in different)
    )


def _keys(term: Mapping[str, Any], field: str) -> Iterator[str]:
    for key in sequence(term.get(field)):
        yield text(key) or ""
