"""The topology objects that one binding has many of, because they are made from the labels of nodes: Volcano's
HyperNodes.

Objects of others are compared and never changed. An object is ours if it has our label and a ClusterTopologyBinding
controls it, also another than the configured one: after a change of the configuration they become those of the new
binding, so two trees never stay beside each other. The objects are written members first, and removed last and broadest
first. Each write leaves a state that the scheduler can use, so a crash in between needs no repair. The exception is a
binding whose levels get other names or change places: until the old parents are removed some HyperNodes may have two,
and Volcano waits. Removing these first would leave a tier empty, and Volcano would ignore it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any, NamedTuple

from webhook.backends.base import Backend
from webhook.gangs.differences import in_step, is_ours, stranger, to_apply
from webhook.gangs.hold_reasons import TopologyReason
from webhook.gangs.stores import Store
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.grove import LABEL_MANAGED_BY
from webhook.model.projections import TOPOLOGY_BINDINGS, key_of
from webhook.model.reading import Manifest, integer, mapping
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_tree import NodeLabels, members_of
from webhook.model.workloads.podgang import controller_in
from webhook.reconciler.topology_problems import Done, Problem, of_drift
from webhook.reconciler.writer import Writer

# After this many writes the binding is queued again, so that other keys get their turn and a shutdown waits for few.
WRITES_AT_ONCE = 250
# Pause while an object is being deleted. A watch reports the end; this covers a late watch.
LOOK_AGAIN_SECONDS = 5.0
_NAMED = 3


class _Plan(NamedTuple):
    """What is to be written, in that order, and then deleted; and all objects as they will be."""

    written: tuple[Manifest, ...]
    deleted: tuple[Manifest, ...]
    after: Mapping[str, Manifest]
    left_out: tuple[str, ...]
    waits: bool


class NodeTopologies:
    """Compares or writes these objects. `add` is called with a binding's name if more writes are left."""

    def __init__(self, writer: Writer, add: Callable[[str], None]) -> None:
        self._writer = writer
        self._add = add

    async def reconcile(
        self,
        backend: Backend[Any],
        binding: ClusterTopologyBinding,
        store: Store,
        nodes: NodeLabels,
        bindings: Collection[str],
    ) -> Done:
        """Write the objects if the configuration says so, and report how the topology differs. `bindings` are the uids
        of all bindings. Raises as `Topologies.reconcile`.
        """
        live = {name: found for (_, name), found in store.objects.items()}
        if not backend.topology_written or backend.name in binding.references:
            return Done(of_drift(backend.node_topology_drift(binding, nodes, live)))
        plan = _plan(backend, binding, nodes, live, bindings)
        own = [found for found in live.values() if _controller(found) == binding.uid]
        if (dropped := _dropped(own, plan, nodes)) is not None:
            return Done((*of_drift(backend.node_topology_drift(binding, nodes, live)), dropped))
        left = len(plan.written) + len(plan.deleted) if self._writer.dry_run else WRITES_AT_ONCE
        for wanted in plan.written[:left]:
            store.put(await self._writer.apply(store.resource, wanted))
        left -= len(plan.written)
        for found in plan.deleted[: max(left, 0)]:
            await self._writer.delete(store.resource, found)
        if left < len(plan.deleted):
            self._add(binding.name)
        problems = [*of_drift(backend.node_topology_drift(binding, nodes, plan.after))]
        if plan.left_out:
            names = ", ".join(islice(plan.left_out, _NAMED))
            note = f"{names} and {len(plan.left_out) - _NAMED} more" if len(plan.left_out) > _NAMED else names
            why = "objects of others have these names, or contain objects with these names"
            problems.append(Problem(TopologyReason.DRIFT, f"{note} of {store.resource.api.kind} left out: {why}"))
        return Done(tuple(problems), LOOK_AGAIN_SECONDS if plan.waits else None)


def _plan(
    backend: Backend[Any],
    binding: ClusterTopologyBinding,
    nodes: NodeLabels,
    live: Mapping[str, Manifest],
    bindings: Collection[str],
) -> _Plan:
    outlived = {name for name, found in live.items() if _outlived(found, bindings)}
    others = {
        name: found for name, found in live.items() if name not in outlived and stranger(found, bindings) is not None
    }
    made = backend.node_topology_objects(binding, nodes, others)
    desired = {key_of(one)[1]: one for one in made.objects}
    written, waits = [], False
    for name, one in desired.items():
        found = live.get(name)
        if found is not None and (name in outlived or _leaving(found)):
            waits = True
            continue
        wanted = to_apply(one)
        if found is None or not in_step(wanted, found):
            written.append(wanted)
    # Without any object the scheduler ignores topology, so the last ones stay until nodes have labels again.
    removable = live.values() if desired else ()
    stale = [
        found
        for found in removable
        if key_of(found)[1] not in desired and is_ours(found, bindings) and not _leaving(found)
    ]
    stale.sort(key=_tier, reverse=True)
    # An object that lost its owner is nobody's: it is not deleted, and stays in the tree.
    going = {*outlived, *(key_of(found)[1] for found in stale)}
    staying = {name: found for name, found in live.items() if name not in going and not _leaving(found)}
    return _Plan(tuple(written), tuple(stale), {**staying, **desired}, made.left_out, waits)


def _dropped(live: Collection[Manifest], plan: _Plan, nodes: NodeLabels) -> Problem | None:
    """Return why nothing may be written: most nodes of these objects would be in none, though they exist. So it is
    while nodes get the label of a further level, and gangs that require a domain would find hardly any node.
    """
    before = {name for found in live for name in members_of(found, "Node")}.intersection(nodes)
    lost = before.difference(name for found in plan.after.values() for name in members_of(found, "Node"))
    if 2 * len(lost) <= len(before):
        return None
    why = f"{len(lost)} of the {len(before)} nodes in these objects lack a label now and would be in none of them"
    return Problem(TopologyReason.DRIFT, f"nothing is written: {why}; label them, or delete the objects")


def _outlived(live: Manifest, bindings: Collection[str]) -> bool:
    """Whether the object is Rollcall's and its binding is gone: the garbage collector will delete it."""
    controller = controller_in(live["metadata"])
    return (
        controller is not None
        and controller.kind == TOPOLOGY_BINDINGS.resource.api.kind
        and controller.uid not in bindings
        and (live["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
    )


def _controller(live: Manifest) -> str | None:
    controller = controller_in(live["metadata"])
    return None if controller is None else controller.uid


def _leaving(live: Manifest) -> bool:
    return live["metadata"].get("deletionTimestamp") is not None


def _tier(live: Manifest) -> int:
    return integer(mapping(live.get("spec")).get("tier")) or 0
