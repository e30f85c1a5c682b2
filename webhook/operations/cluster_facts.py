"""What a command reads of a living cluster: the facts that rules may ask about, cut down to the fields that rules
read, and the configuration that the installed server mounts.

The facts are manifests: `rollcall facts` writes them, and `--live` reads them as facts at once, so both judge alike. A
kind that may not be read stays unknown, with the right that is missing. An object that the caches of a server would
not keep is left out. The field names of kinds are made from the OpenAPI document, which every authenticated user may
read; to list CustomResourceDefinitions takes more.

Checks use the installed configuration if no file is given: an operator on call may have no file, or the wrong one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx

from webhook.cluster import requests
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.cluster_facts import Discovery, kinds_in
from webhook.config.defaults import default_settings
from webhook.config.file import settings_from, shadow_file_names
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, NotFound, RequestFailed
from webhook.installation.deployment import CONFIGURATION_FILE, CONFIGURATION_VOLUME
from webhook.installation.names import SERVER
from webhook.model import grove, known_kinds
from webhook.model.bounds import weight
from webhook.model.facts import ClusterFacts
from webhook.model.keys import SHAPED_WORKLOADS, Api
from webhook.model.known_kinds import CONFIG_MAPS, PODS
from webhook.model.node_pods import NODE_PODS, RESERVATIONS, NodePods, Reservation
from webhook.model.projections import Projection, Resource, kept, labels_of
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.offline.fact_files import facts_in
from webhook.offline.omissions import may_not_read, not_read, not_served
from webhook.offline.positions import TextProblem
from webhook.offline.yaml_and_json import yaml_documents
from webhook.operations.snapshot import DEPLOYMENTS, pod_of
from webhook.workloads.known_workloads import EVERY_GENERAL
from webhook.workloads.workload_kinds import PYTHON_KINDS, WorkloadKinds

# The schemas of real kinds are less deep.
_DEEPEST = 40
_ANY_FIELD = "x-kubernetes-preserve-unknown-fields"
_OPEN: Manifest = {"type": "object", _ANY_FIELD: True}


def definitions(schemas: Iterable[tuple[Resource, Mapping[str, Any]]]) -> Manifest:
    """Returns a list with one CustomResourceDefinition for each kind, with the field names of its served versions."""
    kinds: dict[tuple[str, str], Manifest] = {}
    for resource, schema in sorted(schemas, key=lambda entry: entry[0]):
        api = resource.api
        spec = {
            "group": api.group,
            "names": {"kind": api.kind, "plural": resource.plural},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [],
        }
        empty = {"metadata": {"name": resource.qualified}, "spec": spec}
        definition = kinds.setdefault((api.group, api.kind), empty)
        version = {"name": api.version, "served": True, "schema": {"openAPIV3Schema": _kind(schema)}}
        definition["spec"]["versions"].append(version)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinitionList",
        "items": list(kinds.values()),
    }


def _kind(schema: Mapping[str, Any]) -> Manifest:
    outline = _names(schema, _DEEPEST)
    properties = outline.get("properties")
    if isinstance(properties, dict):
        # Every kind has the same metadata, and no rule reads the status.
        properties |= {name: {"type": "object"} for name in ("metadata",) if name in properties}
        properties |= {name: dict(_OPEN) for name in ("status",) if name in properties}
    return outline


def _names(schema: object, deepest: int) -> Manifest:
    if not isinstance(schema, Mapping) or not deepest:
        return dict(_OPEN)
    if schema.get(_ANY_FIELD):
        return dict(_OPEN)
    outline: Manifest = {"type": "object"} if schema.get("type") == "object" else {}
    if isinstance(properties := schema.get("properties"), Mapping):
        outline["properties"] = {str(name): _names(below, deepest - 1) for name, below in properties.items()}
    if "items" in schema:
        outline["items"] = _names(schema["items"], deepest - 1)
    each = schema.get("additionalProperties")
    if isinstance(each, bool) or each is None:
        outline |= {} if each is None else {"additionalProperties": each}
    else:
        outline["additionalProperties"] = _names(each, deepest - 1)
    return outline


# Objects in a page: large, because little is kept of each, and a person waits.
PAGE = 500
# HTTP statuses for a missing right.
FORBIDDEN = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
# API groups that no CustomResourceDefinition describes.
_BUILT_IN = frozenset({"", "apps", "batch", "resource.k8s.io", "scheduling.k8s.io"})
_BOUND = {
    "labelSelector": f"{grove.LABEL_MANAGED_BY}={grove.MANAGED_BY_GROVE},{grove.LABEL_PODGANG}",
    "fieldSelector": requests.BOUND,
}
# The metadata of a pod does not name its node. Rules ask only whether it has one.
_SOME_NODE = "some-node"


class KeptObjects(NamedTuple):
    """The kept objects of one kind, as a typed list, and how many were left out."""

    name: str
    manifest: Manifest
    left_out: int = 0

    @property
    def size(self) -> int:
        """How many objects it has."""
        return len(self.manifest["items"])


@dataclass(slots=True)
class ClusterObjects:
    """What was read, by kind, and the parts of the facts that could not be read, with what to do about it."""

    kinds: list[KeptObjects] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    # The unread kinds, with the reason.
    failed: dict[str, str] = field(default_factory=dict)

    def facts(self, kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
        """Returns the facts in these objects. `kinds` are those of opted-in workloads."""
        return replace(facts_in((kind.manifest for kind in self.kinds), kinds), unread=MappingProxyType(self.unread))


def projections_of(settings: Settings) -> tuple[Projection, ...]:
    """Returns the kinds of the facts, for the enabled schedulers."""
    backends = [profile.backend for profile in settings.profiles.values()]
    declared = (projection for projection in settings.kinds.projections if projection.part == SHAPED_WORKLOADS)
    return (*EVERY_GENERAL, *declared, *(projection for backend in backends for projection in backend.projections))


async def read_cluster(
    access: Access, projections: Iterable[Projection], transport: httpx.AsyncBaseTransport | None = None
) -> ClusterObjects:
    """Returns what the cluster has. Raises `FactsUnavailable` if it cannot be reached or does not accept the caller."""
    client = Client(access, transport)
    try:
        return await read_objects(client, projections)
    finally:
        await client.close()


async def read_objects(client: Client, projections: Iterable[Projection], *, pods: bool = True) -> ClusterObjects:
    """Returns what the cluster has; without `pods`, nothing that only pods show. Raises as `read_cluster`."""
    return await _Reader(client, tuple(projections), pods=pods).read()


class OccupiedRoom(NamedTuple):
    """What holds room on nodes: pods, and Koordinator's Reservations where the cluster serves them."""

    pods: NodePods
    reservations: Mapping[str, Reservation]


