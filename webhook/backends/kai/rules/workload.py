"""What kai-scheduler would mishandle silently. Queues and topology have their own files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from webhook.backends import families
from webhook.backends.kai.keys import GROUP_MARK, LABEL_PREEMPTIBILITY, POD_GROUP, PREEMPTIBILITIES
from webhook.backends.kai.settings import RuleContext
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath
from webhook.model.findings import Finding
from webhook.model.known_objects import PodGangFacts
from webhook.model.reading import text
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.membership import has_gangs
from webhook.validators.pod_guard import HasAnnotation, sees
from webhook.validators.registry import Change, Example, Results, Subject, rule

foreign_member = families.foreign_member(
    "kai/foreign-member",
    "kai-scheduler/KAI-Scheduler, pkg/podgrouper/pod_controller.go (a pod without owners, or with "
    "`kai.scheduler/skip-podgrouper`, keeps the group that it names).",
    POD_GROUP,
    GROUP_MARK,
)


claimed_pods = families.claimed_pods(
    "kai/claimed-pods",
    source="kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info: a pod has one group and one subgroup.",
    annotations={"pod-group-name": "training"},
)


priority_class = families.priority_class(
    "kai/priority-class",
    """If the class of a PodGroup does not exist, kai-scheduler uses the cluster's default class, without a message. If
    the value of the default class is 100 or more, the gang may not be preempted and may use only its queue's quota.
    With a quota of 0 it never starts.

    Source: kai-scheduler/KAI-Scheduler, pkg/common/podgroup (priority and preemptibility); seen with v0.16.8.
    """,
    why="kai-scheduler would use the cluster's default class instead",
)


@rule(
    "kai/preemptibility",
    subject=Subject.ANY_WORKLOAD,
    fails_closed=True,
    passes=Example(pod_clique_set(labels={LABEL_PREEMPTIBILITY: "non-preemptible"})),
    fails=Example(pod_clique_set(labels={LABEL_PREEMPTIBILITY: "never"})),
)
def preemptibility(workload: PodCliqueSet | OptedInWorkload, _: RuleContext) -> Results:
    """The label says whether the gang may be preempted, regardless of its priority. KAI's CRD refuses a PodGroup with
    any other value, and the gang would wait for a PodGroup that cannot be written.

    Source: the PodGroup CRD of scheduling.run.ai/v2alpha2 (`spec.preemptibility`).
    """
    word = workload.labels.get(LABEL_PREEMPTIBILITY)
    if word is not None and word not in PREEMPTIBILITIES:
        yield Finding(
            at=LABELS / LABEL_PREEMPTIBILITY,
            found=word,
            why="KAI's CRD does not allow this value",
            remedy=f"set it to {' or '.join(PREEMPTIBILITIES)}, or remove the label",
        )


_LIVING = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})


@rule(
    "kai/raised-minimum",
    subject=Subject.CHANGE,
    passes=Example(
        pod_clique_set(clique("worker", replicas=8, minimum=4)),
        old=pod_clique_set(clique("worker", replicas=4, minimum=4)),
        facts=_LIVING,
    ),
    fails=Example(
        pod_clique_set(clique("worker", replicas=8, minimum=8)),
        old=pod_clique_set(clique("worker", replicas=4, minimum=4)),
        facts=_LIVING,
    ),
)
def raised_minimum(change: Change, context: RuleContext) -> Results:
    """A running gang is stale if any leaf has fewer pods than its minimum. 60 seconds later all of its pods are
    evicted, without an event on them. A raised minimum or an added clique makes a gang stale at once.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction, `default-staleness-grace-period`; seen
    with v0.16.8.
    """
    raised = [found for found in _minimums(change) if found.now > found.before]
    if not raised or (living := has_gangs(change.new, context.facts)) is False:
        return
    unknown = "" if living else " (whether it has any PodGang is unknown)"
    for path, what, before, now in raised:
        yield Finding(
            at=path,
            found=now,
            why=f"{what} was {before}, and kai-scheduler evicts a running gang that is below its minimum{unknown}",
            remedy="raise only replicas, or delete and recreate the PodCliqueSet",
            forbidden=True,
        )


class _Minimum(NamedTuple):
    """A minimum before and after an update, what it belongs to, and where it is written."""

    path: FieldPath
    what: str
    before: int
    now: int


def _minimums(change: Change) -> Iterator[_Minimum]:
    """The minimums of all cliques and of the scaling groups that existed before. A new clique had a minimum of 0."""
    cliques = {member.name: member.min_available for member in change.old.cliques}
    for member in change.new.cliques:
        what, before = f"the minimum of clique {member.name}", cliques.get(member.name, 0)
        yield _Minimum(member.path / "spec" / "minAvailable", what, before, member.min_available)
    groups = {group.name: group.min_available for group in change.old.scaling_groups}
    for group in change.new.scaling_groups:
        if group.name in groups:
            what, before = f"the minimum of scaling group {group.name}", groups[group.name]
            yield _Minimum(group.path / "minAvailable", what, before, group.min_available)


_FRACTION, _MEMORY, _DEVICES, _MPS = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "mps"
_PARTS = (_FRACTION, _MEMORY)
# A number of Go that is a quantity, too: no hexadecimal number, no NaN.
_UINT64 = 2**64
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?\Z")
_UNSIGNED = re.compile(r"[0-9]{1,20}\Z")


@rule(
    "kai/gpu-sharing",
    subject=Subject.POD,
    guard=sees(*map(HasAnnotation, (*_PARTS, _DEVICES, _MPS))),
    looks_at=(*_PARTS, _DEVICES, _MPS),
    independent=True,
    passes=Example(pod_clique_set(clique("worker", annotations={"gpu-fraction": "0.5"}))),
    fails=Example(
        pod_clique_set(clique("worker", annotations={"gpu-fraction": "0.5"}, requests={"nvidia.com/gpu": "1"}))
    ),
)
def gpu_sharing(pod: PodTemplate, _: RuleContext) -> Results:
    """KAI's own webhook refuses a pod that requests both a part of a GPU and whole GPUs, or both a fraction and an
    amount of GPU memory; a fraction that is not between 0 and 1, an amount or a number of devices that is not a
    positive whole number; and a number of devices, or MPS, without a part of a GPU. The pods of such a clique are never
    created, and the other pods of its gang wait.

    Source: kai-scheduler/KAI-Scheduler, pkg/admission/webhook/v1alpha2/gpusharing,
    pkg/binder/plugins/gpusharing/gpu-request/gpu_request_validator.go (v0.17.0).
    """
    stated = {key: text(pod.annotations[key]) or "" for key in (*_PARTS, _DEVICES, _MPS) if key in pod.annotations}
    asked = [key for key in _PARTS if key in stated]
    other = ""
    if len(asked) > 1:
        other = "the pod also requests gpu-memory"
    elif asked and (whole := pod.request_of(frozenset({"nvidia.com/gpu"}))) is not None:
        other = f"the pod also requests whole GPUs ({whole.resource})"
    if other:
        yield _refused(pod, asked[0], other, "request only one of the two")
    elif asked:
        yield from _wrong_amounts(pod, stated)
    elif _DEVICES in stated:
        yield _refused(pod, _DEVICES, "the pod requests no part of a GPU", f"add {_FRACTION}, or remove it")
    elif stated.get(_MPS) == "true":
        yield _refused(pod, _MPS, "MPS needs a part of a GPU, and the pod requests none", f"add {_FRACTION}")


def _wrong_amounts(pod: PodTemplate, stated: Mapping[str, str]) -> Iterator[Finding]:
    fraction = stated.get(_FRACTION)
    if fraction is not None and not (_DECIMAL.match(fraction) and 0 < float(fraction) < 1):
        yield _refused(pod, _FRACTION, "it is no number between 0 and 1", "write a part of one GPU, such as 0.5")
    for key in (_MEMORY, _DEVICES):
        if key in stated and not (_UNSIGNED.match(stated[key]) and 0 < int(stated[key]) < _UINT64):
            yield _refused(pod, key, "it is no whole number above 0", "write a positive whole number")


def _refused(pod: PodTemplate, key: str, why: str, remedy: str) -> Finding:
    return Finding(
        at=pod.annotations_path / key,
        found=pod.annotations[key],
        why=f"{why}, and KAI refuses such a pod",
        remedy=remedy,
    )
