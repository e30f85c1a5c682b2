"""The control planes of the soundness tests: a scheduler with Rollcall's profile for it, and what its cases may ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import NamedTuple

from tests.e2e.conftest import apply_crds
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fit.batch import Batches, facts_of_apis
from tests.e2e.fit.case import BLOCK, RACK, Case, named
from tests.e2e.fit.sketch import Offers
from tests.e2e.programs import eventually
from tests.e2e.schedulers import start_scheduler
from tests.unit.worlds import settings_of
from webhook.model.facts import ClusterFacts
from webhook.offline.fact_files import facts_in

NETWORK: Manifest = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "BlockLayer", "labelKey": [BLOCK]},
            {"topologyLayer": "RackLayer", "parentTopologyLayer": "BlockLayer", "labelKey": [RACK]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"},
        ]
    },
}
# The gates that `ControlPlane` gives every program of a version.
GATES = {
    "1.35": ["GenericWorkload", "GangScheduling"],
    "1.36": ["GenericWorkload", "GangScheduling"],
    "1.37": ["GenericWorkload", "CompositePodGroup", "TopologyAwareWorkloadScheduling"],
}


class Cluster(NamedTuple):
    """A scheduler, and what its cases may ask. `program` is its name for `start_scheduler`, `profile` that of
    the profile of Rollcall.
    """

    program: str
    profile: str
    config: Manifest
    offers: Offers
    needs: tuple[Manifest, ...] = ()


def kube(version: str) -> Cluster:
    """kube-scheduler of that version."""
    trees = version == "1.37"
    offers = Offers(topology=True, nested=True, trees=True) if trees else Offers(merged=True)
    return Cluster("kube", "default-scheduler", {"gangScheduling": True, "schedulerGates": GATES[version]}, offers)


def koordinator(*, runtime: bool) -> Cluster:
    """koord-scheduler with quotas, limited by their runtime or by their maximum."""
    program = "koordinator with runtime quotas" if runtime else "koordinator with quotas"
    arguments = {"enableRuntimeQuota": runtime, "enableCheckParentQuota": False}
    return Cluster(program, "koord-scheduler", arguments, Offers(topology=True, quotas=True), (NETWORK,))


SCHEDULER_PLUGINS = Cluster("scheduler-plugins", "scheduler-plugins-scheduler", {}, Offers(merged=True))


def batches_on(plane: ControlPlane, cluster: Cluster) -> Batches:
    """The way of cases into a control plane where this scheduler runs."""
    settings = settings_of(cluster.profile, cluster.config)
    facts = facts_of_apis(plane)
    for manifest in cluster.needs:
        plane.apply(manifest, check=True)
        facts = with_facts(facts, [manifest])
    settle = _until_domains_known(plane) if cluster.needs else _at_once
    return Batches(plane, settings.profiles[settings.default], facts, settle)


@contextmanager
def own_plane(version: str, cluster: Cluster) -> Iterator[Batches]:
    """A control plane for this scheduler alone. Raises FileNotFoundError where there is no program of it."""
    plane = ControlPlane(version)
    try:
        apply_crds(plane)
        plane.start_controller_manager()
        scheduler = start_scheduler(plane, cluster.program)
        with batches_on(plane, cluster) as batches:
            yield batches
            scheduler.check()
    finally:
        plane.close()


def _at_once(_: Sequence[Case], __: Sequence[str]) -> None:
    return


def _until_domains_known(plane: ControlPlane) -> Callable[[Sequence[Case], Sequence[str]], None]:
    """Wait until koord-scheduler knows the racks: it puts its tree together every ten seconds, and does not try a gang
    again for minutes that came before.
    """

    def known() -> set[str]:
        status = plane.get("clusternetworktopology", "default").get("status", {})
        return {one["topologyInfo"]["topologyName"] for one in status.get("detailStatus", [])}

    def settle(cases: Sequence[Case], ids: Sequence[str]) -> None:
        asking = [(case, name) for case, name in zip(cases, ids, strict=True) if case.required]
        wanted: set[str] = set()
        for case, name in asking:
            both = [node.labels for node in case.nodes if BLOCK in node.labels and RACK in node.labels]
            wanted |= {str(named(labels[RACK], name)) for labels in both}
        if wanted:
            eventually(lambda: wanted <= known(), "koord-scheduler knows the racks", timeout=25, pause=1)

    return settle


def with_facts(known: ClusterFacts, manifests: Sequence[Manifest]) -> ClusterFacts:
    """`known` with what manifests of a cluster tell, through the projections that `--facts` uses."""
    found = facts_in(manifests)
    told = {part.name: getattr(found, part.name) for part in fields(found)}
    return replace(known, **{name: value for name, value in told.items() if value is not None})
