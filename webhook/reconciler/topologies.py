"""The schedulers' topology objects, for each of Grove's ClusterTopologyBindings, and their problems.

Rollcall writes only an object that is missing or ours: it has our label and a ClusterTopologyBinding controls it. All
others are compared and never changed. Problems are reported by events and a gauge; the binding's status belongs to its
operator (docs/explanation/decisions/002-topology-drift.md).

`NodeTopologies` are the objects that one binding has many of, made from the labels of nodes: Volcano's HyperNodes.
They are written members first, and removed last and broadest first. Each write leaves a state that the scheduler can
use, so a crash in between needs no repair. The exception is a binding whose levels get other names or change places:
until the old parents are removed some HyperNodes may have two, and Volcano waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from webhook.backends.base import Backend
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.watch import Watch
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, Inexpressible, NotLeading, RequestFailed
from webhook.gangs.hold_reasons import (
    TopologyProblem,
    TopologyReason,
    TopologyResult,
    drift_problem,
    label_problem,
    second_binding_problem,
)
from webhook.gangs.object_plan import add_digest, is_in_step, is_ours, stranger
from webhook.gangs.stores import Store, Stores
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL
from webhook.model.grove import LABEL_MANAGED_BY, ClusterTopologyBinding, controller_in
from webhook.model.keys import Api, ObjectKey
from webhook.model.known_objects import Indexed
from webhook.model.projections import TOPOLOGY_BINDINGS, Resource, key_of
from webhook.model.reading import Malformed, Manifest, integer, mapping
from webhook.model.topology_tree import NodeLabels, members_of
from webhook.reconciler.events import Events
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.writer import REFUSALS, Writer

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
    ) -> TopologyResult:
        """Writes the objects if the configuration says so, and reports how the topology differs. `bindings` are the
        uids of all bindings. Raises as `Topologies.reconcile`.
        """
        live = {name: live_object for (_, name), live_object in store.objects.items()}
        if not backend.topology_written or backend.name in binding.references:
            return TopologyResult(drift_problem(backend.node_topology_drift(binding, nodes, live)))
        plan = _plan(backend, binding, nodes, live, bindings)
        owned = [live_object for live_object in live.values() if _controller(live_object) == binding.uid]
        if (dropped := _dropped(owned, plan, nodes)) is not None:
            return TopologyResult((*drift_problem(backend.node_topology_drift(binding, nodes, live)), dropped))
        left = len(plan.written) + len(plan.deleted) if self._writer.dry_run else WRITES_AT_ONCE
        for manifest in plan.written[:left]:
            store.put(await self._writer.apply(store.resource, manifest))
        left -= len(plan.written)
        for obsolete in plan.deleted[: max(left, 0)]:
            await self._writer.delete(store.resource, obsolete)
        if left < len(plan.deleted):
            self._add(binding.name)
        problems = [*drift_problem(backend.node_topology_drift(binding, nodes, plan.after))]
        if plan.left_out:
            names = ", ".join(islice(plan.left_out, _NAMED))
            note = f"{names} and {len(plan.left_out) - _NAMED} more" if len(plan.left_out) > _NAMED else names
            why = "objects of others have these names, or contain objects with these names"
            problems.append(
                TopologyProblem(TopologyReason.DRIFT, f"{note} of {store.resource.api.kind} left out: {why}")
            )
        return TopologyResult(tuple(problems), LOOK_AGAIN_SECONDS if plan.waits else None)


def _plan(
    backend: Backend[Any],
    binding: ClusterTopologyBinding,
    nodes: NodeLabels,
    live: Mapping[str, Manifest],
    bindings: Collection[str],
) -> _Plan:
    outlived = {name for name, live_object in live.items() if _is_orphaned(live_object, bindings)}
    others = {
        name: live_object
        for name, live_object in live.items()
        if name not in outlived and stranger(live_object, bindings) is not None
    }
    node_topologies = backend.node_topology_objects(binding, nodes, others)
    desired = {key_of(manifest)[1]: manifest for manifest in node_topologies.objects}
    written, waits = [], False
    for name, manifest in desired.items():
        existing = live.get(name)
        if existing is not None and (name in outlived or _leaving(existing)):
            waits = True
            continue
        applied = add_digest(manifest)
        if existing is None or not is_in_step(applied, existing):
            written.append(applied)
    # Without any object the scheduler ignores topology, so the last ones stay until nodes have labels again.
    removable = live.values() if desired else ()
    stale = [
        live_object
        for live_object in removable
        if key_of(live_object)[1] not in desired and is_ours(live_object, bindings) and not _leaving(live_object)
    ]
    stale.sort(key=_tier, reverse=True)
    # An object that lost its owner is nobody's: it is not deleted, and stays in the tree.
    going = {*outlived, *(key_of(live_object)[1] for live_object in stale)}
    staying = {
        name: live_object for name, live_object in live.items() if name not in going and not _leaving(live_object)
    }
    return _Plan(tuple(written), tuple(stale), {**staying, **desired}, node_topologies.left_out, waits)


def _dropped(live: Collection[Manifest], plan: _Plan, nodes: NodeLabels) -> TopologyProblem | None:
    """Returns why nothing may be written: most nodes of these objects would be in none, though they exist. So it is
    while nodes get the label of a further level, and gangs that require a domain would find hardly any node.
    """
    before = {name for live_object in live for name in members_of(live_object, "Node")}.intersection(nodes)
    lost = before.difference(name for live_object in plan.after.values() for name in members_of(live_object, "Node"))
    if 2 * len(lost) <= len(before):
        return None
    why = f"{len(lost)} of the {len(before)} nodes in these objects lack a label now and would be in none of them"
    return TopologyProblem(TopologyReason.DRIFT, f"nothing is written: {why}; label them, or delete the objects")


def _is_orphaned(live: Manifest, bindings: Collection[str]) -> bool:
    """Returns whether the object is Rollcall's and its binding is gone: the garbage collector will delete it."""
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


