"""The rule about the quota that Koordinator gives pods by their namespace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import settings_of
from webhook.config.settings import Settings
from webhook.model.facts import NO_FACTS
from webhook.offline.judgement import judge
from webhook.offline.manifests import read_text
from webhook.offline.worlds import one_world

RULE = "koordinator/namespace-quota"
QUOTA = "quota.scheduling.koordinator.sh"


def quota(name: str = "team", namespace: str = "team", *, parent: bool = True, lists: str = "") -> str:
    listed = f"{QUOTA}/namespaces: '[\"{lists}\"]'" if lists else ""
    return (
        f"apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata:\n  name: {name}\n"
        f"  namespace: {namespace}\n  labels: {{{QUOTA}/is-parent: '{str(parent).lower()}'}}\n"
        f"  annotations: {{{listed}}}\nspec: {{}}\n---\n"
    )


def workload(labels: str = "", annotations: str = "", kind: str = "Job") -> str:
    pod = "{spec: {restartPolicy: Never, containers: [{name: c, image: example.com/c}]}}"
    if kind == "PodCliqueSet":
        return (
            f"apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {{name: j, namespace: team, "
            f"annotations: {{{annotations}}}}}\nspec:\n  replicas: 1\n  template:\n    terminationDelay: 4h\n"
            "    cliques: [{name: a, spec: {roleName: a, replicas: 2, minAvailable: 2, "
            "podSpec: {containers: [{name: c, image: example.com/c}]}}}]\n"
        )
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, namespace: team, labels: {{{labels}}}}}\n"
        f"spec: {{parallelism: 2, completions: 2, template: {pod}}}\n"
    )


def said(text: str, **config: Any) -> list[str]:
    settings: Settings = settings_of("koord-scheduler", config)
    settings = replace(settings, standalone=True, forced="koord-scheduler")
    documents = read_text(text, "all.yaml")
    facts = one_world(NO_FACTS, documents, settings.kinds)
    verdicts = [one.verdict for document in documents for one in judge(document.manifest, facts, settings)]
    found = ["warns" for one in verdicts for finding in one.findings if finding.rule == RULE]
    return found + ["unknown" for one in verdicts for missing in one.unjudged if missing.rule == RULE]


ON: dict[str, Any] = {"disableDefaultQuota": False}
CASES: dict[str, tuple[str, list[str]]] = {
    "its name is a parent's": (quota() + workload(), ["warns"]),
    "a set's, too": (quota() + workload(kind="PodCliqueSet"), ["warns"]),
    "its name is a leaf's": (quota(parent=False) + workload(), []),
    "a quota of that name elsewhere": (quota(namespace="other") + workload(), []),
    # A quota with the name of the namespace comes first, and may stand elsewhere.
    "a parent lists it": (quota("all", "other", lists="team") + workload(), ["unknown"]),
    "a parent lists another": (quota("all", "other", lists="else") + workload(), []),
    "the name counts before a list": (quota(parent=False) + quota("all", "other", lists="team") + workload(), []),
    "a leaf may be taken as well": (
        quota("all", "other", lists="team") + quota("leaf", "other", parent=False, lists="team") + workload(),
        [],
    ),
    "it names a quota": (quota() + quota("leaf", parent=False) + workload(f"{QUOTA}/name: leaf"), []),
    "a set names one": (
        quota()
        + quota("leaf", parent=False)
        + workload(annotations="scheduling.grove.io/koordinator-quota: leaf", kind="PodCliqueSet"),
        [],
    ),
    "there is none": (workload(), []),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_the_quota_of_the_namespace(text: str, expected: list[str]) -> None:
    assert said(text, **ON) == expected


def test_the_gate_decides_whether_there_is_such_a_quota() -> None:
    assert said(quota() + workload(), disableDefaultQuota=True) == []
    assert said(quota() + workload()) == ["unknown"]
