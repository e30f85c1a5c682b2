"""A simulated API with Workloads and AdmissionChecks of Kueue, and the answers of Rollcall to them.

It knows JSON Patch as far as Rollcall sends it, and refuses a patch of an older version as an API server does.
"""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx

from tests.played import PlayedClock
from tests.series import value
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.running_reconciler import NOWHERE, at_once
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.cluster.client import Client
from webhook.config.settings import Settings
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import Namespace
from webhook.model.kueue_objects import ADMISSION_CHECKS, WORKLOADS, KueueWorkloads
from webhook.reconciler.admission_checks import AdmissionChecks
from webhook.reconciler.events import Events
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.writer import Writer
from webhook.validators.examples import job
from webhook.workloads.kueue_integration import CheckMode

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
CHECKS, WORKLOADS_PATH, JOBS = f"{KUEUE}/admissionchecks", f"{KUEUE}/workloads", "/apis/batch/v1/jobs"
SETTINGS = replace(koordinator(standalone=False), admission_check=CheckMode.ON)
RESERVED_AT = "2026-09-01T12:00:00Z"
NOW = datetime(2026, 9, 1, 12, 1, tzinfo=UTC)


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    found = {"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": RESERVED_AT}
    return dict(found)


def entry(name: str = "gang", state: str = "Pending", **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": RESERVED_AT, **fields}


def workload(
    name: str = "job-demo",
    *checks: dict[str, Any],
    conditions: tuple[str, ...] = ("QuotaReserved",),
    owners: list[dict[str, Any]] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> dict[str, Any]:
    """A Workload that Kueue has made for the Job `demo`."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "uid-demo", "controller": True}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "ownerReferences": [reference] if owners is None else owners,
    }
    status = {"conditions": [condition(one) for one in conditions], "admissionChecks": list(checks or (entry(),))}
    return {"metadata": metadata, "spec": {"podSets": [], **spec}, "status": status}


def check(name: str = "gang", controller: str = "rollcall.dev/gang", active: str | None = "True") -> dict[str, Any]:
    status = {} if active is None else {"conditions": [condition("Active", active)]}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"controllerName": controller}, "status": status}


def owner(**fields: Any) -> dict[str, Any]:
    found = job(**fields)
    found["metadata"]["uid"] = "uid-demo"
    return found


def faulty() -> dict[str, Any]:
    """A Job whose last pods wait for others that are never created."""
    return owner(parallelism=2, completions=5)


class KueueApi(WritableWorld):
    """`raced` is called once, when a patch of a Workload has come and is not applied yet."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        super().__init__()
        self.raced: Any = None
        self.read: list[str] = []
        for one in objects:
            where = CHECKS if "controllerName" in one["spec"] else WORKLOADS_PATH
            self.put(JOBS if one.get("kind") == "Job" else where, one)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "GET":
            self.read.append(path)
            refused = self.refused.get(path)
            return refused or await super().handle_async_request(request)
        if request.method == "PATCH" and path.endswith("/status"):
            self.writes.append((request.method, path))
            if (answer := self.answering(request)) is not None:
                return answer
            return self._patched(path.removesuffix("/status"), json.loads(request.content))
        return await super().handle_async_request(request)

    def _patched(self, path: str, body: Any) -> httpx.Response:
        if isinstance(body, dict):
            return httpx.Response(200, json=self.apply(CHECKS, body))
        if self.raced is not None:
            raced, self.raced = self.raced, None
            raced()
        namespace, _, name = path.partition("/namespaces/")[2].partition("/workloads/")
        live = self.get(WORKLOADS_PATH, namespace, name)
        if live is None:
            return httpx.Response(404, json={"message": "not found"})
        version, *changes = body
        if version != {"op": "replace", "path": "/metadata/resourceVersion", "value": self.version_of(live)}:
            return httpx.Response(409, json={"message": "the object has been modified"})
        for change in changes:
            index = int(change["path"].removeprefix("/status/admissionChecks/"))
            live["status"]["admissionChecks"][index] = change["value"]
        self.bump(live)
        return httpx.Response(200, json=live)

    def version_of(self, live: dict[str, Any]) -> str:
        return str(live["metadata"]["resourceVersion"])

    def bump(self, live: dict[str, Any]) -> None:
        """Another version of an object."""
        live["metadata"]["resourceVersion"] = str(int(self.version_of(live)) + 1)

    def entries(self, name: str = "job-demo") -> list[dict[str, Any]]:
        """The checks of a Workload."""
        live = self.get(WORKLOADS_PATH, "default", name)
        assert live is not None
        return list(live["status"]["admissionChecks"])

    def states(self, name: str = "job-demo") -> list[str]:
        """Their states."""
        return [one["state"] for one in self.entries(name)]


class Answering:
    """Rollcall's side. Its facts are what the API has, or what it had when they were `frozen`."""

    def __init__(self, api: KueueApi, settings: Settings = SETTINGS, *, leads: bool = True, **options: Any) -> None:
        self.api, self.ready, self.leading = api, True, leads
        # How often it was asked to look at everything.
        self.asked: list[int] = []
        self.frozen: ClusterFacts | None = None
        clock = PlayedClock(NOW)
        client = at_once(Client(NOWHERE, api, clock=clock))
        self.metrics = ReconcilerMetrics(settings.profiles)
        dry_run = options.pop("dry_run", False)
        writer = Writer(client, self.leads, self.metrics, dry_run=dry_run)
        events = Events(client, self.metrics, "test", self.leads, dry_run=dry_run, clock=clock)
        self.checks = AdmissionChecks(
            settings,
            client,
            writer,
            events,
            self.metrics,
            self.leads,
            facts=self.facts,
            ready=lambda: self.ready,
            look=lambda: self.asked.append(1),
            clock=clock,
            **options,
        )

    def leads(self) -> bool:
        return self.leading

    def facts(self) -> ClusterFacts:
        return self.frozen or self.seen()

    def seen(self) -> ClusterFacts:
        """What the API has now."""
        workloads = KueueWorkloads()
        for raw in self.api.objects.get(WORKLOADS_PATH, []):
            found = WORKLOADS.read(deepcopy(raw))
            assert found is not None
            workloads[found[0]] = found[1]
        every = (ADMISSION_CHECKS.read(raw) for raw in self.api.objects.get(CHECKS, []))
        checks = dict(one for one in every if one is not None)
        spaces = {"default": Namespace({})}
        return ClusterFacts(namespaces=spaces, kueue_workloads=workloads, admission_checks=checks)

    async def look(self) -> None:
        """Look at everything, as after a list, a change of the leader, and from time to time."""
        await self.checks.look_at_all()

    async def settle(self) -> None:
        """Look at everything, and work until nothing is left to do at once."""
        await self.look()
        worker = asyncio.create_task(self.checks.workers.run())
        try:
            await until(lambda: not (len(self.checks.queue) or self.checks.workers.busy))
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    def sample(self, name: str, **labels: str) -> float:
        return value(self.metrics.registry, name, **labels) or 0.0
