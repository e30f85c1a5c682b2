"""Every way of installation on a real API server, with strict validation and the Pod Security level *restricted*.

The Deployments' Pods are made by the real controllers, so their templates are judged as in any cluster; nothing runs.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import apply_crds
from tests.e2e.control_plane import ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.installed import (
    CHART,
    CLUSTER_WIDE,
    KINDS_OF_OTHERS,
    MANIFESTS,
    VARIANTS,
    documents,
    helm,
    removed,
    rendered,
    said,
)
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import rollcall

PAGE = MANIFESTS.parent / "docs" / "how-to" / "installing.md"
NAMESPACE_OF_HELM = "rollcall-by-helm"


@pytest.fixture(scope="module")
def emptied(version: str, control_plane: Callable[[str], ControlPlane]) -> ControlPlane:
    """A control plane with cert-manager's kinds, and nothing of Rollcall's."""
    plane = control_plane(version)
    if not plane.collects_garbage:
        pytest.skip("there is no kube-controller-manager among the programs, so no Pods are created")
    apply_crds(plane, sorted(KINDS_OF_OTHERS.glob("*.yaml")))
    removed(plane, ROLLCALL_NAMESPACE, NAMESPACE_OF_HELM)
    return plane


@pytest.fixture
def cluster(emptied: ControlPlane, plane: ControlPlane) -> Iterator[ControlPlane]:
    """The same, and with nothing of Rollcall's after the test."""
    yield plane
    removed(plane, ROLLCALL_NAMESPACE, NAMESPACE_OF_HELM)


def left_over(plane: ControlPlane) -> list[str]:
    """What there is of Rollcall that is no namespace's."""
    found = plane.kubectl("get", ",".join(CLUSTER_WIDE), "-o", "name", check=True).out.split()
    return [name for name in found if "rollcall" in name]


def containers_of_pods(plane: ControlPlane, namespace: str) -> set[tuple[str, ...]]:
    """Of each Pod that the controllers made, what runs in it."""
    pods = plane.items(f"/api/v1/namespaces/{namespace}/pods")
    return {tuple(container["name"] for container in pod["spec"]["containers"]) for pod in pods}


def refused_pods(plane: ControlPlane, namespace: str) -> list[str]:
    """The errors that the controllers got for refused Pods, except for a quota that is not counted yet."""
    events = plane.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=FailedCreate")
    return [event["message"] for event in events if "status unknown for quota" not in event["message"]]


def pods_are_made(plane: ControlPlane, namespace: str, *expected: tuple[str, ...]) -> None:
    """Wait until the controllers have made Pods with these containers, and none was refused."""

    def made() -> bool:
        assert refused_pods(plane, namespace) == []
        found = containers_of_pods(plane, namespace)
        assert set(expected) <= found, found
        return True

    eventually(made, "the Pods are made")


