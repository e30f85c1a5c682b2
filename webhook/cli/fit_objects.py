"""Objects of a cluster that `rollcall fit KIND/NAME` names, and what holds room on its nodes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from webhook.cli.output import tell
from webhook.errors import FactsUnavailable, InputError, NotFound, RequestFailed
from webhook.model import grove
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, Resource
from webhook.model.workloads.kinds import JOB_SETS, JOBS, LEADER_WORKER_SETS, TRAIN_JOBS
from webhook.sources.manifests import Document
from webhook.sources.places import Lines, Root

if TYPE_CHECKING:
    from webhook.cluster.access import Access
    from webhook.cluster.client import Client
    from webhook.model.facts import ClusterFacts
    from webhook.model.reading import Manifest

_SETS = POD_CLIQUE_SETS.resource
# The kinds that have gangs, by their kubectl names.
KINDS = {
    "podgang": POD_GANGS.resource,
    "podgangs": POD_GANGS.resource,
    "pcs": _SETS,
    "podcliqueset": _SETS,
    "podcliquesets": _SETS,
    "job": JOBS,
    "jobs": JOBS,
    "jobset": JOB_SETS,
    "jobsets": JOB_SETS,
    "lws": LEADER_WORKER_SETS,
    "leaderworkerset": LEADER_WORKER_SETS,
    "leaderworkersets": LEADER_WORKER_SETS,
    "trainjob": TRAIN_JOBS,
    "trainjobs": TRAIN_JOBS,
}
_SHOWN = ("podgang", "pcs", "job", "jobset", "lws", "trainjob")
# With or without the API group, as `kubectl -o name` prints it.
_NAMED = re.compile(r"(?P<kind>[a-zA-Z]+)(\.[a-z0-9.-]+)?/(?P<name>[a-z0-9]([a-z0-9.-]*[a-z0-9])?)")
_IS_FILE = (".yaml", ".yml", ".json")


class Named(NamedTuple):
    """An object of a cluster, as it was named."""

    said: str
    resource: Resource
    name: str


def objects_named(arguments: Sequence[str]) -> list[Named] | None:
    """Return the arguments as names of objects that have gangs; None if they are files. Raises `typer.BadParameter`."""
    found = [_named(one) for one in arguments]
    if not any(found):
        return None
    if not all(found):
        raise typer.BadParameter("KIND/NAME is in a cluster, and a file is not: judge them one after another")
    return [one for one in found if one is not None]


def _named(argument: str) -> Named | None:
    matched = _NAMED.fullmatch(argument)
    if matched is None or argument.endswith(_IS_FILE) or Path(argument).exists() or _folder_exists(argument):
        return None
    resource = KINDS.get(matched["kind"].lower())
    if resource is None:
        raise typer.BadParameter(
            f"{argument}: there is no such file, and the KIND of KIND/NAME must be one of {', '.join(_SHOWN)}"
        )
    return Named(argument, resource, matched["name"])


def _folder_exists(argument: str) -> bool:
    return Path(argument.partition("/")[0]).exists()


def documents_there(named: Sequence[Named], namespace: str | None, access: Access) -> list[Document]:
    """Return the objects as documents. Raises `InputError` for one that does not exist, `FactsUnavailable`."""
    return asyncio.run(_documents(named, namespace or access.namespace or "default", access))


async def _documents(named: Sequence[Named], namespace: str, access: Access) -> list[Document]:
    from webhook.cluster.client import Client
    from webhook.cluster.requests import read

    client, found = Client(access), []
    try:
        for one in named:
            raw = (await client.get(read(one.resource, one.name, namespace))).content
            typed = {"apiVersion": _version(one.resource), "kind": one.resource.api.kind, **raw}
            found.append(_document(one.said, typed))
            if one.resource == POD_GANGS.resource:
                found += [_document(one.said, pod) async for pod in _pods_of(client, namespace, one.name)]
    except NotFound:
        raise InputError(one.said, f"there is no {one.resource.api.kind} {namespace}/{one.name}") from None
    except RequestFailed as error:
        raise FactsUnavailable(f"{one.said} cannot be read: {error}") from None
    finally:
        await client.close()
    return found


def _document(source: str, manifest: Manifest) -> Document:
    return Document(source, manifest, 1, Lines(""), lambda: Root(0, None))


async def _pods_of(client: Client, namespace: str, podgang: str) -> AsyncIterator[Manifest]:
    selector = {"labelSelector": f"{grove.LABEL_PODGANG}={podgang}"}
    async for raw in client.items(PODS, namespace=namespace, selector=selector):
        yield {"apiVersion": "v1", "kind": PODS.api.kind, **raw}


def _version(resource: Resource) -> str:
    return f"{resource.api.group}/{resource.api.version}".lstrip("/")


def with_occupied(facts: ClusterFacts, access: Access) -> ClusterFacts:
    """Return the facts with what holds room on the nodes of a cluster. Standard error says if that cannot be read."""
    from webhook.sources.cluster_objects import read_occupied

    try:
        found = asyncio.run(read_occupied(access))
    except RequestFailed as error:
        tell(f"pods could not be read: {error}; so it is not known what is free now")
        return facts
    return replace(facts, node_pods=found.pods, node_reservations=found.reservations)
