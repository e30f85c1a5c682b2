"""The server's knowledge of a real cluster: it watches, it reads missing facts live, and it reports what it could not
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.e2e.conftest import KOORDINATOR, STAND_INS, until_asked
from tests.e2e.control_plane import LIMITED, ControlPlane, Manifest, Ran
from tests.e2e.fixture_types import Grove, Nodes
from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer, review
from tests.e2e.workloads import two_cliques

LABEL = "rollcall.dev/scheduler"


def namespace_of(name: str, **labels: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def recorded(plane: ControlPlane, name: str, namespace: str) -> str:
    return str(plane.get("podcliqueset", name, namespace)["metadata"]["labels"][LABEL])


def test_a_namespace_that_was_just_created_chooses_the_scheduler(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    """One `kubectl apply` of both: the choice is recorded permanently, so a cache that lags must not decide."""
    own = f"{namespace}-chosen"
    manifests = namespace_of(own, **{LABEL: "default-scheduler"}), two_cliques("demo", own)
    plane.apply(*manifests, check=True)
    assert recorded(plane, "demo", own) == "default-scheduler"
    plane.kubectl("delete", "namespace", own, "--wait=false", check=True)


def test_a_changed_namespace_label_applies_to_new_workloads_only(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    plane.apply(two_cliques("first", namespace), check=True)
    plane.kubectl("label", "namespace", namespace, f"{LABEL}=default-scheduler", check=True)

    def follows() -> bool:
        plane.kubectl("delete", "podcliqueset", "second", "-n", namespace, "--ignore-not-found", check=True)
        plane.apply(two_cliques("second", namespace), check=True)
        return recorded(plane, "second", namespace) == "default-scheduler"

    eventually(follows, "the new label chooses")
    plane.kubectl("annotate", "podcliqueset", "first", "-n", namespace, "seen=yes", check=True)
    assert recorded(plane, "first", namespace) == "koord-scheduler"


def test_a_changed_enforcement_label_of_a_namespace_takes_effect(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    asking = two_cliques("demo", namespace, annotations={"scheduling.grove.io/koordinator-quota": "nobody-has-it"})
    refused = plane.apply(asking)
    assert "no ElasticQuota has that name" in refused.err
    plane.kubectl("label", "namespace", namespace, "rollcall.dev/enforcement=warn", check=True)
    eventually(lambda: plane.apply(asking).code == 0, "what was refused is a warning")


def test_a_quota_that_becomes_a_parent_is_refused(plane: ControlPlane, server: RollcallServer, namespace: str) -> None:
    name = f"quota-{namespace}"
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"max": {"cpu": "1"}, "min": {"cpu": "1"}},
    }
    plane.apply(quota, check=True)
    asking = two_cliques("demo", namespace, annotations={"scheduling.grove.io/koordinator-quota": name})
    assert plane.apply(asking, options=["--dry-run=server"]).code == 0
    parent = "quota.scheduling.koordinator.sh/is-parent=true"
    plane.kubectl("label", "elasticquotas.scheduling.sigs.k8s.io", name, "-n", namespace, parent, check=True)
    eventually(lambda: "it is a parent quota" in plane.apply(asking).err, "the quota is known as a parent")


@pytest.fixture
def unrecorded(plane: ControlPlane, server: RollcallServer, namespace: str) -> Iterator[Played]:
    """A set that was stored without a webhook, with its PodGangs and pods."""
    server.unregister()

    def stored() -> Manifest | None:
        plane.apply(two_cliques("older", namespace), check=True)
        found = plane.get("podcliqueset", "older", namespace)
        if LABEL not in found["metadata"].get("labels", {}):
            return found
        plane.kubectl("delete", "podcliqueset", "older", "-n", namespace, check=True)
        return None

    played = Played(plane, eventually(stored, "a set is stored without a record")).create()
    server.register()
    until_asked(plane)
    yield played


def test_a_set_older_than_rollcall_is_adopted_if_none_of_its_pods_is_bound(
    plane: ControlPlane, namespace: str, unrecorded: Played
) -> None:
    adopt = ("label", "podcliqueset", "older", "-n", namespace, f"{LABEL}=koord-scheduler")
    assert plane.kubectl(*adopt).code == 0
    assert recorded(plane, "older", namespace) == "koord-scheduler"
    unrecorded.create_pod(unrecorded.cliques[0], 0)
    schedulers = sorted(pod["spec"]["schedulerName"] for pod in unrecorded.pods())
    assert schedulers == ["default-scheduler"] * 3 + ["koord-scheduler"]


def test_a_set_with_bound_pods_is_not_adopted(
    plane: ControlPlane, namespace: str, unrecorded: Played, nodes: Nodes
) -> None:
    (node,) = nodes(1)
    unrecorded.lift_gates()
    pod = unrecorded.pods()[0]["metadata"]["name"]
    target = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"kind": "Node", "name": node},
    }
    bound = plane.http.post(f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", json=target)
    # A kube-scheduler that another test has started may be faster, which is as good.
    assert bound.is_success or bound.status_code == httpx.codes.CONFLICT, bound.text
    adopt = ("label", "podcliqueset", "older", "-n", namespace, f"{LABEL}=koord-scheduler")
    refused = plane.kubectl(*adopt)
    assert refused.code == 1
    assert "its gangs were prepared for no recorded scheduler and still exist" in refused.err


def test_the_recorded_scheduler_of_a_gang_with_pods_cannot_be_changed(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    played = grove(two_cliques("demo", namespace)).create()
    change = ("label", "podcliqueset", "demo", "-n", namespace, "--overwrite", f"{LABEL}=default-scheduler")
    eventually(lambda: plane.kubectl(*change, "--dry-run=server").code == 1, "the PodGang is known")
    refused = plane.kubectl(*change)
    assert refused.code == 1
    assert "rollcall/scheduler-change" in refused.err
    assert recorded(plane, "demo", namespace) == "koord-scheduler"
    assert played.podgang("demo-0")["metadata"]["labels"][LABEL] == "koord-scheduler"


def narrowed_to(verbs: list[str], resource: str = "podcliquesets") -> Callable[[Manifest], Manifest | None]:
    """Everything else as it is, and of PodCliqueSets, or another resource, only those verbs."""

    def narrow(rule: Manifest) -> Manifest | None:
        if rule["resources"] != [resource]:
            return rule
        return {**rule, "verbs": verbs} if verbs else None

    return narrow


def test_a_set_that_is_not_in_the_cache_is_read_live(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    """A server that may read one PodCliqueSet, but not list them: as one whose cache is empty or behind."""
    played = grove(two_cliques("demo", namespace)).create()
    limited = RollcallServer(plane, KOORDINATOR, LIMITED, narrowed_to(["get"]))
    try:
        # The watch may not list, so it is not ready, and says which right is missing.
        eventually(lambda: only_sets_are_unread(limited), "the missing right is told, and all else is read")
        pod = played.pod(played.cliques[0], 7)
        answer = limited.http.post("/mutate", json=review(pod, namespace)).json()["response"]
        assert (answer["allowed"], answer["patchType"]) == (True, "JSONPatch")
        assert limited.series("rollcall_lookups_total") == {"found": 1, "absent": 0, "failed": 0}
        pod["metadata"]["labels"]["app.kubernetes.io/part-of"] = "nobody"
        answer = limited.http.post("/mutate", json=review(pod, namespace)).json()["response"]
        assert answer["warnings"] == [f"pod left as it is: its PodCliqueSet {namespace}/nobody was not found"]
        assert "patch" not in answer
    finally:
        limited.program.stop()
        limited.http.close()


def readiness(server: RollcallServer) -> str:
    try:
        return server.http.get("/readyz").text
    except httpx.TransportError as error:
        return str(error)


def only_sets_are_unread(server: RollcallServer) -> bool:
    """Return whether the server waits only for a right: what is read later would be missing for a pod too."""
    reasons = [line for line in readiness(server).splitlines() if line.startswith("cluster: ")]
    return len(reasons) == 1 and "podcliquesets.grove.io is forbidden" in reasons[0]


def test_a_set_that_cannot_be_read_is_an_error_and_not_a_verdict(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    played = grove(two_cliques("demo", namespace)).create()
    limited = RollcallServer(plane, KOORDINATOR, LIMITED, narrowed_to([]))
    try:
        eventually(lambda: only_sets_are_unread(limited), "the missing right is told, and all else is read")
        answer = limited.http.post("/mutate", json=review(played.pod(played.cliques[0], 7), namespace))
        assert answer.status_code == 500
        assert answer.text.startswith(f"the PodCliqueSet {namespace}/demo could not be read: HTTP 403: ")
        # Pods of no gang need no owner.
        stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}
        assert limited.http.post("/mutate", json=review(stranger, namespace)).json()["response"]["allowed"] is True
    finally:
        limited.program.stop()
        limited.http.close()


@pytest.mark.soak
def test_a_server_without_the_right_to_list_pods_is_ready_and_judges_by_other_facts(
    plane: ControlPlane, namespace: str
) -> None:
    """As one that was upgraded, and its rights were not."""
    profile = {"name": "default-scheduler", "config": {"gangScheduling": True}}
    config = {**KOORDINATOR, "scheduler": {"profiles": [profile]}}
    limited = RollcallServer(plane, config, LIMITED, narrowed_to([], "pods"))
    try:
        limited.until_ready()
        eventually(lambda: limited.metric("rollcall_cache_failing", kind="Pod") == 1, "pods may not be listed")
        spec = {"schedulingGroup": {"podGroupName": "worker"}}
        pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker-0"}, "spec": spec}
        answer = limited.http.post("/validate", json=review(pod, namespace)).json()["response"]
        assert answer["allowed"] is True
        assert "kube/pod-group-missing" in answer["warnings"][0]
        assert answer["auditAnnotations"]["unjudged"] == "kube/pod-schedulers"
        assert limited.http.get("/readyz").is_success
    finally:
        limited.program.stop()
        limited.http.close()


@pytest.mark.soak
def test_kinds_that_are_installed_later_are_watched(version: str) -> None:
    """A cluster without Koordinator: ready all the same, its workloads refused for what is missing; installed, they are
    accepted at once.
    """
    plane = ControlPlane(version)
    try:
        grove_crds = [f"--filename={path}" for path in sorted(STAND_INS.glob("*grove.io_*.yaml"))]
        plane.kubectl("apply", "--server-side", *grove_crds, check=True)
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all", check=True)
        server = RollcallServer(plane, KOORDINATOR)
        server.until_ready()
        server.register()

        def refused() -> Ran | None:
            ran = plane.apply(two_cliques("demo", "default"))
            return ran if ran.code else None

        told = eventually(refused, "the API server asks rollcall").err
        assert "this cluster does not serve scheduling.sigs.k8s.io/v1alpha1 PodGroup" in told
        plane.kubectl("delete", "podcliqueset", "demo", "--ignore-not-found", check=True)
        koordinator = [f"--filename={path}" for path in sorted(STAND_INS.glob("scheduling.*.yaml"))]
        plane.kubectl("apply", "--server-side", *koordinator, check=True)
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all", check=True)
        eventually(lambda: plane.apply(two_cliques("demo", "default")).code == 0, "the set is accepted", timeout=5)
        quotas = "rollcall_cache_lists_total"
        eventually(lambda: server.metric(quotas, kind="ElasticQuota") == 1, "its quotas are followed", timeout=30)
        assert server.http.get("/readyz").text == "ready\n"
        assert server.program.resident_megabytes < 200
        server.close()
    finally:
        plane.close()
