"""The fixtures of the cluster tests. `scripts/test-cluster` builds the programs that they start and sets their paths.

A test that asks for `version`, or for anything made from it, runs on the newest Kubernetes that is wanted; one marked
`every_version` on all of them, and one marked `cases` with what its table has for each. What repeats another version
or another scheduler is left to `--soak`. Control planes live as long as the session, servers as long as a module,
everything else as long as a test.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.configurations import configuration_of
from tests.e2e.background import Background
from tests.e2e.balancer import Balancer
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.grove_next_operator import NextPlayed
from tests.e2e.grove_operator import Played
from tests.e2e.neighbours.fixtures import controllers, for_the_test, kubelet, neighbours
from tests.e2e.neighbours.running import Neighbours
from tests.e2e.neighbours.systems import crd_files_of
from tests.e2e.nodes import add_nodes, remove_nodes
from tests.e2e.opted_in_cluster import start
from tests.e2e.programs import Program, eventually, folder_of
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.schedulers import start_scheduler
from tests.e2e.started import leader, started
from tests.e2e.workloads import two_cliques
from webhook.model.reading import EMPTY

STAND_INS = Path(__file__).parent / "crds"
# The kinds of these are applied to every control plane: the real ones where ROLLCALL_CRDS says where they are.
SYSTEMS = ("grove", "koordinator", "volcano", "kai", "scheduler-plugins")
KEPT_LOGS = Path(os.environ.get("ROLLCALL_CLUSTER_LOGS", ".cluster-logs")).absolute()

# Without the pod gate, which nothing removes if a test plays the reconciler.
KOORDINATOR = configuration_of({"name": "koord-scheduler", "gate": False})


def gated(config: Manifest = KOORDINATOR) -> Manifest:
    """The same with the pod gate as it is by default, for tests with a reconciler."""
    profiles = [
        {key: value for key, value in profile.items() if key != "gate"} for profile in config["scheduler"]["profiles"]
    ]
    return {**config, "scheduler": {**config["scheduler"], "profiles": profiles}}


# Fixtures of files of their own.
__all__ = ["controllers", "for_the_test", "kubelet", "leader", "neighbours", "start", "started"]
_failed = pytest.StashKey[bool]()
_planes: dict[str, ControlPlane] = {}
_numbers = count(1)


def pytest_configure(config: pytest.Config) -> None:
    Program.forks = True
    config.addinivalue_line(
        "markers",
        "every_version(since=None, soak=None): run on every Kubernetes version that is wanted, from `since` on; on "
        "those of `soak`, by default all between the newest and the oldest, by `scripts/test-cluster --soak` alone",
    )
    config.addinivalue_line(
        "markers", "beside: run beside the newest version, on an older one, where there are several"
    )
    config.addinivalue_line("markers", "long: takes a minute; run by `scripts/test-cluster --long` alone")
    config.addinivalue_line("markers", "soak: takes long, or is a storm; run by `scripts/test-cluster --soak` alone")
    config.addinivalue_line("markers", "chaos: of the soak, run beside the rest, on a control plane of its own")
    config.addinivalue_line("markers", "alone: of the soak, run with nothing beside it, because it measures")
    config.addinivalue_line(
        "markers",
        "cases(table, soak=()): run each `case` that the table has for a version that is wanted; those with the ids of "
        "`soak` by `scripts/test-cluster --soak` alone",
    )


def wanted_versions() -> list[str]:
    """The Kubernetes versions to test on, the newest first."""
    said = os.environ.get("ROLLCALL_KUBE_VERSIONS", "").split()
    return [version for version in said if folder_of(f"kube-{version}") is not None]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _soaked(since: str | None, soak: Iterable[str] | None) -> set[str]:
    """The versions that a test for every version leaves to the soak. The newest of a run is never among them."""
    # Another process may run the tests on the other versions at the same time.
    of_the_run = os.environ.get("ROLLCALL_KUBE_RUN", "").split() or wanted_versions()
    versions = [version for version in of_the_run if since is None or _number(version) >= _number(since)]
    return set(versions[1:-1] if soak is None else soak) - set(versions[:1])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    table = metafunc.definition.get_closest_marker("cases")
    if table is not None and wanted_versions():
        named = [
            (version, name, case)
            for version in wanted_versions()
            for name, case in table.args[0].get(version, {}).items()
        ]
        ids, soak = [f"{version}-{name}" for version, name, _ in named], table.kwargs.get("soak", ())
        params = [
            pytest.param(version, case, id=id_, marks=[pytest.mark.soak] if id_ in soak else [])
            for id_, (version, _, case) in zip(ids, named, strict=True)
        ]
        metafunc.parametrize(("version", "case"), params, scope="session")
    elif "version" in metafunc.fixturenames:
        every = metafunc.definition.get_closest_marker("every_version")
        since = None if every is None else every.kwargs.get("since")
        versions = [found for found in wanted_versions() if since is None or _number(found) >= _number(since)]
        if not versions:
            reason = "there are no programs of a control plane; scripts/test-cluster builds them"
            metafunc.parametrize("version", [pytest.param("none", marks=pytest.mark.skip(reason=reason))])
        else:
            soaked = set() if every is None else _soaked(since, every.kwargs.get("soak"))
            params = [
                pytest.param(version, marks=[pytest.mark.soak] if version in soaked else [])
                for version in (versions if every is not None else versions[:1])
            ]
            metafunc.parametrize("version", params, scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.session.config.stash[_failed] = True
        for plane in _planes.values():
            for program in plane.workplace.programs:
                report.sections.append((f"end of the log of {program.name}, {plane.version}", program.tail()))
    return report


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[Callable[[str], ControlPlane]]:
    """The control plane of a version, started when it is first asked for."""

    def started(version: str) -> ControlPlane:
        if version not in _planes:
            plane = _planes[version] = ControlPlane(version)
            apply_crds(plane)
            plane.start_controller_manager()
        return _planes[version]

    # Only what an earlier run kept: the variable may name a folder with more in it.
    for old in KEPT_LOGS.glob("rollcall-kube-*"):
        shutil.rmtree(old, ignore_errors=True)
    yield started
    for plane in _planes.values():
        if pytestconfig.stash.get(_failed, False):
            plane.workplace.keep_logs(KEPT_LOGS)
        plane.close()
    _planes.clear()


def crd_files() -> list[Path]:
    """The CustomResourceDefinitions to apply: the real ones of the stand-ins' kinds, or the stand-ins."""
    real = os.environ.get("ROLLCALL_CRDS")
    if not real:
        return sorted(STAND_INS.glob("*.yaml"))
    return sorted(path for system in SYSTEMS for path in (Path(real) / system).glob("*.yaml"))


