"""ResourceClaims that the pods of a gang share, on a real API server with the gate DRAWorkloadResourceClaims: one claim
is made from the template for each group that lists it, and one for each other pod.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import rollcall as command
from webhook.validators.examples import clique, pod_clique_set

CLAIM = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "node"}]}
TEMPLATE: Manifest = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "node", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}},
}


@pytest.mark.long
def test_a_claim_is_made_for_the_group_if_the_workload_asks_for_it(tmp_path: Path) -> None:
    plane = ControlPlane("1.37", "DRAWorkloadResourceClaims=true")
    try:
        plane.start_controller_manager()
        for namespace, asked, claims in (("asks", True, ["PodGroup"]), ("does-not", False, ["Pod", "Pod"])):
            plane.create_namespace(namespace)
            written = [within(namespace, one) for one in rendered(tmp_path, asked=asked)]
            groups = [one for one in written if one["kind"] != "Pod"]
            options = ("--server-side", "--validate=strict")
            plane.apply(within(namespace, TEMPLATE), *groups, options=options, check=True)
            (pod,) = (one for one in written if one["kind"] == "Pod")
            plane.apply(*(_standalone(pod, index) for index in range(2)), check=True)
            until_owned_by(plane, namespace, claims)
            (group,) = plane.items(f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups")
            assert ("resourceClaims" in group["spec"]) is asked
    finally:
        plane.close()


def within(namespace: str, manifest: Manifest) -> Manifest:
    """A manifest in another namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def until_owned_by(plane: ControlPlane, namespace: str, kinds: list[str]) -> None:
    """Wait until the claims of a namespace belong to objects of these kinds."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"

    def owned() -> bool:
        owners = sorted(one["metadata"]["ownerReferences"][0]["kind"] for one in plane.items(path))
        assert owners == kinds, owners
        return True

    eventually(owned, f"the claims belong to {kinds}", timeout=60)


def rendered(folder: Path, *, asked: bool) -> list[Manifest]:
    """The gang objects of a set of one clique, and one of its two pods."""
    config, labels = folder / "rollcall.yaml", {"rollcall.dev/scheduler": "default-scheduler"}
    config.write_text(yaml.safe_dump(configuration(apiGeneration="v1beta1", hierarchical="off")))
    annotations = {"rollcall.dev/group-claims": "gpus"} if asked else None
    workload = pod_clique_set(clique("worker", pod=CLAIM), labels=labels, annotations=annotations)
    printed = command("render", "--config", config, "-", stdin=yaml.safe_dump(workload))
    return list(yaml.safe_load_all(printed.replace("<epoch>", "1")))


def _standalone(pod: Manifest, index: int) -> Manifest:
    """The pod without the owner that does not exist here."""
    metadata: dict[str, Any] = {"name": f"worker-{index}", "namespace": pod["metadata"]["namespace"]}
    spec = {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}
    return {**pod, "metadata": metadata, "spec": spec}
