"""A gang of a leader and two workers, and its health."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tests.unit.worlds import koordinator
from webhook.config.settings import Settings
from webhook.gangs.health import GangHealth, Observed, judge
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.members import GangPod, Roster, read_gang_pod
from webhook.gangs.object_plan import GangPlan, add_digest, plan
from webhook.gangs.pod_reasons import Anchors
from webhook.gangs.waiting_gang import RoomJudge
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.reading import Manifest
from webhook.mutators.prepare_pod import stamp
from webhook.workloads.pod_clique_set import PodCliqueSet

FACTS = ClusterFacts(
    pod_clique_sets={("default", "demo"): Record("koord-scheduler")},
    elastic_quotas={},
    topology_bindings={},
    network_topologies={},
    priority_classes={},
    namespaces={},
    apis=frozenset({Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")}),
)


def podgang(**metadata: Any) -> Manifest:
    groups = [
        {
            "name": name,
            "minReplicas": minimum,
            "podReferences": [{"namespace": "default", "name": f"{name}-{index}"} for index in range(minimum)],
        }
        for name, minimum in (("demo-0-leader", 1), ("demo-0-worker", 2))
    ]
    labels = {"app.kubernetes.io/part-of": "demo", **metadata.pop("labels", {})}
    return {
        "metadata": {"name": "demo-0", "namespace": "default", "uid": "g", "labels": labels, **metadata},
        "spec": {"podgroups": groups},
    }


def pod(clique: str, index: int, **changes: Any) -> GangPod:
    """A pod as koord-scheduler's webhook answer leaves it."""
    name = f"demo-0-{clique}-{index}"
    labels = {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "demo",
        "grove.io/podgang": "demo-0",
        "grove.io/podclique": f"demo-0-{clique}",
        "pod-group.scheduling.sigs.k8s.io": f"demo-0-{clique}",
    }
    spec: dict[str, Any] = {"schedulerName": "koord-scheduler", "containers": [{"name": "main"}]}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels, "annotations": {}}
    raw: dict[str, Any] = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    _, found = read_gang_pod(raw)
    return found._replace(**{"annotations": {"rollcall.dev/stamp": _stamp(found)}, **changes})


def _stamp(found: GangPod) -> str:
    settings = koordinator(standalone=False)
    profile = settings.profiles["koord-scheduler"]
    member = profile.member("default", found.podgang, found.podclique, Record("koord-scheduler"), FACTS)
    return stamp(profile.backend.prepare_pod(member), gated=False)


def whole(**changes: Any) -> list[GangPod]:
    return [pod("leader", 0, **changes), pod("worker", 0, **changes), pod("worker", 1, **changes)]


def in_step(gang: Manifest | None = None, settings: Settings | None = None) -> dict[str, Manifest]:
    """The gang's objects by name, as they are once they were written."""
    planned = plan(PodGang(gang or podgang()), FACTS, settings or koordinator(standalone=False))
    assert isinstance(planned, GangPlan)
    return {one["metadata"]["name"]: add_digest(planned.profile.backend.adopt(one, None)) for one in planned.objects}


def judged(
    pods: list[GangPod] | Roster,
    objects: Mapping[str, Manifest] | None = None,
    *,
    anchors: Anchors | None = None,
    now: datetime = datetime.max.replace(tzinfo=UTC),  # noqa: B008 - it never changes
    **observations: Any,
) -> GangHealth:
    """The health of a gang of which this is observed."""
    return judge(observed(pods, objects, **observations)._replace(anchors=anchors, now=now))


def observed(
    pods: list[GangPod] | Roster,
    objects: Mapping[str, Manifest] | None = None,
    *,
    gang: Manifest | None = None,
    workload: Manifest | None = None,
    facts: ClusterFacts = FACTS,
    settings: Settings | None = None,
    fits: RoomJudge | None = None,
) -> Observed:
    known = in_step() if objects is None else objects
    found = None if workload is None else PodCliqueSet(workload)
    live: Callable[[Manifest], Manifest | None] = lambda one: known.get(one["metadata"]["name"])  # noqa: E731
    return Observed(
        PodGang(gang or podgang()),
        pods if isinstance(pods, Roster) else Roster(pods),
        live,
        list(known.values()),
        found,
        facts,
        settings or koordinator(standalone=False),
        fits=fits,
    )


def reasons(found: GangHealth) -> list[GangReason]:
    return [one.reason for one in found.obstacles]
