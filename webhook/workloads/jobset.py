"""JobSet: a read view over a JobSet. Its replicated Jobs are one gang, or each is a gang if they start in turn.

Source: kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go, pkg/webhooks (v0.12.0); for `spec.scheduling`, its
KEP-969 and test/integration (gate JobSetWorkloadAwareSchedulingAPI, not in v0.12.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from webhook.model.capabilities import Use
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath, Item
from webhook.model.known_kinds import JOB_SETS
from webhook.model.reading import Malformed, integer, mapping, sequence, text
from webhook.workloads.job import job_counts, pods_at_once, tail
from webhook.workloads.opted_in_workload import Hindrance, OptedInWorkload, Part, SchedulingBlock, template_at

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
# With this annotation JobSet's webhook does not change the pods.
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"


class JobSet(OptedInWorkload):
    """A JobSet (jobset.x-k8s.io/v1alpha2)."""

    resource = JOB_SETS
    default_controller = "jobset.sigs.k8s.io/jobset-controller"

    def _read_parts(self) -> Iterator[Part]:
        before: tuple[str, ...] = ()
        for index, raw in enumerate(sequence(self.spec.get("replicatedJobs"))):
            if raw is None:
                # The API server does not drop null from a list.
                raise Malformed(raw, "an object")
            replicated = mapping(raw)
            name = text(replicated.get("name")) or ""
            path = SPEC / "replicatedJobs" / Item(index, name or None)
            job = mapping(mapping(replicated.get("template")).get("spec"))
            replicas = integer(replicated.get("replicas"))
            each = pods_at_once(job)
            # In order, each part waits for the part before it, and so for all earlier parts. Listing all of them would
            # take quadratic space.
            after = before if self.starts_in_order else _names(replicated.get("dependsOn"))
            place = path / "template" / "spec" / "template"
            template = template_at(mapping(job.get("template")), place)
            yield Part(name, path, place, template, (1 if replicas is None else replicas) * each, each, after)
            before = (name,)

    @property
    def starts_in_order(self) -> bool:
        """Whether each part waits for the part before it."""
        return text(mapping(self.spec.get("startupPolicy")).get("startupPolicyOrder")) == "InOrder"

    @property
    def sequence_path(self) -> FieldPath | None:
        """The path of `InOrder`, or of any `dependsOn`: a JobSet with `dependsOn` still says AnyOrder."""
        if self.starts_in_order:
            return SPEC / "startupPolicy" / "startupPolicyOrder"
        return next((part.path / "dependsOn" for part in self.parts if part.after), None)

    @cached_property
    def mentions(self) -> set[str]:
        """As for every workload, and the names of the annotations of its Jobs. Raises `Malformed`."""
        jobs = (mapping(self.job_metadata(index).get("annotations")) for index in range(len(self.parts)))
        return super().mentions.union(*jobs)

    @cached_property
    def native_path(self) -> FieldPath | None:
        """The path of `spec.scheduling` of the JobSet or of one of its Jobs."""
        for index, part in enumerate(self.parts):
            if self.job_spec(index).get("scheduling") is not None:
                return super().native_path or part.path / "template" / "spec" / "scheduling"
        return super().native_path

    def scheduling_blocks(self) -> Iterator[SchedulingBlock]:
        """Yields what the JobSet asks for as a whole, for replicated Jobs and for each Job, and what Jobs ask for."""
        for whole in super().scheduling_blocks():
            yield whole
            entries = whole.spec.get("replicatedJobs")
            for index, entry in enumerate(entries if isinstance(entries, list) else ()):
                if not isinstance(entry, Mapping):
                    continue
                targets = entry.get("targetReplicatedJobs")
                parts = tuple(map(str, targets)) if isinstance(targets, list) else ()
                path = whole.path / "replicatedJobs" / Item(index, None)
                yield SchedulingBlock(path, entry, parts)
                if isinstance(job := entry.get("job"), Mapping):
                    yield SchedulingBlock(path / "job", job, parts, per_job=True)
        for index, part in enumerate(self.parts):
            if isinstance(scheduling := self.job_spec(index).get("scheduling"), Mapping):
                yield SchedulingBlock(part.path / "template" / "spec" / "scheduling", scheduling, (part.name,), True)

    def follows(self, part: Part) -> Iterator[str]:
        """Yields the names that a part waits for, also indirectly. A name may occur twice: each is one step."""
        seen: set[str] = set()
        waiting = list(part.after)
        while waiting:
            name = waiting.pop()
            yield name
            if name in self._parts_by_name and name not in seen:
                seen.add(name)
                waiting += self._parts_by_name[name].after

    def done_before(self, part: Part, followed: Iterable[str]) -> frozenset[str]:
        """Returns the parts whose pods are finished when a part starts. `followed` are those that it follows."""
        return frozenset(name for waiting in (part.name, *followed) for name in self._completed.get(waiting, ()))

    @cached_property
    def _completed(self) -> dict[str, tuple[str, ...]]:
        """By part, the parts that it waits for until they are complete. Others are only ready."""
        completed = {}
        for part, raw in zip(self.parts, sequence(self.spec.get("replicatedJobs")), strict=True):
            waits = map(mapping, () if self.starts_in_order else sequence(mapping(raw).get("dependsOn")))
            completed[part.name] = tuple(
                text(dependency.get("name")) or "" for dependency in waits if dependency.get("status") == "Complete"
            )
        return completed

    @cached_property
    def _parts_by_name(self) -> dict[str, Part]:
        return {part.name: part for part in self.parts}

    def job_metadata(self, index: int) -> Mapping[str, Any]:
        """Returns the metadata of a part's Jobs."""
        return mapping(self._template(index).get("metadata"))

    def _template(self, index: int) -> Mapping[str, Any]:
        return mapping(mapping(sequence(self.spec.get("replicatedJobs"))[index]).get("template"))

    def job_spec(self, index: int) -> Mapping[str, Any]:
        """Returns the spec of a part's Jobs."""
        return mapping(self._template(index).get("spec"))

    def counts(self) -> Iterator[tuple[FieldPath, int | None]]:
        """Yields the `replicas` of its replicated Jobs, and the numbers of their Jobs."""
        for part, raw in zip(self.parts, sequence(self.spec.get("replicatedJobs")), strict=True):
            yield part.path / "replicas", integer(mapping(raw).get("replicas"))
            job = mapping(mapping(mapping(raw).get("template")).get("spec"))
            yield from job_counts(job, part.path / "template" / "spec")

    def _read_hindrances(self) -> Iterator[Hindrance]:
        every = sum(part.pods for part in self.parts)
        at_once = self.sequence_path is None
        for index, part in enumerate(self.parts):
            if part.each > 1 and (use := self._exclusive(index, part)) is not None:
                yield Hindrance(
                    "owner/exclusive-topology",
                    use.path,
                    use.value,
                    f"JobSet creates the other {part.each - 1} pods of a Job only when the first is on a node, but a "
                    "gang scheduler puts no pod on a node before all pods exist",
                    f"remove the annotation, or assign the Jobs to nodes yourself and add {NODE_SELECTOR}",
                )
            yield from tail(self.job_spec(index), part.path / "template" / "spec", every if at_once else part.pods)

    def _exclusive(self, index: int, part: Part) -> Use | None:
        """Returns the annotation that asks for a part's exclusive topology, if JobSet's webhook enforces it. The other
        annotation is read only next to the first. The pods get the annotations of the JobSet and of the Job together.
        """
        job_annotations = mapping(self.job_metadata(index).get("annotations"))
        path = part.path / "template" / "metadata" / "annotations"
        stated = [
            (holder, at)
            for holder, at in ((job_annotations, path), (self.annotations, ANNOTATIONS))
            if EXCLUSIVE in holder
        ]
        if not stated or any(NODE_SELECTOR in holder for holder, _ in stated):
            return None
        holder, at = stated[0]
        return Use(at / EXCLUSIVE, holder[EXCLUSIVE])


def _names(depends_on: object) -> tuple[str, ...]:
    return tuple(text(mapping(entry).get("name")) or "" for entry in sequence(depends_on))
