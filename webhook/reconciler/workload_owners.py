"""Reads the objects that Kueue has made a Workload for, and has them judged: one workload, or the pods of a group.

They are read when a Workload has quota, and only then: nothing is kept of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import islice

from webhook.admission.admission_check import Answer, answer, not_judged, workload_of
from webhook.admission.decision import admission_of
from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.config.settings import Settings
from webhook.errors import NotFound, RequestFailed
from webhook.model.facts import ClusterFacts
from webhook.model.keys import ObjectKey
from webhook.model.kubernetes_kinds import POD
from webhook.model.kueue.admission_check import OWNERS_BESIDES, owners_of
from webhook.model.naming import is_subdomain
from webhook.model.projections import POD_CLIQUE_SETS, Resource
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.workloads.podgang import OwnerReference
from webhook.telemetry.logs import log, outline

# Pods of one pod group, and workloads, that are judged. The pods are usually alike, and each is read.
MOST_OWNERS = 8


class WorkloadOwners:
    """Answers for the objects of Workloads. `facts` are what is known of the cluster."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        facts: Callable[[], ClusterFacts],
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._settings = settings
        self._client = client
        self._facts = facts
        self._clock = clock
        kinds = settings.kinds
        # The resource of each kind that may own a Workload, by group and kind.
        self._kinds = {(one.api.group, one.api.kind): one for one in (*kinds.admitted, *OWNERS_BESIDES)}

    async def answer(self, key: ObjectKey, raw: Manifest, *, patient: bool) -> Answer:
        """The answer about a Workload. Raises `RequestFailed` only if `patient`."""
        try:
            first: Answer | None = None
            async for found in self._answers(key[0], raw):
                if found.is_fault:
                    return found
                first = first or found
        except RequestFailed as error:
            if patient:
                raise
            log.warning("object of a workload not read", namespace=key[0], name=key[1], why=outline(error))
            return not_judged("its object could not be read")
        except Exception:  # noqa: BLE001 - a fault of ours with one object must not hold quota for ever
            log.exception("workload not judged", namespace=key[0], name=key[1])
            return not_judged("of an internal error; Rollcall's log has it")
        return first or not_judged("it has no owner")

    async def _answers(self, namespace: str, raw: Manifest) -> AsyncIterator[Answer]:
        """The answers about the objects that a Workload is made for: its workload, or each of its pods."""
        owners = list(owners_of(raw))
        whole = [one for one in owners if admission_of((one.group, one.kind), self._settings) is not None]
        for reference in islice(whole, MOST_OWNERS):
            yield await self._about(namespace, reference)
        pods = [one for one in owners if (one.group, one.kind) == POD]
        if owners and not (whole or pods):
            yield not_judged(f"Rollcall has no rules about {owners[0].kind}")
        decided: set[OwnerReference] = set()
        for reference in islice(pods, MOST_OWNERS):
            pod = await self._owner(namespace, reference)
            if pod is None:
                yield not_judged(f"its Pod {reference.name} was not found")
                continue
            above = self._above(pod, namespace)
            if above is None:
                yield answer(POD, pod, namespace, self._facts(), self._settings, self._clock.now())
            elif above not in decided:
                decided.add(above)
                yield await self._about(namespace, above)

    def _above(self, pod: Manifest, namespace: str) -> OwnerReference | None:
        """The workload that decides about a pod; its uid is not known."""
        try:
            needed = workload_of(pod, namespace, self._settings.kinds)
        except Malformed:
            return None
        if needed is None:
            return None
        resource = self._settings.kinds.resource_of(needed)
        api = (POD_CLIQUE_SETS.resource if resource is None else resource).api
        return OwnerReference(f"{api.group}/{api.version}", api.kind, needed.name, None)

    async def _about(self, namespace: str, reference: OwnerReference) -> Answer:
        owner = await self._owner(namespace, reference)
        if owner is None:
            return not_judged(f"its {reference.kind} {reference.name} was not found")
        kind = reference.group, reference.kind
        return answer(kind, owner, namespace, self._facts(), self._settings, self._clock.now())

    async def _owner(self, namespace: str, reference: OwnerReference) -> Manifest | None:
        """The referenced object; None if it does not exist, or another object has its name now."""
        found = await read(self._client, self._kinds[reference.group, reference.kind], namespace, reference.name)
        if found is None or reference.uid is None or mapping(found.get("metadata")).get("uid") == reference.uid:
            return found
        return None


async def read(client: Client, resource: Resource, namespace: str, name: str) -> Manifest | None:
    """One object; None if it does not exist. Raises `RequestFailed`."""
    if not is_subdomain(name):
        # No object has such a name, and it must not become part of a path.
        return None
    try:
        return dict((await client.get(requests.read(resource, name, namespace))).content)
    except NotFound:
        return None
