"""What a scheduler wants of a pod and a judgement leaves out: *never* holds without it, and *fits* is not said.

Required pod affinity and most topology spread constraints prove nothing, because pods of other workloads can make them
easier. They may still keep a gang from the placement that was found. Source: Kubernetes 1.37,
pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/filtering.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.fit.pods import Spread
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.podtemplate import PodTemplate


def affinity_left_out(template: PodTemplate) -> Iterator[str]:
    """Yield the required pod affinity of a template, in words. Raises `Malformed`."""
    affinity = mapping(mapping(template.spec.get("affinity")).get("podAffinity"))
    if sequence(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")):
        yield "the required pod affinity of the pods"


def spread_left_out(template: PodTemplate, judged: tuple[Spread, ...]) -> Iterator[str]:
    """Yield the topology spread constraints that are not among those `judged`, in words. Raises `Malformed`."""
    constraints = map(mapping, sequence(template.spec.get("topologySpreadConstraints")))
    binding = sum(one.get("whenUnsatisfiable") == "DoNotSchedule" for one in constraints)
    if binding > len(judged):
        yield "the topology spread constraints of the pods"


def overhead_left_out(template: PodTemplate) -> Iterator[str]:
    """Yield the overhead that the API server adds to pods of a RuntimeClass, in words. Raises `Malformed`."""
    if text(template.spec.get("runtimeClassName")) is not None and not template.spec.get("overhead"):
        yield "the overhead of the RuntimeClass of the pods"
