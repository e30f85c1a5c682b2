"""Gangs that had started and lost pods, so that they have fewer on nodes than they need (no I/O).

A record holds the lost pods, not those that are left: what these hold, and how much of it is idle, is counted again
from the pods. Records are ConfigMaps in Rollcall's own namespace, because tenants can write their PodGangs and
ConfigMaps, and Grove's operator removes annotations that it did not make. Their number and size is bounded: the
namespaces that need most room lose the names of pods first, and then records. Pods of a deleted node stay for a
minute, as the garbage collector gives the node 40 seconds to come back. Source: Kubernetes 1.37,
pkg/controller/podgc/gc_controller.go.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.key import GangKey
from webhook.gangs.members import GangPod, LossCause
from webhook.gangs.pod_reasons import MemberTally, tallies
from webhook.installation.names import LOSS_RECORDS
from webhook.model.grove import PodGang
from webhook.model.reading import Malformed, Manifest, integer, mapping, sequence, text


class BoundMembers(NamedTuple):
    """How many pods are on existing nodes (`bound`), the GPUs that they hold, and how many pods members lack to start
    (`lacking`). `orphans` are on nodes that are gone, `ended` were on nodes and do not count any more. `missing` are
    the names of pods that the PodGang names and that do not exist. `replaced` is true if a pod without a node was
    created after another pod of its gang was bound: so the gang had started before.
    """

    bound: int
    gpus: int
    lacking: int
    orphans: tuple[GangPod, ...]
    ended: tuple[GangPod, ...]
    missing: tuple[str, ...]
    replaced: bool

    @property
    def is_whole(self) -> bool:
        """Whether every member has as many pods on existing nodes as it needs to start."""
        return not self.lacking

    def drop_pods(self, names: Container[str]) -> BoundMembers:
        """Returns the same without the pods of these names among those that ended or are missing."""
        ended = tuple(pod for pod in self.ended if pod.name not in names)
        return self._replace(ended=ended, missing=tuple(name for name in self.missing if name not in names))

    @property
    def had_started(self) -> bool:
        """Whether a gang with too few pods on nodes must have started before: a scheduler binds no gang that lacks
        pods, and none before all pods exist that it needs.
        """
        return self.bound > 0 and bool(self.orphans or self.ended or self.missing or self.replaced)


def bound_members(podgang: PodGang, pods: Sequence[GangPod], exists: Callable[[str], bool]) -> BoundMembers:
    """Counts the pods of a gang; `exists` tells whether there is a node of that name. Raises `Malformed`."""
    bound: list[GangPod] = []
    orphans: list[GangPod] = []
    waiting: list[GangPod] = []
    lacking, missing = 0, list[str]()
    existing, pod_names = {pod.name for pod in pods}, podgang.pod_names()
    for tally in tallies(podgang, pods):
        here = _sort_pods(tally, exists, bound, orphans, waiting)
        if here < tally.member.min_replicas:
            lacking += tally.member.min_replicas - here
            missing += [name for name in pod_names.get(tally.member.name, ()) if name and name not in existing]
    first = min((pod.placed for pod in bound if pod.placed), default="")
    return BoundMembers(
        len(bound),
        sum(pod.gpus for pod in bound),
        lacking,
        tuple(orphans),
        tuple(pod for pod in pods if not pod.counts and pod.node is not None),
        tuple(missing),
        bool(first) and any(pod.created > first for pod in waiting),
    )


def _sort_pods(
    tally: MemberTally,
    exists: Callable[[str], bool],
    bound: list[GangPod],
    orphans: list[GangPod],
    waiting: list[GangPod],
) -> int:
    """Sorts the pods of one member, and returns how many are on existing nodes."""
    before = len(bound)
    for pod in tally.pods:
        (waiting if pod.node is None else bound if exists(pod.node) else orphans).append(pod)
    return len(bound) - before


def latest(pods: Iterable[GangPod], most: int) -> list[GangPod]:
    """Returns at most so many of the pods, those that were bound last."""
    return sorted(pods, key=lambda pod: (pod.placed, pod.name), reverse=True)[: max(most, 0)]


# How many lost pods of one gang are remembered by name. Of the others only the number is.
MOST_PODS = 32
# How many of them a text names.
_NAMED = 5
_SECONDS = 3600.0
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class LostPod(NamedTuple):
    """A lost pod: why and when it was lost (UTC, as Kubernetes writes times), and the node that it was on, if known."""

    name: str
    cause: LossCause
    at: str
    node: str = ""

    def as_json(self) -> dict[str, str]:
        """Returns the pod as plain JSON values."""
        node = {"node": self.node} if self.node else {}
        return {"pod": self.name, "cause": self.cause.value, "at": self.at, **node}


class Loss(NamedTuple):
    """The record of one gang: the uid of its PodGang or workload, since when it has too few pods on nodes, and the pods
    that it lost, the first first. `more` is the number of lost pods without a name.
    """

    uid: str
    since: str
    pods: tuple[LostPod, ...]
    more: int = 0

    @property
    def causes(self) -> tuple[LossCause, ...]:
        """The causes of the lost pods, each once, that of the first pod first."""
        distinct = dict.fromkeys(pod.cause for pod in self.pods)
        return tuple(distinct or (LossCause.UNKNOWN,))

    @property
    def names(self) -> frozenset[str]:
        """The names of the lost pods."""
        return frozenset(pod.name for pod in self.pods)

    def add_pods(self, pods: Iterable[LostPod]) -> Loss:
        """Returns the record with more lost pods. A pod that it has already is not added."""
        names = self.names
        fresh = [pod for pod in pods if pod.name not in names]
        if not fresh:
            return self
        every = (*self.pods, *fresh)
        return self._replace(
            since=min(self.since, *(pod.at for pod in fresh)),
            pods=every[:MOST_PODS],
            more=self.more + max(len(every) - MOST_PODS, 0),
        )


class LostMembers(NamedTuple):
    """The record of a gang, and what is left to it: how many pods are on nodes now, and the GPUs that they hold."""

    loss: Loss
    bound: int
    gpus: int
    now: datetime

    @classmethod
    def combine(cls, loss: Loss, members: BoundMembers, now: datetime) -> LostMembers:
        """Returns the record together with what is left."""
        return cls(loss, members.bound, members.gpus, now)

    @property
    def gpu_hours(self) -> float:
        """The hours that the GPUs of the pods that are left have been idle, added up."""
        return self.gpus * hours_since(self.loss.since, self.now)

    def as_json(self) -> dict[str, Any]:
        """Returns the loss as plain JSON values."""
        return {
            "since": self.loss.since,
            "causes": [cause.value for cause in self.loss.causes],
            "pods": [pod.as_json() for pod in self.loss.pods],
            **({"more": self.loss.more} if self.loss.more else {}),
            "idle": {"pods": self.bound, "gpus": self.gpus, "gpuHours": round(self.gpu_hours, 2)},
        }

    @property
    def reason(self) -> HoldReason:
        """The loss as a hold reason."""
        return HoldReason(GangReason.LOST_MEMBERS, f"{self._lost}{self._idle}", _REMEDIES[self.loss.causes[0]])

    @property
    def _lost(self) -> str:
        names = ", ".join(
            f"{pod.name} ({pod.cause.value}{f', {pod.node}' if pod.node else ''})" for pod in self.loss.pods[:_NAMED]
        )
        others = len(self.loss.pods) - _NAMED + self.loss.more if len(self.loss.pods) > _NAMED else self.loss.more
        if not names:
            pods = "a pod" if others == 1 else f"{others} pods"
            return f"it has lacked {pods} since {self.loss.since}, {LossCause.UNKNOWN.words}"
        return f"it has lost pods since {self.loss.since}: {names}{f' and {others} more' if others > 0 else ''}"

    @property
    def _idle(self) -> str:
        if not self.bound:
            return ""
        held = f" with {self.gpus} GPUs, {self.gpu_hours:.1f} GPU hours so far," if self.gpus else ""
        pods = "1 pod" if self.bound == 1 else f"{self.bound} pods"
        return f"; meanwhile {pods}{held} {'is' if self.bound == 1 else 'are'} idle"


_REMEDIES = {
    LossCause.PREEMPTION: (
        "give the gang a higher priority, or the disruption mode all, so that it is preempted as a whole"
    ),
    LossCause.NODE_LOSS: "it starts again when its scheduler finds room for the pods that replace these",
    LossCause.EVICTION: "find out who evicted the pods; a PodDisruptionBudget protects a gang from drains",
    LossCause.DELETION: "the API server's audit log says who deleted the pods",
    LossCause.FAILURE: "read the logs of the pods",
    LossCause.UNKNOWN: "the API server's audit log says what became of the pods",
}


def stamp(moment: datetime) -> str:
    """Returns a moment as Kubernetes writes it, in whole seconds of UTC."""
    return moment.astimezone(UTC).strftime(_FORMAT)


def hours_since(at: str, now: datetime) -> float:
    """Returns the hours since a moment that `stamp` wrote; 0 for one that is yet to come. Raises `ValueError`."""
    # Not by `strptime`, which takes fifty times as long: there may be a hundred thousand lost pods.
    begun = datetime.fromisoformat(at)
    if begun.isoformat() != f"{at.removesuffix('Z')}+00:00":
        raise ValueError(at)
    return max((now - begun).total_seconds(), 0.0) / _SECONDS


DATA = "losses"
# The API server refuses a ConfigMap of more than 1 MiB.
MOST_BYTES = 900 * 1024
# No name of a namespace, gang, workload or node is longer.
_MOST_CHARACTERS = 253

# Any moment: only whether a time can be read matters.
_NEVER = datetime.max.replace(tzinfo=UTC)


class Line(NamedTuple):
    """The record of one gang as it is stored: the name of its ConfigMap, and its text with and without pods."""

    loss: Loss
    name: str
    text: str
    short: str


class RecordText(NamedTuple):
    """The text of one ConfigMap, and the namespaces of which it does not have everything."""

    text: str
    cut: frozenset[str]


def line_of(key: GangKey, loss: Loss) -> Line:
    """Returns the record of one gang as it is stored."""
    digest = sha256("/".join(key).encode(errors="surrogatepass")).digest()
    short = loss._replace(pods=(), more=loss.more + len(loss.pods))
    return Line(loss, LOSS_RECORDS[digest[0] % len(LOSS_RECORDS)], _text(key, loss), _text(key, short))


def content_with(lines: Mapping[GangKey, Line]) -> RecordText:
    """Returns the text of one ConfigMap with these records; empty without any. If they do not fit, each namespace has
    the same room: of those that need more, records lose the names of pods, and then are left out.
    """
    texts = {key: lines[key].text for key in sorted(lines)}
    sizes = _sizes(texts)
    if sizes.total() <= MOST_BYTES:
        return RecordText("\n".join(texts.values()), frozenset())
    cut = set[str]()
    room = _room(sizes.values())
    for key, whole in list(texts.items()):
        if sizes[key.namespace] > room:
            texts[key] = lines[key].short
            sizes[key.namespace] -= len(whole) - len(texts[key])
            cut.add(key.namespace)
    if sizes.total() > MOST_BYTES:
        room = _room(sizes.values())
        for key in list(texts):
            if sizes[key.namespace] > room:
                sizes[key.namespace] -= len(texts.pop(key)) + 1
    return RecordText("\n".join(texts.values()), frozenset(cut))


def _sizes(texts: Mapping[GangKey, str]) -> Counter[str]:
    """Returns the bytes that each namespace needs."""
    sizes: Counter[str] = Counter()
    for key, line in texts.items():
        sizes[key.namespace] += len(line) + 1
    return sizes


def _room(sizes: Iterable[int]) -> int:
    """Returns the most that each namespace may have, so that all fit: what some do not need goes to the others."""
    left, every = MOST_BYTES, sorted(sizes)
    for place, size in enumerate(every):
        share = left // (len(every) - place)
        if size > share:
            return share
        left -= size
    return left


def shard(name: str, namespace: str, content: str) -> Manifest:
    """Returns one ConfigMap."""
    metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/managed-by": "rollcall"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {DATA: content}}


def content_of(raw: Manifest) -> str:
    """Returns the text in one of the ConfigMaps. Raises `Malformed`."""
    return text(mapping(raw.get("data")).get(DATA)) or ""


def losses_in(content: str) -> Iterator[tuple[GangKey, Loss]]:
    """Yields the records in a text. A line that cannot be read is left out: its gang is looked at as a new one."""
    for line in content[:MOST_BYTES].splitlines():
        try:
            yield _read(json.loads(line))
        except (ValueError, Malformed, RecursionError):
            continue


def _text(key: GangKey, loss: Loss) -> str:
    pods = [[pod.name, pod.cause.value, pod.at, pod.node] for pod in loss.pods]
    # ASCII only, so that a character is a byte.
    return json.dumps([list(key), loss.uid, loss.since, pods, loss.more], separators=(",", ":"))


def _read(record: Any) -> tuple[GangKey, Loss]:
    """Returns one record. Raises `ValueError`, `Malformed`."""
    key, uid, since, pods, more = sequence(record)
    namespace, name, kind, workload = map(_name_in, sequence(key))
    read = tuple(_pod(sequence(pod)) for pod in sequence(pods)[:MOST_PODS])
    loss = Loss(_name_in(uid), _time_in(since), read, max(integer(more) or 0, 0))
    return GangKey(namespace, name, kind, workload), loss


def _pod(fields: Any) -> LostPod:
    name, cause, at, node = fields
    return LostPod(_name_in(name), LossCause(text(cause) or ""), _time_in(at), _name_in(node))


def _name_in(value: object) -> str:
    name = text(value) or ""
    # All names in Kubernetes are ASCII. Another one could not be asked for.
    if len(name) > _MOST_CHARACTERS or not name.isascii():
        raise Malformed(value, "a name")
    return name


def _time_in(value: object) -> str:
    time = text(value) or ""
    hours_since(time, _NEVER)
    return time
