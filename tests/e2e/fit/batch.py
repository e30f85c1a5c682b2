"""Many cases in one control plane: their nodes, gang objects and pods are created, each gang is tried by the scheduler,
and it is seen which have started.

Case i has its own label on its nodes and a nodeSelector on its pods. Gang objects are those that the scheduler's
backend makes of a PodGang.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fit.case import BATCH_LABEL, CASE_LABEL, Case, MemberPlan, named
from tests.e2e.fit.device_claims import DEVICE_CLASS
from tests.e2e.fit.spelling import OVERHEADS
from tests.e2e.gang_writer import path_of, served
from tests.e2e.given_gangs import group, member, podgang, required
from webhook.backends.base import GangMember
from webhook.config.settings import Profile
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record

_MERGE = {"Content-Type": "application/merge-patch+json"}
_numbers = count(1)
# After so long a gang whose pods do not change has been tried, or waits for what never comes.
_QUIET_SECONDS = 1.6
_MOST_SECONDS = 30.0
_THREADS = 6
_INVALID = httpx.codes.UNPROCESSABLE_ENTITY


@dataclass
class Stored:
    """A case in the cluster. `refused` are the messages of refused pods."""

    case: Case
    id: str
    namespace: str
    podgang: Manifest = field(default_factory=dict)
    objects: list[Manifest] = field(default_factory=list)
    pods: list[Manifest] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    # Why its gang objects were not made, if so.
    unwritten: str = ""

    @property
    def bound(self) -> int:
        """How many of its pods are on nodes."""
        return sum("nodeName" in pod["spec"] for pod in self.pods)

    @property
    def started(self) -> bool:
        """Whether its minimum is on nodes."""
        if self.unwritten:
            return False
        return needed_is_met(self.case, self._whole)

    def _whole(self, plan: MemberPlan) -> bool:
        mine = [
            pod for pod in self.pods if pod["metadata"]["labels"][grove.LABEL_PODCLIQUE] == f"{self.id}-{plan.name}"
        ]
        return sum("nodeName" in pod["spec"] for pod in mine) >= plan.minimum

    @property
    def tried(self) -> bool:
        """Whether it has started, or the scheduler has said of one of its pods that it does not fit."""
        return self.started or any(_is_rejected(pod) for pod in self.pods)


def needed_is_met(case: Case, whole: Callable[[MemberPlan], bool]) -> bool:
    """Whether enough of the gang's parts have all their members."""
    grouped = {name for subset in case.subsets for name in subset.members}
    found = {plan.name: whole(plan) for plan in case.members}
    parts = [found[plan.name] for plan in case.members if plan.name not in grouped]
    parts += [all(found[name] for name in subset.members) for subset in case.subsets]
    return sum(parts) >= (len(parts) if case.enough is None else case.enough)


def _is_rejected(pod: Manifest) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


