"""Required anti-affinity between the pods of one gang.

Affinity is not read: a pod of another workload with the same labels can always make it easier. Source: Kubernetes 1.37,
pkg/scheduler/framework/plugins/interpodaffinity/filtering.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.fit.pods import Apart, PodNeeds
from webhook.fit.selectors import PodLabels, all_hold, entries_of, matches
from webhook.model.fields import FieldPath, Item
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.podtemplate import PodTemplate

# More terms are not judged, and in a gang of more roles a term is held against its own role only.
_MOST_TERMS, MOST_ROLES = 8, 8
# So is a template whose selectors have more entries than these when they are held against all roles.
_MOST_CHECKS = 256


NONE_WRITTEN: Mapping[str, Mapping[str, str]] = MappingProxyType({})
_NOT_KNOWN = "the required anti-affinity of the pods, as the labels that controllers add to them are not all known"


class _Term(NamedTuple):
    """A term of the anti-affinity: the roles that surely match, and whether others may."""

    key: str
    at: FieldPath
    roles: frozenset[str]
    may_match: bool


def apart_of(
    template: PodTemplate,
    others: Mapping[str, PodTemplate],
    *,
    stored: bool,
    namespace: str,
    written: Mapping[str, Mapping[str, str]] = NONE_WRITTEN,
) -> tuple[Apart, ...]:
    """Return the anti-affinity of a template against the roles in `others` that surely match, itself among them.
    `written`: by role, labels that a controller is known to write into its pods. Raises `Malformed`.
    """
    terms = _terms(template, others, written, stored=stored, namespace=namespace)
    return tuple(Apart(one.key, one.roles, one.at) for one in terms if one.roles)


def apart_left_out(
    template: PodTemplate,
    others: Mapping[str, PodTemplate],
    *,
    stored: bool,
    namespace: str,
    written: Mapping[str, Mapping[str, str]] = NONE_WRITTEN,
) -> tuple[str, ...]:
    """Return the required anti-affinity that is not judged, in words. Raises `Malformed`."""
    every = list(_terms(template, others, written, stored=stored, namespace=namespace))
    stated = _stated(template)
    if len(stated) > _MOST_TERMS or (stated and _is_long(others, stated[:_MOST_TERMS])):
        return (_NOT_KNOWN,)
    return (_NOT_KNOWN,) if any(one.may_match for one in every) else ()


def _stated(template: PodTemplate) -> Sequence[Any]:
    return sequence(mapping(mapping(template.spec.get("affinity")).get("podAntiAffinity")).get(_REQUIRED))


def _is_long(others: Mapping[str, PodTemplate], terms: Sequence[Any]) -> bool:
    """Return whether it would take too long to hold each term against each role."""
    checks = len(others) * sum(1 + entries_of(mapping(term).get("labelSelector")) for term in terms)
    return len(others) > MOST_ROLES or checks > _MOST_CHECKS


def _terms(
    template: PodTemplate,
    others: Mapping[str, PodTemplate],
    written: Mapping[str, Mapping[str, str]],
    *,
    stored: bool,
    namespace: str,
) -> Iterator[_Term]:
    """Yield the terms that may be about pods of the gang. Raises `Malformed`."""
    terms = _stated(template)[:_MOST_TERMS]
    if not terms:
        return
    if _is_long(others, terms):
        others = {name: other for name, other in others.items() if other is template}
    labels = {name: PodLabels.of(other.labels, written.get(name, {}), stored=stored) for name, other in others.items()}
    own = next(
        (labels[name] for name, other in others.items() if other is template),
        PodLabels.of(template.labels, {}, stored=stored),
    )
    for index, term in enumerate(map(mapping, terms)):
        key = text(term.get("topologyKey"))
        covers = None if key is None else _covers(term, namespace)
        if key is None or covers is False:
            continue
        answers = {
            name: all_hold((covers, _matches(term, own, other, stored=stored))) for name, other in labels.items()
        }
        at = template.spec_path / "affinity" / "podAntiAffinity" / _REQUIRED / Item(index)
        roles = frozenset(name for name, answer in answers.items() if answer is True)
        yield _Term(key, at, roles, may_match=None in answers.values())


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


def _covers(term: Mapping[str, Any], namespace: str) -> bool | None:
    """Return whether a term is about pods of the gang's own namespace; None if the labels of the namespace decide."""
    names, selector = sequence(term.get("namespaces")), term.get("namespaceSelector")
    if namespace in names or (not names and selector is None):
        return True
    if selector is None:
        return False
    # An empty selector selects every namespace.
    return None if any(mapping(selector).values()) else True


def _matches(term: Mapping[str, Any], own: PodLabels, other: PodLabels, *, stored: bool) -> bool | None:
    """Return whether a term of a pod with the labels `own` matches pods with those of `other`."""
    found = matches(term.get("labelSelector"), other)
    if stored or found is False:
        # The API server has written the keys of labels into the selector of a stored pod.
        return found
    same = (_is_same(key, own, other) for key in _keys(term, "matchLabelKeys"))
    different = (_is_same(key, own, other, is_not=True) for key in _keys(term, "mismatchLabelKeys"))
    return all_hold((found, *same, *different))


def _is_same(key: str, own: PodLabels, other: PodLabels, *, is_not: bool = False) -> bool | None:
    """Return whether both have the same value of a label, or with `is_not` different ones."""
    one, two = own.sure.get(key), other.sure.get(key)
    return None if one is None or two is None else (one == two) is not is_not


def _keys(term: Mapping[str, Any], field: str) -> Iterator[str]:
    for key in sequence(term.get(field)):
        yield text(key) or ""
