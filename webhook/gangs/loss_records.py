"""The records of gangs that lost pods, as they are stored: ConfigMaps in Rollcall's own namespace
(no I/O).

Tenants can write PodGangs, workloads and ConfigMaps of their namespaces, and Grove's operator removes annotations that
it did not make. So the records are where only Rollcall and administrators write. Their number and size is bounded: in a
cluster where thousands of gangs lost pods at once, the namespaces that need most room lose the names of pods, and then
records.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from webhook.gangs.key import GangKey
from webhook.gangs.loss_causes import LossCause
from webhook.gangs.losses import MOST_PODS, Loss, LostPod, hours_since
from webhook.installation.names import LOSS_RECORDS
from webhook.model.reading import Malformed, Manifest, integer, mapping, sequence, text

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


class Content(NamedTuple):
    """The text of one ConfigMap, and the namespaces of which it does not have everything."""

    text: str
    cut: frozenset[str]


def line_of(key: GangKey, loss: Loss) -> Line:
    """The record of one gang as it is stored."""
    digest = sha256("/".join(key).encode(errors="surrogatepass")).digest()
    short = loss._replace(pods=(), more=loss.more + len(loss.pods))
    return Line(loss, LOSS_RECORDS[digest[0] % len(LOSS_RECORDS)], _text(key, loss), _text(key, short))


def content_with(lines: Mapping[GangKey, Line]) -> Content:
    """The text of one ConfigMap with these records; empty without any. If they do not fit, each namespace has the same
    room: of those that need more, records lose the names of pods, and then are left out.
    """
    texts = {key: lines[key].text for key in sorted(lines)}
    sizes = _sizes(texts)
    if sizes.total() <= MOST_BYTES:
        return Content("\n".join(texts.values()), frozenset())
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
    return Content("\n".join(texts.values()), frozenset(cut))


def _sizes(texts: Mapping[GangKey, str]) -> Counter[str]:
    """The bytes that each namespace needs."""
    sizes: Counter[str] = Counter()
    for key, line in texts.items():
        sizes[key.namespace] += len(line) + 1
    return sizes


def _room(sizes: Iterable[int]) -> int:
    """The most that each namespace may have, so that all fit: those that need less leave the rest to the others."""
    left, every = MOST_BYTES, sorted(sizes)
    for place, size in enumerate(every):
        share = left // (len(every) - place)
        if size > share:
            return share
        left -= size
    return left


def shard(name: str, namespace: str, content: str) -> Manifest:
    """One ConfigMap."""
    metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/managed-by": "rollcall"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {DATA: content}}


def content_of(raw: Manifest) -> str:
    """The text in one of the ConfigMaps. Raises `Malformed`."""
    return text(mapping(raw.get("data")).get(DATA)) or ""


def losses_in(content: str) -> Iterator[tuple[GangKey, Loss]]:
    """The records in such a text. A line that cannot be read is left out: the gang is then looked at as a new one."""
    for line in content[:MOST_BYTES].splitlines():
        try:
            yield _read(json.loads(line))
        except (ValueError, Malformed, RecursionError):
            continue


def _text(key: GangKey, loss: Loss) -> str:
    pods = [[pod.name, pod.cause.value, pod.at, pod.node] for pod in loss.pods]
    # ASCII only, so that a character is a byte.
    return json.dumps([list(key), loss.uid, loss.since, pods, loss.more], separators=(",", ":"))


def _read(found: Any) -> tuple[GangKey, Loss]:
    """One record. Raises `ValueError`, `Malformed`."""
    key, uid, since, pods, more = sequence(found)
    namespace, name, kind, workload = map(_name_in, sequence(key))
    read = tuple(_pod(sequence(one)) for one in sequence(pods)[:MOST_PODS])
    return GangKey(namespace, name, kind, workload), Loss(
        _name_in(uid), _time_in(since), read, max(integer(more) or 0, 0)
    )


def _pod(found: Any) -> LostPod:
    name, cause, at, node = found
    return LostPod(_name_in(name), LossCause(text(cause) or ""), _time_in(at), _name_in(node))


def _name_in(value: object) -> str:
    found = text(value) or ""
    # All names in Kubernetes are ASCII. Another one could not be asked for.
    if len(found) > _MOST_CHARACTERS or not found.isascii():
        raise Malformed(value, "a name")
    return found


def _time_in(value: object) -> str:
    found = text(value) or ""
    hours_since(found, _NEVER)
    return found
