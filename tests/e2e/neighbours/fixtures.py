"""The fixtures for the controllers of other projects; tests/e2e/conftest.py has them known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.background import Background
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.kubelet import Kubelet
from tests.e2e.neighbours.running import Neighbour, Neighbours
from tests.e2e.workload_objects import created, deleted


@pytest.fixture(scope="session")
def neighbours(
    # Which ends later.
    control_plane: Callable[[str], ControlPlane],
    workload_kinds: Callable[..., None],
) -> Iterator[Callable[[ControlPlane], Neighbours]]:
    """The controllers beside a control plane, none of which runs until `controllers` wants it. They end before it."""
    found: dict[str, Neighbours] = {}

    def beside(plane: ControlPlane) -> Neighbours:
        return found.setdefault(plane.version, Neighbours(plane, workload_kinds))

    yield beside
    for one in found.values():
        one.close()


@pytest.fixture(scope="module")
def controllers(
    neighbours: Callable[[ControlPlane], Neighbours],
) -> Iterator[Callable[..., dict[str, Neighbour]]]:
    """Have controllers run: `controllers(plane, "jobset", "kueue", kueue={"waitForPodsReady": ...})`.

    Each is started once a control plane, and again where it is to have other settings, which are fields of its
    configuration. Their webhooks are registered until the end of the module. A test is skipped where a program is
    missing.
    """
    planes: dict[str, Neighbours] = {}

    def run(plane: ControlPlane, *names: str, **options: Any) -> dict[str, Neighbour]:
        found = planes[plane.version] = neighbours(plane)
        try:
            return found.run(*names, **options)
        except FileNotFoundError as missing:
            pytest.skip(str(missing))

    yield run
    for found in planes.values():
        found.unregister()


@pytest.fixture
def kubelet(plane: ControlPlane, namespace: str, background: Background) -> Kubelet:
    """What kubelets would do with the pods of the test's namespace, for the length of the test."""
    return Kubelet(plane, namespace, background)


@pytest.fixture
def for_the_test(plane: ControlPlane) -> Iterator[Callable[[Manifest], Manifest]]:
    """Store an object that belongs to no namespace; it goes with the test."""
    stored: list[Manifest] = []

    def store(manifest: Manifest) -> Manifest:
        stored.append(created(plane, manifest))
        return stored[-1]

    yield store
    for one in reversed(stored):
        deleted(plane, one, "Background")