# The namespace part of the key of an object without a namespace; a PodGang's is never empty.
CLUSTER = ""
# Time to wait for a deletion. The watch reports it after some milliseconds, unless the object has a finalizer that
# another controller must remove.
GONE_SECONDS = 1.0
_GLANCE_SECONDS = 0.005

# Labels of many nodes change together, so a change is answered after this time.
NODES_SECONDS = 1.0


class _TopologyObject(NamedTuple):
    """One topology object that should exist, and the live object if there is one."""

    backend: Backend[Any]
    binding: ClusterTopologyBinding
    store: Store
    desired: Manifest
    live: Manifest | None


class _References(Indexed[str, frozenset[str]]):
    """The topology objects that each binding references, indexed by them."""

    @staticmethod
    def terms(_: str, value: frozenset[str]) -> Iterable[Hashable]:
        """Returns the names of the objects."""
        return value


class Topologies:
    """Reconciles one binding at a time. `add` is called with the keys to work on."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it works with
        self,
        settings: Settings,
        client: Client,
        writer: Writer,
        events: Events,
        metrics: ReconcilerMetrics,
        leads: Callable[[], bool],
        add: Callable[[ObjectKey], None],
        nodes: Callable[[], NodeLabels | None] = lambda: None,
        read: Callable[[], None] = lambda: None,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`nodes` returns the labels of all nodes, None if unknown. `read` is called when all of a kind was read."""
        backends = [profile.backend for profile in settings.profiles.values()]
        self._kinds = {backend.name: kind for backend in backends if (kind := backend.topology_kind) is not None}
        # By kind: the only binding that its objects are made from.
        self._feeding = {kind.api: name for kind, name in _fed(backends)}
        self._backends = [backend for backend in backends if backend.name in self._kinds]
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._leads = leads
        self._add = add
        self._nodes = nodes
        self._of_nodes = NodeTopologies(writer, lambda name: add((CLUSTER, name)))
        # The values of the levels' labels of each node, as they were last used. None before that.
        self._seen: dict[str, tuple[str, ...]] | None = None
        self._level_keys: list[str] = []
        self._references = _References()
        self._woken: asyncio.TimerHandle | None = None
        # Separate from the stores of gang objects, because gang objects are pruned by kind.
        self._stores = Stores(client, self._stored, _controller_name, filled=read, clock=clock)
        # Problems by binding and scheduler.
        self._problems: dict[str, dict[str, tuple[TopologyProblem, ...]]] = {}
        # As they are counted: the schedulers and reasons of each binding, and how many bindings have each.
        self._counted: dict[str, frozenset[tuple[str, TopologyReason]]] = {}
        self._counts: Counter[tuple[str, TopologyReason]] = Counter()
        for scheduler in self._kinds:
            for reason in TopologyReason:
                self._metrics.topologies.labels(scheduler, reason.value).set(0)

    def follow(self, served: Set[Api]) -> None:
        """Starts watching the bindings and the served topology kinds of the enabled schedulers."""
        bindings = TOPOLOGY_BINDINGS.resource
        kinds = [kind for kind in self._kinds.values() if kind.api in served]
        self._stores.follow([bindings, *kinds] if kinds and bindings.api in served else [])

    def unready(self) -> Iterator[str]:
        """Messages about what is not read yet."""
        yield from self._stores.unready()

    async def close(self) -> None:
        """Stops all watches."""
        if self._woken is not None:
            self._woken.cancel()
        await self._stores.close()

    def kinds(self) -> Iterator[Api]:
        """Yields the kinds that are followed if served."""
        yield TOPOLOGY_BINDINGS.resource.api
        yield from (kind.api for kind in self._kinds.values())

    def watches(self) -> Iterator[Watch]:
        return self._stores.watches()

    def look_at_all(self) -> None:
        """Queues every binding. Drops the problems of deleted bindings, and all problems if another process leads."""
        bindings = self._bindings
        for name in list(self._problems):
            if not self._leads() or _key(name) not in bindings:
                del self._problems[name]
                self._count(name)
        for _, name in bindings:
            self._add((CLUSTER, name))

    def node_changed(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Queues the bindings that the labels of nodes matter for, if the labels of their levels changed on this node.
        `labels` are those that it has now; None if it is gone. A node without any is one that lacks them.
        """
        if self._woken is not None or self._seen is None:
            return
        if self._seen.get(name) != (None if labels is None else _values_of(labels, self._level_keys)):
            self._woken = asyncio.get_running_loop().call_later(NODES_SECONDS, self._wake)

    def _look_at_nodes(self) -> NodeLabels | None:
        """Returns the labels of all nodes, and remembers those of levels: no other change of nodes matters."""
        nodes = self._nodes()
        if nodes is not None:
            feeding = (self._bindings.get(_key(name)) for name in sorted(set(self._feeding.values())))
            bindings = [_read(raw) for raw in feeding if raw is not None]
            keys = [level.key or "" for binding in bindings for level in binding.levels]
            self._level_keys, self._seen = keys, {name: _values_of(labels, keys) for name, labels in nodes.items()}
        return nodes

    def _wake(self) -> None:
        self._woken = None
        for name in sorted(set(self._feeding.values())):
            self._add((CLUSTER, name))

    async def reconcile(self, name: str) -> float | None:
        """Reconciles the topology objects of one binding.

        Returns the seconds after which to check again; None means not before a change. Raises `RequestFailed`,
        `FactsUnavailable` and `NotLeading`, as for a PodGang.
        """
        if not self._leads():
            # Another process may have become the leader since the binding was queued. It counts the problems.
            raise NotLeading
        raw = self._bindings.get(_key(name))
        if raw is None or _leaving(raw):
            # The objects are deleted with the binding, by their owner reference.
            self._problems.pop(name, None)
            self._count(name)
            return None
        binding, waits = _read(raw), []
        failure: RequestFailed | FactsUnavailable | None = None
        problems = self._problems.setdefault(name, {})
        for backend in self._backends:
            try:
                done = await self._done(backend, binding)
            except FactsUnavailable as error:
                failure = failure or error
                continue
            except RequestFailed as error:
                failure = error
                if error.code not in REFUSALS:
                    continue
                note = f"the API server refuses its topology object: {error}"
                done = TopologyResult((TopologyProblem(TopologyReason.REFUSED, note),))
            problems.pop(backend.name, None)
            if done.problems:
                problems[backend.name] = done.problems
            if done.again is not None:
                waits.append(done.again)
        self._count(name)
        await self._say(binding, problems)
        if failure is not None:
            raise failure
        return min(waits, default=None)

    @property
    def _bindings(self) -> Mapping[ObjectKey, Manifest]:
        store = self._stores.by_kind.get(TOPOLOGY_BINDINGS.resource.api)
        return {} if store is None else store.objects

    def _stored(self, api: Api, key: ObjectKey, owners: set[str]) -> None:
        if api == TOPOLOGY_BINDINGS.resource.api:
            if (raw := self._bindings.get(key)) is None:
                self._references.pop(key[1], None)
            else:
                self._references[key[1]] = frozenset(_read(raw).references.values())
            # The other bindings are compared with one that feeds a scheduler.
            changed = self._bindings if key[1] in self._feeding.values() else ()
            for name in {key[1], *(name for _, name in changed)}:
                self._add((CLUSTER, name))
        else:
            # The object may belong to the binding of its name, to its controllers, to a binding that references it, or
            # to the one that feeds its kind.
            names = {key[1], *owners, *self._references.having(key[1]), self._feeding.get(api, key[1])}
            for name in names & self._references.keys():
                self._add((CLUSTER, name))

    async def _done(self, backend: Backend[Any], binding: ClusterTopologyBinding) -> TopologyResult:
        store = self._stores.by_kind.get(self._kinds[backend.name].api)
        if store is None:
            # The scheduler is missing, or its version has no topologies.
            return TopologyResult()
        if not store.filled:
            raise FactsUnavailable(f"the {store.resource.api.kind} objects are not read yet")
        if not backend.topology_binding and backend.topology_binding is not None:
            # The settings name no binding.
            return TopologyResult()
        try:
            if backend.topology_binding in {None, binding.name}:
                done = await self._objects(backend, binding, store)
            elif backend.name in binding.references and not backend.topology_from_nodes:
                done = self._compared(backend, binding, store)
            else:
                feeding = self._bindings.get(_key(backend.topology_binding or ""))
                return TopologyResult(second_binding_problem(backend, binding, feeding))
        except Inexpressible as refusal:
            return TopologyResult((TopologyProblem(TopologyReason.INEXPRESSIBLE, str(refusal)),))
        except Malformed as error:
            return TopologyResult((TopologyProblem(TopologyReason.INEXPRESSIBLE, f"it cannot be read: {error}"),))
        if backend.topology_binding is None:
            return done
        return done._replace(problems=(*done.problems, *label_problem(binding, self._look_at_nodes())))

    async def _objects(self, backend: Backend[Any], binding: ClusterTopologyBinding, store: Store) -> TopologyResult:
        """Compares or writes the objects of the binding that they are made from."""
        if backend.topology_from_nodes:
            nodes = self._look_at_nodes()
            if nodes is None:
                raise FactsUnavailable("the nodes are not read yet")
            uids = {raw["metadata"].get("uid") for raw in self._bindings.values() if not _leaving(raw)}
            return await self._of_nodes.reconcile(backend, binding, store, nodes, uids)
        if backend.name in binding.references:
            return self._compared(backend, binding, store)
        objects = backend.topology_objects(binding)
        if not objects:
            return TopologyResult()
        live = store.objects.get(key_of(objects[0]))
        if not backend.topology_written:
            return TopologyResult(drift_problem(backend.topology_drift(binding, live)))
        return await self._keep(_TopologyObject(backend, binding, store, objects[0], live))

    def _compared(self, backend: Backend[Any], binding: ClusterTopologyBinding, store: Store) -> TopologyResult:
        """Compares the object that the binding references."""
        return TopologyResult(
            drift_problem(backend.topology_drift(binding, store.objects.get(_key(binding.references[backend.name]))))
        )

    async def _keep(self, topology: _TopologyObject) -> TopologyResult:
        live, owners = topology.live, self._owners(topology)
        if live is not None:
            if _leaving(live) or _is_superseded(live, topology.binding):
                return TopologyResult(again=LOOK_AGAIN_SECONDS)
            if (owner := _owner(live, topology.binding, owners)) is not None:
                drift = topology.backend.topology_drift(topology.binding, live)
                return TopologyResult(drift_problem(drift, f"it belongs to {owner}, so it is not changed"))
            if topology.backend.topology_must_be_remade(topology.desired, live):
                return await self._clear(topology, live)
        manifest = add_digest(topology.backend.adopt(topology.desired, live))
        if live is None or not is_in_step(manifest, live):
            topology.store.put(await self._writer.apply(topology.store.resource, manifest))
        return TopologyResult()

    def _owners(self, topology: _TopologyObject) -> set[str]:
        """Returns the uids of the bindings whose object may be written: of all, if the configuration says which one
        feeds it, because the object stays when the configuration changes.
        """
        if topology.backend.topology_binding is None:
            return {topology.binding.uid or ""}
        return {raw["metadata"].get("uid") or "" for raw in self._bindings.values()}

    async def _clear(self, topology: _TopologyObject, live: Manifest) -> TopologyResult:
        """Deletes an object whose immutable fields change, then creates it; after a crash a new leader does that."""
        if not is_ours(live, {topology.binding.uid or ""}):
            drift = topology.backend.topology_drift(topology.binding, live)
            return TopologyResult(drift_problem(drift, "no ClusterTopologyBinding controls it, so it is not changed"))
        await self._writer.delete(topology.store.resource, live)
        if self._writer.dry_run:
            return TopologyResult()
        if await _gone(topology.store, live):
            return await self._keep(topology._replace(live=topology.store.objects.get(key_of(live))))
        return TopologyResult(again=LOOK_AGAIN_SECONDS)

    async def _say(
        self, binding: ClusterTopologyBinding, problems_by_scheduler: Mapping[str, tuple[TopologyProblem, ...]]
    ) -> None:
        for reason in TopologyReason:
            # Several schedulers may have the same problem with the labels of nodes.
            notes = dict.fromkeys(
                problem.note
                for problems in problems_by_scheduler.values()
                for problem in problems
                if problem.reason is reason
            )
            if notes:
                await self._events.warn(binding, reason, "; ".join(notes))
            else:
                self._events.well(binding, [reason])

    def _count(self, name: str) -> None:
        by_scheduler = self._problems.get(name, {})
        now = frozenset(
            (scheduler, problem.reason) for scheduler, problems in by_scheduler.items() for problem in problems
        )
        before = self._counted.pop(name, frozenset())
        if now:
            self._counted[name] = now
        self._counts.update(now - before)
        self._counts.subtract(before - now)
        for scheduler, reason in now ^ before:
            self._metrics.topologies.labels(scheduler, reason.value).set(self._counts[scheduler, reason])


async def _gone(store: Store, live: Manifest) -> bool:
    """Returns whether the watch reports the object as gone within `GONE_SECONDS`."""

    def there() -> bool:
        current = store.objects.get(key_of(live))
        return current is not None and current["metadata"]["uid"] == live["metadata"]["uid"]

    with suppress(TimeoutError):
        async with asyncio.timeout(GONE_SECONDS):
            while there():
                await asyncio.sleep(_GLANCE_SECONDS)
    return not there()


def _values_of(labels: Mapping[str, str], keys: Sequence[str]) -> tuple[str, ...]:
    values = tuple([labels.get(key, "") for key in keys])
    return values if any(values) else ()


def _fed(backends: Iterable[Backend[Any]]) -> Iterator[tuple[Resource, str]]:
    for backend in backends:
        if backend.topology_kind is not None and backend.topology_binding:
            yield backend.topology_kind, backend.topology_binding


def _owner(live: Manifest, binding: ClusterTopologyBinding, owners: Container[str]) -> str | None:
    """Returns the owner of the object if Rollcall may not write it; None if the object is ours or was."""
    if is_ours(live, owners):
        return None
    controller = controller_in(live["metadata"])
    if controller is not None and controller.uid == binding.uid:
        # The binding controls it, but it does not have our label.
        return "Grove's operator"
    return stranger(live, {binding.uid or ""})


def _is_superseded(live: Manifest, binding: ClusterTopologyBinding) -> bool:
    """Returns whether the object belongs to an earlier binding of that name: the garbage collector will delete it."""
    controller = controller_in(live["metadata"])
    if controller is None or controller.uid == binding.uid:
        return False
    return (controller.kind, controller.name) == (TOPOLOGY_BINDINGS.resource.api.kind, binding.name)


def _read(raw: Manifest) -> ClusterTopologyBinding:
    """Returns the binding; only its metadata if it was stored before the present schema."""
    try:
        return ClusterTopologyBinding(raw)
    except Malformed:
        return ClusterTopologyBinding({**raw, "spec": {}})


def _controller_name(live: Manifest) -> str | None:
    controller = controller_in(live["metadata"])
    return None if controller is None else controller.name


def _key(name: str) -> ObjectKey:
    return key_of({"metadata": {"name": name}})
