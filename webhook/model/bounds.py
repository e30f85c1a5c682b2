"""Limits on what is kept in memory of objects that other authors store.

Annotations may have 256 KiB and an object 1.5 MiB, and a tenant may store thousands of them. A `Row` shares its keys
with others like it: thousands of nodes have the same hundred label keys, and a node takes one kilobyte instead of ten.
In a `FairMemory` a tenant cannot push out what is remembered of other namespaces.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from webhook.model.reading import Manifest, text

V = TypeVar("V")

# Different sets of keys that are shared. A set that is not among these is only not shared.
_SHARED_KEYS = 1024


class Row(Mapping[str, V]):
    """A hashable mapping. Two rows are equal if their keys and values are."""

    __slots__ = ("_values", "places")

    def __init__(self, places: Mapping[str, int], values: tuple[V, ...]) -> None:
        """`places` has the keys in their order, with the index of each value."""
        self.places = places
        self._values = values

    @classmethod
    def from_mapping(cls, entries: Mapping[str, V]) -> Row[V]:
        """Returns a row with these entries. Texts in it are interned."""
        keys = tuple(sorted(entries))
        return cls(_places(keys), tuple(_interned(entries[key]) for key in keys))

    def __getitem__(self, key: str) -> V:
        return self._values[self.places[key]]

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key, or the default."""
        place = self.places.get(key)
        return default if place is None else self._values[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented if not isinstance(other, Mapping) else dict(self) == other
        if self is other:
            return True
        same_keys = self.places is other.places or tuple(self.places) == tuple(other.places)
        return same_keys and self._values == other._values

    def __sizeof__(self) -> int:
        """The bytes of the row with its keys and values: plain values, of which `weight` need not look at each."""
        return sum(map(sys.getsizeof, (self.places, *self.places, self._values, *self._values)))

    def __repr__(self) -> str:
        return f"Row({dict(self)!r})"


def _interned(value: Any) -> Any:
    return sys.intern(value) if type(value) is str else value


@lru_cache(maxsize=_SHARED_KEYS)
def _places(keys: tuple[str, ...]) -> Mapping[str, int]:
    return {sys.intern(key): place for place, key in enumerate(keys)}


# What one object may take in the facts, as Python counts it. The indexes that find it by its names need a little more.
KEPT_BYTES = 16 * 1024
# What one object may take, packed, in a process that needs more of it than rules do: a workload or a gang object, and a
# PodGang, which names every pod.
STORED_BYTES = 64 * 1024
POD_GANG_BYTES = 256 * 1024
# Texts that most packed objects have: with them a PodGroup takes 0.2 KB instead of 0.5. The most frequent are last, and
# it is only for this process, so it may change with every release. Source: zlib's manual, deflateSetDictionary.
_FREQUENT = (
    b'"spec":{"podgroups":[{"minReplicas":1,"name":"","podReferences":[{"name":"","namespace":""},{"name":"'
    b'"topologyConstraint":{"packConstraint":{"required":"preferred":"status":{"conditions":[{"status":"True","type":"'
    b'"containers":[{"image":"resources":{"limits":{"requests":{"cpu":"memory":"env":[{"name":"value":"valueFrom":'
    b'"volumeMounts":[{"mountPath":"replicas":"template":{"cliques":[{"name":"","spec":{"roleName":"minAvailable":1,"podSpec":'
    b'"apiVersion":"scheduling.k8s.io/v1alpha3","kind":"CompositePodGroup","Workload","schedulingPolicy":{"gang":{"minCount":'
    b'"gang.scheduling.koordinator.sh/groups":"[\\"gang.scheduling.koordinator.sh/match-policy":"waiting-and-running",'
    b'"gang.scheduling.koordinator.sh/mode":"Strict","gang.scheduling.koordinator.sh/total-number":"1",'
    b'"rollcall.dev/applied":"rollcall.dev/members":"'
    b'{"apiVersion":"scheduling.sigs.k8s.io/v1alpha1","kind":"PodGroup","metadata":{"name":"","namespace":"","uid":"-4",'
    b'"labels":{"app.kubernetes.io/managed-by":"rollcall","app.kubernetes.io/part-of":"grove.io/podcliqueset-replica-index":"0",'
    b'"grove.io/podclique":"","grove.io/podgang":"","rollcall.dev/scheduler":"},"annotations":{"'
    b'"ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"PodCliqueSet",'
    b'"name":"","uid":"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"minMember":2,"scheduleTimeoutSeconds":600}}'
)
# For a PodGroup a higher level saves little more. A negative number means no header and no checksum: both are for data
# that is stored or sent.
_LEVEL, _WINDOW_BITS = 3, -15
# For a list of names, or of labels.
MOST_ITEMS, MOST_CHARACTERS = 64, 4096
# The longest name of an object (RFC 1123 subdomain).
_LONGEST_NAME = 253
_T = TypeVar("_T")
# The start is as long as a quote in a message.
_START, _DIGITS = 80, 32


def name_text(value: object) -> str | None:
    """Returns the string `value`, read as `text` reads it, if it can be a name; else its start and a digest, which
    cannot be the name of an object. Raises `Malformed`.
    """
    name = text(value)
    return name if name is None or len(name) <= _LONGEST_NAME else f"{name[:_START]}… {digest((name,))}"


def shared(text: str) -> str:
    """Returns one object for equal texts among the latest: neighbours in a list have most of their texts in common.
    Texts that are longer than a name are not shared.
    """
    return text if len(text) > _LONGEST_NAME else _latest_text(text)


def latest_equal(size: int) -> Callable[[_T], _T]:
    """Returns a function that returns one object for equal ones, while they are among the latest `size`. Raises
    `TypeError` for an object without a hash. `sys.intern` would keep each text for the life of the process: Python 3.12
    never frees an interned text, and tenants write these.
    """
    return lru_cache(maxsize=size)(_itself)


def _itself(value: _T) -> _T:
    return value


_latest_text = latest_equal(4096)


def digest(texts: Iterable[str]) -> str:
    """Returns a digest: different texts have different digests."""
    sha = sha256()
    for content in texts:
        # Half of a surrogate pair is legal in JSON.
        encoded = content.encode(errors="surrogatepass")
        sha.update(len(encoded).to_bytes(8))
        sha.update(encoded)
    return sha.hexdigest()[:_DIGITS]


def fits(texts: Iterable[str]) -> bool:
    """Returns whether a list is kept whole."""
    room = MOST_CHARACTERS
    for count, name in enumerate(texts, start=1):
        room -= len(name)
        if room < 0 or count > MOST_ITEMS:
            return False
    return True


def names_kept(names: frozenset[str]) -> frozenset[str] | None:
    """Returns the names; None if there are more than the limit."""
    return names if fits(names) else None


def list_kept(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Returns a list of names. A list that is too long is cut: the first names, and one text for the rest that cannot
    be a name. Two results are equal if and only if their lists are equal.
    """
    if fits(texts):
        return texts
    room, first = MOST_CHARACTERS, []
    for name in islice(texts, MOST_ITEMS - 1):
        room -= len(name)
        if room < 0:
            break
        first.append(name)
    return (*first, f"… {len(texts)} in all, {digest(texts)}")


def is_cut(texts: tuple[str, ...]) -> bool:
    """Returns whether `list_kept` cut the list."""
    return bool(texts) and texts[-1].startswith("… ")


def labels_kept(labels: Mapping[str, Any], first: str) -> tuple[dict[str, str], bool]:
    """Returns as many labels as fit, first those with the prefix `first`, and whether all do. Raises `Malformed`."""
    kept: dict[str, str] = {}
    room = MOST_CHARACTERS
    for key in sorted(labels, key=lambda key: (not key.startswith(first), key)):
        value = text(labels[key]) or ""
        room -= len(key) + len(value)
        if room < 0 or len(kept) == MOST_ITEMS:
            return kept, False
        kept[key] = value
    return kept, True


def entries_kept(entries: Mapping[str, Any], first: Container[str], room: int) -> dict[str, Any]:
    """Returns the entries (labels, annotations or fields) in `first`, which are few, and as many others as fit into
    `room` bytes. A text in `first` is kept as `name_text` keeps it; any other value is kept whole or not at all.
    """
    kept: dict[str, Any] = {}
    for key in sorted(entries, key=lambda key: key not in first):
        value = entries[key]
        if key in first and isinstance(value, str):
            kept[key] = name_text(value)
        elif (taken := weight((key, value), room)) <= room:
            kept[key] = value
            room -= taken
    return kept


class Packed(bytes):
    """A manifest that is needed whole, kept as compressed JSON: a tenth of the size of its dicts. The garbage collector
    does not look into it, so a process may keep very many.
    """

    __slots__ = ()

    @classmethod
    def pack(cls, manifest: Manifest) -> Packed:
        try:
            content = orjson.dumps(manifest)
        except TypeError:
            # Half of a surrogate pair, or a number of more than 64 bits.
            content = json.dumps(manifest, separators=(",", ":")).encode()
        packing = zlib.compressobj(_LEVEL, wbits=_WINDOW_BITS, zdict=_FREQUENT)
        return cls(packing.compress(content) + packing.flush())

    def manifest(self) -> Manifest:
        content = self._json()
        manifest: Manifest
        try:
            manifest = orjson.loads(content)
        except orjson.JSONDecodeError:
            manifest = json.loads(content)
        return manifest

    def size(self) -> int:
        """Returns the bytes of the manifest as JSON. As Python objects it may take 24 times as many."""
        return len(self._json())

    def _json(self) -> bytes:
        return zlib.decompressobj(_WINDOW_BITS, zdict=_FREQUENT).decompress(self)


def unpacked(kept: Manifest | Packed) -> Manifest:
    return kept.manifest() if isinstance(kept, Packed) else kept


# Values that refer to no others.
_PLAIN = frozenset({str, bytes, Packed, int, float, bool, type(None)})


def weight(value: object, most: int = KEPT_BYTES) -> int:
    """Returns the bytes that a value takes with all that it refers to. Counting stops above `most`."""
    total, seen, left = 0, set[int](), [value]
    while left and total <= most:
        current = left.pop()
        if id(current) not in seen:
            seen.add(id(current))
            total += sys.getsizeof(current)
            if type(current) in _PLAIN:
                continue
            # For a long container its own size is enough; its contents are then not counted.
            left.extend(_inside(current) if total <= most else ())
    return total


def _inside(value: object) -> Iterator[object]:
    """Yields what a value refers to. A `Row` counts itself, and a member of an enumeration takes no memory."""
    if isinstance(value, Enum | Row):
        return
    if isinstance(value, Mapping):
        yield from (part for item in value.items() for part in item)
    elif isinstance(value, tuple | list | set | frozenset):
        yield from value
    yield from getattr(value, "__dict__", {}).values()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        yield from (getattr(value, name) for name in slots if hasattr(value, name))


def values_in(value: Any, most: int) -> int:
    """Returns the number of values in an object, including its maps and lists; `most` if there are more."""
    count = 0
    waiting = [value]
    while waiting and count < most:
        current = waiting.pop()
        count += 1
        if isinstance(current, dict):
            waiting.extend(current.values())
        elif isinstance(current, list):
            waiting.extend(current)
    return count


RememberedKey = TypeVar("RememberedKey", bound=Hashable)
Remembered = TypeVar("Remembered")


def share_of(most: int) -> int:
    """Returns what one namespace may have of something that is shared: three quarters, and at least one."""
    return max(most * 3 // 4, 1)


class _MemoryEntry(NamedTuple, Generic[Remembered]):
    """What is remembered of a namespace, and how much it counts."""

    namespace: str
    value: Remembered
    weight: int


class FairMemory(Generic[RememberedKey, Remembered]):
    """The entries that were put or asked for last, at most so many, or of so much weight. Of these one namespace has
    its share at most, and then loses its own oldest entries for a new one. The last entry is kept whatever it weighs.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[RememberedKey, _MemoryEntry[Remembered]] = OrderedDict()
        # The keys of each namespace, the oldest first, and what they weigh.
        self._of: dict[str, OrderedDict[RememberedKey, None]] = {}
        self._weights: Counter[str] = Counter()
        self._weight = 0

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def get(self, key: RememberedKey) -> Remembered | None:
        """Returns the entry of a key, which counts as the latest then; None without one."""
        if (entry := self._entries.get(key)) is None:
            return None
        self._entries.move_to_end(key)
        self._of[entry.namespace].move_to_end(key)
        return entry.value

    def put(self, namespace: str, key: RememberedKey, value: Remembered, weight: int = 1) -> None:
        """Remembers an entry as the latest."""
        self.drop(key)
        self._entries[key] = _MemoryEntry(namespace, value, weight)
        keys = self._of.setdefault(namespace, OrderedDict())
        keys[key] = None
        self._weights[namespace] += weight
        self._weight += weight
        while self._weights[namespace] > share_of(self._most) and len(keys) > 1:
            self.drop(next(iter(keys)))
        while self._weight > self._most and len(self._entries) > 1:
            self.drop(next(iter(self._entries)))

    def drop(self, key: RememberedKey) -> None:
        """Forgets an entry, if there is one."""
        if (entry := self._entries.pop(key, None)) is None:
            return
        keys = self._of[entry.namespace]
        del keys[key]
        self._weight -= entry.weight
        self._weights[entry.namespace] -= entry.weight
        if not keys:
            del self._of[entry.namespace], self._weights[entry.namespace]