async def read_occupied(access: Access, transport: httpx.AsyncBaseTransport | None = None) -> OccupiedRoom:
    """Returns what holds room on nodes. Raises `RequestFailed`, as where the caller may not list all pods."""
    client = Client(access, transport)
    try:
        pods, reservations = NodePods(), {}
        async for raw in client.items(NODE_PODS.resource, limit=PAGE, selector=NODE_PODS.selector):
            if (pod := _entry(NODE_PODS, raw)) is not None:
                pods[pod[0]] = pod[1]
        with suppress(NotFound):
            async for raw in client.items(RESERVATIONS.resource, limit=PAGE):
                if (reservation := _entry(RESERVATIONS, raw)) is not None:
                    reservations[reservation[0]] = reservation[1]
        return OccupiedRoom(pods, reservations)
    finally:
        await client.close()


def _entry(projection: Projection, raw: Manifest) -> tuple[Any, Any] | None:
    try:
        return projection.read(raw)
    except Malformed:
        return None


class _Reader:
    def __init__(self, client: Client, projections: Sequence[Projection], *, pods: bool) -> None:
        self._client = client
        self._projections = (
            projections if pods else [projection for projection in projections if projection.resource != PODS]
        )
        self._reads_pods = pods
        self._result = ClusterObjects()

    async def read(self) -> ClusterObjects:
        discovery = Discovery(self._client)
        try:
            await discovery.ask()
        except RequestFailed as error:
            raise FactsUnavailable(f"the cluster cannot be read: {error}") from None
        served = discovery.resources
        projections = self._served_projections(served)
        pods = [projection for projection in projections if projection.resource == PODS]
        others = [self._objects(projection) for projection in projections if projection.resource != PODS]
        if self._reads_pods:
            others.append(self._pods(pods))
        await asyncio.gather(self._schemas(served), *others)
        groups = {projection.resource.api.group for projection in self._projections}
        resources = (resource for resource in served.values() if resource.api.group in groups)
        self._result.kinds.append(KeptObjects("apigroups", known_kinds.document_of(resources)))
        self._result.kinds.sort(key=lambda kind: kind.name)
        return self._result

    def _served_projections(self, served: Mapping[Api, Resource]) -> list[Projection]:
        """Returns one projection for each part, of the first version that the cluster serves."""
        projections: dict[tuple[str, Api | None], Projection] = {}
        for projection in self._projections:
            if projection.fields and (projection.resource.api in served or not projection.resource.api.group):
                # Each kind of a shared part has other objects.
                projections.setdefault(
                    (projection.part, projection.resource.api if projection.shared else None), projection
                )
        for projection in self._projections:
            if not projection.shared and (projection.part, None) not in projections:
                self._result.unread.setdefault(projection.part, not_served(projection.resource))
        return list(projections.values())

    async def _objects(self, projection: Projection) -> None:
        try:
            kind = await self._kind(projection)
        except RequestFailed as error:
            self._missed(projection.resource, error, projection.part)
        else:
            self._result.kinds.append(kind)

    async def _pods(self, waiting: Sequence[Projection]) -> None:
        """Reads both parts that pods tell, or none: in files a list of pods makes both known."""
        try:
            kinds = [await self._kind(projection) for projection in waiting]
            bound = await self._bound_gangs()
        except RequestFailed as error:
            self._missed(PODS, error, "bound_gangs", *(projection.part for projection in waiting))
            return
        items = [item for kind in kinds for item in kind.manifest["items"]]
        left_out = sum(kind.left_out for kind in kinds)
        self._result.kinds.append(KeptObjects(PODS.qualified, _list_of(PODS, [*items, *bound]), left_out))

    async def _bound_gangs(self) -> list[Manifest]:
        """Returns one pod on a node for each PodGang that has any."""
        bound: dict[tuple[str, str], Manifest] = {}
        pods = self._client.items(PODS, selector=_BOUND, limit=PAGE, accept=requests.METADATA_ONLY)
        async for raw in pods:
            metadata = mapping(mapping(raw).get("metadata"))
            namespace, podgang = str(metadata.get("namespace")), str(labels_of(raw).get(grove.LABEL_PODGANG))
            labels = {grove.LABEL_PODGANG: podgang}
            identity = {"name": str(metadata.get("name")), "namespace": namespace, "labels": labels}
            bound.setdefault((namespace, podgang), {"metadata": identity, "spec": {"nodeName": _SOME_NODE}})
        return list(bound.values())

    async def _kind(self, projection: Projection) -> KeptObjects:
        items: list[Manifest] = []
        left_out = 0
        async for raw in self._client.items(projection.resource, limit=PAGE, selector=projection.selector):
            manifest = kept(raw, projection.fields)
            try:
                entry = projection.read(manifest)
            except Malformed:
                # The object was stored under an older schema. For a server, too, it counts as missing.
                left_out += 1
                continue
            if weight(entry, projection.most) > projection.most:
                left_out += 1
            elif entry is not None:
                items.append(manifest)
        items.sort(key=_order)
        return KeptObjects(projection.resource.qualified, _list_of(projection.resource, items), left_out)

    async def _schemas(self, served: Mapping[Api, Resource]) -> None:
        """Reads the field names of the served kinds, as CustomResourceDefinitions without anything else."""
        groups = {projection.resource.api.group for projection in self._projections} - _BUILT_IN
        resources = {api: resource for api, resource in served.items() if api.group in groups}
        places = sorted({(api.group, api.version) for api in resources})
        try:
            documents = await asyncio.gather(*(self._document(*place) for place in places))
            schemas = [
                (resources[api], schema) for document in documents for api, schema in kinds_in(document, resources)
            ]
        except (RequestFailed, Malformed) as error:
            name = "the schemas of the served kinds"
            self._result.failed[name] = str(error)
            self._result.unread["spec_fields"] = self._result.unread["field_names"] = not_read(name, str(error))
            return
        self._result.kinds.append(KeptObjects("customresourcedefinitions.apiextensions.k8s.io", definitions(schemas)))

    async def _document(self, group: str, version: str) -> Any:
        """Returns the OpenAPI document of a group and version; empty if the server has none, as for an APIService."""
        try:
            return (await self._client.get(requests.schemas(group, version))).content
        except NotFound:
            return {}

    def _missed(self, resource: Resource, error: RequestFailed, *parts: str) -> None:
        what = may_not_read(resource) if error.code in FORBIDDEN else not_read(resource.qualified, str(error))
        self._result.failed[resource.qualified] = str(error)
        self._result.unread.update(dict.fromkeys(parts, what))


