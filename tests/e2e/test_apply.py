"""kubectl apply as a user sees it: what is refused, with which message, and what is stored."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import clique, nvlink, pod_clique_set, two_cliques

pytestmark = pytest.mark.every_version

MNNVL = "koordinator/mnnvl"
FIELD = "spec.template.cliques[1].annotations[grove.io/mnnvl-group]"
WHY = "koord-scheduler cannot keep a multi-node NVLink group inside one NVLink domain"
REMEDY = 'set "grove.io/mnnvl-group": "none" on the clique'


def test_a_workload_that_the_scheduler_cannot_honour_is_refused_and_not_stored(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    refused = plane.apply(nvlink("train", namespace))
    assert refused.code == 1
    for said in (MNNVL, FIELD, WHY, REMEDY):
        assert said in refused.err
    assert "NotFound" in plane.kubectl("get", "podcliqueset", "train", "-n", namespace).err


def test_the_corrected_workload_is_stored_with_its_scheduler_recorded(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    assert plane.apply(nvlink("train", namespace)).code == 1
    workload = nvlink("train", namespace)
    workload["spec"]["template"]["cliques"][1]["annotations"] = {"grove.io/mnnvl-group": "none"}
    assert plane.apply(workload).out == "podcliqueset.grove.io/train created\n"
    stored = plane.get("podcliqueset", "train", namespace)
    assert stored["metadata"]["labels"] == {"rollcall.dev/scheduler": "koord-scheduler"}
    found = plane.kubectl("get", "podcliquesets", "-n", namespace, "-l", "rollcall.dev/scheduler", "-o", "name")
    assert found.out == "podcliqueset.grove.io/train\n"


def test_a_dry_run_gets_the_same_answer(plane: ControlPlane, server: RollcallServer, namespace: str) -> None:
    dry = ("--dry-run=server",)
    refused, told = plane.apply(nvlink("train", namespace), options=dry), plane.apply(nvlink("train", namespace))
    assert (refused.code, refused.err) == (told.code, told.err)
    ran = plane.apply(two_cliques("train", namespace), options=(*dry, "-o", "jsonpath={.metadata.labels}"), check=True)
    assert ran.out == '{"rollcall.dev/scheduler":"koord-scheduler"}'
    assert plane.items(f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets") == []


def test_an_update_that_adds_a_fault_is_refused(plane: ControlPlane, server: RollcallServer, namespace: str) -> None:
    before = nvlink("train", namespace)
    before["spec"]["template"]["cliques"][1]["annotations"] = {"grove.io/mnnvl-group": "none"}
    plane.apply(before, check=True)
    refused = plane.apply(nvlink("train", namespace))
    assert refused.code == 1
    assert MNNVL in refused.err
    stored = plane.get("podcliqueset", "train", namespace)
    assert stored["spec"]["template"]["cliques"][1]["annotations"] == {"grove.io/mnnvl-group": "none"}


def test_an_update_that_keeps_an_old_fault_is_accepted_with_a_warning(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    # Stored without a webhook, but recorded: as when a rule is newer than the workload.
    server.unregister()
    try:
        until_stored(plane, namespace)
    finally:
        server.register()
    workload = nvlink("train", namespace, **{"rollcall.dev/scheduler": "koord-scheduler"})
    workload["spec"]["template"]["cliques"][0]["spec"]["replicas"] = 2
    until_webhook_answers(plane, workload)


def until_stored(plane: ControlPlane, namespace: str) -> None:
    """Apply a faulty set until the API server has forgotten the webhook."""
    faulty = nvlink("train", namespace, **{"rollcall.dev/scheduler": "koord-scheduler"})
    eventually(lambda: plane.apply(faulty).code == 0, "the faulty set is stored without a webhook")


def until_webhook_answers(plane: ControlPlane, workload: dict[str, object]) -> None:
    """Apply until the webhook is called again; each apply must be accepted."""

    def told() -> bool:
        ran = plane.apply(workload, check=True)
        assert "Warning: koordinator/mnnvl at" in ran.err, ran
        assert FIELD in ran.err
        return True

    eventually(told, "kubectl prints the warning")


def test_one_refusal_reports_every_fault(plane: ControlPlane, server: RollcallServer, namespace: str) -> None:
    worker = clique("worker", gpu=8, annotations={"grove.io/mnnvl-group": "train"})
    worker["labels"] = {"koordinator.sh/qosClass": "ls"}
    workload = pod_clique_set("train", namespace, worker)
    refused = plane.apply(workload)
    assert refused.code == 1
    assert MNNVL in refused.err
    assert "koordinator/qos-class" in refused.err


def test_the_refusal_of_an_unknown_scheduler_lists_the_known_ones(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    refused = plane.apply(two_cliques("train", namespace, labels={"rollcall.dev/scheduler": "koordinator"}))
    assert "choose one of koord-scheduler, default-scheduler" in refused.err