class Batches:
    """The way of cases into one control plane, for one scheduler's profile. `facts` are those that gang objects are
    made with. `settle` is called between nodes and gangs.
    """

    def __init__(
        self,
        plane: ControlPlane,
        profile: Profile,
        facts: ClusterFacts,
        settle: Callable[[Sequence[Case], Sequence[str]], None] = lambda cases, ids: None,
    ) -> None:
        self.plane, self.profile = plane, profile
        self.facts = facts
        self._settle = settle
        self._workers = ThreadPoolExecutor(_THREADS)
        self._http = [plane.new_client("admin-token") for _ in range(_THREADS)]
        self._free = list(self._http)
        dialect = profile.backend.dialect(facts)
        assert dialect is not None
        self._dialect = dialect
        self.namespaces = 0
        self._each(self._overhead, OVERHEADS)
        self._once("/apis/resource.k8s.io/v1/deviceclasses", DEVICE_CLASS)

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        """End its connections."""
        self._workers.shutdown()
        for client in self._http:
            client.close()

    # one batch

    def store(self, cases: Sequence[Case]) -> list[Stored]:
        """Create everything of these cases. Nodes are first, so that no gang is tried without them."""
        batch = f"b{next(_numbers)}"
        self._post("/api/v1/namespaces", {"metadata": {"name": batch}})
        found = []
        for index, case in enumerate(cases):
            case_id = f"{batch}c{index}"
            found.append(Stored(case, case_id, case_id if case.namespaced or case.quota else batch))
        self._each(lambda work: self._add_node(*work), [(batch, one, index) for one in found
                                                        for index in range(len(one.case.nodes))])  # fmt: skip
        self._each(lambda one: self._add_objects(batch, one), found)
        self._each(self._prepare, found)
        self._settle([one.case for one in found], [one.id for one in found])
        self._each(self._write_gang, found)
        self._each(lambda work: self._add_pod(*work), [work for one in found for work in _pods_of(one)])
        return found

    def wait(self, batch: Sequence[Stored]) -> None:
        """Wait until each gang has been tried and nothing changes, and read its pods."""
        deadline = time.monotonic() + _MOST_SECONDS
        since, before = time.monotonic(), None
        while time.monotonic() < deadline:
            self.read(batch)
            seen = [(one.bound, one.tried, len(one.pods)) for one in batch]
            now = time.monotonic()
            if seen != before:
                since, before = now, seen
            quiet = now - since
            waiting = [one for one in batch if not one.tried and len(one.pods) == one.case.pods and not one.unwritten]
            if quiet > (_QUIET_SECONDS if not waiting else 4 * _QUIET_SECONDS):
                return
            time.sleep(0.4)

    def poke(self, batch: Sequence[Stored]) -> None:
        """Change a label of the nodes and gang objects of gangs that are held, so that back-off is not taken for a
        refusal.
        """
        held = [one for one in batch if not one.started and not one.unwritten]
        poked = {"metadata": {"labels": {"example.com/poked": "yes"}}}
        paths = [f"/api/v1/nodes/{one.id}-n{index}" for one in held for index in range(len(one.case.nodes))]
        paths += [path_of(manifest) for one in held for manifest in one.objects if manifest["kind"] == "PodGroup"]
        self._each(lambda path: self._patch(path, poked), paths)

    def read(self, batch: Sequence[Stored]) -> None:
        """Read the pods of the gangs as they are stored."""
        spaces = {one.namespace for one in batch}
        shared = {batch[0].id.partition("c")[0]} & spaces
        pods: dict[str, list[Manifest]] = {}
        selector = {"labelSelector": f"{grove.LABEL_PODGANG},{BATCH_LABEL}={batch[0].id.partition('c')[0]}"}
        path = "/api/v1/pods" if spaces - shared else f"/api/v1/namespaces/{next(iter(shared))}/pods"
        for pod in self.plane.items(path, **selector):
            pods.setdefault(pod["metadata"]["labels"][grove.LABEL_PODGANG], []).append(pod)
        for one in batch:
            one.pods = pods.get(one.id, [])

    def remove(self, batch: Sequence[Stored]) -> None:
        """Remove all of it but the namespaces."""
        name = batch[0].id.partition("c")[0]
        now = {"gracePeriodSeconds": "0"}
        spaces = sorted({one.namespace for one in batch})
        kinds = {
            path_of(manifest, named=False) for one in batch for manifest in (*one.objects, one.podgang) if manifest
        }
        for space in spaces:
            self._delete(f"/api/v1/namespaces/{space}/pods", now)
        self._each(lambda path: self._delete(path, {}), sorted(kinds))
        for path in ["/api/v1/nodes", *sorted({path for one in batch for path in one.case.objects})]:
            self._delete(path, {"labelSelector": f"{BATCH_LABEL}={name}"})
        for space in spaces:
            self._delete(f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{space}/elasticquotas", {})

    # parts

    def _overhead(self, name: str) -> None:
        fixed: Manifest = {"cpu": f"{OVERHEADS[name]['cpu']}m", "memory": str(OVERHEADS[name]["memory"])}
        manifest = {"metadata": {"name": name}, "handler": "test", "overhead": {"podFixed": fixed}}
        self._once("/apis/node.k8s.io/v1/runtimeclasses", manifest)

    def _once(self, path: str, manifest: Manifest) -> None:
        answer = self.plane.http.post(path, json=manifest)
        assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text

    def _add_node(self, batch: str, one: Stored, index: int) -> None:
        plan = one.case.nodes[index]
        name = f"{one.id}-n{index}"
        labels = {CASE_LABEL: one.id, BATCH_LABEL: batch, **named(plan.labels, one.id)}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "no machine"}
        status = {
            "capacity": {**plan.allocatable, **plan.capacity},
            "allocatable": plan.allocatable,
            "conditions": [ready],
        }
        self._post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        # Every new node is tainted as not ready.
        spec = {"taints": plan.taints or None, "unschedulable": plan.cordoned or None}
        self._patch(f"/api/v1/nodes/{name}", {"spec": spec})

    def _add_objects(self, batch: str, one: Stored) -> None:
        for path, manifests in one.case.objects.items():
            for manifest in named(manifests, one.id):
                labels = {**manifest["metadata"].get("labels", {}), BATCH_LABEL: batch}
                self._post(path, {**manifest, "metadata": {**manifest["metadata"], "labels": labels}})

    def _prepare(self, one: Stored) -> None:
        """What must be there before the gang: its namespace, pods of others, and then quotas, which these are above."""
        if one.namespace == one.id:
            self._post("/api/v1/namespaces", {"metadata": {"name": one.id}})
        for index, foreign in enumerate(one.case.foreign):
            spec = {**named(foreign.spec, one.id), "nodeName": f"{one.id}-n{foreign.node}"}
            metadata = {"name": f"{one.id}-foreign-{index}", "labels": named(foreign.labels, one.id)}
            self._post(f"/api/v1/namespaces/{one.namespace}/pods", {"metadata": metadata, "spec": spec})
        if one.namespace == one.id:
            for manifest in named(one.case.namespaced, one.id):
                self._add_limit(one, manifest)

    def _add_limit(self, one: Stored, manifest: Manifest) -> None:
        metadata = {**manifest["metadata"], "namespace": one.namespace}
        if manifest["kind"] in {"ResourceQuota", "LimitRange"}:
            path = f"/api/v1/namespaces/{one.namespace}/{manifest['kind'].lower()}s"
        else:
            path = path_of({**manifest, "metadata": metadata}, named=False)
        self._post(path, {**manifest, "metadata": metadata})
        if manifest["kind"] == "ResourceQuota":
            # Until its controller writes this, nothing is limited.
            hard = manifest["spec"]["hard"]
            status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
            self._patch(f"{path}/{metadata['name']}/status", {"status": status})

    def _write_gang(self, one: Stored) -> None:
        path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{one.namespace}/podgangs"
        one.podgang = self._post(path, podgang_of(one.case, one.id, one.namespace)).json()
        gang = PodGang(one.podgang)
        for manifest in self.profile.backend.gang_objects(gang, self.record(one), self.facts):
            desired = with_enough(self.profile.backend.adopt(manifest, None), one.case.enough)
            one.objects.append(self._post(path_of(desired, named=False), desired).json())

    def record(self, one: Stored) -> Record:
        """What is recorded of the gang's workload."""
        return Record(self.profile.name, quota=named(one.case.quota, one.id))

    def _add_pod(self, one: Stored, plan: MemberPlan, index: int) -> None:
        clique = f"{one.id}-{plan.name}"
        changes = self.profile.backend.prepare_pod(
            GangMember(one.namespace, one.id, clique, self.record(one), self._dialect)
        )
        spec = {
            "schedulerName": changes.scheduler_name,
            "terminationGracePeriodSeconds": 0,
            **template_spec(one.case, plan, one.id),
            **changes.default_fields,
        }
        metadata = {
            "name": f"{clique}-{index}",
            "annotations": dict(changes.annotations),
            "labels": {
                **named(plan.labels, one.id),
                BATCH_LABEL: one.id.partition("c")[0],
                grove.LABEL_PODGANG: one.id,
                grove.LABEL_PODCLIQUE: clique,
                **changes.labels,
            },
        }
        path = f"/api/v1/namespaces/{one.namespace}/pods"
        answer = self._call("POST", path, json={"metadata": metadata, "spec": spec})
        # A default of a LimitRange may be below what a container requests, which is invalid then.
        limited = any(manifest["kind"] == "LimitRange" for manifest in one.case.namespaced)
        if answer.status_code == httpx.codes.FORBIDDEN or (limited and answer.status_code == _INVALID):
            one.refused.append(answer.json()["message"])
        else:
            assert answer.is_success, f"seed {one.case.seed}: {answer.text}"

    # requests

    def _each(self, work: Callable[[Any], None], over: Iterable[Any]) -> None:
        for _ in self._workers.map(work, over):
            pass

    def _call(self, method: str, path: str, **what: Any) -> httpx.Response:
        client = self._free.pop() if self._free else self.plane.http
        try:
            return client.request(method, path, **what)
        finally:
            if client is not self.plane.http:
                self._free.append(client)

    def _post(self, path: str, manifest: Manifest) -> httpx.Response:
        answer = self._call("POST", path, json=manifest)
        assert answer.is_success, f"{path}: {answer.text}\n{manifest}"
        return answer

    def _patch(self, path: str, change: Manifest) -> None:
        answer = self._call("PATCH", path, json=change, headers=_MERGE)
        assert answer.is_success, f"{path}: {answer.text}"

    def _delete(self, path: str, params: dict[str, str]) -> None:
        answer = self._call("DELETE", path, params=params, timeout=60)
        assert answer.is_success or answer.status_code == httpx.codes.NOT_FOUND, f"{path}: {answer.text}"


