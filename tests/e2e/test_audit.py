"""`rollcall audit` and its reports on a real API server: objects that were stored while no webhook was registered."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.configurations import configuration_of
from tests.e2e.command import run_here
from tests.e2e.conftest import apply_crds, further_crd_files
from tests.e2e.control_plane import ADMIN, ControlPlane, Manifest
from tests.e2e.fixture_types import Reconcilers
from tests.e2e.hosted_reconciler import HostedReconciler
from tests.e2e.network import Network
from tests.e2e.opted_in_workloads import job
from tests.e2e.programs import eventually
from tests.e2e.workloads import nvlink, two_cliques
from webhook.config.file import settings_from
from webhook.operations.audit import Audit
from webhook.operations.auditor import Auditor, PatientClient, read_facts
from webhook.reconciler import audit_reports
from webhook.reconciler.manager import Reconciler

KOORD = configuration_of("koord-scheduler", "volcano")
REPORTING = {**KOORD, "audit": {"openReports": True}}
RULE = "koordinator/mnnvl"
MODE, MISSING = "koordinator/gang-mode", "koordinator/pod-group-missing"
GROUP: Manifest = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 2}}
CONTAINER = {"name": "main", "image": "registry.example.com/main:1.0"}
POD: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {"schedulerName": "koord-scheduler", "containers": [CONTAINER]},
}
REPORTS = "/apis/openreports.io/v1alpha1/namespaces/{}/reports"


@pytest.fixture
def stored(plane: ControlPlane, namespace: str) -> str:
    """A namespace with seven sets, of which two ask for what koord-scheduler cannot do, with a suspended Job, a
    PodGroup that a user wrote, which is wrong, and a pod of a group that does not exist.
    """
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    sets = [two_cliques(f"good-{number}", namespace) for number in range(5)]
    bad = [nvlink("bad-a", namespace), nvlink("bad-b", namespace, **labels)]
    mode = {"gang.scheduling.koordinator.sh/mode": "strict"}
    group = GROUP | {"metadata": {"name": "own", "namespace": namespace, "annotations": mode}}
    named = {"name": "lone", "namespace": namespace, "labels": {"pod-group.scheduling.sigs.k8s.io": "missing"}}
    suspended = job("train", namespace, 2, suspend=True, labels=labels)
    plane.apply(*sets, *bad, suspended, POD | {"metadata": named}, check=True)
    # A tenant chooses the name of the field manager.
    plane.apply(group, options=("--server-side", "--field-manager=rollcall"), check=True)
    return namespace


@pytest.fixture
def today(tmp_path: Path) -> Path:
    path = tmp_path / "today.yaml"
    path.write_text(yaml.safe_dump(KOORD))
    return path


@pytest.fixture
def reports(plane: ControlPlane) -> Iterator[None]:
    """The kind Report is served."""
    apply_crds(plane, further_crd_files("openreports"))
    yield
    plane.kubectl("delete", "crd", "reports.openreports.io", check=True)


def report_in(plane: ControlPlane, namespace: str) -> Manifest | None:
    answer = plane.http.get(f"{REPORTS.format(namespace)}/rollcall")
    return dict(answer.json()) if answer.is_success else None


def test_what_was_stored_without_webhooks_is_shown_as_table_json_and_sarif(
    plane: ControlPlane, stored: str, today: Path
) -> None:
    kubeconfig = plane.write_kubeconfig(ADMIN)
    asked = ("audit", "-n", stored, "--kubeconfig", kubeconfig)
    table = run_here(*asked, "--today", today)
    assert table.returncode == 1, table.stderr
    rows = [line.split() for line in table.stdout.splitlines()]
    assert ["error", RULE, stored, "2", "PodCliqueSet/bad-a"] in [row[:5] for row in rows], table.stdout
    assert ["warning", MISSING, stored, "1", "Pod/lone"] in [row[:5] for row in rows], table.stdout
    assert "3 objects would be refused; rollcall explain PodCliqueSet/bad-a" in table.stdout

    told = json.loads(run_here(*asked, "--today", today, "-o", "json").stdout)
    assert (told["passed"], told["complete"], told["refused"], told["unlisted"]) == (False, True, 3, [])
    assert told["read"]["podcliquesets.grove.io"] == 7
    refused = [(one["rule"], one["object"]["name"]) for one in told["findings"] if one["level"] == "error"]
    assert refused == [(RULE, "bad-a"), (RULE, "bad-b"), (MODE, "own")]

    log = json.loads(run_here(*asked, "--today", today, "-o", "sarif").stdout)
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in log["runs"][0]["results"]]
    names = ("Pod/lone", "PodCliqueSet/bad-a", "PodCliqueSet/bad-b", "PodGroup/own")
    assert places == [f"{stored}/{name}" for name in names]

    # Volcano reads no NVLink domains either; what koord-scheduler says is gone, and only what is new fails.
    switched = json.loads(run_here(*asked, "--today", today, "--as", "volcano", "-o", "json").stdout)["comparison"]
    assert switched["with"] == "as volcano"
    assert [one["rule"] for one in switched["gone"]["groups"]] == [RULE]
    assert {one["rule"].partition("/")[0] for one in switched["new"]["groups"]} == {"volcano"}

    lenient = today.with_name("lenient.yaml")
    lenient.write_text(yaml.safe_dump({**KOORD, "enforcement": {"rules": {RULE: "warn"}}}))
    relaxed = run_here(*asked, "--today", today, "--config", lenient)
    assert relaxed.returncode == 0, relaxed.stdout
    assert "0 objects would be refused in addition, 2 no longer" in relaxed.stdout


class Expiring(httpx.AsyncBaseTransport):
    """A network on which every second page is asked for by the version of long ago, so that the API server says 410."""

    def __init__(self, plane: ControlPlane) -> None:
        self._network = Network(plane)
        self.gone = 0

    async def close(self) -> None:
        """Close every connection."""
        await self._network.close()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        token = request.url.params.get("continue")
        if token is not None:
            read = json.loads(base64.urlsafe_b64decode(token + "=="))
            if read["rv"] > 0:
                old = base64.urlsafe_b64encode(json.dumps({**read, "rv": 1}).encode()).decode().rstrip("=")
                request.url = request.url.copy_set_param("continue", old)
        answer = await self._network.handle_async_request(request)
        self.gone += answer.status_code == 410
        return answer


def audited(plane: ControlPlane, namespace: str, page: int, network: Expiring | None = None) -> Audit:
    async def work() -> Audit:
        client = PatientClient(Network(plane).access, network)
        try:
            known = await read_facts(client, settings_from(KOORD, "test"))
            return await Auditor(client, known, namespace=namespace, page=page).audit()
        finally:
            await client.close()
            if network is not None:
                await network.close()

    return asyncio.run(work())


def test_small_pages_and_expired_lists_lose_no_object(plane: ControlPlane, stored: str) -> None:
    plane.compact()
    whole, paged = audited(plane, stored, 500), audited(plane, stored, 2)
    expiring = Expiring(plane)
    resumed = audited(plane, stored, 2, expiring)
    assert expiring.gone > 0
    for found in (whole, paged, resumed):
        assert (found.complete, found.read["podcliquesets.grove.io"], found.today.refused) == (True, 7, 3)
        assert sorted(one.object.name for one in found.today.kept) == ["bad-a", "bad-b", "lone", "own"]


def without_room_for_reports(plane: ControlPlane, namespace: str) -> str:
    """Make a namespace with a finding, whose quota has no room for a report."""
    quota = {"hard": {"count/reports.openreports.io": "0"}}
    plane.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none", "namespace": namespace},
            "spec": quota,
        },
        nvlink("bad", namespace),
        check=True,
    )
    # The API server goes by what the quota's controller has written into the status.
    eventually(lambda: plane.get("resourcequotas", "none", namespace)["status"].get("hard"), "the quota is enforced")
    return namespace


def test_reports_are_written_once_and_go_with_their_findings(
    plane: ControlPlane,
    stored: str,
    reports: None,
    reconciler: Reconcilers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = without_room_for_reports(plane, f"{stored}-full")
    # A process with the rights of an installation.
    installed = reconciler(REPORTING)
    found = eventually(lambda: report_in(plane, stored), "the report is written", timeout=60)
    assert found["summary"] == {"pass": 6, "fail": 3, "warn": 1, "error": 0, "skip": 0}
    assert [(one["policy"], one["result"], one["resources"][0]["name"]) for one in found["results"]] == [
        (MODE, "fail", "own"),
        (RULE, "fail", "bad-a"),
        (RULE, "fail", "bad-b"),
        (MISSING, "warn", "lone"),
    ]
    assert found["results"][1]["resources"][0]["uid"] == plane.get("podcliquesets", "bad-a", stored)["metadata"]["uid"]
    eventually(lambda: installed.metric("rollcall_audit_findings", action="deny") >= 3, "the metric tells them")
    # One namespace refuses its report, which does not concern the others. So do those of other tests, until they are
    # deleted; it is tried again after half a minute.
    assert report_in(plane, full) is None
    eventually(lambda: installed.metric("rollcall_audit_unwritten_reports") == 1, "one is not written", timeout=90)
    assert installed.metric("rollcall_audit_failing") == 0
    installed.program.stop()
    plane.kubectl("delete", "namespace", full, "--wait=false", check=True)

    monkeypatch.setattr(audit_reports, "LOOK_SECONDS", 0.1)
    hosted = HostedReconciler(Network(plane), REPORTING, namespace=stored, before=hurried)
    try:
        rounds = audits(hosted)
        eventually(lambda: audits(hosted) >= rounds + 2, "it audits again and again", timeout=60)
        assert hosted.metric("rollcall_writes_total", kind="Report") == 0
        assert report_in(plane, stored) == found

        plane.kubectl("delete", "podcliquesets", "bad-a", "-n", stored, check=True)
        eventually(lambda: len(results(plane, stored)) == 3, "the report has one result less", timeout=30)
        for kind, name in (("podcliquesets", "bad-b"), ("pod", "lone"), ("podgroups.scheduling.sigs.k8s.io", "own")):
            plane.kubectl("delete", kind, name, "-n", stored, "--grace-period=0", check=True)
        eventually(lambda: report_in(plane, stored) is None, "the report is gone", timeout=30)
        hosted.check()
    finally:
        hosted.stop()


def results(plane: ControlPlane, namespace: str) -> list[Manifest]:
    return list((report_in(plane, namespace) or {}).get("results", []))


_rounds: dict[int, int] = {}


def hurried(found: Reconciler) -> None:
    """Audit without a pause, and count the audits."""
    assert found.audits is not None
    reports = found.audits
    reports._settings = replace(reports._settings, auditing=replace(reports._settings.auditing, every=timedelta()))
    audit = reports.audit

    async def counted() -> None:
        await audit()
        _rounds[id(found)] = _rounds.get(id(found), 0) + 1

    # It runs on an event loop of its own, and no transport belongs to two.
    reports._transport = None
    monkey: Any = reports
    monkey.audit = counted


def audits(hosted: HostedReconciler) -> int:
    return _rounds.get(id(hosted.reconciler), 0)
