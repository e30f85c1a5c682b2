"""Taints by which a verdict stands: those that keep pods off every node, and those that only tolerations let pods pass
that something adds at admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from webhook.fit.eligibility import EVERYTHING, Eligibility, is_transient
from webhook.fit.packing import Packing, Role
from webhook.fit.parts import roles_of
from webhook.fit.shape import GangShape
from webhook.fit.verdict import Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.node import Taint
from webhook.model.reading import text
from webhook.model.workloads.podtemplate import PodTemplate

# What a message shows of a taint, and how many.
_LONGEST, _MOST = 60, 2


def with_taints(verdict: Verdict, packing: Packing, facts: ClusterFacts) -> Verdict:
    """Return the verdict with the taints that keep the pods off all nodes, if its proof is that no node admits them."""
    witness, nodes = verdict.witness, facts.nodes
    if witness is None or not witness.closed or nodes is None:
        return verdict
    role = next((one for one in roles_of(packing.sets) if one.name in witness.members), None)
    taints = {} if role is None else dict.fromkeys(_keeping_off(role.pods.eligibility, facts))
    if role is None or not taints:
        return verdict
    shown = " and ".join(_text_of(one) for one in list(taints)[:_MOST])
    more = f" and {len(taints) - _MOST} more" if len(taints) > _MOST else ""
    why = f"no node admits the pods of {role.name}: they do not tolerate the taint {shown}{more}"
    remedy = "add the toleration, or add nodes without the taint"
    return replace(verdict, witness=replace(witness, why=why, remedy=remedy))


def _keeping_off(eligibility: Eligibility, facts: ClusterFacts) -> Iterator[Taint]:
    """Yield the taints that a pod does not tolerate of the nodes that it may use otherwise."""
    assert facts.nodes is not None  # noqa: S101 - asked for by the caller
    keys, whatever = tuple(sorted(eligibility.keys)), replace(eligibility, tolerations=(EVERYTHING,))
    for group in facts.nodes.groups(keys):
        labels = {key: value for key, value in zip(keys, group.values, strict=True) if value is not None}
        if whatever.admits(None, labels, ()):
            yield from (taint for taint in group.taints if not eligibility.tolerates(taint))


def added_tolerations(verdict: Verdict, shape: GangShape, packing: Packing, facts: ClusterFacts) -> tuple[str, ...]:
    """Return what a placement relies on: tolerations that the templates lack. Raises `Malformed`."""
    if shape.stored or facts.nodes is None:
        return ()
    templates = {member.called: member.template for member in shape.members}
    roles = {role.name: role for role in roles_of(packing.sets)}
    found: dict[str, None] = {}
    for name, nodes in _nodes_by_role(verdict).items():
        if name in roles and name in templates:
            taints = dict.fromkeys(taint for node in nodes if node in facts.nodes for taint in facts.nodes[node].taints)
            found.update(dict.fromkeys(_relied_on(roles[name], templates[name], taints)))
    return tuple(found)


def _nodes_by_role(verdict: Verdict) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for spot in verdict.placement:
        found.setdefault(spot.role, set()).add(spot.node)
    return found


def _relied_on(role: Role, template: PodTemplate, taints: Iterable[Taint]) -> Iterator[str]:
    """Yield which added tolerations the pods of a role need for these taints."""
    own = Eligibility.of(template.spec, stored=True)
    runtime_class = text(template.spec.get("runtimeClassName"))
    for taint in taints:
        if own.tolerates(taint) or is_transient(taint) or not role.pods.eligibility.tolerates(taint):
            continue
        if taint.key in template.resources:
            adds = "the admission plugin ExtendedResourceToleration, or a webhook, adds"
        elif runtime_class is not None:
            adds = f"the RuntimeClass {runtime_class[:_LONGEST]} adds"
        else:
            continue
        yield f"{adds} a toleration of the taint {_text_of(taint)} to the pods of {role.name}"


def _text_of(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    written = f"{taint.key}{value}:{taint.effect}"
    return written if len(written) <= _LONGEST else f"{written[: _LONGEST - 1]}…"
