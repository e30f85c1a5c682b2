"""The records of gangs that lost pods, as they are stored: ConfigMaps in Rollcall's own namespace
(no I/O).

Tenants can write PodGangs, workloads and ConfigMaps of their namespaces, and Grove's operator removes annotations that
it did not make. So the records are where only Rollcall and administrators write. Their number and size is bounded: in a
cluster where thousands of gangs lost pods at once, the gangs of the namespaces with most of them lose the names of pods
first, and then are left out.
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
    """The record of one gang as it is stored: the text, and the name of its ConfigMap."""

    loss: Loss
    name: str
    text: str


def line_of(key: GangKey, loss: Loss) -> Line:
    """The record of one gang as it is stored."""
    digest = sha256("/".join(key).encode(errors="surrogatepass")).digest()
    return Line(loss, LOSS_RECORDS[digest[0] % len(LOSS_RECORDS)], _text(key, loss))


def shards(lines: Mapping[GangKey, Line]) -> dict[str, str]:
    """The text of each ConfigMap by its name; empty for one that is not needed."""
    found: dict[str, dict[GangKey, str]] = {name: {} for name in LOSS_RECORDS}
    for key in sorted(lines):
        found[lines[key].name][key] = lines[key].text
    return {name: "\n".join(_fitting(texts, lines)) for name, texts in found.items()}


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


def _fitting(texts: dict[GangKey, str], lines: Mapping[GangKey, Line]) -> Iterable[str]:
    """The lines that fit into one ConfigMap."""
    size = sum(len(text) + 1 for text in texts.values())
    if size <= MOST_BYTES:
        return texts.values()
    of_namespace = Counter(key.namespace for key in texts)
    crowd = sorted(texts, key=lambda key: (-of_namespace[key.namespace], key))
    for key in crowd:
        size -= len(texts[key])
        loss = lines[key].loss
        texts[key] = _text(key, loss._replace(pods=(), more=loss.more + len(loss.pods)))
        size += len(texts[key])
        if size <= MOST_BYTES:
            return texts.values()
    for key in crowd:
        size -= len(texts.pop(key)) + 1
        if size <= MOST_BYTES:
            break
    return texts.values()


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
