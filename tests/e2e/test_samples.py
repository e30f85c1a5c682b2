"""The manifests that this project publishes, applied like a user would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.rollcall_server import RollcallServer

MANIFESTS = Path(__file__).parents[2] / "manifests"
FACTS, SAMPLES = MANIFESTS / "facts", MANIFESTS / "samples"


@pytest.fixture
def facts(plane: ControlPlane) -> None:
    """The cluster that `manifests/facts` describes, as real objects."""
    plane.kubectl("apply", "-f", FACTS, check=True)


@pytest.mark.usefixtures("facts")
def test_the_sample_is_accepted_and_the_faulty_one_refused_with_all_its_faults(
    plane: ControlPlane, server: RollcallServer
) -> None:
    try:
        ran = plane.kubectl("apply", "-f", SAMPLES / "disaggregated.yaml", check=True)
        assert ran.out == "podcliqueset.grove.io/inference created\n"
        refused = plane.kubectl("apply", "-f", SAMPLES / "refused.yaml")
        assert refused.code == 1
        rules = ("quota", "mnnvl", "qos-class", "scaling-group-topology")
        assert [rule for rule in rules if f"koordinator/{rule}: " not in refused.err] == []
    finally:
        plane.kubectl("delete", "podcliqueset", "--all", "-n", "default", check=True)
        # All but the namespace.
        for kind in ("clustertopologybinding", "clusternetworktopology", "elasticquotas.scheduling.sigs.k8s.io"):
            plane.kubectl("delete", kind, "--all", check=True)
        plane.kubectl("delete", "priorityclass", "koord-prod", check=True)
