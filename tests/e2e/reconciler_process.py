"""The installed `rollcall reconcile` as a process with exactly the rights that `manifests rbac` prints."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import yaml

from tests.e2e.control_plane import RECONCILER, ROLLCALL_NAMESPACE, Asked, ControlPlane, Manifest
from tests.e2e.pod_process import mounted
from tests.e2e.programs import COMMAND, eventually, free_port, is_ready
from tests.e2e.rollcall_server import rollcall, samples_of
from tests.e2e.workload_objects import applied
from webhook.installation.names import LEASE_NAME, RECONCILER_ROLE

# For these OwnerReferencesPermissionEnforcement asks, within a request that is about something else.
FINALIZERS = {
    (f"{resource}/finalizers", "update")
    for resource in (
        "grove.io/podcliquesets",
        "scheduler.grove.io/podgangs",
        "batch/jobs",
        "jobset.x-k8s.io/jobsets",
        "leaderworkerset.x-k8s.io/leaderworkersets",
    )
}
# What is stored of gangs that lost pods, which test_lost_members.py has written and deleted.
RECORDS = {("/configmaps", verb) for verb in ("create", "patch", "delete")} | {
    ("scheduler.grove.io/podgangs", "get"),
    ("scheduler.grove.io/podgangs/status", "patch"),
}
# This is used when the number of gangs that share an event changes: see test_shared_events.py.
SERIES = ("events.k8s.io/events", "patch")


class ReconcilerProcess:
    """One reconciler. `stop` ends it as Kubernetes would, `kill` as a machine that loses its power."""

    def __init__(
        self,
        plane: ControlPlane,
        config: Manifest,
        *options: str,
        account: str = RECONCILER,
        roles: list[Manifest] | None = None,
        narrowed: Callable[[Manifest], Manifest | None] = lambda rule: rule,
        as_pod: bool = False,
    ) -> None:
        """`roles` are applied in the place of those that are printed for its account, with their bindings. `narrowed`
        makes each rule of its roles smaller, or takes it away, for tests of what happens then. With `as_pod` it finds
        the cluster as a pod does, and takes no more memory than one.
        """
        self.plane = plane
        self.folder = plane.folder / f"reconciler-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.config = self.folder / "rollcall.yaml"
        self.config.write_text(yaml.safe_dump(config))
        plane.create_namespace(ROLLCALL_NAMESPACE)
        if roles is None:
            who = f"{ROLLCALL_NAMESPACE}/{account}"
            printed = rollcall("manifests", "rbac", "--config", self.config, "--reconciler", who)
            roles = [role for role in yaml.safe_load_all(printed) if role["metadata"]["name"] == RECONCILER_ROLE]
        for role in roles:
            if "rules" in role:
                role["rules"] = [rule for rule in map(narrowed, role["rules"]) if rule is not None]
        for role in roles:
            applied(plane, role, "installation")
        # Group and resource, and the verb.
        self.granted = {
            (f"{group}/{resource}", verb)
            for role in roles
            for rule in role.get("rules", ())
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        self._before = len(plane.asked())
        port = free_port()
        begin: list[str | Path] = [COMMAND, "reconcile"]
        if as_pod:
            files = self.folder / "serviceaccount"
            env = mounted(files, plane, account, ROLLCALL_NAMESPACE)
            begin = [sys.executable, "-m", mounted.__module__, files, "reconcile"]
        else:
            env = {}
            begin.append(f"--kubeconfig={plane.write_kubeconfig(account)}")
        self.program = plane.workplace.start(
            self.folder.name,
            [
                *begin,
                f"--config={self.config}",
                f"--lease-namespace={ROLLCALL_NAMESPACE}",
                "--host=127.0.0.1",
                f"--port={port}",
                *options,
            ],
            env,
        )
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False)

    def until_ready(self, timeout: float = 60) -> None:
        """Wait until it has read the cluster."""
        eventually(lambda: is_ready(self.program, self.http), "the reconciler is ready", timeout=timeout)

    def until_leading(self, timeout: float = 60) -> None:
        """Wait until it has read the cluster, which has `timeout` seconds, and writes."""
        self.until_ready(timeout)
        eventually(lambda: self.metric("rollcall_leads") == 1, "the reconciler leads", timeout=60)

    def until_settled(self, timeout: float = 30) -> None:
        """Wait until it has had nothing to do for a second, at most `timeout` seconds."""
        seen, since = -1.0, 0.0

        def settled() -> bool:
            nonlocal seen, since
            assert self.metric("rollcall_queue_depth") == 0, "something waits"
            now = self.metric("rollcall_reconciled_total")
            if now != seen:
                seen, since = now, time.monotonic()
            return time.monotonic() - since > 1

        eventually(settled, "the reconciler has nothing to do", timeout=timeout)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over the samples that have these labels."""
        samples = samples_of(self.http.get("/metrics").text, name)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def asked(self) -> list[Asked]:
        """The requests to the API server of all processes with its account."""
        return self.plane.asked(self._before)

    def uses_all_but(self, *hidden: tuple[str, str]) -> None:
        """Wait until it has used every right that it was given, but for those that no request is named after: the
        finalizers, about which an admission plugin asks, those for gangs that lost pods, and `hidden`. What is not
        served is not asked for.
        """
        served = self._served()
        named = {right for right in self.granted if right[0] in served and right not in FINALIZERS | RECORDS}

        def unused() -> bool:
            left = named - {(asked.resource, asked.verb) for asked in self.asked()}
            assert left == set(hidden), left
            return True

        # A lease is renewed every few seconds.
        eventually(unused, "every right is used", timeout=20)

    def _served(self) -> set[str]:
        """Group and resource of what the API server serves."""
        groups = self.plane.http.get("/apis").json()["groups"]
        versions = [
            ("", "/api/v1"),
            *((one["name"], f"/apis/{v['groupVersion']}") for one in groups for v in one["versions"]),
        ]
        return {
            f"{group}/{found['name']}"
            for group, path in versions
            for found in self.plane.http.get(path).json()["resources"]
        }

    def close(self) -> None:
        """Stop it. Whatever the test was about, it must have had the rights for it: AssertionError where it had not."""
        self.program.stop()
        self.http.close()
        refused = sorted({(asked.verb, asked.uri) for asked in self.asked() if not asked.allowed})
        assert refused == [], "the role that `manifests rbac` prints does not allow these"


def forget_lease(plane: ControlPlane) -> None:
    """As in a cluster in which no reconciler ever ran."""
    plane.http.delete(f"/apis/coordination.k8s.io/v1/namespaces/{ROLLCALL_NAMESPACE}/leases/{LEASE_NAME}")
