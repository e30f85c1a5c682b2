"""PodGroups and Queues of KAI and Volcano that users apply, on real API servers: without Rollcall each object that our
rules refuse or warn of is accepted without a message.

The systems' own webhooks do not run here. What they refuse is named in the rules, and is not in the table but where it
is of use to users without a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import httpx
import pytest

from tests.applied_objects import ELSEWHERE, KAI, KAI_WORLD, VOLCANO, VOLCANO_WORLD, Applied
from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Rollcall
from tests.e2e.gang_writer import path_of, posted, why
from tests.e2e.rollcall_server import RollcallServer

pytestmark = pytest.mark.soak

CASES = {
    f"{system}: {name}": case for system, table in (("kai", KAI), ("volcano", VOLCANO)) for name, case in table.items()
}
EVERY_RULE = {rule for case in CASES.values() for rule in case.refused | case.warned}
POD_GROUPS = "podgroups.scheduling.run.ai"
MERGED = {"Content-Type": "application/merge-patch+json"}
# Beside the profile that sets go to by default, which asks for no queue.
CONFIG: Manifest = {
    **KOORDINATOR,
    "scheduler": {
        **KOORDINATOR["scheduler"],
        "profiles": [
            *KOORDINATOR["scheduler"]["profiles"],
            {"name": "kai-scheduler"},
            {"name": "volcano", "config": {"topology": "hypernode"}},
        ],
    },
}


def placed(manifest: Manifest, namespace: str, name: str | None = None) -> Manifest:
    """An object as it is sent here: without the parts that are null, and in the test's namespace."""
    found = deepcopy(manifest)
    if "spec" in found:
        found["spec"] = {key: value for key, value in found["spec"].items() if value is not None}
    if found["kind"] == "PodGroup" and found["metadata"]["namespace"] != ELSEWHERE:
        found["metadata"]["namespace"] = namespace
    if name is not None:
        found["metadata"]["name"] = name
    return found


@contextmanager
def stored(plane: ControlPlane, manifests: list[Manifest]) -> Iterator[None]:
    """The objects, with their status, for as long as it takes."""
    try:
        for manifest in manifests:
            answer = posted(plane, manifest)
            assert answer.is_success, why(answer)
            if "status" in manifest:
                patch = {"status": manifest["status"]}
                answer = plane.http.patch(f"{path_of(manifest)}/status", json=patch, headers=MERGED)
                assert answer.is_success, why(answer)
        yield
    finally:
        for manifest in reversed(manifests):
            plane.http.delete(path_of(manifest))


def asked(plane: ControlPlane, case: Applied, manifest: Manifest) -> httpx.Response:
    """The answer to the object, which is not stored."""
    if case.before is None:
        return posted(plane, manifest, dry=True)
    # What goes must be said, in a patch.
    gone = {field: None for field in case.before["spec"] if field not in manifest["spec"]}
    patch = {"spec": {**gone, **manifest["spec"]}}
    return plane.http.patch(path_of(manifest), params={"dryRun": "All"}, json=patch, headers=MERGED)


def verdict_of(answer: httpx.Response) -> tuple[bool, set[str]]:
    """Whether the object is accepted, and the rules with findings."""
    told = "".join(answer.headers.get_list("Warning")) + ("" if answer.is_success else answer.text)
    return answer.is_success, {rule for rule in EVERY_RULE if f"{rule} at " in told}


@pytest.mark.beside
def test_without_rollcall_the_api_server_accepts_what_the_rules_refuse(
    plane: ControlPlane, namespace: str, rollcall: Rollcall
) -> None:
    manifests: dict[str, Manifest] = {}
    before: list[Manifest] = []
    for number, (name, case) in enumerate(CASES.items()):
        # What is there before an update goes by its case: many are called alike. A Queue is there in the world.
        own = f"case-{number}" if case.before is not None and case.manifest["kind"] == "PodGroup" else None
        manifests[name] = placed(case.manifest, namespace, own)
        if case.before is not None and own is not None:
            before.append(placed(case.before, namespace, own))
    with stored(plane, [*(placed(found, namespace) for found in (*KAI_WORLD, *VOLCANO_WORLD)), *before]):
        without = {name: verdict_of(asked(plane, CASES[name], manifest)) for name, manifest in manifests.items()}
        assert without == dict.fromkeys(CASES, (True, set()))
        rollcall(plane, CONFIG)
        answers = {name: verdict_of(asked(plane, CASES[name], manifest)) for name, manifest in manifests.items()}
        assert answers == {name: (not case.refused, {*case.refused, *case.warned}) for name, case in CASES.items()}


@pytest.mark.beside
def test_kubectl_shows_why_a_pod_group_is_refused(plane: ControlPlane, namespace: str, rollcall: Rollcall) -> None:
    """And warnings where it is stored all the same; a Queue that comes just before its PodGroup counts."""
    rollcall(plane, CONFIG)
    faulty = placed(KAI["an optional leaf"].manifest, namespace)
    research, team = (found for found in KAI_WORLD if found["metadata"]["name"] in {"research", "team-a"})
    try:
        refused = plane.apply(research, team, faulty)
        assert refused.code != 0
        assert "kai/group-optional" in refused.err
        assert "remove it, and set minMember to 0" in refused.err
        raised = placed(KAI["a minimum that is raised while nothing is known of pods"].manifest, namespace)
        raised["spec"]["minMember"] = 4
        plane.apply(raised, check=True)
        raised["spec"]["minMember"] = 5
        warned = plane.apply(raised, check=True)
        assert "Warning: kai/group-raised-unseen at spec.minMember: 5" in warned.err
        listed = plane.kubectl("get", POD_GROUPS, "-n", namespace, "-o", "name", check=True)
        assert listed.out.split() == [f"podgroup.scheduling.run.ai/{raised['metadata']['name']}"]
    finally:
        plane.kubectl("delete", "--ignore-not-found", POD_GROUPS, "--all", "-n", namespace)
        for queue in (team, research):
            plane.http.delete(path_of(queue))


def calls(server: RollcallServer) -> float:
    """The number of allowed validation calls."""
    return server.metric("rollcall_admission_requests_total", endpoint="validate", outcome="allowed")


@pytest.mark.beside
def test_writes_of_the_scheduler_to_a_pod_group_do_not_call_the_webhook(
    plane: ControlPlane, namespace: str, rollcall: Rollcall
) -> None:
    """Volcano's PodGroup has no status subresource: its scheduler writes the object itself, at every turn."""
    group = placed(VOLCANO["a flat gang"].manifest, namespace)
    del group["spec"]["queue"]
    world = [placed(found, namespace) for found in VOLCANO_WORLD if found["kind"] == "Queue"]
    with stored(plane, [*world, group]):
        server = rollcall(plane, CONFIG)
        before = calls(server)
        for phase in ("Pending", "Inqueue", "Running"):
            answer = plane.http.patch(path_of(group), json={"status": {"phase": phase}}, headers=MERGED)
            assert answer.is_success, why(answer)
        assert calls(server) == before
        answer = plane.http.patch(path_of(group), json={"spec": {"minMember": 5}}, headers=MERGED)
        assert answer.is_success, why(answer)
        assert calls(server) == before + 1
