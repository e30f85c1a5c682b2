"""Self-managed certificates: reads what is stored, carries out the next step of the plan, and waits where it must.

Only the leader does this. In a steady state it writes nothing, and reads only every `LOOK_SECONDS`; watches wake it
up. Each write names the version it is based on. So if two reconcilers both believe they lead, the API server refuses
one of them.
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from webhook.certificates import renewal
from webhook.certificates.observation import CA, LEAF, CertificateMetrics, StableSince, unproven, unserved
from webhook.certificates.status import CONFIGURATIONS, CertificateSnapshot, StoredCertificate, read_snapshot
from webhook.certificates.x509 import fingerprint, new_authority, new_leaf
from webhook.cluster import requests
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock, doubled
from webhook.cluster.logs import log, outline
from webhook.cluster.watch import Watch
from webhook.config.settings import Certificates
from webhook.errors import CertificateError, NotLeading, RequestFailed
from webhook.gangs.hold_reasons import CertificateReason
from webhook.installation.names import CA_SECRET, LABELS, TLS_SECRET
from webhook.model.keys import Api
from webhook.model.known_kinds import ADMISSION_REGISTRATION, SECRETS
from webhook.model.projections import NAMESPACES, Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping
from webhook.reconciler.events import Events
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.writer import REFUSALS, Writer

# A Secret of this type must have both keys, even if empty. An earlier cert-manager setup may have left rollcall-ca with
# it.
_TLS_TYPE = "kubernetes.io/tls"
_BOTH = {"tls.crt": "", "tls.key": ""}

Written = (
    renewal.NewAuthority | renewal.Publish | renewal.ReleaseFields | renewal.Issue | renewal.Switch | renewal.Promote
)


class CertificateWriting:
    """Carries out the steps. Each method raises `RequestFailed` and `NotLeading`."""

    def __init__(
        self,
        settings: Certificates,
        namespace: str,
        client: Client,
        writer: Writer,
        events: Events,
        metrics: CertificateMetrics,
    ) -> None:
        self._settings = settings
        self._namespace = namespace
        self._client = client
        self._writer = writer
        self._events = events
        self._metrics = metrics

    async def do(self, action: Written, snapshot: CertificateSnapshot) -> None:
        """Carries out the write of a step."""
        if isinstance(action, renewal.NewAuthority | renewal.Promote):
            await self._write_authority(action, snapshot)
        elif isinstance(action, renewal.Issue | renewal.Switch):
            await self._write_leaf(action, snapshot)
        elif isinstance(action, renewal.Publish):
            await self._publish(action)
        else:
            await self._disown(action)

    async def _write_authority(
        self, action: renewal.NewAuthority | renewal.Promote, snapshot: CertificateSnapshot
    ) -> None:
        authority = None
        if isinstance(action, renewal.NewAuthority):
            # Each authority needs its own name: verifiers find an issuer by its name.
            name = f"rollcall authority {snapshot.now:%Y-%m-%d} {secrets.token_hex(4)}"
            authority = new_authority(name, snapshot.now, self._settings.ca_validity)
        await self._store(
            CA_SECRET,
            renewal.authority_data(action, snapshot.stored, authority),
            snapshot,
            obeyed=authority is not None,
        )
        if isinstance(action, renewal.Promote):
            self._metrics.rotations.labels(CA).inc()
            log.info("authority rotated", authority=fingerprint(action.authority.certificate))
        elif authority is not None:
            log.info("authority made", why=action.why, place=action.place, authority=fingerprint(authority.certificate))
            if action.repair:
                await self._repaired(CA_SECRET, CA, f"the authority could not be used: {action.why}", snapshot)

    async def _write_leaf(self, action: renewal.Issue | renewal.Switch, snapshot: CertificateSnapshot) -> None:
        leaf = None
        if isinstance(action, renewal.Issue):
            until = renewal.leaf_end(action.signer, snapshot.now, self._settings)
            leaf = new_leaf(action.signer, snapshot.stored.hosts, snapshot.now, until)
        served = isinstance(action, renewal.Switch) or action.place == renewal.SERVED
        await self._store(TLS_SECRET, renewal.serving_data(action, snapshot.stored, leaf), snapshot, obeyed=served)
        if served and snapshot.stored.serving.pair is not None:
            self._metrics.rotations.labels(LEAF).inc()
        if isinstance(action, renewal.Switch):
            log.info("certificate switched", certificate=fingerprint(action.pair.certificate))
        elif leaf is not None:
            log.info(
                "certificate signed", why=action.why, place=action.place, certificate=fingerprint(leaf.certificate)
            )
            if action.repair:
                await self._repaired(TLS_SECRET, LEAF, f"the certificate could not be used: {action.why}", snapshot)

    async def _store(
        self, name: str, data: Mapping[str, bytes], snapshot: CertificateSnapshot, *, obeyed: bool
    ) -> None:
        """Creates the Secret, or replaces the version that was read. `obeyed` removes the annotation that asked for a
        rotation, because the rotation begins with this write.
        """
        live = snapshot.secrets[name]
        encoded = {key: b64encode(value).decode() for key, value in sorted(data.items())}
        key = (self._namespace, name)
        if live is None:
            metadata = {"name": name, "namespace": self._namespace, "labels": dict(LABELS)}
            kind = _TLS_TYPE if name == TLS_SECRET else "Opaque"
            if kind == _TLS_TYPE:
                encoded = {**_BOTH, **encoded}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}
            await self._writer.send("create", SECRETS, key, requests.create(SECRETS, secret))
            return
        metadata = dict(live["metadata"])
        metadata.pop("managedFields", None)
        if obeyed:
            annotations = dict(mapping(metadata.get("annotations")))
            annotations.pop(renewal.ROTATE_ANNOTATION, None)
            metadata["annotations"] = annotations
        if live.get("type") == _TLS_TYPE:
            encoded = {**_BOTH, **encoded}
        replaced = {**live, "metadata": metadata, "data": encoded}
        await self._writer.send("replace", SECRETS, key, requests.replace(SECRETS, replaced))

    async def _publish(self, action: renewal.Publish) -> None:
        configuration = action.configuration
        resource = CONFIGURATIONS[configuration.name]
        owner = (await self._client.get(requests.read(NAMESPACES.resource, self._namespace))).content
        encoded = b64encode(action.bundle).decode()
        manifest = {
            "apiVersion": f"{ADMISSION_REGISTRATION}/v1",
            "kind": configuration.kind,
            "metadata": {
                "name": configuration.name,
                # The version that was read: a deleted configuration is not recreated, and a changed one is read again
                # first.
                "uid": configuration.uid,
                "resourceVersion": configuration.version,
                # The configuration is deleted with the namespace, because no server is left then.
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Namespace", "name": self._namespace, "uid": owner["metadata"]["uid"]}
                ],
            },
            "webhooks": [{"name": hook.name, "clientConfig": {"caBundle": encoded}} for hook in configuration.hooks],
        }
        request = requests.apply(resource, manifest, renewal.FIELD_MANAGER)
        await self._writer.send("apply", resource, ("", configuration.name), request)
        self._metrics.bundles.inc()

    async def _disown(self, action: renewal.ReleaseFields) -> None:
        configuration = action.configuration
        resource = CONFIGURATIONS[configuration.name]
        others = [manager for manager in configuration.managers if manager.get("manager") != renewal.FIELD_MANAGER]
        operations: list[Manifest] = [
            {"op": "test", "path": "/metadata/uid", "value": configuration.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": configuration.version},
            # An empty list would leave managedFields unchanged.
            {"op": "replace", "path": "/metadata/managedFields", "value": others or [{}]},
        ]
        request = requests.json_patch(resource, None, configuration.name, operations)
        await self._writer.send("disown", resource, ("", configuration.name), request)

    async def _repaired(self, name: str, what: str, why: str, snapshot: CertificateSnapshot) -> None:
        self._metrics.repairs.labels(what).inc()
        note = (
            f"{why}; a new one was made; certificates that servers present now stay trusted until the "
            f"servers present new ones"
        )
        await self._events.warn(snapshot.regarded(name), CertificateReason.REPLACED, note)


# Interval of a full check, independent of the watches.
LOOK_SECONDS = 600.0
# Shortest and longest pause while waiting; in between, it is a part of the overlap.
WAIT_SECONDS = (0.2, 5.0)
# Pause after a failure: doubled for each failure in a row, up to the second value.
RETRY_SECONDS = (0.2, 60.0)
# Another client overwrote the caBundle if the same one must be written again so soon. Two such clients must not
# overload the API server: the pause doubles each time, up to the second value, and starts again after a minute without
# a write.
INSIST_SECONDS = (0.2, 5.0)
CALM_SECONDS = 60.0
# A rotation waits for kubelets, which takes a minute or two. A longer wait is reported.
PATIENCE_SECONDS = 300.0


class RewriteBackoff:
    """Backoff for writing the same content again."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        # By name: the content last written, how often in a row, and the time of the last write.
        self._written: dict[str, tuple[bytes, int, float]] = {}

    def rest(self, name: str, content: bytes) -> float:
        """Returns the seconds to wait before this content may be written to that name again."""
        before, times, last = self._written.get(name, (b"", 0, 0.0))
        if before != content or not times:
            return 0.0
        return max(0.0, last + doubled(INSIST_SECONDS, times) - self._clock.monotonic())

    def wrote(self, name: str, content: bytes) -> None:
        """Records that this content was written to that name now."""
        before, times, last = self._written.get(name, (b"", 0, 0.0))
        again = before == content and self._clock.monotonic() - last < CALM_SECONDS
        self._written[name] = content, times + 1 if again else 1, self._clock.monotonic()