def _list_of(resource: Resource, items: list[Manifest]) -> Manifest:
    api = resource.api
    return {"apiVersion": f"{api.group}/{api.version}".lstrip("/"), "kind": f"{api.kind}List", "items": items}


def _order(manifest: Manifest) -> tuple[Any, ...]:
    metadata = mapping(manifest.get("metadata"))
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


class InstalledSettings(NamedTuple):
    """The installed configuration. If it could not be found: all backends with defaults, and the reason in
    `unknown`.
    """

    settings: Settings
    unknown: str = ""


async def installed_settings(
    access: Access, namespace: str, transport: httpx.AsyncBaseTransport | None = None
) -> InstalledSettings:
    """Returns the settings installed in that namespace. Raises `ConfigurationError` if their file is invalid."""
    client = Client(access, transport)
    try:
        return await _read(client, namespace)
    except (RequestFailed, Malformed) as error:
        return InstalledSettings(default_settings(), str(error))
    finally:
        await client.close()


async def _read(client: Client, namespace: str) -> InstalledSettings:
    deployment = (await client.get(requests.read(DEPLOYMENTS.resource, SERVER, namespace))).content
    name = _mounted(deployment)
    if name is None:
        # Without a file both processes run with their defaults.
        return InstalledSettings(default_settings())
    held = (await client.get(requests.read(CONFIG_MAPS, name, namespace))).content
    source, data = f"ConfigMap {namespace}/{name}", mapping(mapping(held).get("data"))
    document = _document(data, CONFIGURATION_FILE, source)
    shadows = {
        file: settings_from(_document(data, file, source), f"{source}, {file}", shadow_files=None)
        for file in shadow_file_names(document)
        if file in data
    }
    return InstalledSettings(settings_from(document, source, shadow_files=shadows))


def _document(data: Mapping[str, object], file: str, source: str) -> object:
    """Returns the only document of a file in a ConfigMap. Raises `RequestFailed` if it is not there or is not YAML."""
    content = text(data.get(file))
    if content is None:
        raise RequestFailed(f"{source} has no {file}")
    try:
        documents = [document.value for document in yaml_documents(content)]
    except TextProblem as error:
        raise RequestFailed(f"{source} is not YAML: {error}") from None
    return documents[0] if len(documents) == 1 else None


def _mounted(deployment: Manifest) -> str | None:
    for volume in map(mapping, sequence(pod_of(deployment).get("volumes"))):
        if volume.get("name") == CONFIGURATION_VOLUME:
            return text(mapping(volume.get("configMap")).get("name"))
    return None
