"""What one says, all say: `check`, `explain`, `render`, `POST /check` and the webhook agree on every sample, for every
scheduler and several configurations.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.agreement import KAI_ONLY, Case, agree
from tests.unit.cli.conftest import Run
from tests.unit.cli.opted_in_samples import place_samples, readable_files
from webhook.config.defaults import default_settings

KUBE = {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}}

# What the samples lack: a TrainJob that opts in alone, names that are no profile's, and templates that disagree.
MORE = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: alone, namespace: team-a, labels: {rollcall.dev/scheduler: koord-scheduler}}
spec:
  runtimeRef: {apiGroup: trainer.kubeflow.org, kind: ClusterTrainingRuntime, name: torch-distributed}
  trainer: {numNodes: 2}
---
apiVersion: batch/v1
kind: Job
metadata: {name: unknown, namespace: team-a, labels: {rollcall.dev/scheduler: slurm}}
spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: m, image: x}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: single, namespace: team-a, labels: {rollcall.dev/scheduler: default-scheduler}}
spec: {parallelism: 1, completions: 1, template: {spec: {restartPolicy: Never, containers: [{name: m, image: x}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: disagrees, namespace: team-a, labels: {rollcall.dev/scheduler: koord-scheduler}}
spec:
  parallelism: 2
  completions: 2
  template: {spec: {restartPolicy: Never, schedulerName: volcano, containers: [{name: main, image: example.com/main}]}}
---
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: named, namespace: team-a}
spec:
  replicas: 1
  template:
    cliques:
    - {name: leader, spec: {replicas: 1, podSpec: {schedulerName: volcano, containers: [{name: a, image: a}]}}}
    - {name: worker, spec: {replicas: 2, podSpec: {schedulerName: koord-scheduler, containers: [{name: a, image: a}]}}}
"""


CASES = {
    "without options": Case(),
    "a namespace for a scheduler without gangs": Case(namespace="default-scheduler"),
    "KAI by default": Case({**KAI_ONLY, "defaultProfileName": "kai-scheduler"}),
    "a namespace for a scheduler without a profile": Case(KAI_ONLY, namespace="koord-scheduler"),
}
MORE_CASES = {
    **{f"--scheduler {name}": Case(option=name) for name in default_settings().profiles},
    "a namespace for volcano": Case(namespace="volcano"),
    "gangs of kube-scheduler": Case({"profiles": [KUBE]}, namespace="default-scheduler"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples, and MORE, as files of one folder."""
    copies = tmp_path_factory.mktemp("copies")
    samples = place_samples(tmp_path_factory.mktemp("samples"))
    for path in readable_files(samples):
        (copies / f"{path.parent.name}-{path.name}").write_text(path.read_text())
    (copies / "more.yaml").write_text(MORE)
    return copies


@pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=name) for name, case in CASES.items()),
        *(pytest.param(case, id=name, marks=pytest.mark.exhaustive) for name, case in MORE_CASES.items()),
    ],
)
def test_all_ways_to_ask_agree_on_every_sample(rollcall: Run, folder: Path, tmp_path: Path, case: Case) -> None:
    assert agree(rollcall, case, folder, tmp_path).explained > 10
