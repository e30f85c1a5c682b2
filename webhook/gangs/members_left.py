"""The gangs that lost pods, in a cluster: what is left to each of them now."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from webhook.gangs.bound_members import BoundMembers, bound_members
from webhook.model.nodes import NODES
from webhook.model.workloads.podgang import PodGang

if TYPE_CHECKING:
    from webhook.cluster.facts import LiveFacts
    from webhook.gangs.cluster_view import ClusterView


def members_left(view: ClusterView, podgang: PodGang) -> BoundMembers | None:
    """The pods of a gang that are on existing nodes; None if the pods are not read yet. Raises `Malformed`."""
    roster = view.roster_of(podgang)
    return None if roster is None else bound_members(podgang, roster.members, partial(node_exists, view.live))


def node_exists(live: LiveFacts, name: str) -> bool:
    """Whether there is a node of that name, as far as known."""
    watch = live.watches.get(NODES)
    if watch is None or not watch.filled:
        return True
    # A node that is too large to be kept exists. In the index an object without a namespace has this one.
    return name in watch.index.entries or ("default", name) in watch.index.left_out
