"""Conflicts: which kinds of pods cannot share a node, or a value of a node label.

A conflict is symmetric: the scheduler checks the anti-affinity of the pods that run as well as that of the new pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from webhook.fit.packing import Role

ALL_ADDRESSES = ("", "0.0.0.0")  # noqa: S104 - what a pod may state; nothing is opened


class Conflicts(NamedTuple):
    """By kind, as bit masks of kinds. `node`: kinds that share no node. `apart`: by label key, kinds that share no
    value of it. `most`: by label key and kind, the most pods in each value.
    """

    node: tuple[int, ...]
    apart: dict[str, tuple[int, ...]]
    most: dict[str, tuple[int | None, ...]]

    @property
    def keys(self) -> tuple[str, ...]:
        """The label keys that conflicts are about."""
        return tuple(sorted({*self.apart, *self.most}))


def conflicts_of(roles: Sequence[Role], kind_of: Mapping[str, int], values: Mapping[str, int]) -> Conflicts:
    """Return the conflicts of roles. `kind_of` numbers them, and roles of one kind are equal. `values` is how many
    values each label key may have: a spread constraint counts only if it wants more of them than there can be.
    """
    kinds = len(set(kind_of.values()))
    apart: dict[str, list[int]] = {}
    most: dict[str, list[int | None]] = {}
    for one in roles:
        kind = kind_of[one.name]
        for rule in one.pods.apart:
            rows = apart.setdefault(rule.key, [0] * kinds)
            for name in rule.roles:
                if (matched := kind_of.get(name)) is not None:
                    rows[kind] |= 1 << matched
                    rows[matched] |= 1 << kind
        for limit in one.pods.spread:
            if values.get(limit.key, 0) >= limit.min_domains:
                continue
            limits = most.setdefault(limit.key, [None] * kinds)
            known = limits[kind]
            limits[kind] = limit.most if known is None else min(known, limit.most)
    return Conflicts(
        _by_ports(roles, kind_of, kinds),
        {key: tuple(rows) for key, rows in apart.items() if any(rows)},
        {key: tuple(limits) for key, limits in most.items()},
    )


def _by_ports(roles: Sequence[Role], kind_of: Mapping[str, int], kinds: int) -> tuple[int, ...]:
    """Return, by kind, the kinds with which it has a host port in common. The work grows with the ports, not with the
    pairs of them.
    """
    used: dict[tuple[int, str], dict[str, set[int]]] = {}
    for role in roles:
        for port in role.pods.ports:
            addresses = used.setdefault((port.number, port.protocol), {})
            addresses.setdefault(port.address, set()).add(kind_of[role.name])
    found = [0] * kinds
    for addresses in used.values():
        masks = {address: sum(1 << kind for kind in own) for address, own in addresses.items()}
        everywhere = reduce(or_, (mask for address, mask in masks.items() if address in ALL_ADDRESSES), 0)
        every = reduce(or_, masks.values())
        for address, own in addresses.items():
            overlapping = every if address in ALL_ADDRESSES else masks[address] | everywhere
            for kind in own:
                found[kind] |= overlapping
    return tuple(found)
