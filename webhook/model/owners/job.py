"""Job: a read view over a batch/v1 Job, whose pods are one gang where all of them run at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.fields import SPEC, FieldPath
from webhook.model.owners.kinds import JOBS
from webhook.model.owners.workload import Hindrance, OwnedWorkload, Part, template_at
from webhook.model.reading import integer, mapping

_WHY_TAIL = (
    "the pods that come when others are done are fewer than the gang starts with, so the last of them never start"
)


class Job(OwnedWorkload):
    """A Job (batch/v1)."""

    resource = JOBS

    def _read_parts(self) -> Iterator[Part]:
        pods = pods_at_once(self.spec)
        path = SPEC / "template"
        yield Part("", SPEC, path, template_at(mapping(self.spec.get("template")), path), pods, pods)

    @property
    def native_path(self) -> FieldPath | None:
        """`spec.scheduling`, in Kubernetes 1.37 with the gate WorkloadWithJob."""
        return SPEC / "scheduling" if self.spec.get("scheduling") is not None else None

    def hindrances(self) -> Iterator[Hindrance]:
        """More completions than pods at a time."""
        yield from tail(self.spec, SPEC)


def parallelism(spec: Mapping[str, Any]) -> int:
    """How many pods a Job's spec lets run at a time."""
    found = integer(spec.get("parallelism"))
    return 1 if found is None else found


def pods_at_once(spec: Mapping[str, Any]) -> int:
    """How many pods a Job's spec makes at a time."""
    completions = integer(spec.get("completions"))
    return parallelism(spec) if completions is None else min(parallelism(spec), completions)


def tail(spec: Mapping[str, Any], path: FieldPath) -> Iterator[Hindrance]:
    """The hindrance of a Job that replaces the pods that are done until there were enough of them.

    Source: kubernetes, pkg/controller/job; KAI-Scheduler issue 1347.
    """
    completions = integer(spec.get("completions"))
    if completions is not None and 1 < parallelism(spec) < completions:
        yield Hindrance(
            "owner/completions",
            path / "completions",
            completions,
            f"only {parallelism(spec)} pods run at a time: {_WHY_TAIL}",
            "set completions and parallelism to the same number",
        )
