"""One stored object: whether it is audited, the request with which it would be created now, and the verdict on it.

A stored record counts, because a created object may name its scheduler by the same label. Faults that the
ratchet would excuse at an update count here. No author is exempt: a stored object does not name its user, and a tenant
can write every field that seems to, such as the name of a field manager. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from webhook import admission
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, TooLarge
from webhook.installation.names import EXEMPT_LABEL, NAMESPACE
from webhook.installation.webhooks import NEVER_HERE
from webhook.model.admission_request import Kind, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT
from webhook.model.findings import Unjudged
from webhook.model.keys import Api
from webhook.model.kubernetes_kinds import POD
from webhook.model.reading import Malformed, Manifest, mapping

# The id of what is not judged because of no rule of its own: the facts that every rule about the object needs.
_EVERY_RULE = "rollcall/audit"


class StoredKey(NamedTuple):
    """What identifies an object of a cluster in a report."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Judge:
    """Facts and settings that objects are judged by, and when. Without a time no exception applies."""

    facts: ClusterFacts
    settings: Settings
    at: datetime | None = None

    def __post_init__(self) -> None:
        # An audit does not say which other schedulers could run what is refused.
        object.__setattr__(self, "settings", replace(self.settings, compares=False))

    def verdict(self, raw: Manifest, api: Api) -> Verdict | None:
        """Return the verdict on a stored object; None if it is not audited. Does not change `raw`, except a pod: a pod
        is prepared as at its creation, and the result is judged.
        """
        request = request_of(raw, api, self.at)
        if not self._is_audited(request):
            return None
        try:
            if request.kind[::2] == POD:
                admission.mutate(request, self.facts, self.settings)
            verdict = admission.validate(request, self.facts, self.settings)
        except FactsUnavailable as error:
            return Verdict(unjudged=(Unjudged(ROOT, "a fact is", _EVERY_RULE, str(error)),))
        except TooLarge as error:
            # A webhook that does not answer refuses by its failurePolicy.
            return Verdict(unjudged=(Unjudged(ROOT, "the verdict is", _EVERY_RULE, str(error)),))
        return verdict if verdict.scheduler is not None or verdict.findings or verdict.unjudged else None

    def _is_audited(self, request: Request) -> bool:
        namespace, settings = request.namespace, self.settings
        if namespace in {NAMESPACE, *NEVER_HERE, *settings.registration.excluded_namespaces}:
            return False
        if self.facts.namespace_label(namespace, EXEMPT_LABEL) is not None:
            return False
        return not _has_ended(request, settings)


def request_of(raw: Manifest, api: Api, at: datetime | None = None) -> Request:
    """Return the request with which a stored object would be created at that time. Its user is not known."""
    key = key_of(raw, api)
    # The items of a list have neither apiVersion nor kind.
    whole = {"apiVersion": key.api_version, "kind": key.kind, **raw}
    return Request(key.uid, "CREATE", Kind(api.group, api.version, api.kind), key.namespace, key.name, whole, at=at)


def key_of(raw: Manifest, api: Api) -> StoredKey:
    """Return what identifies a stored object."""
    metadata = raw.get("metadata")
    words = metadata if isinstance(metadata, dict) else {}
    namespace, name, uid = (str(words.get(key) or "") for key in ("namespace", "name", "uid"))
    return StoredKey(f"{api.group}/{api.version}".lstrip("/"), api.kind, namespace, name, uid)


def _has_ended(request: Request, settings: Settings) -> bool:
    """Return whether the object creates no pods any more: it is being deleted, or its work has ended."""
    raw = request.object or {}
    try:
        if mapping(raw.get("metadata")).get("deletionTimestamp") is not None:
            return True
        view = settings.kinds.views.get(request.kind[::2])
        return view is not None and view(raw, request.namespace).finished
    except Malformed:
        return False
