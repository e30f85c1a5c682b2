"""The kinds that are audited, and which of their objects are listed. No I/O.

These are the kinds for which the API server calls Rollcall (`webhook.installation.webhooks`). Of pods only those are
listed that a label or their scheduler's name shows to be in a gang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from webhook.config.settings import Settings
from webhook.model import grove
from webhook.model.keys import Api
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import POD_CLIQUE_SETS, Resource
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.stored_object import PODS as JUDGED_PODS
from webhook.validators.selection import DEFAULT_SCHEDULER

# Pods that have not ended.
_LIVING = "status.phase!=Succeeded,status.phase!=Failed"


class Listing(NamedTuple):
    """One list of objects to audit: a kind, with a labelSelector and a fieldSelector."""

    resource: Resource
    labels: str = ""
    fields: str = ""

    @property
    def selector(self) -> Mapping[str, str]:
        """The parameters of the request."""
        both = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: selector for name, selector in both.items() if selector}


def listings(settings: Settings, served: Mapping[Api, Resource], *, pods: bool = True) -> list[Listing]:
    """Return what to list, workloads first. A kind that the cluster does not serve is left out. No object is in two of
    the lists.
    """
    kinds = dict.fromkeys(_kinds(settings))
    found = [Listing(resource) for kind in kinds if (resource := _served(kind, settings, served)) is not None]
    return [*found, *_pods(settings)] if pods else found


def _kinds(settings: Settings) -> Iterator[tuple[str, str]]:
    api = POD_CLIQUE_SETS.resource.api
    yield api.group, api.kind
    yield from settings.kinds.views
    for profile in settings.profiles.values():
        yield from ((judged.group, judged.kind) for judged in profile.judged if judged != JUDGED_PODS)


def _served(kind: tuple[str, str], settings: Settings, served: Mapping[Api, Resource]) -> Resource | None:
    """Return the kind in a version that the cluster serves: that in which workloads are declared, else the first, which
    is the preferred one. Queues and other objects without a namespace are judged too.
    """
    written = settings.kinds.written(kind) if kind in settings.kinds.views else ()
    found = [resource for api, resource in served.items() if (api.group, api.kind) == kind]
    return next((one for one in written if one.api in served), found[0] if found else None)


def _pods(settings: Settings) -> Iterator[Listing]:
    """Grove's pods, those of opted-in workloads, and those that name a gang scheduler."""
    yield _list_of((grove.LABEL_PODGANG,))
    yield _list_of((f"!{grove.LABEL_PODGANG}", SCHEDULER_LABEL))
    for name in settings.profiles:
        if name != DEFAULT_SCHEDULER:
            yield _list_of((f"!{grove.LABEL_PODGANG}", f"!{SCHEDULER_LABEL}"), (f"spec.schedulerName={name}",))


def _list_of(labels: Iterable[str], fields: Iterable[str] = ()) -> Listing:
    return Listing(PODS, ",".join(labels), ",".join((_LIVING, *fields)))
