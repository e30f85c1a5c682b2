"""The stage of a gang, with an API server that is ahead of the watches."""

from __future__ import annotations

from typing import Any

from tests.played import run
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import CLIQUES, SCALING_GROUPS, controlled_by, grove_pod, pod_clique
from tests.unit.reconciler.opted_in_workloads import job, job_pod, job_set_pod, opted_in_world
from tests.unit.reconciler.running_reconciler import NOWHERE, at_once, podgang, world
from webhook.cluster.client import Client
from webhook.gangs.pod_watches import MOST_READ, Controllers, Stages
from webhook.model.gang_objects import Stage
from webhook.model.grove import PodGang
from webhook.model.place import GROVE_POD_CONTROLLERS, OPTED_IN_POD_CONTROLLERS, PodControllers
from webhook.workloads.job import Job
from webhook.workloads.opted_in_gang import gangs_of

GANG = PodGang(podgang("demo-0-a"))


def stage_of(cluster: WritableWorld, gang: PodGang = GANG, kinds: PodControllers = GROVE_POD_CONTROLLERS) -> Stage:
    """The stage of a gang, where the watches of controllers have brought nothing yet."""

    async def story() -> Stage:
        client = at_once(Client(NOWHERE, cluster))
        controllers = Controllers(client, kinds, lambda _: None, lambda: None, lambda _: None)
        controllers.follow({kind.api for kind in kinds})
        try:
            return await Stages(client, lambda _: controllers).read_stage(gang)
        finally:
            await controllers.close()

    return run(story())


def test_pods_of_a_job_with_a_manual_selector_are_seen_as_bound() -> None:
    bound, other = job_pod(0), job_set_pod("node", 0, of="train", gang="train")
    # The Job controller does not label them then.
    del bound["metadata"]["labels"]["batch.kubernetes.io/job-name"]
    other["spec"]["nodeName"] = "n1"
    cluster = opted_in_world((PODS, bound), (PODS, other))
    gang = next(gangs_of(Job(job(manualSelector=True))))
    assert stage_of(cluster, gang, OPTED_IN_POD_CONTROLLERS) is Stage.WAITING, "what is on a node is the JobSet's"
    bound["spec"]["nodeName"] = "n1"
    assert stage_of(cluster, gang, OPTED_IN_POD_CONTROLLERS) is Stage.BOUND


def test_a_pod_counts_before_its_pod_clique_is_in_the_cache() -> None:
    cluster = world("demo-0-a")
    cluster.put(PODS, grove_pod("p", nodeName="n1"))
    assert stage_of(cluster) is Stage.BOUND


def test_every_controller_above_a_pod_is_read() -> None:
    cluster = world("demo-0-a")
    cluster.remove(CLIQUES, "team-a", "demo-0-a")
    clique, group = pod_clique("demo-0-a"), pod_clique("demo-0-g")
    clique["metadata"]["ownerReferences"] = controlled_by("PodCliqueScalingGroup", "demo-0-g", "g")
    group["metadata"]["uid"] = "g"
    cluster.put(PODS, grove_pod("p"))
    cluster.put(CLIQUES, clique)
    assert stage_of(cluster) is Stage.EMPTY, "nothing says whose the scaling group is"
    cluster.put(SCALING_GROUPS, group)
    assert stage_of(cluster) is Stage.WAITING


def forged(name: str, clique: str) -> dict[str, Any]:
    found = grove_pod(name, nodeName="n1")
    found["metadata"]["ownerReferences"] = controlled_by("PodClique", clique, "invented")
    return found


def test_a_forged_pod_does_not_count_and_costs_no_more_than_one_read() -> None:
    cluster = world("demo-0-a")
    for index in range(10):
        cluster.put(PODS, forged(f"f{index}", "demo-0-a"))
    for index, clique in enumerate(("a,metadata.name!=b", "../secrets", "A", "")):
        cluster.put(PODS, forged(f"g{index}", clique))
    assert stage_of(cluster) is Stage.EMPTY
    # Once among the pods on nodes, and once among all.
    assert [path for path in cluster.asked if path.endswith("/team-a/podcliques")] == [
        "/apis/grove.io/v1alpha1/namespaces/team-a/podcliques"
    ] * 2


def test_forged_pods_of_many_controllers_cost_a_bounded_number_of_reads() -> None:
    cluster = world("demo-0-a")
    for index in range(2 * MOST_READ):
        cluster.put(PODS, forged(f"f{index}", f"clique-{index}"))
    assert stage_of(cluster) is Stage.EMPTY
    assert sum(path.endswith("/team-a/podcliques") for path in cluster.asked) == 2 * MOST_READ