def further_crd_files(folder: str) -> list[Path]:
    """Those that are in no control plane unless a test asks: a system's (`jobset`), or those of an older release of one
    (`kai/v0.15.2`). Where its controller is built, those that are its own.
    """
    if own := crd_files_of(folder):
        return own
    real = os.environ.get("ROLLCALL_CRDS")
    return sorted(((Path(real) if real else STAND_INS) / folder).glob("*.yaml"))


def apply_crds(plane: ControlPlane, files: Iterable[Path] | None = None) -> None:
    """Apply them, and wait until they are served."""
    paths = [f"--filename={path}" for path in (crd_files() if files is None else files)]
    # Some are too large for the annotation of a client-side apply.
    applied = plane.kubectl("apply", "--server-side", "--output=name", *paths, check=True)
    names = [line.rpartition("/")[2] for line in applied.out.splitlines()]
    eventually(lambda: _unserved(plane, names) == [], "every CustomResourceDefinition is served", timeout=60)


def _unserved(plane: ControlPlane, names: list[str]) -> list[str]:
    # The definitions themselves are megabytes, and the API server is slow to list them.
    return [name for name in names if not _is_served(plane, *name.split(".", 1))]


def _is_served(plane: ControlPlane, plural: str, group: str) -> bool:
    answer = plane.http.get(f"/apis/{group}")
    versions = answer.json()["versions"] if answer.is_success else []
    found = [plane.http.get(f"/apis/{version['groupVersion']}") for version in versions]
    return any(plural == one["name"] for answer in found if answer.is_success for one in answer.json()["resources"])


