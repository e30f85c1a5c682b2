"""The traps about what controllers and queues make of a workload: labels, minimums, quotas. They go on with the numbers
of the design.
"""

from __future__ import annotations

from typing import Any

from tests.unit.fit.test_kueue_quotas import GPU, PLENTY, QUEUED, of, queues
from tests.unit.fit.test_volcano_jobs import job as volcano_job
from tests.unit.fit.test_volcano_jobs import task
from tests.unit.fit.trap_world import Mutant, instead, trap
from tests.unit.fit.workload_fits import NO_LIMITS, job, node, verdict
from webhook.fit.verdict import FitAnswer
from webhook.model.kueue_objects import ClusterQueue
from webhook.model.quantity import parse_quantity
from webhook.model.reading import mapping

_BIG = node(f"cpu: '64', memory: 64Gi, pods: '110', {GPU}: '64'") + NO_LIMITS


def _may_start(text: str, *where: Any) -> None:
    found = verdict(text, *where)
    assert found.answer is not FitAnswer.NEVER, found.witness


def _is_never(text: str, *where: Any) -> None:
    assert verdict(text, *where).answer is FitAnswer.NEVER


def _without_cohort(limits: Any) -> Any:
    return lambda resource, name, queue: limits(resource, name, ClusterQueue(quotas=queue.quotas))


@trap(50, Mutant("webhook.fit.ceilings._limits", _without_cohort))
def a_cohort_lends_what_a_cluster_queue_lacks() -> None:
    asks, quota = job(f"{GPU}: '8'", labels=QUEUED), f"{PLENTY}, {of(GPU, '8')}"
    _may_start(f"{queues(quota, cohort='cohortName: all')}{_BIG}{asks}")
    _is_never(f"{queues(quota)}{_BIG}{asks}")


def _every_pod(shape_of: Any) -> Any:
    def made(workload: Any, scheduler: str) -> Any:
        (shape,) = shape_of(workload, scheduler)
        return [shape._replace(members=tuple(one._replace(minimum=one.pods) for one in shape.members))]

    return made


@trap(51, Mutant("webhook.fit.gang_shapes._volcano_shapes", _every_pod))
def volcano_starts_a_job_with_its_minimum_and_skips_those_of_tasks_which_are_more() -> None:
    _may_start(volcano_job(task("a", 9)), "volcano")
    most = "minAvailable: 3,"
    _may_start(volcano_job(task("a", 3, more=most), task("b", 3, more=most)), "volcano")
    _is_never(volcano_job(task("a", 3), spec="minAvailable: 3, queue: large"), "volcano")


def _as_written(stated: Any) -> Any:
    return {name: parse_quantity(amount) for name, amount in mapping(stated).items()}


@trap(52, instead("webhook.model.quantity.exact_amounts", _as_written))
def no_cluster_has_a_negative_limit() -> None:
    limit = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: team}, spec: {hard: {cpu: MOST}}}"
    limit += "\n---\n"
    _may_start(f"{limit.replace('MOST', '-1')}{node()}{job()}")
    _is_never(f"{limit.replace('MOST', '1')}{node()}{job()}")


def _of_one(written: Any) -> Any:
    return lambda self, clique, labels: {**written(self, clique, labels), "grove.io/podclique": "demo-0-x-0-a"}


_PAIRS = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo}
spec:
  replicas: 1
  template:
    cliques:
    - name: a
      spec:
        replicas: PODS
        minAvailable: PODS
        podSpec:
          containers: [{name: c, resources: {requests: {cpu: "1"}}}]
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - {topologyKey: kubernetes.io/hostname, labelSelector: {}, matchLabelKeys: [grove.io/podclique]}
    podCliqueScalingGroups: [GROUPS]
"""


@trap(53, Mutant("webhook.fit.gang_shapes._SetShapes._written", _of_one))
def the_replicas_of_a_scaling_group_have_cliques_of_their_own() -> None:
    groups = "{name: x, cliqueNames: [a], replicas: 2, minAvailable: 2}"
    _may_start(f"{_BIG}{_PAIRS.replace('PODS', '1').replace('GROUPS', groups)}")
    _is_never(f"{_BIG}{_PAIRS.replace('PODS', '2').replace('GROUPS', '')}")


_QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: build}, value: 100}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: train}, value: 50}
---
"""


def _in_queue(pod: str = "priorityClassName: build,", labels: str = "") -> str:
    """Two pods of one GPU in a queue with a quota of one."""
    both = "kai.scheduler/batch-min-member: '2'"
    return _QUEUE + _BIG + job(f"{GPU}: '1'", pod=pod, labels=f"kai.scheduler/queue: team, {labels}", annotations=both)


@trap(54, instead("webhook.backends.kai.backend._has_such_class", lambda *_: True))
def kai_reads_the_class_of_a_label_before_that_of_the_pod_and_none_that_does_not_exist() -> None:
    _is_never(_in_queue(), "kai")
    _is_never(_in_queue("priorityClassName: train,", "priorityClassName: build"), "kai")
    _may_start(_in_queue(labels="priorityClassName: train"), "kai")
    _may_start(_in_queue(labels="kai.scheduler/preemptibility: preemptible"), "kai")
    _may_start(_in_queue("priorityClassName: gone,"), "kai")
    _may_start(_in_queue(""), "kai")
