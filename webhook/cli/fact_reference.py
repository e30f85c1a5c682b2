"""The page `docs/reference/facts.md`, made from the parts of the facts, their kinds, and the rules that read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from webhook.cli.fact_reads import parts_read_by
from webhook.cli.rule_reference import every_rule
from webhook.model.facts import ClusterFacts
from webhook.model.kept_fields import POD_FIELDS
from webhook.model.keys import Needed
from webhook.model.kueue.projections import FOLLOWED, WORKLOADS
from webhook.model.node_growth import GROWTH
from webhook.offline.fact_supply import kubectl_of, projections_by_part, resources_of
from webhook.offline.stock_runtimes import STOCK_RUNTIMES, VERSION
from webhook.reports.rule_pages import rule_place

_HEAD = """\
# Facts

Made by `scripts/reference`. A rule asks for facts about the cluster: whether a queue exists, which layers a topology
has. In a cluster Rollcall watches them. Elsewhere they are supplied in one of these ways:

* `rollcall facts -o DIR` writes everything in this list that you may read, and `--facts DIR` reads it. Repeat it when
  the cluster changes; the folder can be kept in Git.
* `--live` reads it from the cluster when the command runs, with your own rights.
* `--facts` also reads manifests that are written by hand or by `kubectl get KIND -A -o yaml`.
* Some objects in the checked files count, too: namespaces, runtimes, queues, gang objects, TrainJobs. The cluster may
  have more of them, so none is said to be missing, except for gang objects and workloads in a namespace of which the
  files have some.

A fact is *unknown* until there is an object of its kind or an empty list of it. A rule that needs an unknown fact
neither passes nor refuses: it is *not judged*, and the line says which command supplies the fact. In a cluster that was
read with `--live` the line names the missing right, or says that the cluster does not serve the kind.

`rollcall facts` writes only the fields that are listed here. Of annotations it writes those of Rollcall, Grove, the
schedulers and the workload controllers, and those whose name contains "queue". It reads no Secret, and of ConfigMaps
only whether the Cluster Autoscaler has written its status. Of pods and pod templates it writes no image, command,
environment or volume, but only: {pod}.
"""
# The parts that only a server or a reconciler fills, and those that say something about the others.
_NOT_SUPPLIED = frozenset(
    {"gang_objects", "unread_gang_kinds", "kubernetes", "partial", "whole_namespaces", "unread", "origins"}
)
# Who asks besides rules.
_ALSO = {
    "namespaces": "the choice of the scheduler, enforcement",
    "pod_clique_sets": "the preparation of pods",
    "pod_gangs": "the preparation of pods",
    "pod_gang_maps": "the preparation of pods",
    "bound_gangs": "the adoption of a set that predates Rollcall",
    "jobs": "the preparation of pods",
    "job_sets": "the preparation of pods",
    "leader_worker_sets": "the preparation of pods",
    "train_jobs": "the preparation of pods",
    "topology_bindings": "the gang objects, whether a gang can ever fit",
    **dict.fromkeys(
        (
            "nodes",
            *(projection.part for projection in GROWTH),
            "elastic_quotas",
            "volcano_queues",
            "kai_queues",
            "network_topologies",
            "hyper_nodes",
            "kai_topologies",
            "resource_quotas",
            "limit_ranges",
            "resource_slices",
            "device_classes",
            "resource_claim_templates",
            "resource_claims",
        ),
        "whether a gang can ever fit",
    ),
    "training_runtimes": "the same rules as ClusterTrainingRuntime",
    **dict.fromkeys((projection.part for projection in (*FOLLOWED, WORKLOADS)), "why a gang is held"),
    **dict.fromkeys(("node_pods", "node_reservations"), "the estimate of `rollcall fit`; never the webhook"),
    "spec_fields": "whether a scheduler's kinds have the fields that Rollcall writes",
}
_TITLES = {
    "bound_gangs": "PodGangs with a pod on a node",
    "group_sizes": "Pods of each group in the same files",
    "file_groups": "PodGroups in the same files",
    "pods_gangs": "Gangs that pods in the same files describe without a PodGroup",
    "gang_sizes": "Pods of workloads that own a PodGroup in the same files",
    "node_pods": "Pods on nodes",
    "node_reservations": "Reservations of Koordinator",
    "group_pods": "Pods that wait for a node in a group",
    "apis": "Served kinds",
    "spec_fields": "Field names of kinds",
}
_SAID = {
    "bound_gangs": "one pod for each PodGang: its name, `metadata.labels[grove.io/podgang]`, and that it has a node",
    **dict.fromkeys(("node_pods", "node_reservations"), "nothing"),
    **dict.fromkeys(("group_sizes", "file_groups", "pods_gangs", "gang_sizes"), "nothing"),
    "apis": "a list of APIGroupDiscovery: group, version, kind, plural and scope of the kinds of Grove, the schedulers "
    "and the workloads",
    "spec_fields": "CustomResourceDefinitions with the names of the fields and nothing else",
}


def reference() -> str:
    """Return the page: the facts one by one, and the runtimes that are known without a cluster."""
    asked = _rules_by_part()
    parts = [part.name for part in fields(ClusterFacts) if part.name not in _NOT_SUPPLIED]
    lines = [_HEAD.format(pod=_listed(POD_FIELDS))]
    lines += [line for part in parts for line in (*_section(part, asked.get(part, [])), "")]
    return "\n".join((*lines, *_runtimes())) + "\n"


def _rules_by_part() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for rule in every_rule():
        for part in sorted(parts_read_by(rule)):
            found.setdefault(part, []).append(f"[{rule.id}](rules/{rule_place(rule.id)})")
    return found


def _section(part: str, rules: list[str]) -> Iterator[str]:
    """Yield the lines about one fact: its kind, who asks, how to supply it by hand, and what is written."""
    resources = resources_of(part)
    yield f"## {_TITLES.get(part) or Needed(part)}"
    yield ""
    if resources:
        yield f"* kind: {_listed(resource.qualified for resource in resources)}"
    asked = [*([_ALSO[part]] if part in _ALSO else []), *rules]
    yield f"* asked for by: {', '.join(asked)}"
    if (command := kubectl_of(part)) is not None:
        yield f"* by hand: `{command}`"
    yield f"* written: {', '.join(_written(part))}"


def _written(part: str) -> Iterator[str]:
    """Yield the fields that are written, with those of a pod template as one."""
    if part in _SAID:
        yield _SAID[part]
        return
    paths = [path for one in projections_by_part().get(part, ())[:1] for path in one.fields]
    mark = ".containers.resources"
    pods = tuple(path.removesuffix(mark) for path in paths if path.endswith(mark))
    for path in paths:
        if not path.startswith(tuple(f"{pod}." for pod in pods)):
            yield f"`{path}`"
    yield from (f"the fields of the pod in `{pod}`" for pod in pods)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def _runtimes() -> Iterator[str]:
    yield "## Runtimes that are known without a cluster"
    yield ""
    yield f"If nothing else tells the ClusterTrainingRuntimes, those that Trainer {VERSION} installs are assumed:"
    yield f"{_listed(STOCK_RUNTIMES)}."
    yield "A verdict that rests on one of them has a note. Any other runtime is unknown until it is supplied."
