"""JobSet: a read view over a JobSet, whose replicated Jobs are one gang, or one each where they start in turn.

Source: kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go, pkg/webhooks (v0.12.0).
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath, Item
from webhook.model.owners.job import parallelism, pods_at_once, tail
from webhook.model.owners.kinds import JOB_SETS
from webhook.model.owners.workload import Hindrance, OwnedWorkload, Part, template_at
from webhook.model.reading import integer, mapping, sequence, text

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
# With it JobSet's webhook leaves the pods alone.
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"


class JobSet(OwnedWorkload):
    """A JobSet (jobset.x-k8s.io/v1alpha2)."""

    resource = JOB_SETS

    def _read_parts(self) -> Iterator[Part]:
        before: list[str] = []
        for index, raw in enumerate(sequence(self.spec.get("replicatedJobs"))):
            replicated = mapping(raw)
            name = text(replicated.get("name")) or ""
            path = SPEC / "replicatedJobs" / Item(index, name or None)
            job = mapping(mapping(replicated.get("template")).get("spec"))
            replicas = integer(replicated.get("replicas"))
            each = pods_at_once(job)
            after = tuple(before) if self._in_order else _names(replicated.get("dependsOn"))
            place = path / "template" / "spec" / "template"
            template = template_at(mapping(job.get("template")), place)
            yield Part(name, path, place, template, (1 if replicas is None else replicas) * each, each, after)
            before.append(name)

    @property
    def _in_order(self) -> bool:
        return mapping(self.spec.get("startupPolicy")).get("startupPolicyOrder") == "InOrder"

    @property
    def sequence_path(self) -> FieldPath | None:
        """`InOrder`, or any `dependsOn`: a JobSet that uses that still says AnyOrder."""
        if self._in_order:
            return SPEC / "startupPolicy" / "startupPolicyOrder"
        return next((part.path / "dependsOn" for part in self.parts if part.after), None)

    @property
    def native_path(self) -> FieldPath | None:
        """`spec.scheduling`, which JobSet's KEP-969 brings."""
        return SPEC / "scheduling" if self.spec.get("scheduling") is not None else None

    def hindrances(self) -> Iterator[Hindrance]:
        """Exclusive topology, and Jobs that replace the pods that are done."""
        for index, part in enumerate(self.parts):
            if part.each > 1 and (at := self._exclusive(index, part)) is not None:
                yield Hindrance(
                    "owner/exclusive-topology",
                    at,
                    "exclusive-topology",
                    f"JobSet lets the other {part.each - 1} pods of a Job be created when the first is on a node, and "
                    "a gang puts none on a node before all are there",
                    f"remove the annotation, or pin the Jobs yourself and add {NODE_SELECTOR}",
                )
            job = mapping(
                mapping(mapping(sequence(self.spec.get("replicatedJobs"))[index]).get("template")).get("spec")
            )
            if parallelism(job) > 1:
                yield from tail(job, part.path / "template" / "spec")

    def _exclusive(self, index: int, part: Part) -> FieldPath | None:
        """Where a part's exclusive topology is asked for, if JobSet's webhook enforces it."""
        job = mapping(mapping(sequence(self.spec.get("replicatedJobs"))[index]).get("template"))
        own = mapping(mapping(job.get("metadata")).get("annotations"))
        for holder, path in (
            (own, part.path / "template" / "metadata" / "annotations"),
            (self.annotations, ANNOTATIONS),
        ):
            if holder.get(EXCLUSIVE) and not holder.get(NODE_SELECTOR):
                return path / EXCLUSIVE
        return None


def _names(depends_on: object) -> tuple[str, ...]:
    return tuple(text(mapping(one).get("name")) or "" for one in sequence(depends_on))
