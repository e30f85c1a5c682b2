"""The writes of self-managed certificates, one for each step that writes.

Each write names the version it is based on. So if two reconcilers both believe they lead, the API server refuses one of
them.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Mapping

from webhook.certificates.metrics import CA, LEAF, CertificateMetrics
from webhook.certificates.plan import (
    Issue,
    NewAuthority,
    Promote,
    Publish,
    ReleaseFields,
    Switch,
    authority_data,
    leaf_end,
    serving_data,
)
from webhook.certificates.snapshot import CONFIGURATIONS, Snapshot
from webhook.certificates.state import FIELD_MANAGER, ROTATE_ANNOTATION, SERVED
from webhook.certificates.x509 import fingerprint, new_authority, new_leaf
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.config.reconciler_settings import Certificates
from webhook.gangs.hold_reasons import CertificateReason
from webhook.installation.names import CA_SECRET, LABELS, TLS_SECRET
from webhook.model.kubernetes_kinds import ADMISSION_REGISTRATION, SECRETS
from webhook.model.projections import NAMESPACES
from webhook.model.reading import Manifest, mapping
from webhook.reconciler.events import Events
from webhook.reconciler.writer import Writer
from webhook.telemetry.logs import log

# A Secret of this type must have both keys, even if empty. An earlier cert-manager setup may have left rollcall-ca with
# it.
_TLS_TYPE = "kubernetes.io/tls"
_BOTH = {"tls.crt": "", "tls.key": ""}

Written = NewAuthority | Publish | ReleaseFields | Issue | Switch | Promote


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

    async def do(self, action: Written, found: Snapshot) -> None:
        """Carry out the write of a step."""
        if isinstance(action, NewAuthority | Promote):
            await self._write_authority(action, found)
        elif isinstance(action, Issue | Switch):
            await self._write_leaf(action, found)
        elif isinstance(action, Publish):
            await self._publish(action)
        else:
            await self._disown(action)

    async def _write_authority(self, action: NewAuthority | Promote, found: Snapshot) -> None:
        made = None
        if isinstance(action, NewAuthority):
            # Each authority needs its own name: verifiers find an issuer by its name.
            name = f"rollcall authority {found.now:%Y-%m-%d} {secrets.token_hex(4)}"
            made = new_authority(name, found.now, self._settings.ca_validity)
        await self._store(CA_SECRET, authority_data(action, found.stored, made), found, obeyed=made is not None)
        if isinstance(action, Promote):
            self._metrics.rotations.labels(CA).inc()
            log.info("authority rotated", authority=fingerprint(action.authority.certificate))
        elif made is not None:
            log.info("authority made", why=action.why, place=action.place, authority=fingerprint(made.certificate))
            if action.repair:
                await self._repaired(CA_SECRET, CA, f"the authority could not be used: {action.why}", found)

    async def _write_leaf(self, action: Issue | Switch, found: Snapshot) -> None:
        made = None
        if isinstance(action, Issue):
            until = leaf_end(action.signer, found.now, self._settings)
            made = new_leaf(action.signer, found.stored.hosts, found.now, until)
        served = isinstance(action, Switch) or action.place == SERVED
        await self._store(TLS_SECRET, serving_data(action, found.stored, made), found, obeyed=served)
        if served and found.stored.serving.pair is not None:
            self._metrics.rotations.labels(LEAF).inc()
        if isinstance(action, Switch):
            log.info("certificate switched", certificate=fingerprint(action.pair.certificate))
        elif made is not None:
            log.info(
                "certificate signed", why=action.why, place=action.place, certificate=fingerprint(made.certificate)
            )
            if action.repair:
                await self._repaired(TLS_SECRET, LEAF, f"the certificate could not be used: {action.why}", found)

    async def _store(self, name: str, data: Mapping[str, bytes], found: Snapshot, *, obeyed: bool) -> None:
        """Create the Secret, or replace the version that was read.

        `obeyed` removes the annotation that asked for a rotation, because the rotation begins with this write.
        """
        live = found.secrets[name]
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
            annotations.pop(ROTATE_ANNOTATION, None)
            metadata["annotations"] = annotations
        if live.get("type") == _TLS_TYPE:
            encoded = {**_BOTH, **encoded}
        replaced = {**live, "metadata": metadata, "data": encoded}
        await self._writer.send("replace", SECRETS, key, requests.replace(SECRETS, replaced))

    async def _publish(self, action: Publish) -> None:
        configuration = action.configuration
        resource = CONFIGURATIONS[configuration.name]
        owner = (await self._client.get(requests.read(NAMESPACES.resource, self._namespace))).content
        encoded = b64encode(action.bundle).decode()
        wanted = {
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
                    {
                        "apiVersion": "v1",
                        "kind": "Namespace",
                        "name": self._namespace,
                        "uid": owner["metadata"]["uid"],
                    }
                ],
            },
            "webhooks": [{"name": hook.name, "clientConfig": {"caBundle": encoded}} for hook in configuration.hooks],
        }
        await self._writer.send(
            "apply", resource, ("", configuration.name), requests.apply(resource, wanted, FIELD_MANAGER)
        )
        self._metrics.bundles.inc()

    async def _disown(self, action: ReleaseFields) -> None:
        configuration = action.configuration
        resource = CONFIGURATIONS[configuration.name]
        others = [one for one in configuration.managers if one.get("manager") != FIELD_MANAGER]
        operations: list[Manifest] = [
            {"op": "test", "path": "/metadata/uid", "value": configuration.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": configuration.version},
            # An empty list would leave managedFields unchanged.
            {"op": "replace", "path": "/metadata/managedFields", "value": others or [{}]},
        ]
        await self._writer.send(
            "disown",
            resource,
            ("", configuration.name),
            requests.json_patch(resource, None, configuration.name, operations),
        )

    async def _repaired(self, name: str, what: str, why: str, found: Snapshot) -> None:
        self._metrics.repairs.labels(what).inc()
        note = (
            f"{why}; a new one was made; certificates that servers present now stay trusted until the "
            f"servers present new ones"
        )
        await self._events.warn(found.regarded(name), CertificateReason.REPLACED, note)
