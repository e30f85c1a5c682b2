"""What one says, all say: `check`, `explain`, `render`, `POST /check` and the webhook agree on every sample, for every
scheduler and several configurations.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.unit.cli.conftest import Run
from tests.unit.cli.opted_in_samples import place_samples
from tests.unit.server.test_capabilities import ask
from webhook import admission
from webhook.config.file import default_settings, settings_from
from webhook.config.settings import Settings
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts
from webhook.offline.judgement import requests_in
from webhook.server.state import ServerState
from webhook.sources.facts import facts_from, one_world
from webhook.sources.manifests import Document, files_in, read_file, read_text

HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
KAI_ONLY = {"profiles": [{"name": "kai-scheduler", "config": {"defaultQueue": "default-queue"}}]}
KUBE = {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}}
WORKLOADS = ("PodCliqueSet", "TrainJob", "JobSet", "LeaderWorkerSet", "Job")

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
spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: main, image: example.com/main}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: single, namespace: team-a, labels: {rollcall.dev/scheduler: default-scheduler}}
spec: {parallelism: 1, completions: 1, template: {spec: {containers: [{name: main, image: example.com/main}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: disagrees, namespace: team-a, labels: {rollcall.dev/scheduler: koord-scheduler}}
spec:
  parallelism: 2
  completions: 2
  template: {spec: {schedulerName: volcano, containers: [{name: main, image: example.com/main}]}}
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


class Case(NamedTuple):
    """A configuration's `scheduler` section, a scheduler that the caller names, and one that a namespace names."""

    profiles: dict[str, Any] | None = None
    option: str | None = None
    namespace: str | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the webhook."""
        if self.profiles is None:
            return default_settings()
        return settings_from({**HEAD, "scheduler": self.profiles}, "rollcall.yaml")


CASES = {
    "without options": Case(),
    **{f"--scheduler {name}": Case(option=name) for name in default_settings().profiles},
    "a namespace for volcano": Case(namespace="volcano"),
    "a namespace for a scheduler without gangs": Case(namespace="default-scheduler"),
    "gangs of kube-scheduler": Case({"profiles": [KUBE]}, namespace="default-scheduler"),
    "KAI by default": Case({**KAI_ONLY, "defaultProfileName": "kai-scheduler"}),
    "a namespace for a scheduler without a profile": Case(KAI_ONLY, namespace="koord-scheduler"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples, and MORE, as files of one folder."""
    copies = tmp_path_factory.mktemp("copies")
    samples = place_samples(tmp_path_factory.mktemp("samples"))
    for path in files_in(samples):
        (copies / f"{path.parent.name}-{path.name}").write_text(path.read_text())
    (copies / "more.yaml").write_text(MORE)
    return copies


class Said(NamedTuple):
    """What was said about one workload: its findings with their actions and fields, and what was not judged."""

    findings: frozenset[tuple[str, str, str]]
    not_judged: frozenset[str]

    @property
    def rules(self) -> frozenset[tuple[str, str]]:
        """The findings without their fields."""
        return frozenset((rule, action) for rule, action, _ in self.findings)

    @property
    def refused(self) -> bool:
        """Whether a finding refuses the workload."""
        return any(action == "deny" for _, action, _ in self.findings)


NOTHING = Said(frozenset(), frozenset())
# File, kind and name.
Key = tuple[str, str, str]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_all_ways_to_ask_agree_on_every_sample(rollcall: Run, folder: Path, tmp_path: Path, case: Case) -> None:
    arguments, facts = _arguments(case, folder, tmp_path)
    report = json.loads(rollcall("check", *arguments, "-o", "json").out)
    checked = _checked(report)
    explained = {_key(one): one for one in json.loads(rollcall("explain", *arguments, "-o", "json").out)["workloads"]}
    assert len(explained) > 10
    for key, one in explained.items():
        if one["scheduler"] is not None:
            assert (key, checked.get(key, NOTHING)) == (key, _of_explanation(one))
        assert (key, one["answer"] == "refused") == (key, checked.get(key, NOTHING).refused)
        if _gang(one) == "no":
            assert (key, checked.get(key, NOTHING).findings) != (key, frozenset())
    _rendered_as_checked(rollcall("render", *arguments).err, report, set(explained))
    _served_as_checked(case, folder, facts, report)
    if case.option is None:
        for key, rules in _webhook(case, folder, facts):
            assert (key, rules) == (key, checked.get(key, NOTHING).rules)


