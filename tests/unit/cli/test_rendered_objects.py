"""Any user, Argo CD or Flux may apply the output of `rollcall render`. So it passes every rule under any user, in any
order, with and without the other objects of its gang.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.checked_manifests import FINE
from tests.unit.cli.conftest import Run
from webhook import admission
from webhook.config.settings import Settings
from webhook.model.admission_request import Request
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.offline.configuration_file import load_settings
from webhook.offline.fact_files import load_facts
from webhook.offline.judgement import kind_of

PROFILES: dict[str, dict[str, Any]] = {
    "koord-scheduler": {},
    "volcano": {"config": {"topology": "hypernode"}},
    "kai-scheduler": {"config": {"defaultQueue": "default-queue"}},
    "default-scheduler": {"config": {"gangScheduling": True, "apiGeneration": "v1beta1"}},
    "default-scheduler 1.36": {"config": {"gangScheduling": True, "apiGeneration": "v1alpha2"}},
    "default-scheduler 1.35": {"config": {"gangScheduling": True, "apiGeneration": "v1alpha1"}},
    "scheduler-plugins-scheduler": {},
}
# Queues that published samples name in the label that KubeRay reads.
QUEUES = "---".join(
    f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
status: {{state: Open}}
"""
    for name in ("llama2-training-queue", "kuberay-test-queue")
)
STAND_INS = {
    "set.yaml": FINE,
    "job.yaml": """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/main}]}}
""",
}


def samples() -> list[Path] | None:
    folder = os.environ.get("ROLLCALL_SAMPLES")
    return None if folder is None else sorted(Path(folder).rglob("*.yaml"))


@pytest.mark.parametrize("named", PROFILES)
def test_rendered_objects_pass_every_rule_under_any_user(rollcall: Run, tmp_path: Path, named: str) -> None:
    scheduler = named.split(maxsplit=1)[0]
    configuration = tmp_path / "rollcall.yaml"
    profile = {"name": scheduler, **PROFILES[named]}
    head = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
    configuration.write_text(json.dumps({**head, "scheduler": {"profiles": [profile]}}))
    (tmp_path / "queues.yaml").write_text(QUEUES)
    cluster = [Path("manifests/facts/cluster.yaml"), tmp_path / "queues.yaml"]
    files = samples()
    if files is None:
        files = [tmp_path / name for name in STAND_INS]
        for path in files:
            path.write_text(STAND_INS[path.name])
    # Settings like a server's: no scheduler is chosen by default.
    settings = load_settings(configuration)
    there = load_facts(cluster)
    judged = 0
    for path in files:
        known = [argument for found in cluster for argument in ("--facts", str(found))]
        # The other generation's names cannot be known, so its output cannot be applied.
        options = ("--grove", "legacy", "--scheduler", scheduler, "--config", str(configuration), *known, "-o", "json")
        ran = rollcall("render", *options, str(path))
        if ran.code != 0 or not ran.out.strip():
            continue
        objects = [found for found in json.loads(ran.out)["items"] if found["kind"] != "Pod"]
        together = tmp_path / "together.json"
        together.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        for facts in (there, load_facts([*cluster, together])):
            for manifest in objects:
                refused = denials(manifest, facts, settings)
                assert refused == [], f"{path.name}: {manifest['kind']} {manifest['metadata']['name']}"
                judged += kind_of(manifest)[::2] in settings.judging
    assert judged > 0 or scheduler == "scheduler-plugins-scheduler", "nothing of that scheduler's was judged"


def denials(manifest: dict[str, Any], facts: ClusterFacts, settings: Settings) -> list[str]:
    metadata = manifest["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    asked = Request("1", "CREATE", kind_of(manifest), namespace, name, manifest, user="alice")
    return [str(one) for one in admission.validate(asked, facts, settings).findings if one.action is Action.DENY]
