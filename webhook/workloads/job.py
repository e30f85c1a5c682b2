"""Job: a read view over a batch/v1 Job. Its pods are one gang if all of them run at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath
from webhook.model.known_kinds import JOBS
from webhook.model.kueue import COMPLETIONS_IN_STEP, MIN_PARALLELISM, parse_bool
from webhook.model.reading import integer, mapping, text
from webhook.workloads.opted_in_workload import Hindrance, OptedInWorkload, Part, template_at

_WHY_TAIL = (
    "the pods that replace finished pods are fewer than the gang needs to start, so the last of them never start"
)


class Job(OptedInWorkload):
    """A Job (batch/v1)."""

    resource = JOBS
    default_controller = "kubernetes.io/job-controller"

    def _read_parts(self) -> Iterator[Part]:
        pods = pods_at_once(self.spec)
        path = SPEC / "template"
        yield Part("", SPEC, path, template_at(mapping(self.spec.get("template")), path), pods, pods)

    def counts(self) -> Iterator[tuple[FieldPath, int | None]]:
        """Returns `parallelism` and `completions` of the Job."""
        return job_counts(self.spec, SPEC)

    def _read_hindrances(self) -> Iterator[Hindrance]:
        # More completions than parallel pods, now or after Kueue has lowered the number of parallel pods.
        yield from tail(self.spec, SPEC, pods_at_once(self.spec))
        least = text(self.annotations.get(MIN_PARALLELISM))
        in_step = parse_bool(self.annotations.get(COMPLETIONS_IN_STEP)) or self.spec.get("completions") is None
        if least is not None and not in_step and least != str(parallelism(self.spec)):
            yield Hindrance(
                "owner/partial-admission",
                ANNOTATIONS / MIN_PARALLELISM,
                least,
                f"Kueue may admit the Job with a parallelism below its completions: {_WHY_TAIL}",
                f'add the annotation {COMPLETIONS_IN_STEP}: "true", or remove this annotation',
            )


def job_counts(spec: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, int | None]]:
    """Returns the numbers of pods that a Job's spec at `path` states."""
    return ((path / field, integer(spec.get(field))) for field in ("parallelism", "completions"))


def parallelism(spec: Mapping[str, Any]) -> int:
    """Returns the number of pods that a Job's spec allows in parallel."""
    count = integer(spec.get("parallelism"))
    return 1 if count is None else count


def pods_at_once(spec: Mapping[str, Any]) -> int:
    """Returns the number of pods that a Job's spec creates at once."""
    completions = integer(spec.get("completions"))
    return parallelism(spec) if completions is None else min(parallelism(spec), completions)


def tail(spec: Mapping[str, Any], path: FieldPath, gang: int) -> Iterator[Hindrance]:
    """Yields the hindrance of a Job that replaces finished pods until its completions are reached. `gang` is the gang's
    number of pods.

    Source: kubernetes, pkg/controller/job; KAI-Scheduler issue 1347.
    """
    completions = integer(spec.get("completions"))
    if gang > 1 and completions is not None and 0 < parallelism(spec) < completions:
        yield Hindrance(
            "owner/completions",
            path / "completions",
            completions,
            f"only {parallelism(spec)} of the pods run at a time: {_WHY_TAIL}",
            "set completions and parallelism to the same number",
        )
