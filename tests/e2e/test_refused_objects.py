"""Our rules compared with the API servers of all versions: the API server refuses what our rules refuse; our rules
refuse what the API server refuses, or the object is written in a form that it accepts. For each API version, and for
changes of existing objects.

What the API server takes and the scheduler then mishandles is no matter for this file: see test_kube_gangs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import httpx
import pytest

from tests.e2e.broken_objects import BROKEN, Broken, branch, leaf, tree
from tests.e2e.changed_objects import CHANGED, Changed
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.gang_writer import GangWriter, applied, live, posted, why
from tests.e2e.given_gangs import HARD_CASES
from tests.e2e.judged_gangs import known, said
from tests.unit.worlds import rules, settings_of, validate
from webhook.config.settings import Settings
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.grove import GroveGeneration
from webhook.model.keys import Record
from webhook.model.known_objects import PodGangFacts, PriorityClass
from webhook.model.workload_record import record_of
from webhook.offline.translation import expected_gangs
from webhook.workloads.pod_clique_set import PodCliqueSet

VERSIONS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}
CLASSES = {
    "high": PriorityClass(1000, is_default=False),
    "low": PriorityClass(10, is_default=False),
    "system-node-critical": PriorityClass(2_000_001_000, is_default=False),
}
LIVING = {("default", "demo-0"): PodGangFacts("demo")}


def facts_of(plane: ControlPlane) -> ClusterFacts:
    """What Rollcall would know of this cluster, with a gang of the set that is judged."""
    return replace(known(plane), priority_classes=CLASSES, pod_gangs=LIVING)


def default_scheduler(config: Mapping[str, object]) -> Settings:
    return settings_of("default-scheduler", {"gangScheduling": True, **config})


def placed(manifest: Manifest, plane: ControlPlane, namespace: str) -> Manifest:
    """An object as this cluster has it."""
    version = "v1alpha3" if manifest["kind"] == "CompositePodGroup" else VERSIONS[plane.version]
    metadata = {**manifest["metadata"], "namespace": namespace}
    return {"apiVersion": f"scheduling.k8s.io/{version}", **manifest, "metadata": metadata}


@pytest.mark.cases(BROKEN)
def test_the_api_server_and_the_rules_refuse_the_same_object(plane: ControlPlane, namespace: str, case: Broken) -> None:
    for needed in case.needs:
        answer = posted(plane, placed(needed, plane, namespace))
        assert answer.is_success, why(answer)
    for broken in case.objects:
        answer = posted(plane, placed(broken, plane, namespace), dry=True)
        assert answer.status_code == case.code, f"{broken}: {why(answer)}"
        assert case.says in answer.json()["message"]
    settings, facts = default_scheduler(case.config), facts_of(plane)
    if case.workload is not None:
        verdict = validate(case.workload, settings=settings, facts=facts)
        assert [finding.rule for finding in verdict.denials] == ([] if case.rule is None else [case.rule])
    if case.gang is not None:
        writer = GangWriter(plane, namespace, settings.profiles["default-scheduler"], facts)
        record = Record("default-scheduler", priority_class=case.gang["spec"].get("priorityClassName"))
        try:
            writer.write(case.gang, record)
        except Inexpressible as error:
            assert said(error) == [case.translation]
        else:
            assert case.translation is None


@pytest.mark.cases(CHANGED)
def test_the_rules_refuse_a_change_that_the_api_server_refuses(
    plane: ControlPlane, namespace: str, case: Changed
) -> None:
    settings, facts = default_scheduler(case.config), facts_of(plane)
    verdict = validate(case.new, case.old, settings=settings, facts=facts)
    assert set(rules(verdict)) - {"kube/flat-allowed"} == ({"kube/frozen-shape"} if case.refused else set())
    # The objects as they are written out by hand, and as they are translated.
    by_hand = [[placed(found, plane, namespace) for found in objects] for objects in (case.before, case.after)]
    assert is_refused(plane, *by_hand) is case.refused
    writer = GangWriter(plane, namespace, settings.profiles["default-scheduler"], facts)
    before = base_objects(writer, case.old)
    for found in before:
        assert applied(plane, found).is_success
    # A living gang keeps what it was written with.
    assert is_refused(plane, before, base_objects(writer, case.new)) is case.refused


def is_refused(plane: ControlPlane, before: list[Manifest], after: list[Manifest]) -> bool:
    """Whether the API server lets the objects change from `before`, which are written, to `after`."""
    for found in before:
        answer = applied(plane, found)
        assert answer.is_success, why(answer)
    changed = [found for found in after if found not in before]
    answers = [applied(plane, found, dry=True) for found in changed]
    # Any that is immutable, or new to a list that is frozen; what is about such a one may be forbidden, too.
    assert all(answer.is_success or answer.status_code in {403, 422} for answer in answers), list(map(why, answers))
    return any(answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY for answer in answers)


def base_objects(writer: GangWriter, manifest: Manifest) -> list[Manifest]:
    """What is written for the base gang of a set; nothing for one that cannot be written."""
    workload = PodCliqueSet(manifest)
    base = next(iter(expected_gangs(workload, writer.facts, GroveGeneration.LEGACY)))
    backend = writer.profile.backend
    try:
        desired = backend.gang_objects(writer.stored(base.raw), record_of(workload, writer.profile.name), writer.facts)
    except Inexpressible:
        return []
    return [backend.adopt(found, live(writer.plane, found)) for found in desired]


@pytest.mark.cases({"1.35": {}, "1.36": {}, "1.37": {"at its limit": 4, "over it": 5}})
def test_the_deepest_tree_that_rollcall_writes_is_within_the_limit(
    plane: ControlPlane, namespace: str, case: int
) -> None:
    """A PodGang has one level of groups between itself and its members, so no rule needs to count."""
    below: Manifest = {"podGroupTemplates": [leaf("worker", 2)]}
    for level in range(case - 2):
        below = {"compositePodGroupTemplates": [branch(f"level-{level}", 1, **below)]}
    answer = posted(plane, placed(tree(1, **below), plane, namespace), dry=True)
    assert (answer.status_code, "maximum template hierarchy depth is 4" in answer.text) == (
        (201, False) if case == 4 else (422, True)
    )
    profile = default_scheduler({}).profiles["default-scheduler"]
    writer = GangWriter(plane, namespace, profile, known(plane))
    stored = writer.write(HARD_CASES["topology at three levels"].states[0], Record("default-scheduler"))
    assert depth(stored[0]["spec"]) == 3


def depth(holder: Manifest) -> int:
    """How many levels of templates there are."""
    lists = [holder.get(field) or [] for field in ("podGroupTemplates", "compositePodGroupTemplates")]
    return max((1 + depth(template) for templates in lists for template in templates), default=0)
