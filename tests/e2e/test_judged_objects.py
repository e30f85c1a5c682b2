"""Foreign gang objects on real API servers: accepted without Rollcall, refused or warned of with it. No case is a
refusal of the API server itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count

import httpx
import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Rollcall
from tests.e2e.gang_writer import path_of, why
from tests.e2e.given_gangs import RACK, ZONE
from tests.e2e.judged_objects import CLASS, JUDGED, MEEK, Judged
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from webhook.backends.kube.backend import KubeBackend

pytestmark = pytest.mark.soak

VERSIONS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}
# A namespace that the registration leaves out: there Rollcall is not asked.
OUTSIDE = "not-asked"
STRICT = {"rollcall.dev/creation-order": "strict"}
CONFIG = configuration_of(
    {"name": "default-scheduler", "config": {"gangScheduling": True}},
    registration={"excludedNamespaces": [OUTSIDE]},
)
BINDING = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": CLASS},
    "spec": {"levels": [{"domain": "zone", "key": ZONE}, {"domain": "rack", "key": RACK}]},
}
MERGE = {"Content-Type": "application/merge-patch+json"}
_CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": CLASS}, "value": 1000}
_MEEK = {**_CLASS, "metadata": {"name": MEEK}, "preemptionPolicy": "Never"}
SURROUNDINGS: tuple[Manifest, ...] = (
    _CLASS,
    _MEEK,
    BINDING,
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OUTSIDE}},
)
_numbers = count(1)


@pytest.fixture(scope="module")
def surroundings() -> Iterator[Callable[[ControlPlane], None]]:
    """Make what the cases refer to: a class, a topology, a namespace. They go with the module, but for the namespace,
    which would take its time, and may be wanted again: tests of other modules may come in between.
    """
    made: dict[str, ControlPlane] = {}

    def make(plane: ControlPlane) -> None:
        if plane.version not in made:
            made[plane.version] = plane
            for manifest in SURROUNDINGS:
                stored(plane, manifest)

    yield make
    for plane in made.values():
        plane.http.delete(f"/api/v1/namespaces/{OUTSIDE}/pods", params={"gracePeriodSeconds": "0"})
        for manifest in SURROUNDINGS:
            if manifest["kind"] != "Namespace":
                plane.http.delete(api_path(manifest)).raise_for_status()


@pytest.fixture
def asked(plane: ControlPlane, rollcall: Rollcall, surroundings: Callable[[ControlPlane], None]) -> RollcallServer:
    """A server that judges the objects of all namespaces but one, on a plane with a class and a topology."""
    surroundings(plane)
    server = rollcall(plane, CONFIG)
    wanted = {"PriorityClass": 3, "ClusterTopologyBinding": 1, "Workload": 0}

    def followed() -> bool:
        return all(server.metric("rollcall_cache_objects", kind=kind) >= number for kind, number in wanted.items())

    eventually(followed, "the class and the topology are known")
    return server


@pytest.fixture
def strict_namespace(plane: ControlPlane, namespace: str) -> Iterator[Callable[[bool], str]]:
    """The test's namespace, with or without the label that demands order."""

    def labelled(strict: bool) -> str:
        if strict:
            body = {"metadata": {"labels": STRICT}}
            plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
        return namespace

    yield labelled


def stored(plane: ControlPlane, manifest: Manifest) -> None:
    """Create an object; one that is there already is as good."""
    answer = send(plane, manifest)
    assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, why(answer)


def api_path(manifest: Manifest, *, named: bool = True) -> str:
    """Where the API has an object, also one of the core's."""
    path = path_of(manifest, named=named)
    return path if "/" in manifest["apiVersion"] else path.replace("/apis/", "/api/", 1)


def send(plane: ControlPlane, manifest: Manifest, *, dry: bool = False, update: bool = False) -> httpx.Response:
    """Create an object, or change it. A field that the API server does not know is an error of the table's."""
    path = api_path(manifest, named=update)
    params = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry else {})}
    if update:
        return plane.http.patch(path, params=params, json=manifest, headers=MERGE)
    return plane.http.post(path, params=params, json=manifest)


def placed(manifest: Manifest, plane: ControlPlane, namespace: str, prefix: str) -> Manifest:
    """An object as this cluster has it, under unique names."""
    version = "v1alpha3" if manifest["kind"] == "CompositePodGroup" else VERSIONS[plane.version]
    found: Manifest = json.loads(json.dumps(manifest).replace('"demo', f'"{prefix}'))
    found["metadata"]["namespace"] = namespace
    return {"apiVersion": f"scheduling.k8s.io/{version}", **found}


def arrived(plane: ControlPlane, case: Judged, namespace: str, prefix: str) -> Manifest:
    """Store what the case needs; its object."""
    for needed in (*case.needs, *(() if case.before is None else (case.before,))):
        answer = send(plane, placed(needed, plane, namespace, prefix))
        assert answer.is_success, f"what is needed: {why(answer)}"
    return placed(case.object, plane, namespace, prefix)


@pytest.mark.cases(JUDGED)
def test_rollcall_judges_objects_that_the_api_server_accepts(
    plane: ControlPlane, asked: RollcallServer, strict_namespace: Callable[[bool], str], case: Judged
) -> None:
    update, prefix = case.before is not None, f"case-{next(_numbers)}"
    without = send(plane, arrived(plane, case, OUTSIDE, prefix), update=update)
    assert without.is_success, why(without)
    # That a version will be deprecated, and nothing of ours.
    assert "kube/" not in without.headers.get("warning", "")
    broken = arrived(plane, case, strict_namespace(case.strict), prefix)

    def judged() -> bool:
        answer = send(plane, broken, dry=True, update=update)
        if case.refused:
            assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY, why(answer)
            assert case.rule in answer.json()["message"]
        else:
            assert answer.is_success, why(answer)
            assert case.rule in answer.headers.get("warning", "no warning")
        return True

    # What was stored a moment ago may be on its way to the server still.
    eventually(judged, f"{case.rule} is said", timeout=10)


def test_every_rule_about_gang_objects_is_in_the_table() -> None:
    told = {case.rule for table in JUDGED.values() for case in table.values()}
    # Its objects can only be stored without a webhook: see test_group_races.py.
    told.add("kube/pod-cycle")
    assert told == {declared.id for declared in KubeBackend.rules if declared.kinds}


@pytest.mark.every_version(since="1.35")
def test_kubectl_shows_the_reason_of_a_refusal(plane: ControlPlane, asked: RollcallServer, namespace: str) -> None:
    """The first of each version that is refused, and the first that is warned of."""
    shown = {case.refused: case for case in reversed(JUDGED[plane.version].values()) if not case.strict}
    for refused, case in shown.items():
        prefix = f"case-{next(_numbers)}"
        broken = arrived(plane, case, namespace, prefix)

        def told(broken: Manifest = broken, refused: bool = refused, rule: str = case.rule) -> bool:
            ran = plane.apply(broken, options=["--dry-run=server"])
            assert ((ran.code != 0), rule in ran.err) == (refused, True), ran.err
            return True

        eventually(told, f"kubectl shows {case.rule}", timeout=10)
