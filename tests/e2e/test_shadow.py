"""Shadows on a real API server: what another scheduler, or another configuration, would have refused is admitted, and
stands in the audit log and in the metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import yaml

from tests.configurations import configuration_of
from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import two_cliques

NEXT = "next.yaml"
QUEUE: Manifest = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "shadow-team"},
    # -1 is no limit.
    "spec": {"resources": {name: {"quota": 0, "limit": -1} for name in ("cpu", "memory", "gpu")}},
}


def said(plane: ControlPlane, name: str, namespace: str) -> dict[str, str]:
    """What the audit log says of the creation of a set."""
    return eventually(
        lambda: next((one for one in plane.notes(name, namespace) if f"shadow.{NEXT}" in one), None),
        f"{name} is in the audit log",
    )


def test_what_a_shadow_would_refuse_is_admitted_and_told(
    plane: ControlPlane, rollcall: Callable[..., RollcallServer], namespace: str
) -> None:
    beside = {NEXT: yaml.safe_dump(configuration_of("kai-scheduler"))}
    config = {**KOORDINATOR, "shadow": ["kai-scheduler", {"config": NEXT}]}
    server = rollcall(plane, config, beside)

    def counted() -> list[float]:
        return [
            server.metric("rollcall_shadow_reviews_total", shadow="kai-scheduler", decision="allowed", would="denied"),
            server.metric("rollcall_shadow_denials_total", shadow="kai-scheduler", rule="kai/no-queue"),
        ]

    before = counted()
    # The API server has noted who wrote the label before it called the webhook.
    plane.apply(two_cliques("plain", namespace), check=True)
    own = two_cliques("labelled", namespace, labels={"rollcall.dev/scheduler": "koord-scheduler"})
    plane.apply(own, check=True)
    found = said(plane, "plain", namespace)
    assert found["decision"] == "allowed"
    assert found["backend"] == "koord-scheduler"
    assert found["shadow.kai-scheduler"] == found[f"shadow.{NEXT}"] == "denied: kai/no-queue"
    chosen = said(plane, "labelled", namespace)
    assert chosen["shadow.kai-scheduler"] == "denied: kai/no-queue"
    # Its configuration does not enable the scheduler that the author named.
    assert chosen[f"shadow.{NEXT}"] == "denied: rollcall/scheduler-unknown"
    assert counted() == [number + 2 for number in before]
    recorded = plane.get("podcliqueset", "plain", namespace)["metadata"]["labels"]
    assert recorded["rollcall.dev/scheduler"] == "koord-scheduler"

    # The server may read the queues of the other scheduler, and follows them.
    numbers = count()

    def says(expected: str) -> bool:
        name = f"queued-{next(numbers)}"
        plane.apply(two_cliques(name, namespace, labels={"kai.scheduler/queue": "shadow-team"}), check=True)
        return said(plane, name, namespace)["shadow.kai-scheduler"] == expected

    eventually(lambda: says("denied: kai/queue"), "the queues are known")
    plane.apply(QUEUE, check=True)
    eventually(lambda: says("allowed"), "the queue is known")
    plane.kubectl("delete", "queues.scheduling.run.ai", "shadow-team", check=True)
