"""The requests that never wait for Rollcall: while no replica answers and failurePolicy is Fail, only gangs are held
up.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Rollcall
from tests.e2e.nodes import add_nodes, remove_nodes
from tests.e2e.programs import eventually, program
from tests.e2e.rollcall_server import RollcallServer, rollcall
from tests.e2e.test_pods import plain_pod
from tests.e2e.workloads import two_cliques
from webhook.certificates.files import CA_FILE

# As many hooks as there can be.
EVERYBODY = configuration_of(
    {"name": "koord-scheduler", "gate": False},
    {"name": "default-scheduler", "config": {"gangScheduling": True}},
    "volcano",
    "kai-scheduler",
    "lpx-scheduler",
    "scheduler-plugins-scheduler",
)
GANG = {
    "app.kubernetes.io/managed-by": "grove-operator",
    "grove.io/podgang": "demo-0",
    "grove.io/podclique": "demo-0-a",
}
_MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
def dead(plane: ControlPlane, rollcall: Rollcall) -> Iterator[RollcallServer]:
    """A server that is registered, and killed."""
    server = rollcall(plane, EVERYBODY)
    server.program.stop(kill=True)
    yield server
    server.register()
    server.program.start()
    server.until_ready()


def posted(plane: ControlPlane, path: str, body: Manifest, *, dry: bool = True) -> str:
    """Why an object was refused, or nothing."""
    answer = plane.http.post(path, params={"dryRun": "All"} if dry else {}, json=body)
    return "" if answer.is_success else answer.text


def gang_pod(plane: ControlPlane, namespace: str) -> str:
    return posted(plane, f"/api/v1/namespaces/{namespace}/pods", plain_pod(namespace, **GANG))


@pytest.mark.every_version
def test_only_gangs_are_refused_while_rollcall_is_down(
    plane: ControlPlane, dead: RollcallServer, namespace: str
) -> None:
    def named(kind: str, api: str = "v1", space: str | None = namespace, **fields: object) -> Manifest:
        metadata = {"name": "other"} if space is None else {"name": "other", "namespace": space}
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}

    here, refused = f"namespaces/{namespace}", "failed calling webhook"
    # Gangs do.
    assert refused in gang_pod(plane, namespace)
    sets = f"/apis/grove.io/v1alpha1/{here}/podcliquesets"
    assert refused in posted(plane, sets, two_cliques("demo", namespace))
    group = named("PodGroup", "scheduling.volcano.sh/v1beta1", spec={"minMember": 2})
    assert refused in posted(plane, f"/apis/scheduling.volcano.sh/v1beta1/{here}/podgroups", group)
    # No other requests: those that keep the cluster alive, and workloads beside gangs.
    for space in ("kube-system", "kube-node-lease", ROLLCALL_NAMESPACE):
        assert gang_pod(plane, space) == ""
        sets = f"/apis/grove.io/v1alpha1/namespaces/{space}/podcliquesets"
        assert posted(plane, sets, two_cliques("demo", space)) == ""
    template = {"metadata": {"labels": {"app": "other"}}, "spec": plain_pod(namespace)["spec"]}
    selector = {"matchLabels": {"app": "other"}}
    deployment = named("Deployment", "apps/v1", spec={"selector": selector, "template": template})
    job_template = {"metadata": {}, "spec": {**template["spec"], "restartPolicy": "Never"}}
    lease = named("Lease", "coordination.k8s.io/v1", "kube-node-lease", spec={"holderIdentity": "node"})
    others: list[tuple[str, Manifest]] = [
        (f"/api/v1/{here}/pods", plain_pod(namespace)),
        (f"/api/v1/{here}/configmaps", named("ConfigMap", data={"a": "b"})),
        (f"/api/v1/{here}/secrets", named("Secret")),
        (f"/api/v1/{here}/serviceaccounts", named("ServiceAccount")),
        (f"/apis/apps/v1/{here}/deployments", deployment),
        (f"/apis/batch/v1/{here}/jobs", named("Job", "batch/v1", spec={"template": job_template})),
        ("/api/v1/nodes", named("Node", space=None)),
        ("/api/v1/namespaces", named("Namespace", space=None)),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease),
    ]
    assert {path: why for path, body in others if (why := posted(plane, path, body))} == {}


@pytest.mark.every_version
def test_running_workloads_continue_while_rollcall_is_down(
    plane: ControlPlane, rollcall: Rollcall, namespace: str, grove: Grove
) -> None:
    """Pods of gangs are bound, tell how they are, and end; nodes beat; a scheduler writes what became of a group."""
    server = rollcall(plane, EVERYBODY)
    played = grove(two_cliques("demo", namespace)).create()
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "mine", "namespace": namespace},
        "spec": {"minMember": 1},
    }
    plane.apply(group, check=True)
    (node,) = add_nodes(plane, 1)
    server.program.stop(kill=True)
    try:
        played.lift_gates()
        name = played.pods()[0]["metadata"]["name"]
        pods = f"/api/v1/namespaces/{namespace}/pods"
        bound = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node}}
        plane.http.post(f"{pods}/{name}/binding", json=bound).raise_for_status()
        running = {"status": {"phase": "Running"}}
        plane.http.patch(f"{pods}/{name}/status", json=running, headers=_MERGE).raise_for_status()
        plane.http.patch(f"{pods}/{name}", json={"metadata": {"labels": {"a": "b"}}}, headers=_MERGE).raise_for_status()
        plane.http.delete(f"{pods}/{name}", params={"gracePeriodSeconds": "0"}).raise_for_status()
        groups = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{namespace}/podgroups/mine"
        plane.http.patch(groups, json={"status": {"phase": "Scheduled"}}, headers=_MERGE).raise_for_status()
        label = {"metadata": {"labels": {"example.com/a": "b"}}}
        plane.http.patch(f"/api/v1/nodes/{node}", json=label, headers=_MERGE).raise_for_status()
        plane.kubectl("delete", "podcliqueset", "demo", "-n", namespace, check=True)
    finally:
        server.program.start()
        server.until_ready()
        remove_nodes(plane)


def by_hand(plane: ControlPlane) -> None:
    """Run what docs/how-to/emergency.md has for those without the command."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "emergency.md").read_text()
    (block,) = re.findall(r"^```\n\$ (for .*?)^```", page, re.DOTALL | re.MULTILINE)
    kubectl = program("kubectl", f"kube-{plane.version}")
    assert kubectl is not None
    # Without a home it keeps its cache where it is.
    environment = {
        "PATH": f"{kubectl.parent}:/usr/bin:/bin",
        "HOME": str(plane.folder),
        "KUBECONFIG": str(plane.kubeconfig),
    }
    subprocess.run(["/bin/sh", "-ec", block], env=environment, check=True, capture_output=True, timeout=60)


