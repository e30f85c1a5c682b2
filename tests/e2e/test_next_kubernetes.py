"""The Workload API under the names of later releases, on the real kube-scheduler 1.37: gangs start whole under those of
1.38, and nothing is written under names that Rollcall does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.bound_pods import is_bound, stays_unbound
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove, Nodes, Rollcall, Scheduler
from tests.e2e.hosted_reconciler import HostedReconciler
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import eventually
from tests.e2e.renamed_api import GROUP, OF_1_38, UNKNOWN, RenamedApi
from tests.e2e.test_disruption_modes import objects_of
from tests.e2e.workloads import two_cliques
from webhook.gangs.hold_reasons import Reason
from webhook.gangs.key import POD_GANG, GangKey

Later = Callable[..., HostedReconciler]


@pytest.fixture
def later(plane: ControlPlane, namespace: str) -> Iterator[Later]:
    """A reconciler that sees the API under these names: `later(OF_1_38)`."""
    started: list[HostedReconciler] = []

    def running(names: Mapping[str, str], **config: Any) -> HostedReconciler:
        found = HostedReconciler(RenamedApi(plane, names), configuration(**config), namespace=namespace)
        started.append(found)
        found.until_leading()
        return found

    yield running
    for found in started:
        found.stop()


@pytest.fixture(autouse=True)
def only_1_37(plane: ControlPlane) -> None:
    if plane.version != "1.37":
        pytest.skip("these names are for the API of 1.37")


def test_a_gang_starts_whole_under_the_names_of_1_38(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    rollcall: Rollcall,
    scheduler: Scheduler,
    later: Later,
) -> None:
    scheduler(plane, "kube")
    rollcall(plane, configuration())
    running = later(OF_1_38)
    # Room for two of the three pods.
    nodes(1, cpu=2)
    played = grove(two_cliques("demo", namespace)).create()
    played.lift_gates()
    eventually(lambda: len(objects_of(plane, namespace)) == 4, "its objects are written")
    stays_unbound(played)
    nodes(1, cpu=2)
    is_bound(played, 3)
    made = [one.path.rsplit("/", 2)[1] for one in running.network.changes if GROUP in one.path]
    assert sorted(made) == ["compositepodgroups", "podgroups", "podgroups", "workloads"]
    versions = {
        one.path.split(f"{GROUP}/", 1)[1].split("/", 1)[0] for one in running.network.changes if GROUP in one.path
    }
    assert versions == {"v1beta1"}


def test_nothing_is_written_under_names_that_were_not_read(
    plane: ControlPlane,
    namespace: str,
    grove: Grove,
    rollcall: Rollcall,
    scheduler: Scheduler,
    later: Later,
) -> None:
    """The gang waits, with the reason; no pod of it starts alone."""
    scheduler(plane, "kube")
    rollcall(plane, configuration())
    running = later(UNKNOWN)
    played = grove(two_cliques("demo", namespace)).create()
    played.lift_gates()
    key = GangKey(namespace, "demo-0", POD_GANG)

    def held() -> bool:
        health = running.reconciler.health.known(key)
        assert health is not None
        first = health.obstacles[0]
        assert first.reason is Reason.API_MISSING, first
        assert "which this release of Rollcall has not read" in first.why
        return True

    eventually(held, "it is said why the gang waits", timeout=30)
    stays_unbound(played)
    assert objects_of(plane, namespace) == []
    assert [one.path for one in running.network.exchanges if one.changes_gangs and GROUP in one.path] == []