@pytest.fixture(scope="session")
def workload_kinds() -> Callable[..., None]:
    """Have the kinds of further systems served, once a control plane: `workload_kinds(plane, "jobset", "trainer")`.

    Their definitions are large and take a second or two each, so only who wants them pays. The garbage collector learns
    of them within half a minute: what they own goes as late, where a test deletes one.
    """
    served: set[tuple[str, str]] = set()

    def serve(plane: ControlPlane, *systems: str) -> None:
        missing = [system for system in systems if (plane.version, system) not in served]
        if missing:
            apply_crds(plane, [path for system in missing for path in further_crd_files(system)])
            served.update((plane.version, system) for system in missing)

    return serve


@pytest.fixture
def plane(version: str, control_plane: Callable[[str], ControlPlane]) -> ControlPlane:
    """The control plane that a test runs on."""
    found = control_plane(version)
    found.check()
    return found


@pytest.fixture
def namespace(plane: ControlPlane, neighbours: Callable[[ControlPlane], Neighbours]) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    plane.http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    yield name
    # Its pods must not be in the next test's way; the rest may take its time. Who owns pods can make no others once the
    # namespace is going.
    plane.http.delete(f"/api/v1/namespaces/{name}").raise_for_status()
    # A storm leaves hundreds, and the API server deletes them one after another.
    plane.http.delete(f"/api/v1/namespaces/{name}/pods", params={"gracePeriodSeconds": "0"}, timeout=60)
    neighbours(plane).release(name)


@pytest.fixture(scope="module")
def rollcall(control_plane: Callable[[str], ControlPlane]) -> Iterator[Callable[..., RollcallServer]]:
    """Start and register a server: `rollcall(plane, config, beside)`, with the text of files beside the configuration.
    One a configuration and control plane, for the module.
    """
    started: dict[tuple[str, str], RollcallServer] = {}
    registered: dict[str, RollcallServer] = {}

    def serving(
        plane: ControlPlane, config: Manifest = KOORDINATOR, beside: Mapping[str, str] = EMPTY
    ) -> RollcallServer:
        key = (plane.version, yaml.safe_dump([config, dict(beside)]))
        if key not in started:
            started[key] = RollcallServer(plane, config, beside=beside)
        server, before = started[key], registered.get(plane.version)
        if server is not before:
            if before is not None:
                before.unregister()
            server.until_ready()
            server.register()
            until_asked(plane)
            registered[plane.version] = server
        return server

    yield serving
    for server in started.values():
        server.close()


def until_asked(plane: ControlPlane) -> None:
    """Wait until the API server calls the webhooks of both configurations."""

    def posted(workload: Manifest) -> httpx.Response:
        path = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
        return plane.http.post(path, params={"dryRun": "All"}, json=workload)

    def asked_to_mutate() -> bool:
        answer = posted(two_cliques("probe", "default"))
        assert answer.is_success, answer.text
        return "rollcall.dev/scheduler" in answer.json()["metadata"].get("labels", {})

    def asked_to_validate() -> bool:
        # Refused whatever is configured.
        answer = posted(two_cliques("probe", "default", labels={"rollcall.dev/scheduler": "nobody"}))
        return "rollcall/scheduler-unknown" in answer.text

    eventually(asked_to_mutate, "the API server asks rollcall to mutate")
    eventually(asked_to_validate, "the API server asks rollcall to validate")


@pytest.fixture
def server(plane: ControlPlane, rollcall: Callable[..., RollcallServer]) -> RollcallServer:
    """A server with koord-scheduler as its default, registered with the test's control plane."""
    return rollcall(plane)


