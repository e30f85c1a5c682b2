"""The PodGangs of a cluster: each with the name of its gang, whether the objects of a missing one are still needed,
and whether one is empty, so that it needs no objects yet.

Grove deletes a PodGang to give it another name while its pods run, and also when it was scaled in. It creates
PodCliques before their pods. A PodGang for which nobody has created any is not Grove's, or not complete.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from webhook.backends.base import PodChanges
from webhook.cluster.cluster_facts import LiveFacts
from webhook.config.settings import Profile, Settings
from webhook.errors import FactsUnavailable
from webhook.gangs.key import GangKey, key_of_gang, objects_of, shared_key
from webhook.gangs.members import GangPod
from webhook.gangs.object_plan import NameEvidence, gang_of, recorded
from webhook.gangs.pod_watches import ControllerKey, GangPods
from webhook.gangs.stores import StoredPodGangs, StoredWorkloads, Stores
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.gang_objects import MOST_MEMBERS, gangs_of_set, living_gang
from webhook.model.grove import OwnerReference, PodGang, controller_in
from webhook.model.keys import ObjectKey, Record
from webhook.model.known_objects import Indexed
from webhook.model.place import GROVE_POD_CONTROLLERS, POD_CLIQUES
from webhook.model.projections import POD_GANGS
from webhook.model.reading import Manifest, mapping
from webhook.workloads.pod_clique_set import PodCliqueSet

# After an interruption of so many seconds, pods and PodCliques may be there that are not known. A watch that works gets
# a bookmark about once a minute, and a restart of the API server takes less.
STALE_SECONDS = 90.0


class _Empty(NamedTuple):
    """The PodCliques that could make the pods of a PodGang, and the uid of the controller that must be above them; None
    if they must have no controller.
    """

    pod_cliques: tuple[str, ...]
    uid: str | None


class _EmptyPodGangs(Indexed[GangKey, _Empty]):
    """The empty PodGangs, indexed by their PodCliques."""

    @staticmethod
    def terms(key: GangKey, value: _Empty) -> Iterable[Hashable]:
        """Returns the namespace and name of each PodClique."""
        return ((key.namespace, name) for name in value.pod_cliques)


class FollowedPodGangs:
    """The PodGangs among the objects of `stores`."""

    def __init__(
        self, settings: Settings, live: LiveFacts, stores: Stores, pods: GangPods, workloads: StoredWorkloads
    ) -> None:
        self._settings = settings
        self._live = live
        self._stores = stores
        self._pods = pods
        self._workloads = workloads
        self._podgangs: StoredPodGangs | None = None
        # Those that were found empty, until something of them changes.
        self._empty = _EmptyPodGangs()

    @property
    def keys(self) -> list[GangKey]:
        """The PodGangs that exist."""
        store = self._stores.by_kind.get(POD_GANGS.resource.api)
        return [] if store is None else [GangKey(*key) for key in store.objects]

    def keys_of(self, workload: ObjectKey) -> list[GangKey]:
        """Returns the PodGangs of a PodCliqueSet."""
        store = self._stores.by_kind.get(POD_GANGS.resource.api)
        return [] if store is None else [shared_key(GangKey(*key)) for key in store.gangs_of_set(workload)]

    def put_in_facts(self) -> None:
        """Makes the PodGangs a part of the facts, once they are read."""
        store = self._stores.by_kind.get(POD_GANGS.resource.api)
        if store is None or not store.filled:
            self._podgangs = None
        elif self._podgangs is None or self._podgangs.store is not store:
            self._podgangs = StoredPodGangs(store)
        self._live.set_part(POD_GANGS.part, self._podgangs)

    def gang(self, key: GangKey) -> PodGang | None:
        """Returns a PodGang or None. Raises `Malformed`, and `FactsUnavailable` while its gang's name is not known."""
        manifest = self._stored(key.namespace, key.name)
        return None if manifest is None else self._decide_gang_name(PodGang(manifest))

    def is_needed(self, key: GangKey, objects: Iterable[Manifest]) -> bool:
        """Returns whether the gang objects of a PodGang that is missing are still needed: a pod names it, or a
        PodClique of it is in no other gang. Grove may just be renaming it. Raises `FactsUnavailable`.
        """
        podgangs = self._stores.by_kind.get(POD_GANGS.resource.api)
        if podgangs is None or not podgangs.filled or not self._pods.filled:
            raise FactsUnavailable("the PodGangs and the pods of the gangs are not read yet")
        if not all(self._pods.controllers.is_read(kind) for kind in GROVE_POD_CONTROLLERS):
            # What is not served may only be installed again.
            raise FactsUnavailable("the PodCliques are not read, or not served now")
        if self._live.facts.lacks_pod_gang_maps:
            # They say over how many gangs the pods of a PodClique are divided.
            raise FactsUnavailable("the PodGangMaps are not read yet")
        return bool(self._pods.pods_of_gang(key)) or any(
            self._is_left(member, gang.gang, key.namespace, owner)
            for live in objects
            if (owner := controller_in(live["metadata"])) is not None and (gang := living_gang(live)) is not None
            for member in gang.members
        )

    def is_empty(self, podgang: PodGang) -> bool:
        """Returns whether a PodGang has no pods, no PodClique that could make them, and no gang objects. It is
        remembered then: see `awaiting`. A pod counts if it names the PodGang, a PodClique if it has the name of a
        member and the PodGang's controller above it, by uid; of a PodGang without a controller, if it has none either.
        Grove makes all PodCliques of a PodGang, so of more than `MOST_MEMBERS` members the first are enough.
        """
        key, controller = key_of_gang(podgang), controller_in(mapping(podgang.raw.get("metadata")))
        names = dict.fromkeys(member.name for member in islice(podgang.members, MOST_MEMBERS))
        empty = _Empty(tuple(names), None if controller is None else controller.uid or "")
        if (
            self._is_blind
            or self._pods.any_of(key)
            or any(self._makes(empty.uid, (key.namespace, name)) for name in empty.pod_cliques)
            or self._stores.owned_by(podgang.owners, objects_of(podgang))
        ):
            self.forget(key)
            return False
        self._empty[shared_key(key)] = empty
        return True

    def was_empty(self, key: GangKey) -> bool:
        """Returns whether a PodGang was found empty, and nothing of it has changed since."""
        return key in self._empty

    def awaiting(self, controller: ControllerKey) -> list[GangKey]:
        """Returns the PodGangs that were found empty, and whose pods this controller, which changed, can make."""
        group, kind, *place = controller
        if (group, kind) != (POD_CLIQUES.api.group, POD_CLIQUES.api.kind):
            return []
        there = (place[0], place[1])
        return [key for key in self._empty.having(there) if self._makes(self._empty[key].uid, there)]

    def forget(self, key: GangKey) -> bool:
        """Forgets that a PodGang was found empty. Returns whether it was."""
        return self._empty.pop(key, None) is not None

    @property
    def _is_blind(self) -> bool:
        """Whether pods or PodCliques may be there that are not known."""
        watches = (watch for _, watch in self._pods.watches())
        return not self._pods.filled or any(
            watch.trouble is not None and watch.silence() > STALE_SECONDS for watch in watches
        )

    def _makes(self, uid: str | None, pod_clique: ObjectKey) -> bool:
        """Returns whether a PodClique exists below the controller with this uid; without a uid, below none."""
        controllers = self._pods.controllers
        if uid is None:
            return controllers.is_uncontrolled(POD_CLIQUES, pod_clique)
        return controllers.is_below(POD_CLIQUES, pod_clique, uid)

    def _decide_gang_name(self, podgang: PodGang) -> PodGang:
        """Returns the PodGang with the name of its gang. Raises `FactsUnavailable`."""
        facts, record = self._live.facts, recorded(podgang, self._live.facts)
        profile = None if record is None else self._settings.profiles.get(record.scheduler or "")
        key = (podgang.namespace, str(podgang.labels.get(grove.LABEL_PART_OF) or ""))
        evidence = NameEvidence(
            gangs_of_set(
                self._stores.holding(podgang.namespace, (member.name for member in podgang.members)),
                None if podgang.pod_clique_set is None else podgang.pod_clique_set.uid,
            ),
            lambda: self._living(podgang),
            None if record is None or profile is None else partial(_pod_changes, profile, record, facts),
            facts,
            lambda: self._workload_of(key),
        )
        return gang_of(podgang, evidence)

    def _workload_of(self, key: ObjectKey) -> PodCliqueSet | None:
        """Returns a PodCliqueSet; None if it does not exist. Raises `FactsUnavailable`."""
        if not self._workloads.filled:
            # Without it the gang would get another name, and keep that.
            raise FactsUnavailable("the PodCliqueSets are not read yet")
        manifest = self._workloads.get(key)
        return None if manifest is None else PodCliqueSet(manifest)

    def _living(self, podgang: PodGang) -> Sequence[GangPod]:
        """Returns the pods that the controllers of a PodGang's workload made for it. Raises `FactsUnavailable`."""
        if not self._pods.filled:
            raise FactsUnavailable("the pods of the gangs are not read yet")
        roster = self._pods.roster(podgang, self._pods.pods_of_gang(key_of_gang(podgang)))
        return [*roster.members, *roster.unnamed]

    def _is_left(self, podclique: str, gang: str, namespace: str, owner: OwnerReference) -> bool:
        """Returns whether a PodClique of the set `owner` exists and is in fewer other gangs than the PodGangMap says. A
        gang whose PodGang is missing too is no other gang: Grove may be renaming both.
        """
        replica = podclique.removeprefix(f"{owner.name}-").partition("-")[0]
        pod_gang_map = (self._live.facts.pod_gang_maps or {}).get((namespace, f"{owner.name}-{replica}"))
        if not self._pods.controllers.is_below(POD_CLIQUES, (namespace, podclique), owner.uid or ""):
            return False
        needed = 1 if pod_gang_map is None else sum(1 for _ in pod_gang_map.entries_with(podclique))
        others = {
            holder.gang
            for holder in self._stores.holding(namespace, [podclique])
            if holder.gang != gang and self._stored(namespace, holder.podgang) is not None
        }
        return len(others) < needed

    def _stored(self, namespace: str, name: str) -> Manifest | None:
        store = self._stores.by_kind.get(POD_GANGS.resource.api)
        return None if store is None else store.objects.get((namespace, name))


def _pod_changes(profile: Profile, record: Record, facts: ClusterFacts, pod: GangPod, gang: str) -> PodChanges:
    """Returns what preparation would write on a pod in a gang of that name. Raises `FactsUnavailable`."""
    return profile.backend.prepare_pod(profile.member(pod.namespace, gang, pod.podclique, record, facts))
