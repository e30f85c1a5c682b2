"""Verdicts on the first gang of a workload that stands as YAML beside the objects of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.fit.trap_world import FIXED, backend_of
from tests.unit.worlds import settings_of
from webhook.fit.verdict import FitVerdict
from webhook.model.facts import NO_FACTS
from webhook.model.reading import Manifest
from webhook.offline.fit_report import FitEntry, entries_of
from webhook.offline.judgement import kind_of
from webhook.offline.manifests import read_text
from webhook.offline.worlds import one_world
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet


def entry(text: str, scheduler: str = "coscheduling", config: Manifest | None = None) -> FitEntry | None:
    """The first gang of the last object in a YAML text; None if no gang is judged."""
    settings = replace(settings_of(backend_of(scheduler, config).name, config or {}), fit=FIXED)
    documents = read_text(text, "all.yaml")
    facts = replace(one_world(NO_FACTS, documents, settings.kinds), partial=None)
    raw: Any = documents[-1].manifest
    views = {**settings.kinds.views, ("grove.io", "PodCliqueSet"): PodCliqueSet}
    workload = views[kind_of(raw)[::2]](raw)
    assert isinstance(workload, OptedInWorkload | PodCliqueSet)
    return next(entries_of(workload, settings.profiles[settings.default], facts, settings), None)


def verdict(text: str, scheduler: str = "coscheduling", config: Manifest | None = None) -> FitVerdict:
    """The verdict on that gang."""
    found = entry(text, scheduler, config)
    assert found is not None
    return found.verdict


def node(amounts: str = "cpu: '8', memory: 64Gi, pods: '110'", name: str = "n1", taints: str = "") -> str:
    """A node as a document."""
    return (
        f"{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}, "
        f"spec: {{taints: [{taints}]}}, status: {{allocatable: {{{amounts}}}, capacity: {{{amounts}}}}}}}\n---\n"
    )


NO_LIMITS = """\
{apiVersion: v1, kind: ResourceQuotaList, items: []}
---
{apiVersion: v1, kind: LimitRangeList, items: []}
---
"""


def job(requests: str = "cpu: '1'", *, pods: int = 2, pod: str = "", labels: str = "", annotations: str = "") -> str:
    """A Job in the namespace team as a document."""
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, namespace: team, labels: {{{labels}}}, "
        f"annotations: {{{annotations}}}}}\nspec:\n  parallelism: {pods}\n  completions: {pods}\n  template:\n"
        f"    spec: {{restartPolicy: Never, {pod} "
        f"containers: [{{name: c, resources: {{requests: {{{requests}}}}}}}]}}\n"
    )