def _arguments(case: Case, folder: Path, work: Path) -> tuple[list[str], ClusterFacts]:
    arguments, facts = [str(folder)], NOTHING_KNOWN
    if case.profiles is not None:
        (work / "rollcall.json").write_text(json.dumps({**HEAD, "scheduler": case.profiles}))
        arguments += ["--config", str(work / "rollcall.json")]
    if case.option is not None:
        arguments += ["--scheduler", case.option]
    if case.namespace is not None:
        metadata = {"name": "default", "labels": {"rollcall.dev/scheduler": case.namespace}}
        text = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        (work / "namespace.json").write_text(text)
        arguments += ["--facts", str(work / "namespace.json")]
        facts = facts_from(read_text(text, "namespace.json"))
    return arguments, facts


def _key(one: dict[str, Any]) -> Key:
    return one["file"], one["kind"], one["name"]


def _checked(report: dict[str, Any]) -> dict[Key, Said]:
    findings: dict[Key, set[tuple[str, str, str]]] = {}
    missing: dict[Key, set[str]] = {}
    for found in report["findings"]:
        key = _key({**found, **found["object"]})
        findings.setdefault(key, set()).add((found["rule"], found["action"], found["field"]))
    for one in report["notJudged"]:
        missing.setdefault(_key({**one, **one["object"]}), set()).add(one["rule"])
    return {
        key: Said(frozenset(findings.get(key, ())), frozenset(missing.get(key, ()))) for key in {*findings, *missing}
    }


def _of_explanation(one: dict[str, Any]) -> Said:
    views = [view for view in one["schedulers"] if view["scheduler"] == one["scheduler"]]
    findings = [*one["findings"], *(found for view in views for found in view["findings"])]
    missing = frozenset(missing["rule"] for view in views for missing in view["notJudged"])
    return Said(frozenset((found["rule"], found["action"], found["field"]) for found in findings), missing)


def _gang(one: dict[str, Any]) -> str | None:
    honours = [
        honour["honoured"]
        for view in one["schedulers"]
        if view["scheduler"] == one["scheduler"]
        for honour in view["capabilities"]
        if honour["capability"] == "gang"
    ]
    return honours[0] if honours else None


def _rendered_as_checked(told: str, report: dict[str, Any], explained: set[Key]) -> None:
    """Every refusal of a workload, and no other, is a reason why its objects are not rendered."""
    refusals = {
        f"rollcall: {found['file']}:{found['line']}:{found['column']}: {found['message']}"
        for found in report["findings"]
        if found["action"] == "deny" and _key({**found, **found["object"]}) in explained
    }
    lines = told.splitlines()
    assert refusals - set(lines) == set()
    rules = {found["rule"] for found in report["findings"] if found["action"] == "deny"}
    kinds = {found["file"] for found in report["findings"] if found["object"]["kind"] not in WORKLOADS}
    others = [line for line in lines if line not in refusals and any(f": {rule} at " in line for rule in rules)]
    assert [line for line in others if not any(file in line for file in kinds)] == []


def _served_as_checked(case: Case, folder: Path, facts: ClusterFacts, report: dict[str, Any]) -> None:
    body = "\n---\n".join(path.read_text() for path in files_in(folder))
    query = "" if case.option is None else f"?scheduler={case.option}"
    served: httpx.Response
    (served,) = ask(ServerState(case.settings, facts, None), "POST", f"/check{query}", body)
    assert served.status_code == (200 if report["clean"] else 422)
    for part in ("findings", "notJudged"):
        assert Counter(map(_without_place, served.json()[part])) == Counter(map(_without_place, report[part]))


def _without_place(entry: dict[str, Any]) -> str:
    kept = {key: value for key, value in entry.items() if key not in {"file", "line", "column"}}
    return json.dumps(kept, sort_keys=True).replace("the scheduler parameter", "--scheduler")


def _webhook(case: Case, folder: Path, facts: ClusterFacts) -> Iterator[tuple[Key, frozenset[tuple[str, str]]]]:
    """The rules and actions with which the webhook answers the creation of each workload."""
    documents, settings = _documents(folder), case.settings
    facts = one_world(facts, documents)
    for document in documents:
        for request, _ in requests_in(deepcopy(document.manifest)):
            if request.kind.kind in WORKLOADS:
                admission.mutate(request, facts, settings)
                verdict = admission.validate(request, facts, settings)
                key = document.source, request.kind.kind, request.name
                yield key, frozenset((found.rule, str(found.action)) for found in verdict.findings)


@cache
def _documents(folder: Path) -> list[Document]:
    return [document for path in files_in(folder) for document in read_file(path)]
