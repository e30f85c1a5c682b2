"""Asking in every way about the manifests of a folder: `check`, `explain`, `render`, `POST /check` and the webhook."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.unit.cli.conftest import Run
from tests.unit.server.test_capabilities import ask
from tests.unit.validators.test_rule_examples import EVERY_RULE
from webhook import admission
from webhook.config.defaults import default_settings
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model import grove
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.offline.fact_files import facts_from
from webhook.offline.judgement import requests_in
from webhook.offline.manifests import Document, files_in, read_file, read_text
from webhook.offline.worlds import one_world
from webhook.server.state import ServerState
from webhook.workloads.known_workloads import VIEWS

HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
KAI_ONLY = {"profiles": [{"name": "kai-scheduler", "config": {"defaultQueue": "default-queue"}}]}
WORKLOADS = ("PodCliqueSet", "TrainJob", "JobSet", "LeaderWorkerSet", "Job")
# Judged in files only: an API server refuses an unknown kind, and has dropped unknown fields before it asks a webhook.
_OF_FILES = ("kinds/", "fields/", "groups/", "resources/")
_WHOEVER_SCHEDULES = {rule.id for rule in EVERY_RULE if rule.independent}


@cache
def _default_settings() -> Settings:
    return default_settings()


@cache
def _default_state() -> ServerState:
    return ServerState(_default_settings(), NO_FACTS, None)


class Case(NamedTuple):
    """A configuration's `scheduler` section, a scheduler that the caller names, and one that a namespace names."""

    profiles: dict[str, Any] | None = None
    option: str | None = None
    namespace: str | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the webhook."""
        if self.profiles is None:
            return _default_settings()
        return settings_from({**HEAD, "scheduler": self.profiles}, "rollcall.yaml")


class Said(NamedTuple):
    """What was said about one workload: its findings with their actions and fields, and what was not judged."""

    findings: frozenset[tuple[str, str, str]]
    not_judged: frozenset[str]

    @property
    def in_cluster(self) -> frozenset[tuple[str, str]]:
        """The findings without their fields, as the webhook has them."""
        return frozenset((rule, action) for rule, action, _ in self.findings if not rule.startswith(_OF_FILES))

    @property
    def refused(self) -> bool:
        """Whether a finding refuses the workload."""
        return any(action == "deny" for _, action, _ in self.findings)


NOTHING = Said(frozenset(), frozenset())
# File, kind and name.
Key = tuple[str, str, str]


class Agreed(NamedTuple):
    """The arguments of the commands, the report of `check`, and how many workloads were explained."""

    arguments: list[str]
    report: dict[str, Any]
    explained: int


def agree(rollcall: Run, case: Case, folder: Path, work: Path) -> Agreed:
    """Ask in every way about the manifests in a folder, and assert that all answers agree. `work` takes other files."""
    arguments, facts = _arguments(case, folder, work)
    report = json.loads(rollcall("check", *arguments, "-o", "json").out)
    checked = _checked(report)
    explained = {_key(one): one for one in json.loads(rollcall("explain", *arguments, "-o", "json").out)["workloads"]}
    for key, one in explained.items():
        if any(view["scheduler"] == one["scheduler"] for view in one["schedulers"]):
            assert (key, checked.get(key, NOTHING)) == (key, _of_explanation(one))
        elif one["scheduler"] is not None:
            # Without a profile only `check` says what holds under every scheduler.
            answer = checked.get(key, NOTHING)
            of_choice = frozenset(entry for entry in answer.findings if entry[0] not in _WHOEVER_SCHEDULES)
            assert (key, answer._replace(findings=of_choice)) == (key, _of_explanation(one))
        assert (key, one["answer"] == "refused") == (key, checked.get(key, NOTHING).refused)
        if _gang(one) == "no":
            assert (key, checked.get(key, NOTHING).findings) != (key, frozenset())
    _rendered_as_checked(rollcall("render", *arguments).err, report, set(explained))
    _served_as_checked(case, folder, facts, report)
    if case.option is None:
        for key, rules, is_asked in _webhook(case, folder, facts):
            findings = checked.get(key, NOTHING).in_cluster
            # Only `check` judges a workload without a profile by what holds under every scheduler.
            in_cluster = (
                findings if is_asked else frozenset(entry for entry in findings if entry[0] not in _WHOEVER_SCHEDULES)
            )
            assert (key, rules) == (key, in_cluster)
    return Agreed(arguments, report, len(explained))


def _arguments(case: Case, folder: Path, work: Path) -> tuple[list[str], ClusterFacts]:
    arguments, facts = [str(folder)], NO_FACTS
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
    plain = case.profiles is None and facts is NO_FACTS
    state = _default_state() if plain else ServerState(case.settings, facts, None)
    (served,) = ask(state, "POST", f"/check{query}", body)
    assert served.status_code == (200 if report["passed"] else 422)
    for part in ("findings", "notJudged"):
        assert Counter(map(_without_place, served.json()[part])) == Counter(map(_without_place, report[part]))


def _without_place(entry: dict[str, Any]) -> str:
    # The server searches for no edits.
    place = {"file", "line", "column", "endLine", "endColumn", "fix"}
    kept = {key: value for key, value in entry.items() if key not in place}
    return json.dumps(kept, sort_keys=True).replace("the scheduler parameter", "--scheduler")


def _webhook(case: Case, folder: Path, facts: ClusterFacts) -> Iterator[tuple[Key, frozenset[tuple[str, str]], bool]]:
    """The rules and actions with which the webhook answers the creation of each workload and of each gang object, and
    whether its scheduler has a profile.
    """
    documents, settings = _documents(folder), case.settings
    facts, judged = one_world(facts, documents), {(grove.GROUP, "PodCliqueSet"), *VIEWS, *settings.judging}
    for document in documents:
        for request, _ in requests_in(deepcopy(document.manifest), judged=judged):
            admission.mutate(request, facts, settings)
            verdict = admission.validate(request, facts, settings)
            key = document.source, request.kind.kind, request.name
            rules = frozenset((found.rule, str(found.action)) for found in verdict.findings)
            yield key, rules, verdict.scheduler in settings.profiles


@cache
def _documents(folder: Path) -> list[Document]:
    return [document for path in files_in(folder) for document in read_file(path)]
