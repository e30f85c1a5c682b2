"""`rollcall upgrade-plan` on a real cluster: what it says of each gang, and that the migration then does the same."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.command import run_here
from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Leader, PlayNext, Rollcall
from tests.e2e.gang_commands import pod_groups
from tests.e2e.grove_operator import Played
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import ran
from tests.e2e.workloads import two_cliques

_MERGE = {"Content-Type": "application/merge-patch+json"}


def objects_of(plane: ControlPlane, namespace: str, podgang: str) -> list[Manifest]:
    """The PodGroups of a gang."""
    return plane.items(pod_groups(namespace), labelSelector=f"grove.io/podgang={podgang}")


def patch(plane: ControlPlane, path: str, change: Manifest) -> None:
    plane.http.patch(path, content=json.dumps(change), headers=_MERGE).raise_for_status()


def control(plane: ControlPlane, made: Played, owner: Manifest, api_version: str) -> None:
    """Have an object control the gang's objects."""
    reference = {
        "apiVersion": api_version,
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for found in objects_of(plane, made.namespace, made.podgangs[0]):
        path = f"{pod_groups(made.namespace)}/{found['metadata']['name']}"
        patch(plane, path, {"metadata": {"ownerReferences": [reference]}})


def said(plane: ControlPlane, running: ReconcilerProcess, *arguments: str, code: int) -> dict[str, Any]:
    """The plan, by the command with the rights of a user who may read everything."""
    where = f"--config={running.config}", f"--kubeconfig={plane.kubeconfig}"
    done = run_here("upgrade-plan", *arguments, *where, "-o", "json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def outcomes(plan: dict[str, Any], namespace: str) -> dict[str, tuple[str, str]]:
    """The outcome and the worst fact of each gang of a namespace."""
    return {
        one["name"]: (one["outcome"], one["effects"][0]["change"])
        for one in plan["gangs"]
        if one["namespace"] == namespace
    }


def test_the_plan_says_what_the_migration_does(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    play_next: PlayNext,
    rollcall: Rollcall,
    leader: Leader,
) -> None:
    rollcall(plane, KOORDINATOR)
    running = leader(KOORDINATOR)
    kept, groves = (grove(two_cliques(name, namespace)).create() for name in ("kept", "groves"))
    empty = grove(two_cliques("empty", namespace)).create_podgangs()
    running.until_settled()
    running.close()
    control(plane, kept, {"kind": "PodCliqueSet", **kept.workload}, "grove.io/v1alpha1")
    patch(
        plane, f"{groves.path('podgangs')}/groves-0", {"metadata": {"labels": {"grove.io/scheduler-name": "volcano"}}}
    )
    plan = said(plane, running, "--to", "grove=v0.1.0-alpha.13", "--to", "kubernetes=1.37", code=0)
    assert outcomes(plan, namespace) == {
        "kept-0": ("continues", "grove/podgangs-replaced"),
        "groves-0": ("must be re-created", "grove/own-backend"),
        "empty-0": ("unknown", "grove/scaled-to-zero"),
    }
    assert plan["order"][-1]["product"] == "grove"

    for made in (groves, empty):
        plane.kubectl("delete", "podcliqueset", made.name, "-n", namespace, check=True)
    before = uids(plane, namespace, "kept-0")
    play_next(two_cliques("kept", namespace)).migrate()
    assert uids(plane, namespace, "kept-0") == before != set()

    migrated = said(plane, running, "--to", "grove=v0.1.0-alpha.13", code=0)
    assert {one["outcome"] for one in migrated["gangs"] if one["namespace"] == namespace} == {"continues"}
    back = said(plane, running, "--to", "grove=v0.1.0-alpha.11", code=0)
    assert {found for _, found in outcomes(back, namespace).values()} == {"grove/back-from-podgangmaps"}


def uids(plane: ControlPlane, namespace: str, podgang: str) -> set[str]:
    """The gang's objects that are not being deleted."""
    found = objects_of(plane, namespace, podgang)
    return {one["metadata"]["uid"] for one in found if "deletionTimestamp" not in one["metadata"]}


def test_a_usage_mistake_needs_no_cluster() -> None:
    done = ran("upgrade-plan", "--to", "grove=newest")
    assert done.returncode == 2
    assert "is not a version; write grove=v0.1.0-alpha.13" in " ".join(done.stderr.replace("│", " ").split())
