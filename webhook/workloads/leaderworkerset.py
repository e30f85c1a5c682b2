"""LeaderWorkerSet: a read view over an LWS. Each group of a leader and its workers is a gang.

Source: kubernetes-sigs/lws, api/leaderworkerset/v1/leaderworkerset_types.go, pkg/webhooks/pod_webhook.go (v0.9).
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath
from webhook.model.known_kinds import LEADER_WORKER_SETS
from webhook.model.reading import integer, mapping, text
from webhook.workloads.opted_in_workload import Hindrance, OptedInWorkload, Part, template_at

EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
_TEMPLATE = SPEC / "leaderWorkerTemplate"


class LeaderWorkerSet(OptedInWorkload):
    """A LeaderWorkerSet (leaderworkerset.x-k8s.io/v1)."""

    resource = LEADER_WORKER_SETS

    @property
    def size(self) -> int:
        """The number of pods in a group, including its leader."""
        size = integer(mapping(self.spec.get("leaderWorkerTemplate")).get("size"))
        return 1 if size is None else size

    @property
    def replicas(self) -> int:
        """How many groups there are."""
        replicas = integer(self.spec.get("replicas"))
        return 1 if replicas is None else replicas

    def _read_parts(self) -> Iterator[Part]:
        templates = mapping(self.spec.get("leaderWorkerTemplate"))
        worker = mapping(templates.get("workerTemplate"))
        # Without its own template the leader uses the workers' template.
        field = "workerTemplate" if templates.get("leaderTemplate") is None else "leaderTemplate"
        place = _TEMPLATE / field
        leader = template_at(mapping(templates.get(field)), place)
        yield Part("leader", _TEMPLATE, place, leader, self.replicas, 1)
        place = _TEMPLATE / "workerTemplate"
        workers = self.size - 1
        if workers > 0:
            yield Part("worker", _TEMPLATE, place, template_at(worker, place), self.replicas * workers, workers)

    def counts(self) -> Iterator[tuple[FieldPath, int | None]]:
        """Yields its `replicas`; its `size` is at least 1."""
        yield SPEC / "replicas", integer(self.spec.get("replicas"))

    def _read_hindrances(self) -> Iterator[Hindrance]:
        if self.size < 2:  # noqa: PLR2004 - a leader without workers does not wait
            return
        policy = text(self.spec.get("startupPolicy"))
        if policy == "LeaderReady":
            yield Hindrance(
                "owner/leader-ready",
                SPEC / "startupPolicy",
                policy,
                f"the {self.size - 1} workers are created only when the leader is ready, but a gang scheduler puts "
                "the leader on a node only when all pods exist",
                "set startupPolicy to LeaderCreated",
            )
        if self.annotations.get(EXCLUSIVE):
            yield Hindrance(
                "owner/exclusive-topology",
                ANNOTATIONS / EXCLUSIVE,
                self.annotations[EXCLUSIVE],
                f"LeaderWorkerSet creates the {self.size - 1} workers only when the leader is on a node, but a gang "
                "scheduler puts the leader on a node only when all pods exist",
                "remove the annotation",
            )
