"""The reader of a snapshot: it reads a cluster once, with the rights of the user. What cannot be read is marked as
unknown, with the reason.

It also looks at the certificates of Rollcall's endpoints in a TLS handshake, as the API server would see them, and at
their time. The only request it sends there is /healthz.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx

from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.workload_api import generation
from webhook.cluster import requests
from webhook.cluster.access import Access
from webhook.cluster.client import ApiAnswer, Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.cluster_facts import Discovery, Schemas
from webhook.cluster.sockets import looking, trusting
from webhook.config.settings import Settings
from webhook.errors import CertificateError, FactsUnavailable, NotFound, RequestFailed
from webhook.model.admission_request import account_of
from webhook.model.known_kinds import CONFIG_MAPS, PODS, SERVICE_ACCOUNTS
from webhook.model.projections import Resource
from webhook.model.reading import Malformed, Manifest, endpoints_in, mapping, port_name, text
from webhook.operations.certificate_checks import bundles, called_host, reached_endpoints
from webhook.operations.cluster_facts import FORBIDDEN, PAGE
from webhook.operations.grove_checks import OPERATOR_CONFIGURATION
from webhook.operations.installation_checks import trusted_users
from webhook.operations.kueue_checks import KUEUE_CONFIGURATION
from webhook.operations.neighbour_checks import grouped_pod, member_pods, namespace_asked_about, refused_set
from webhook.operations.snapshot import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    PARTS,
    POD_CLIQUE_SETS_PART,
    SECRET,
    SERVICE,
    ClockOffset,
    ConfigurationFile,
    DryRunAnswer,
    MemberPod,
    MemberTrial,
    PresentedCertificate,
    Snapshot,
    SnapshotPart,
    Unread,
    config_maps,
    document_in,
    gang_objects,
    operator_objects,
    recorded_workloads,
    serves_next,
    topology_objects,
    trimmed,
)

# A near endpoint answers long before this. Pods often cannot be reached from the user's machine.
SECONDS = 3.0


class Endpoint(NamedTuple):
    """The address of a server, and the host name by which the API server calls it."""

    address: str
    port: int
    host: str

    def __str__(self) -> str:
        return f"https://{f'[{self.address}]' if ':' in self.address else self.address}:{self.port}"


class SeenEndpoint(NamedTuple):
    """What one endpoint presented, and how far its clock is ahead if it sent a time."""

    presented: PresentedCertificate
    clock: ClockOffset | None = None


async def observe_endpoints(
    endpoints: Iterable[Endpoint], bundles: Iterable[str], *, clock: Clock = MACHINE_CLOCK
) -> list[SeenEndpoint]:
    """Returns what each endpoint presents, verified against each caBundle (base64)."""
    every = tuple(bundles)
    return list(await asyncio.gather(*(asyncio.to_thread(_look, endpoint, every, clock) for endpoint in endpoints)))


def _look(endpoint: Endpoint, bundles: tuple[str, ...], clock: Clock) -> SeenEndpoint:
    where = str(endpoint)
    try:
        with _connected(endpoint, looking()) as shown:
            certificate, offset = shown.getpeercert(binary_form=True), _clock_offset(shown, where, clock)
        refused = {bundle: why for bundle in bundles if (why := _refused(endpoint, bundle)) is not None}
    except OSError as error:
        return SeenEndpoint(
            PresentedCertificate(where, endpoint.host, trouble=error.strerror or str(error) or type(error).__name__)
        )
    return SeenEndpoint(PresentedCertificate(where, endpoint.host, certificate, refused=refused), offset)


def _connected(endpoint: Endpoint, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection((endpoint.address, endpoint.port), timeout=SECONDS)
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except BaseException:
        plain.close()
        raise


def _refused(endpoint: Endpoint, bundle: str) -> str | None:
    """Returns why a client with that caBundle would not trust the endpoint, or None; another check reports an invalid
    caBundle.

    Raises `OSError` if it could not be reached: that says nothing about its certificate.
    """
    try:
        context = trusting(b64decode(bundle))
    except (ValueError, CertificateError):
        return None
    try:
        with _connected(endpoint, context):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message


def _clock_offset(shown: ssl.SSLSocket, where: str, clock: Clock) -> ClockOffset | None:
    """Returns how far the clock of the server behind a connection is ahead, by the Date of its response."""
    with suppress(OSError, ValueError, StopIteration):
        before = clock.now()
        shown.sendall(b"GET /healthz HTTP/1.1\r\nHost: rollcall\r\nConnection: close\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head and (more := shown.recv(4096)):
            head += more
        lines = head.decode("latin-1").split("\r\n")
        date = next(line.partition(":")[2].strip() for line in lines if line.lower().startswith("date:"))
        return clock_offset(where, date, before, clock.now())
    return None


def clock_offset(whose: str, date: str, before: datetime, after: datetime) -> ClockOffset:
    """Returns how far a clock is ahead, by the Date of a response that was requested at `before` and arrived at
    `after`.

    Raises `ValueError`.
    """
    # The header has whole seconds, so half a second is added on average.
    ahead = (parsedate_to_datetime(date) - before).total_seconds() + 0.5 - (after - before).total_seconds() / 2
    return ClockOffset(whose, ahead)


T = TypeVar("T")


async def read_world(
    settings: Settings,
    access: Access,
    namespace: str,
    transport: httpx.AsyncBaseTransport | None = None,
    *,
    clock: Clock = MACHINE_CLOCK,
) -> Snapshot:
    """Returns the present state of the cluster. Raises `FactsUnavailable` if nothing can be read."""
    client = Client(access, transport, clock=clock)
    try:
        return await _Reader(client, settings, namespace, clock).read()
    finally:
        await client.close()


class _Reader:
    def __init__(self, client: Client, settings: Settings, namespace: str, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings
        self._namespace = namespace

    async def read(self) -> Snapshot:
        version, clocks = await self._version()
        discovery = Discovery(self._client)
        apis = await _tried("which kinds are served", discovery.ask, "get /apis")
        snapshot = Snapshot(
            self._settings, self._clock.now(), self._namespace, apis=apis, version=version, clocks=clocks
        )
        # A kind that is a gang only on request is in two of them.
        every_part = dict.fromkeys(
            (
                *PARTS,
                *recorded_workloads(self._settings),
                *gang_objects(self._settings),
                *operator_objects(self._settings),
                *topology_objects(self._settings),
            )
        )
        parts = [
            part for part in every_part if part is not SECRET and (isinstance(apis, Unread) or _served(part, apis))
        ]
        every = await asyncio.gather(*(self._part(part) for part in parts))
        required = [
            field.api for profile in self._settings.profiles.values() for field in profile.backend.required_fields
        ]
        spec_fields: Any = await _tried(
            "the schemas of the kinds", Schemas(self._client, required).ask, "get /openapi/v3"
        )
        snapshot = replace(snapshot, parts=dict(zip(parts, every, strict=True)), spec_fields=spec_fields)
        operator, kueue, refusal, grouped, members, accounts = await asyncio.gather(
            self._mounted(snapshot, OPERATOR_CONFIGURATION),
            self._mounted(snapshot, KUEUE_CONFIGURATION),
            self._refused_creation(snapshot),
            self._grouped(snapshot),
            self._members(snapshot),
            self._accounts(),
        )
        snapshot = replace(
            snapshot,
            operator=operator,
            kueue=kueue,
            refusal=refusal,
            grouped=grouped,
            members=members,
            accounts=accounts,
        )
        try:
            seen = await observe_endpoints(endpoints(snapshot), bundles(snapshot), clock=self._clock)
        except FactsUnavailable:
            # Without webhook configurations the endpoints are unknown; another check reports the missing
            # configurations.
            return replace(snapshot, parts={**snapshot.parts, SECRET: await self._part(SECRET)})
        snapshot = replace(snapshot, presented=tuple(endpoint.presented for endpoint in seen))
        ours = reached_endpoints(snapshot)
        if not ours:
            # Only in this case the stored certificate tells more than the presented one.
            snapshot = replace(snapshot, parts={**snapshot.parts, SECRET: await self._part(SECRET)})
        more = tuple(endpoint.clock for endpoint in seen if endpoint.clock is not None and endpoint.presented in ours)
        return replace(snapshot, clocks=(*snapshot.clocks, *more))

    async def _version(self) -> tuple[str | Unread, tuple[ClockOffset, ...]]:
        before = self._clock.now()
        try:
            answer: ApiAnswer = await self._client.get(requests.ApiRequest("/version"))
        except RequestFailed as error:
            if error.code not in FORBIDDEN or error.code == HTTPStatus.UNAUTHORIZED:
                raise FactsUnavailable(f"the cluster cannot be read: {error}") from None
            return Unread("the version of the API server", str(error), "get /version"), ()
        clocks: tuple[ClockOffset, ...] = ()
        if answer.date is not None:
            clocks = (clock_offset("the API server", answer.date, before, self._clock.now()),)
        return text(mapping(answer.content).get("gitVersion")) or "", clocks

    async def _part(self, part: SnapshotPart) -> tuple[Manifest, ...] | Unread:
        kind = part.resource.api.kind
        what = f"the {kind} {part.name}" if part.name else f"the {kind} objects"
        return await _tried(what, lambda: self._objects(part), part.right(self._namespace))

    async def _objects(self, part: SnapshotPart) -> tuple[Manifest, ...]:
        where = part.namespace_to_read(self._namespace) or None
        try:
            if part.name:
                manifests = [(await self._client.get(requests.read(part.resource, part.name, where))).content]
            else:
                selector = {"labelSelector": ",".join(part.labels)} if part.labels else None
                manifests = [
                    mapping(raw)
                    async for raw in self._client.items(part.resource, namespace=where, selector=selector, limit=PAGE)
                ]
        except NotFound:
            return ()
        api = part.resource.api
        version = f"{api.group}/{api.version}" if api.group else api.version
        # Objects in a list lack their own kind.
        return tuple(trimmed({**raw, "apiVersion": version, "kind": api.kind}) for raw in manifests)

    async def _refused_creation(self, snapshot: Snapshot) -> DryRunAnswer | Unread | None:
        if isinstance(snapshot.apis, Unread) or POD_CLIQUE_SETS_PART.resource.api not in snapshot.apis:
            return None
        try:
            where = namespace_asked_about(snapshot)
        except FactsUnavailable:
            where = "default"
        return await self._try(POD_CLIQUE_SETS_PART.resource, refused_set(where))

    async def _grouped(self, snapshot: Snapshot) -> DryRunAnswer | Unread | None:
        settings = self._settings.profiles[KubeBackend.name].backend.settings
        spoken = None if isinstance(snapshot.apis, Unread) else generation(settings, snapshot.apis)
        if not settings.gangScheduling or spoken is None:
            return None
        return await self._try(PODS, grouped_pod(self._namespace, spoken))

    async def _members(self, snapshot: Snapshot) -> tuple[MemberTrial, ...]:
        """Returns the first pod of each scheduler that would be stored, else the last one that was tried."""
        try:
            every = member_pods(snapshot)
        except FactsUnavailable:
            # What could not be read is said by the checks that need it.
            return ()
        return tuple(await asyncio.gather(*(self._member(members) for members in every.values() if members)))

    async def _member(self, members: Sequence[MemberPod]) -> MemberTrial:
        for member in members:
            outcome = await self._try(PODS, member.pod)
            if isinstance(outcome, DryRunAnswer) and outcome.stored is not None:
                break
        return MemberTrial(member, outcome)

    async def _try(self, resource: Resource, manifest: Manifest) -> DryRunAnswer | Unread:
        write = requests.create(resource, manifest)._replace(params={"dryRun": "All"})
        try:
            return DryRunAnswer(await self._client.write(write))
        except RequestFailed as error:
            if error.code == 0 or "cannot create resource" in str(error):
                where = manifest["metadata"]["namespace"]
                right = f"create {resource.plural} in {where}"
                return Unread(f"whether a {resource.api.kind} would be admitted", str(error), right)
            return DryRunAnswer(None, str(error))

    async def _accounts(self) -> dict[str, bool | Unread]:
        """Returns whether each service account that the configuration trusts exists, by user name."""
        accounts = {
            user: account for user in trusted_users(self._settings) if (account := account_of(user)) is not None
        }
        parts = (
            SnapshotPart(SERVICE_ACCOUNTS, namespace=namespace, name=name) for namespace, name in accounts.values()
        )
        every = await asyncio.gather(*(self._part(part) for part in parts))
        return {
            user: objects if isinstance(objects, Unread) else bool(objects)
            for user, objects in zip(accounts, every, strict=True)
        }

    async def _mounted(self, snapshot: Snapshot, file: ConfigurationFile) -> Manifest | Unread | None:
        """Returns the configuration of a system; None if no Deployment of it mounts one."""
        try:
            deployments = [raw for raw in snapshot.all(DEPLOYMENTS) if file.runs(snapshot, raw)]
        except FactsUnavailable as error:
            return Unread(file.called, str(error))
        mounted = [key for raw in deployments for key in config_maps(raw)]
        for namespace, name in mounted:
            objects = await self._part(SnapshotPart(CONFIG_MAPS, namespace=namespace, name=name))
            if isinstance(objects, Unread):
                return objects
            for config_map in objects:
                if (document := document_in(config_map, file.group, file.kind)) is not None:
                    return document
        return None


async def _tried(what: str, ask: Callable[[], Awaitable[T]], right: str) -> T | Unread:
    try:
        return await ask()
    except RequestFailed as error:
        return Unread(what, str(error), right if error.code in FORBIDDEN else None)
    except Malformed as error:
        return Unread(what, f"the answer cannot be read: {error}")


def _served(part: SnapshotPart, apis: Any) -> bool:
    # The core group is not in the list of groups, and always exists.
    return not part.resource.api.group or part.resource.api in apis


def endpoints(snapshot: Snapshot) -> Iterator[Endpoint]:
    """Yields the URL in the webhooks, else the ready endpoints of the Service. Raises `FactsUnavailable`."""
    address, host = snapshot.address(), called_host(snapshot)
    if not any(True for _, hook in snapshot.hooks() if not serves_next(hook)):
        return
    if address.url:
        yield Endpoint(host, urlsplit(address.url).port or 443, host)
        return
    name = port_name(snapshot.single(SERVICE) or {}, address.port)
    for endpoint_slice in snapshot.all(ENDPOINT_SLICES):
        for endpoint in endpoints_in(endpoint_slice):
            port = None if name is None else endpoint.ports.get(name)
            if endpoint.ready and port is not None:
                yield from (Endpoint(address, port, host) for address in endpoint.addresses)