class CertificateController:
    """The maintenance of certificates. Call `wake` when this process starts or stops leading."""

    def __init__(  # noqa: PLR0913 - whom it reads from, writes and tells by
        self,
        settings: Certificates,
        namespace: str,
        *,
        access: Access,
        transport: httpx.AsyncBaseTransport | None,
        client: Client,
        writer: Writer,
        events: Events,
        metrics: ReconcilerMetrics,
        leads: Callable[[], bool],
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._settings = settings
        self._namespace = namespace
        self._access = access
        self._transport = transport
        self._client = client
        self._clock = clock
        self._writing = CertificateWriting(settings, namespace, client, writer, events, metrics.certificates)
        self._events = events
        self._metrics = metrics.certificates
        self._leads = leads
        self._woken = asyncio.Event()
        self._proof, self._service = StableSince(clock=clock), StableSince(clock=clock)
        self._insistence = RewriteBackoff(clock=clock)
        self._seen = renewal.SeenCertificates()
        self._failures = 0
        # The step being waited for and since when; and the last text logged about it.
        self._waiting = StableSince(clock=clock)
        self._why = ""
        self._watches = [
            *(self._watch(SECRETS, name, namespace) for name in (CA_SECRET, TLS_SECRET)),
            *(self._watch(resource, name) for name, resource in CONFIGURATIONS.items()),
        ]

    def _watch(self, resource: Resource, name: str, namespace: str | None = None) -> Watch:
        def read(raw: Manifest) -> tuple[Any, Any]:
            return key_of(raw), mapping(raw.get("metadata")).get("resourceVersion")

        selector = {"fieldSelector": f"metadata.name={name}"}
        wake = lambda _: self.wake()  # noqa: E731 - both ask for one who takes something
        return Watch(self._client, Projection("", resource, read), wake, wake, selector, namespace, clock=self._clock)

    def wake(self) -> None:
        """Checks at once."""
        self._woken.set()

    @staticmethod
    def kinds() -> Iterator[Api]:
        """Yields the kinds that hold the certificates and caBundles."""
        yield SECRETS.api
        yield from (resource.api for resource in CONFIGURATIONS.values())

    def watches(self) -> Iterator[Watch]:
        """Yields the watches that wake this controller."""
        yield from self._watches

    async def run(self) -> None:
        """Maintains the certificates until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.run())
            group.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            self._woken.clear()
            seconds = await self._attempt()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _attempt(self) -> float:
        """Carries out one step. Returns the seconds to pause after it."""
        try:
            seconds = await self._step()
        except NotLeading:
            self._forget()
            return LOOK_SECONDS
        except (RequestFailed, CertificateError) as error:
            return await self._failed(error)
        except Exception:  # noqa: BLE001 - a fault of ours here must not keep gangs from being written
            log.exception("certificates not maintained")
            return await self._failed(RequestFailed("internal error; see the log"))
        self._failures = 0
        return seconds

    async def _failed(self, error: RequestFailed | CertificateError) -> float:
        self._failures += 1
        self._metrics.failures.inc()
        if self._failures.bit_count() == 1:
            log.warning("certificates not maintained", why=outline(error), failures=self._failures)
        if isinstance(error, CertificateError) or error.code in REFUSALS:
            where = StoredCertificate(self._namespace, CA_SECRET, None)
            await self._events.warn(where, CertificateReason.REFUSED, f"certificates are not maintained: {error}")
        return max(doubled(RETRY_SECONDS, self._failures), getattr(error, "wait", None) or 0.0)

    def _forget(self) -> None:
        """Forgets observations: they may not stay true while another process leads."""
        self._seen = renewal.SeenCertificates()
        self._proof.broken()
        self._service.broken()

    async def _step(self) -> float:
        snapshot = await read_snapshot(self._client, self._namespace, clock=self._clock)
        self._metrics.show(snapshot.stored)
        action = renewal.plan(snapshot.stored, snapshot.now, self._seen, self._settings)
        self._metrics.show_step(action.step)
        if not self._leads():
            raise NotLeading
        if isinstance(action, renewal.Idle):
            self._settled()
            return min(LOOK_SECONDS, max(1.0, (action.until - snapshot.now).total_seconds()))
        if isinstance(action, renewal.ProbeTrust | renewal.CheckServers):
            return await self._wait(action, snapshot)
        self._waiting.broken()
        if isinstance(action, renewal.Publish):
            name = action.configuration.name
            if rest := self._insistence.rest(name, action.bundle):
                self._say(action.step, f"another writer keeps overwriting the caBundle of {name}")
                return rest
            self._insistence.wrote(name, action.bundle)
        await self._writing.do(action, snapshot)
        if isinstance(action, renewal.Promote):
            self._forget()
        return 0.0

    async def _wait(self, action: renewal.ProbeTrust | renewal.CheckServers, snapshot: CertificateSnapshot) -> float:
        if isinstance(action, renewal.ProbeTrust):
            what, streak = fingerprint(action.leaf), self._proof
            why = await unproven(self._access, self._transport, snapshot.stored, action.leaf, self._check)
        else:
            what, streak = fingerprint(action.authority), self._service
            why = await unserved(self._client, snapshot.stored, action.authority)
        if why:
            streak.broken()
            await self._tell(action.step, why, snapshot)
        else:
            self._settled()
            if streak.seen(what) >= self._settings.overlap.total_seconds():
                self._seen = (
                    self._seen._replace(proven=what)
                    if isinstance(action, renewal.ProbeTrust)
                    else self._seen._replace(served=what)
                )
                return 0.0
        first, most = WAIT_SECONDS
        return min(most, max(first, self._settings.overlap.total_seconds() / 20))

    def _check(self) -> None:
        if not self._leads():
            raise NotLeading

    async def _tell(self, step: renewal.RotationStep, why: str, snapshot: CertificateSnapshot) -> None:
        """Reports what the step waits for: in the log when the reason changes, and by an event if it lasts."""
        self._say(step, why)
        if self._waiting.seen(step.value) >= PATIENCE_SECONDS:
            note = f"the rotation of the authority waits, and the present certificates keep working: {why}"
            await self._events.warn(snapshot.regarded(TLS_SECRET), CertificateReason.WAITING, note)

    def _say(self, step: renewal.RotationStep, why: str) -> None:
        if why != self._why:
            self._why = why
            log.info("certificates wait", step=step.value, why=why)

    def _settled(self) -> None:
        self._why = ""
        self._waiting.broken()