def facts_of_apis(plane: ControlPlane) -> ClusterFacts:
    """What gang objects are made with: the kinds that the cluster serves."""
    return ClusterFacts(apis=served(plane))


def _pods_of(one: Stored) -> list[tuple[Stored, MemberPlan, int]]:
    return [(one, plan, index) for plan in one.case.members for index in range(plan.pods)]


def template_spec(case: Case, plan: MemberPlan, case_id: str) -> Manifest:
    """The pod spec of a member as its workload states it."""
    spec: Manifest = named(plan.spec, case_id)
    return {**spec, "nodeSelector": {**spec.get("nodeSelector", {}), CASE_LABEL: case_id}}


def podgang_of(case: Case, case_id: str, namespace: str) -> Manifest:
    """The PodGang of a case, as Grove's operator writes it."""
    members = []
    for plan in case.members:
        name = f"{case_id}-{plan.name}"
        references = [{"namespace": namespace, "name": f"{name}-{index}"} for index in range(plan.pods)]
        within = required(plan.required) if plan.required else {}
        members.append({**member(name, plan.minimum), "podReferences": references, **within})
    groups = [
        group(f"{case_id}-{subset.name}", subset.required or "", *(f"{case_id}-{name}" for name in subset.members))
        for subset in case.subsets
    ]
    for made, subset in zip(groups, case.subsets, strict=True):
        if subset.required is None:
            del made["topologyConstraint"]
    spec: Manifest = {"topologyConstraintGroupConfigs": groups} if groups else {}
    if case.required:
        spec |= required(case.required)
    found = podgang(case_id, *members, **spec)
    found["metadata"] |= {"namespace": namespace, "annotations": {}, "labels": {}}
    return found


def with_enough(manifest: Manifest, enough: int | None) -> Manifest:
    """A gang object as a person would write it who wants only `enough` of the gang's parts."""
    if enough is None:
        return manifest
    some = {"gang": {"minGroupCount": enough}}
    spec = dict(manifest["spec"])
    if manifest["kind"] == "CompositePodGroup" and "parentCompositePodGroupName" not in spec:
        spec["schedulingPolicy"] = some
    if manifest["kind"] == "Workload":
        spec["compositePodGroupTemplates"] = [
            {**template, "schedulingPolicy": some} for template in spec["compositePodGroupTemplates"]
        ]
    return {**manifest, "spec": spec}