@pytest.mark.long
def test_each_variant_can_be_applied_replaced_by_the_next_and_removed(cluster: ControlPlane) -> None:
    for variant in VARIANTS:
        told = cluster.kubectl("apply", "--validate=strict", "-k", MANIFESTS / variant, check=True)
        # A field that is deprecated, or a Pod that would not be admitted, is a warning. kubectl has one of its own for
        # kustomizations that say an order.
        assert [line for line in told.err.splitlines() if "Sorting order is set both" not in line] == []
        pods_are_made(cluster, ROLLCALL_NAMESPACE, ("server",), ("reconciler",))
        labels = cluster.get("namespace", ROLLCALL_NAMESPACE)["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    since = cluster.http.get("/api/v1/namespaces").json()["metadata"]["resourceVersion"]
    cluster.kubectl("delete", "-k", MANIFESTS / "self-managed", check=True)
    is_asked_no_more_before_it_is_gone(cluster, since, ROLLCALL_NAMESPACE)
    assert left_over(cluster) == []
    assert cluster.kubectl("get", "namespace", ROLLCALL_NAMESPACE).code == 1


def test_pod_security_refuses_pods_that_are_not_restricted(cluster: ControlPlane) -> None:
    """So that the test above can fail."""
    cluster.kubectl("apply", "-k", MANIFESTS / "base", check=True)
    deployment = cluster.get("deployment", "rollcall", ROLLCALL_NAMESPACE)
    pod = {**deployment["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] |= {"name": "lax", "namespace": ROLLCALL_NAMESPACE}
    pod["spec"]["priorityClassName"] = ""
    assert cluster.apply(pod, options=("--dry-run=server",)).code == 0
    pod["spec"]["containers"][0]["securityContext"] = {}
    told = cluster.apply(pod, options=("--dry-run=server",))
    assert told.code == 1
    assert 'violates PodSecurity "restricted:latest"' in told.err


def test_the_documented_image_setting_reaches_every_container(cluster: ControlPlane) -> None:
    """Of the reconciler's, too: without its image there are no certificates, and no server is ever ready."""
    (command,) = (line for line in PAGE.read_text().splitlines() if " set image " in line)
    prompt, kubectl, *arguments = shlex.split(command)
    assert (prompt, kubectl) == ("$", "kubectl")
    for variant, containers in {"base": 2, "self-managed": 2}.items():
        cluster.kubectl("apply", "-k", MANIFESTS / variant, check=True)
        cluster.kubectl(*arguments, check=True)
        deployments = cluster.items(f"/apis/apps/v1/namespaces/{ROLLCALL_NAMESPACE}/deployments")
        pods = [found["spec"]["template"]["spec"] for found in deployments]
        images = [container["image"] for pod in pods for container in pod["containers"]]
        assert images == ["registry.example.com/rollcall:0.16.0"] * containers


@pytest.mark.parametrize("variant", VARIANTS)
def test_kustomize_renders_what_the_command_prints(plane: ControlPlane, variant: str) -> None:
    """Of the same configuration, but for the names that kustomize gives to it and what cert-manager is told by."""
    built = documents(plane.kubectl("kustomize", MANIFESTS / variant, check=True).out)
    config = MANIFESTS / variant / "configuration.yaml"
    if not config.exists():
        config = MANIFESTS / "base" / "configuration.yaml"
    options = ["--cert-manager"] if variant == "cert-manager" else []
    expected = said(command(config, *options))
    assert said(built) == expected


def test_the_autoscaled_objects_are_accepted(plane: ControlPlane, namespace: str) -> None:
    scaled = [
        one
        for one in rendered({"autoscaling": {"enabled": True}}, namespace)
        if one["kind"] in {"HorizontalPodAutoscaler", "Deployment"}
    ]
    assert len(scaled) == 3
    told = plane.apply(*scaled, options=("--dry-run=server", "--validate=strict"), check=True)
    # Pod Security has no warning for a Deployment in a namespace without its labels.
    assert told.err == ""


def command(config: Path, *options: str) -> list[Manifest]:
    return documents(rollcall("manifests", "all", "--config", config, *options))


WAYS = {
    "beside the server, and certificates of callers": (
        ("--reconciler=sidecar", "--client-ca=secret/callers", "--client-name=a"),
        (("server", "reconciler"),),
    ),
    "moving out, and a port of the privileged": (
        ("--reconciler=moving", "--serving-port=443"),
        (("server",), ("reconciler",)),
    ),
    "the port of kubelets, and who calls": (
        ("--serving-port=10250", "--from=10.0.0.0/28", "--from=kube-system"),
        (("server",), ("reconciler",)),
    ),
    "the nodes' network": (("--host-network", "--serving-port=10443"), (("server",), ("reconciler",))),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_installation_option_is_accepted_and_its_pods_are_created(cluster: ControlPlane, way: str) -> None:
    options, containers = WAYS[way]
    told = cluster.kubectl("apply", "--validate=strict", "-f", "-", stdin=printed(*options), check=True)
    assert told.err == ""
    pods_are_made(cluster, ROLLCALL_NAMESPACE, *containers)


def test_the_host_network_can_be_turned_off_and_needs_a_privileged_namespace(cluster: ControlPlane) -> None:
    def apply(*options: str) -> Manifest:
        cluster.kubectl("apply", "--validate=strict", "-f", "-", stdin=printed(*options), check=True)
        pod: Manifest = cluster.get("deployment", "rollcall", ROLLCALL_NAMESPACE)["spec"]["template"]["spec"]
        return pod

    usual = apply()
    on_host = apply("--host-network")
    assert on_host["hostNetwork"] is True
    assert [port["hostPort"] for port in on_host["containers"][0]["ports"]] == [8443, 8081]
    level = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", ROLLCALL_NAMESPACE, level, "--overwrite", check=True)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hosted", "namespace": ROLLCALL_NAMESPACE}}
    told = cluster.apply({**pod, "spec": {**on_host, "priorityClassName": ""}}, options=("--dry-run=server",))
    assert told.code == 1
    assert "host namespaces (hostNetwork=true)" in told.err
    # What the API server filled in meanwhile goes with it.
    assert apply() == usual


def printed(*options: str) -> str:
    """What the command prints for the configuration of this repository."""
    return rollcall("manifests", "all", "--config", MANIFESTS / "configuration.yaml", *options)


@pytest.mark.long
def test_helm_installs_upgrades_rolls_back_and_uninstalls(cluster: ControlPlane) -> None:
    cluster.kubectl("create", "namespace", NAMESPACE_OF_HELM, check=True)
    level = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", NAMESPACE_OF_HELM, level, check=True)

    def helmed(*arguments: str | Path, values: Manifest | None = None) -> str:
        given = yaml.safe_dump(values or {})
        more = ("--values", "-") if values is not None else ()
        where = ("-n", NAMESPACE_OF_HELM)
        code, out, err = helm(*arguments, *where, *more, stdin=given, kubeconfig=cluster.kubeconfig)
        assert code == 0, err
        return out

    def configured() -> tuple[list[str], set[str], str]:
        """The ConfigMaps, the hooks, and which ConfigMap the server reads."""
        maps = cluster.items(f"/api/v1/namespaces/{NAMESPACE_OF_HELM}/configmaps")
        names = [name for found in maps if re.fullmatch("rollcall-[0-9a-f]{10}", name := found["metadata"]["name"])]
        hooks = cluster.get("validatingwebhookconfiguration", "v-rollcall")["webhooks"]
        volumes = cluster.get("deployment", "rollcall", NAMESPACE_OF_HELM)["spec"]["template"]["spec"]["volumes"]
        (mounted,) = (volume["configMap"]["name"] for volume in volumes if volume["name"] == "configuration")
        return names, {hook["name"] for hook in hooks}, mounted

    watched = dict.fromkeys(("serviceMonitor", "alerts", "dashboard"), True)
    told = helmed("install", "rollcall", CHART, values={"replicas": 1, "monitoring": watched})
    assert f"kubectl -n {NAMESPACE_OF_HELM} rollout status deployment/rollcall" in told
    before = configured()
    assert before[0] == [before[2]]
    volcano = {"scheduler": {"profiles": [{"name": "volcano"}], "defaultProfileName": "volcano"}}
    helmed("upgrade", "rollcall", CHART, values={"configuration": volcano})
    after = configured()
    assert after[0] == [after[2]] != before[0]
    assert after[1] - before[1] == {"scheduling-volcano-sh.validate.rollcall.dev", "warned-pods.validate.rollcall.dev"}
    helmed("rollback", "rollcall")
    assert configured() == before
    pods_are_made(cluster, NAMESPACE_OF_HELM, ("server",), ("reconciler",))
    since = cluster.http.get("/api/v1/namespaces").json()["metadata"]["resourceVersion"]
    helmed("uninstall", "rollcall")
    assert left_over(cluster) == []
    is_asked_no_more_before_it_is_gone(cluster, since, NAMESPACE_OF_HELM)


def is_asked_no_more_before_it_is_gone(plane: ControlPlane, since: str, namespace: str) -> None:
    registered = "apis/admissionregistration.k8s.io/v1"
    (gone,) = deletions(plane, f"api/v1/namespaces/{namespace}/services", since, "rollcall")
    for kind in ("mutating", "validating"):
        found = deletions(plane, f"{registered}/{kind}webhookconfigurations", since, f"{kind[0]}-rollcall")
        assert len(found[0][1]["webhooks"]) > 1
        # What comes after is Helm's hook, which calls no webhook.
        assert not any(after.get("webhooks") for _, after in found[1:])
        assert all(moment < gone[0] for moment, _ in found)


def deletions(plane: ControlPlane, path: str, since: str, name: str) -> list[tuple[int, Manifest]]:
    """The objects of that name that were deleted since then, each with its moment by the API server's count."""
    params = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "1"}
    events = [json.loads(line) for line in plane.http.get(f"/{path}", params=params).text.splitlines()]
    objects = [event["object"] for event in events if event["type"] == "DELETED"]
    named = [found for found in objects if found["metadata"]["name"] == name]
    return [(int(found["metadata"]["resourceVersion"]), found) for found in named]