@pytest.fixture
def nodes(plane: ControlPlane) -> Iterator[Callable[..., list[str]]]:
    """Add nodes: `nodes(count, cpu=..., gpu=..., labels=...)`. They go with the test."""

    def add(number: int, **room: object) -> list[str]:
        return add_nodes(plane, number, **room)  # type: ignore[arg-type]

    yield add
    remove_nodes(plane)


@pytest.fixture(scope="session")
def scheduler(control_plane: Callable[[str], ControlPlane]) -> Callable[[ControlPlane, str], Program]:
    """Start a scheduler, once a control plane: `scheduler(plane, "koordinator")`."""
    started: dict[tuple[str, str], Program] = {}

    def running(plane: ControlPlane, name: str) -> Program:
        if (plane.version, name) not in started:
            try:
                started[plane.version, name] = start_scheduler(plane, name)
            except FileNotFoundError as missing:
                pytest.skip(str(missing))
        program = started[plane.version, name]
        program.check()
        return program

    return running


@pytest.fixture
def grove(plane: ControlPlane) -> Callable[[Manifest], Played]:
    """Apply a PodCliqueSet with kubectl; what Grove's operator would do with it follows by `.create()`."""

    def applied(workload: Manifest) -> Played:
        return Played(plane, stored_set(plane, workload))

    return applied


def stored_set(plane: ControlPlane, workload: Manifest) -> Manifest:
    """A PodCliqueSet once kubectl has applied it."""
    plane.apply(workload, check=True)
    metadata = workload["metadata"]
    return plane.get("podcliquesets.grove.io", metadata["name"], metadata["namespace"])


@pytest.fixture(scope="module")
def podgangmaps() -> Iterator[Callable[[ControlPlane], None]]:
    """Have PodGangMaps served, by which Grove's next generation is told: `podgangmaps(plane)`. The kind goes with the
    module, because other modules are about the generation before.
    """
    planes: dict[str, ControlPlane] = {}

    def serve(plane: ControlPlane) -> None:
        if plane.version not in planes:
            planes[plane.version] = plane
            apply_crds(plane, further_crd_files("grove/next"))

    yield serve
    for plane in planes.values():
        plane.kubectl("delete", "crd", "podgangmaps.grove.io", check=True)


@pytest.fixture
def play_next(plane: ControlPlane, podgangmaps: Callable[[ControlPlane], None]) -> Callable[[Manifest], NextPlayed]:
    """The same for the operator of Grove's next generation: `play_next(manifest).create()` for a new set, and
    `play_next(manifest).migrate()` for one that `grove(manifest).create()` made.
    """

    def applied(workload: Manifest) -> NextPlayed:
        podgangmaps(plane)
        return NextPlayed(plane, stored_set(plane, workload))

    return applied


@pytest.fixture
def background() -> Iterator[Background]:
    """An event loop that runs while the test waits."""
    found = Background()
    yield found
    found.close()


@pytest.fixture
def balancer(background: Background) -> Iterator[Balancer]:
    """A balancer that learns late of what is not ready."""
    found = Balancer(background, lag=2.0)
    yield found
    found.close()


@pytest.fixture(scope="module")
def reconcilers() -> Iterator[dict[str, ReconcilerProcess]]:
    """A reconciler for each control plane, for the module."""
    found: dict[str, ReconcilerProcess] = {}
    yield found
    for one in found.values():
        one.close()


@pytest.fixture
def reconciler(plane: ControlPlane) -> Iterator[Callable[..., ReconcilerProcess]]:
    """Start reconcilers; they go with the test."""
    started: list[ReconcilerProcess] = []

    def start(config: Manifest = KOORDINATOR, *options: str, **narrowed: Any) -> ReconcilerProcess:
        found = ReconcilerProcess(plane, config, *options, **narrowed)
        started.append(found)
        return found

    yield start
    for found in started:
        found.close()
