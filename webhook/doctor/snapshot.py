"""The snapshot of a cluster: each part is present, or the reason why it is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeVar

from webhook.config.settings import Settings
from webhook.doctor.parts import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Part
from webhook.errors import FactsUnavailable
from webhook.installation.names import MUTATING, NAMESPACE, SERVER, SERVICE_PORT, VALIDATING
from webhook.installation.webhooks import Address, is_next_hook
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.projections import name_of
from webhook.model.reading import Manifest, mapping, sequence, text


class Unread(NamedTuple):
    """Something that could not be read: what, why, and the right that is missing."""

    what: str
    why: str
    right: str | None = None

    def __str__(self) -> str:
        needs = f"; it takes the right to {self.right}" if self.right else ""
        return f"{self.what} could not be read: {self.why}{needs}"


class ClockOffset(NamedTuple):
    """How many seconds a clock is ahead of ours."""

    whose: str
    ahead: float


class Presented(NamedTuple):
    """The certificate (DER) that a server presented in a TLS handshake, or `trouble`.

    `refused` maps each caBundle (base64, as in a webhook) that does not trust the server under the name `host` to the
    reason.
    """

    where: str
    host: str
    certificate: bytes | None = None
    trouble: str = ""
    refused: Mapping[str, str] = {}


class Tried(NamedTuple):
    """The API server's answer to a creation with dryRun=All, which stores nothing.

    `stored` is the object as it would be stored; None if it was refused, with the reason in the message.
    """

    stored: Manifest | None
    message: str = ""


class MemberPod(NamedTuple):
    """A pod of a workload as its controllers would create it, and as Rollcall prepares it."""

    scheduler: str
    workload: str
    pod: Manifest
    prepared: Manifest


class MemberTrial(NamedTuple):
    """The creation of a pod of a living workload with dryRun=All."""

    member: MemberPod
    outcome: Tried | Unread


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One cluster at one moment, and the configuration that it is checked against."""

    settings: Settings
    now: datetime
    namespace: str = NAMESPACE
    parts: Mapping[Part, tuple[Manifest, ...] | Unread] = field(default_factory=dict)
    apis: frozenset[Api] | Unread = frozenset()
    spec_fields: Mapping[Api, frozenset[str]] | Unread = field(default_factory=dict)
    version: str | Unread = ""
    clocks: tuple[ClockOffset, ...] = ()
    presented: tuple[Presented, ...] = ()
    # Results of creating a PodCliqueSet that Rollcall refuses, and a pod of a group; None if not tried.
    asked: Tried | Unread | None = None
    grouped: Tried | Unread | None = None
    # The pods of living workloads that were tried, at most one for each scheduler.
    members: tuple[MemberTrial, ...] = ()
    # Whether each service account that the configuration trusts exists, by user name.
    accounts: Mapping[str, bool | Unread] = field(default_factory=dict)
    # Grove's OperatorConfiguration; None where no operator was found.
    operator: Manifest | Unread | None = None
    # Kueue's Configuration; None where no Deployment of Kueue mounts one.
    kueue: Manifest | Unread | None = None

    def all(self, part: Part) -> tuple[Manifest, ...]:
        """The objects of a part. Raises `FactsUnavailable`."""
        return known(self.parts.get(part, ()))

    def one(self, part: Part) -> Manifest | None:
        """The object of a part for a single name, or None. Raises `FactsUnavailable`."""
        return next(iter(self.all(part)), None)

    def served(self) -> frozenset[Api]:
        """The kinds that the cluster serves. Raises `FactsUnavailable`."""
        return known(self.apis)

    def facts(self) -> ClusterFacts:
        """The facts for calls to a backend. Raises `FactsUnavailable`."""
        return ClusterFacts(apis=self.served(), spec_fields=known(self.spec_fields))

    def configuration(self, part: Part) -> Manifest | None:
        """Rollcall's own webhook configuration of that kind. Raises `FactsUnavailable`."""
        name = MUTATING if part is MUTATING_WEBHOOKS else VALIDATING
        return next((one for one in self.all(part) if name_of(one) == name), None)

    def hooks(self) -> Iterator[tuple[str, Manifest]]:
        """Each webhook of Rollcall's own configurations, with its place. Raises `FactsUnavailable`."""
        for part in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            found = self.configuration(part)
            if found is not None:
                for hook in sequence(found.get("webhooks")):
                    yield f"{part.resource.api.kind} {name_of(found)}, {hook['name']}", hook

    def hook(self, name: str) -> Manifest | None:
        """Rollcall's own webhook with that name. Raises `FactsUnavailable`."""
        return next((hook for _, hook in self.hooks() if hook["name"] == name), None)

    def address(self) -> Address:
        """The registered target of the webhooks: the URL of the first of them, else the Service. Raises
        `FactsUnavailable`.
        """
        urls: dict[bool, str] = {}
        for _, hook in self.hooks():
            if url := text(mapping(hook.get("clientConfig")).get("url")):
                urls.setdefault(serves_next(hook), url)
        if False in urls:
            return Address(url=urls[False].rpartition("/")[0], next_url=urls.get(True, ""))
        return Address(self.namespace, SERVER, SERVICE_PORT)


def serves_next(hook: Manifest) -> bool:
    """Whether this is the webhook that only tests the next certificate."""
    return is_next_hook(str(hook["name"]))


def known(found: T | Unread) -> T:
    """The value that was read. Raises `FactsUnavailable` if it could not be read."""
    if isinstance(found, Unread):
        raise FactsUnavailable(str(found))
    return found
