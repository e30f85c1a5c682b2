"""The verdicts on cases as users get them: facts are read from the API server, the gang is judged as its template
states it and as its pods are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fit.batch import Batches, Stored, template_spec
from tests.e2e.fit.case import Case
from tests.e2e.fit.clusters import with_facts
from webhook.admission.workload_fit import fit_of
from webhook.backends.base import Backend
from webhook.fit.feasibility import judge
from webhook.fit.gang_shapes import GangShape, shape_of_templates
from webhook.fit.node_classes import room_of
from webhook.fit.packing import FitSettings, GroupNeed, Growth, Packing, Partition, PodsNeed, Roles, roles_of
from webhook.fit.verdict import STEPS, FitAnswer, FitVerdict
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.pod_template import Pod, PodTemplate

SETTINGS = FitSettings(nodes=Growth.FIXED)
_LISTS = (
    "/api/v1/nodes",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas",
)


class Judging:
    """Judges the batches of one control plane."""

    def __init__(self, batches: Batches, steps: int = STEPS) -> None:
        self._batches, self._steps = batches, steps
        self._backend: Backend[Any] = batches.profile.backend

    def __call__(self, batch: Sequence[Stored]) -> list[dict[str, FitVerdict]]:
        """The verdicts on each case of a batch, by what was judged."""
        facts = facts_now(self._batches.plane, self._batches.facts)
        return [self._of(one, facts) for one in batch]

    def _of(self, one: Stored, facts: ClusterFacts) -> dict[str, FitVerdict]:
        gang = PodGang(one.podgang)
        record = self._batches.record(one)
        shapes = {
            "template": shape_of_templates(gang, templates_of(one), record)._replace(stored=False),
            "stored": shape_of_templates(gang, stored_templates(one), record),
        }
        return {judged: self._verdict(one.case, shape, facts) for judged, shape in shapes.items()}

    def _verdict(self, case: Case, shape: GangShape, facts: ClusterFacts) -> FitVerdict:
        if case.enough is None:
            return fit_of(shape, self._backend, facts, SETTINGS, self._steps)
        if len(shape.needed) < len(case.members):
            return FitVerdict(FitAnswer.UNKNOWN, causes=("pods are missing",))
        packing = self._tree(case, shape, facts)
        room = room_of(packing, facts, SETTINGS, self._backend.pod_reading(SETTINGS))
        return judge(packing, room, self._steps)

    def _tree(self, case: Case, shape: GangShape, facts: ClusterFacts) -> Packing:
        """The packing of a gang of which some parts are enough, which no PodGang can state."""
        roles = roles_of(shape, self._backend.pod_reading(SETTINGS))
        return Packing((tree_of(case, shape, roles),), left_out=shape.left_out)


def tree_of(case: Case, shape: GangShape, roles: Roles) -> GroupNeed:
    """What a K-of-N tree of the case needs."""
    by_name = {member.name.partition("-")[2]: member for member in shape.needed}
    grouped = {name for subset in case.subsets for name in subset.members}

    def pods(name: str) -> PodsNeed:
        member = by_name[name]
        return PodsNeed(roles.role_of(member), member.minimum, _domain(member.required))

    parts: list[PodsNeed | GroupNeed] = [pods(plan.name) for plan in case.members if plan.name not in grouped]
    parts += [
        GroupNeed(subset.name, tuple(map(pods, subset.members)), len(subset.members), _domain(subset.required))
        for subset in case.subsets
    ]
    return GroupNeed("tree", tuple(parts), case.enough or len(parts), _domain(case.required))


def _domain(key: str | None) -> Partition | None:
    return None if key is None else Partition(key, (key,))


def facts_now(plane: ControlPlane, known: ClusterFacts) -> ClusterFacts:
    """What the cluster has that limits gangs, through the projections that `--facts` uses."""
    lists: list[Manifest] = []
    for path in _LISTS:
        answer = plane.http.get(path, timeout=60)
        if answer.status_code != httpx.codes.NOT_FOUND:
            assert answer.is_success, answer.text
            lists.append(answer.json())
    return with_facts(known, lists)


def templates_of(one: Stored) -> Mapping[str, Sequence[PodTemplate]]:
    """The pods of each member as its workload states them."""
    found = {}
    for plan in one.case.members:
        labels = next((pod["metadata"]["labels"] for pod in one.pods if _clique(pod) == f"{one.id}-{plan.name}"), None)
        metadata = {"labels": labels or plan.labels}
        pod = {"metadata": metadata, "spec": template_spec(one.case, plan, one.id)}
        found[f"{one.id}-{plan.name}"] = [Pod(pod).template] * plan.pods
    return found


def stored_templates(one: Stored) -> Mapping[str, Sequence[PodTemplate]]:
    """The stored pods of each member as they were before a scheduler bound them."""
    found: dict[str, list[PodTemplate]] = {}
    for pod in one.pods:
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        found.setdefault(_clique(pod), []).append(Pod({**pod, "spec": spec}).template)
    return found


def _clique(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"][grove.LABEL_PODCLIQUE])
