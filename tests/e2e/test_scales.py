"""`kubectl scale` of what Grove's operator makes, on a real API server. The objects are made by hand, as no operator
runs.
"""

from __future__ import annotations

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import clique, pod_clique_alone, pod_clique_set

CLIQUES, GROUPS = "podcliques.grove.io", "podcliquescalinggroups.grove.io"
BELOW = "Warning: grove/scale-below-minimum at spec.replicas: 1"
MEMBER = "Warning: grove/scale-of-member at spec.replicas: 3"
OPERATOR = "system:serviceaccount:grove-system:grove-operator"


def scaling_group(name: str, namespace: str, *cliques: str) -> Manifest:
    spec = {"cliqueNames": list(cliques), "replicas": 2, "minAvailable": 2}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueScalingGroup", "metadata": metadata, "spec": spec}


def replicas(plane: ControlPlane, kind: str, name: str, namespace: str) -> int:
    shown = plane.kubectl("get", kind, name, "-n", namespace, "-o", "jsonpath={.spec.replicas}", check=True)
    return int(shown.out)


def test_kubectl_scale_warns_where_the_gang_would_have_too_few_pods(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    group = {"name": "decode", "cliqueNames": ["worker"], "replicas": 2, "minAvailable": 2}
    workload = pod_clique_set("demo", namespace, clique("router", 2), clique("worker", 2), groups=[group])
    members = (pod_clique_alone(name, namespace) for name in ("demo-0-router", "demo-0-decode-0-worker"))
    plane.apply(workload, *members, scaling_group("demo-0-decode", namespace, "worker"), check=True)

    def scaled(kind: str, name: str, number: int, *options: str) -> str:
        command = ("scale", kind, name, f"--replicas={number}", "-n", namespace, *options)
        return plane.kubectl(*command, check=True).err

    def warned() -> bool:
        # The server learns of the set by its watch.
        scaled(CLIQUES, "demo-0-router", 2)
        return BELOW in scaled(CLIQUES, "demo-0-router", 1)

    eventually(warned, "a warning about the minimum")
    assert replicas(plane, CLIQUES, "demo-0-router", namespace) == 1
    assert scaled(CLIQUES, "demo-0-router", 3) == ""
    assert BELOW in scaled(GROUPS, "demo-0-decode", 1)
    assert MEMBER in scaled(CLIQUES, "demo-0-decode-0-worker", 3)
    assert scaled(CLIQUES, "demo-0-router", 1, f"--as={OPERATOR}", "--as-group=system:masters") == ""
    # To no replicas at all, which a Scale leaves out.
    scaled(CLIQUES, "demo-0-router", 2)
    assert "grove/scale-below-minimum at spec.replicas: 0" in scaled(CLIQUES, "demo-0-router", 0)