@pytest.mark.every_version
def test_the_emergency_steps_of_the_documentation_work(
    plane: ControlPlane, dead: RollcallServer, namespace: str
) -> None:
    """As docs/how-to/emergency.md has them: one namespace exempted, and the webhooks removed."""
    plane.kubectl("label", "namespace", namespace, "rollcall.dev/exempt=", check=True)
    eventually(lambda: gang_pod(plane, namespace) == "", "the namespace is exempt")
    plane.kubectl("label", "namespace", namespace, "rollcall.dev/exempt-", check=True)
    eventually(lambda: "failed calling webhook" in gang_pod(plane, namespace), "the namespace is asked about again")
    by_hand(plane)
    eventually(lambda: gang_pod(plane, namespace) == "", "gang pods are let through")
    dead.register()
    eventually(lambda: "failed calling webhook" in gang_pod(plane, namespace), "they are refused again")
    command = ("manifests", "webhooks", "--config", dead.config, "--url", dead.url, "--ca", dead.folder / CA_FILE)
    ignoring = rollcall(*command, "--failure-policy", "Ignore")
    plane.kubectl("apply", "-f", "-", stdin=ignoring, check=True)
    eventually(lambda: gang_pod(plane, namespace) == "", "gang pods are let through")
    plane.kubectl(
        "delete", "mutatingwebhookconfiguration/m-rollcall", "validatingwebhookconfiguration/v-rollcall", check=True
    )
    assert gang_pod(plane, namespace) == ""
