"""Self-managed certificates without a cluster: the stored objects, and an API server and a server that receive updates
late.

Writes are done as the plan says, so this shows that the plan works: whichever updates were received, the API
server trusts what the server presents.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from webhook.certificates.renewal import (
    SERVED,
    Action,
    CheckServers,
    Idle,
    Issue,
    NewAuthority,
    ProbeTrust,
    Promote,
    Publish,
    ReleaseFields,
    SeenCertificates,
    ServingState,
    Stored,
    Switch,
    authority_data,
    authority_state,
    leaf_end,
    plan,
    registered,
    serving_data,
    serving_state,
)
from webhook.certificates.x509 import KeyPair, fingerprint, holds, issued_by, new_authority, new_leaf, read_certificates
from webhook.config.settings import Certificates

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = Certificates(self_managed=True)
NAMESPACE = "rollcall-system"
CONFIGURATIONS = ("m-rollcall", "v-rollcall")
_ANNOTATIONS = {"rollcall.dev/rotate": "now"}


def configuration(name: str, bundle: bytes = b"", **metadata: Any) -> dict[str, Any]:
    """A webhook configuration with two hooks, as a user registered it."""
    kind, path = (
        ("MutatingWebhookConfiguration", "mutate")
        if name == "m-rollcall"
        else ("ValidatingWebhookConfiguration", "validate")
    )
    found: dict[str, Any] = {} if not bundle else {"caBundle": b64encode(bundle).decode()}
    service = {"namespace": NAMESPACE, "name": "rollcall"}
    return {
        "kind": kind,
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", **metadata},
        "webhooks": [
            {"name": f"pods.{path}.rollcall.dev", "clientConfig": {"service": {**service, "port": 443}, **found}},
            {"name": f"next.{path}.rollcall.dev", "clientConfig": {"service": {**service, "port": 8444}, **found}},
        ],
    }


def secret(data: Mapping[str, bytes] | None, *, asked: bool = False) -> dict[str, Any] | None:
    """A Secret as it is stored."""
    if data is None:
        return None
    annotations = _ANNOTATIONS if asked else {}
    encoded = {key: b64encode(value).decode() for key, value in data.items()}
    return {"metadata": {"annotations": annotations}, "data": encoded}


class CertificateWorld:
    """`step` does what the plan says next; `api_server_hears`, `server_hears` and `seen` are the rest of the world."""

    def __init__(self, settings: Certificates = SETTINGS) -> None:
        self.settings = settings
        self.now = NOW
        self.authority: dict[str, bytes] | None = None
        self.serving: dict[str, bytes] | None = None
        self.bundles: dict[str, bytes] = dict.fromkeys(CONFIGURATIONS, b"")
        self.owned: set[str] = set()
        self.claimed: set[str] = set()
        self.asked: set[str] = set()
        self.seen = SeenCertificates()
        self.writes: list[str] = []
        self._read = ("", self._stored())
        # What the others have heard of.
        self.trusted: dict[str, bytes] = dict(self.bundles)
        self.presented = ServingState()

    @property
    def stored(self) -> Stored:
        """The stored state, parsed again only after a change: parsing certificates takes most of a test's time."""
        now = repr((self.authority, self.serving, self.bundles, *map(sorted, (self.owned, self.claimed, self.asked))))
        if now != self._read[0]:
            self._read = (now, self._stored())
        return self._read[1]

    def _stored(self) -> Stored:
        owner = [{"kind": "Namespace", "name": NAMESPACE, "uid": "n"}]
        mine = [{"manager": "rollcall-certificates"}]
        return Stored(
            NAMESPACE,
            authority_state(secret(self.authority, asked="ca" in self.asked)),
            serving_state(secret(self.serving, asked="leaf" in self.asked)),
            tuple(
                registered(
                    configuration(
                        name,
                        bundle,
                        ownerReferences=owner if name in self.owned else [],
                        managedFields=mine if name in self.claimed else [],
                    ),
                    NAMESPACE,
                )
                for name, bundle in self.bundles.items()
            ),
        )

    def next_action(self) -> Action:
        return plan(self.stored, self.now, self.seen, self.settings)

    def step(self) -> Action:
        """Do the next step, if it is a write."""
        action, stored = self.next_action(), self.stored
        if not isinstance(action, ProbeTrust | CheckServers | Idle):
            self.writes.append(type(action).__name__)
        if isinstance(action, NewAuthority):
            made = new_authority(f"authority {len(self.writes)}", self.now, self.settings.ca_validity)
            self.authority = authority_data(action, stored, made)
            self.asked.discard("ca")
        elif isinstance(action, Promote):
            self.authority = authority_data(action, stored)
        elif isinstance(action, Issue):
            self.serving = serving_data(action, stored, self.leaf_of(action.signer))
            if action.place == SERVED:
                self.asked.discard("leaf")
        elif isinstance(action, Switch):
            self.serving = serving_data(action, stored)
            self.asked.discard("leaf")
        elif isinstance(action, Publish):
            name = action.configuration.name
            self.bundles[name] = action.bundle
            self.owned.add(name)
            self.claimed.add(name)
        elif isinstance(action, ReleaseFields):
            self.claimed.discard(action.configuration.name)
        return action

    def leaf_of(self, signer: KeyPair) -> KeyPair:
        return new_leaf(signer, self.stored.hosts, self.now, leaf_end(signer, self.now, self.settings))

    def settle(self, most: int = 40) -> list[str]:
        """Step until nothing is left to do, with every update delivered at once; the writes."""
        before = len(self.writes)
        for _ in range(most):
            if isinstance(self.step(), Idle):
                return self.writes[before:]
            self.everybody_hears()
            self.look()
        raise AssertionError(f"it does not settle: {self.writes[before:]}, then {self.next_action()}")

    def everybody_hears(self) -> None:
        for name in self.bundles:
            self.api_server_hears(name)
        self.server_hears()

    def api_server_hears(self, name: str) -> None:
        """Of one configuration as it is now."""
        self.trusted[name] = self.bundles[name]

    def server_hears(self) -> None:
        """Of the Secret as it is now; what cannot be used leaves what there was."""
        live = self.stored.serving
        self.presented = ServingState(live.pair or self.presented.pair, live.next)

    def look(self) -> None:
        """What the leader sees, for long enough, of what it waits for."""
        action = self.next_action()
        if isinstance(action, ProbeTrust):
            shown = self.presented.next
            if shown is not None and shown.certificate == action.leaf and self.trusts(shown):
                self.seen = self.seen._replace(proven=fingerprint(action.leaf))
        elif isinstance(action, CheckServers):
            pair = self.presented.pair
            if pair is not None and issued_by(pair.certificate, action.authority):
                self.seen = self.seen._replace(served=fingerprint(action.authority))

    def trusts(self, pair: KeyPair) -> bool:
        """Whether the API server, as far as it has heard, trusts a certificate by way of both configurations."""
        return all(
            any(
                issued_by(pair.certificate, one) and holds(one, self.now) and holds(pair.certificate, self.now)
                for one in (read_certificates(bundle) if bundle else ())
            )
            for bundle in self.trusted.values()
        )

    @property
    def serves(self) -> bool:
        """Whether an admission would come through."""
        return self.presented.pair is not None and self.trusts(self.presented.pair)

    def crashes(self) -> None:
        """A process that starts has seen nothing."""
        self.seen = SeenCertificates()

    def passes(self, **time: float) -> None:
        self.now += timedelta(**time)


ROTATION = [
    "NewAuthority",
    "Publish",
    "ReleaseFields",
    "Publish",
    "ReleaseFields",
    "Issue",
    "Switch",
    "Promote",
    "Publish",
    "ReleaseFields",
    "Publish",
    "ReleaseFields",
]


def current(world: CertificateWorld) -> bytes:
    assert world.authority is not None
    return world.authority["ca.crt"]


def lose_authority(world: CertificateWorld) -> None:
    world.authority = None
