"""The world as it was read: every part of it is there, or it is said why it is not."""

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
    """What could not be read, why not, and the right without which it cannot be."""

    what: str
    why: str
    right: str | None = None

    def __str__(self) -> str:
        needs = f"; it takes the right to {self.right}" if self.right else ""
        return f"{self.what} could not be read: {self.why}{needs}"


class Clock(NamedTuple):
    """How far somebody's clock is ahead of ours, in seconds."""

    whose: str
    ahead: float


class Presented(NamedTuple):
    """What somebody who serves showed in a TLS handshake: his certificate (DER), or `trouble`. `refused` says by which
    caBundle (base64, as in a webhook) he is not to be trusted under the name `host`, and why.
    """

    where: str
    host: str
    certificate: bytes | None = None
    trouble: str = ""
    refused: Mapping[str, str] = {}


class Tried(NamedTuple):
    """What the API server said to a creation that it was asked to go through without storing anything (dryRun=All).
    `stored` is the object as it would be; None where it was refused, with that message.
    """

    stored: Manifest | None
    message: str = ""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """One cluster, at one moment, and the configuration that it is to be judged by."""

    settings: Settings
    now: datetime
    namespace: str = NAMESPACE
    parts: Mapping[Part, tuple[Manifest, ...] | Unread] = field(default_factory=dict)
    apis: frozenset[Api] | Unread = frozenset()
    spec_fields: Mapping[Api, frozenset[str]] | Unread = field(default_factory=dict)
    version: str | Unread = ""
    clocks: tuple[Clock, ...] = ()
    presented: tuple[Presented, ...] = ()
    # The creation of a PodCliqueSet that Rollcall refuses, and that of a pod of a group: None where it was not tried.
    asked: Tried | Unread | None = None
    grouped: Tried | Unread | None = None
    # By user: whether the service account that the configuration trusts is there.
    accounts: Mapping[str, bool | Unread] = field(default_factory=dict)
    # Grove's OperatorConfiguration; None where no operator was found.
    operator: Manifest | Unread | None = None

    def all(self, part: Part) -> tuple[Manifest, ...]:
        """The objects of a part. Raises `FactsUnavailable`."""
        return known(self.parts.get(part, ()))

    def one(self, part: Part) -> Manifest | None:
        """The one object of a part that has a name, or None. Raises `FactsUnavailable`."""
        return next(iter(self.all(part)), None)

    def served(self) -> frozenset[Api]:
        """The kinds that the cluster serves. Raises `FactsUnavailable`."""
        return known(self.apis)

    def facts(self) -> ClusterFacts:
        """What a backend is asked with. Raises `FactsUnavailable`."""
        return ClusterFacts(apis=self.served(), spec_fields=known(self.spec_fields))

    def configuration(self, part: Part) -> Manifest | None:
        """Rollcall's own webhook configuration of that kind. Raises `FactsUnavailable`."""
        name = MUTATING if part is MUTATING_WEBHOOKS else VALIDATING
        return next((one for one in self.all(part) if name_of(one) == name), None)

    def hooks(self) -> Iterator[tuple[str, Manifest]]:
        """Each webhook of Rollcall's own configurations, with where it stands. Raises `FactsUnavailable`."""
        for part in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            found = self.configuration(part)
            if found is not None:
                for hook in sequence(found.get("webhooks")):
                    yield f"{part.resource.api.kind} {name_of(found)}, {hook['name']}", hook

    def hook(self, name: str) -> Manifest | None:
        """The webhook of that name among Rollcall's own. Raises `FactsUnavailable`."""
        return next((hook for _, hook in self.hooks() if hook["name"] == name), None)

    def address(self) -> Address:
        """Where the webhooks are registered to be: the URL that the first of them names, else the Service. Raises
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
    """Whether it is the webhook that is asked for the next certificate alone."""
    return is_next_hook(str(hook["name"]))


def known(found: T | Unread) -> T:
    """What was found. Raises `FactsUnavailable` where it could not be read."""
    if isinstance(found, Unread):
        raise FactsUnavailable(str(found))
    return found
