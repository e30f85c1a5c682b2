"""What one release or operator refuses is not held against another: `owner/refused`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worlds import settings_of
from webhook.model.facts import NO_FACTS
from webhook.model.findings import Action
from webhook.model.reading import Manifest
from webhook.offline.judgement import judge
from webhook.validators.examples import job_set, leader_worker_set, replicated

_POD = {"spec": {"containers": [{"name": "main", "image": "example.com/main"}]}}


def _mpi_job(version: str) -> Manifest:
    launcher: dict[str, Any] = {"replicas": 1, "restartPolicy": "ExitCode", "template": _POD}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "tune", "namespace": "default", "labels": {"rollcall.dev/scheduler": "koord-scheduler"}},
        "spec": {"mpiReplicaSpecs": {"Launcher": launcher, "Worker": {"replicas": 2, "template": _POD}}},
    }


@pytest.mark.parametrize(
    ("manifest", "action"),
    [
        (_mpi_job("v2beta1"), Action.DENY),
        (_mpi_job("v1"), None),
        (job_set(replicated("node"), managedBy="acme.io/team/controller"), None),
        (job_set(replicated("node"), managedBy="controller"), Action.DENY),
        (leader_worker_set(replicas=1_500_000, size=1), Action.WARN),
        (leader_worker_set(replicas=1_500_000, size=2000), Action.DENY),
    ],
    ids=["MPIJob v2beta1", "MPIJob v1", "a path", "no domain", "a million groups", "too many pods"],
)
def test_what_is_refused_depends_on_who_refuses(manifest: Manifest, action: Action | None) -> None:
    (judgement,) = judge(manifest, NO_FACTS, settings_of("koord-scheduler"))
    actions = [finding.action for finding in judgement.verdict.findings if finding.rule == "owner/refused"]
    assert actions == ([] if action is None else [action])
