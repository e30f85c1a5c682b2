"""The gang objects of one namespace."""

from __future__ import annotations

from tests.e2e.control_plane import ControlPlane, Manifest

# The kinds of gang objects by scheduler; those of kube-scheduler as Kubernetes 1.37 serves them.
KINDS = {
    "koordinator": ("scheduling.sigs.k8s.io/v1alpha1/podgroups",),
    "kube": (
        "scheduling.k8s.io/v1beta1/workloads",
        "scheduling.k8s.io/v1alpha3/compositepodgroups",
        "scheduling.k8s.io/v1beta1/podgroups",
    ),
}


class StoredGangs:
    """The gang objects of a namespace, for one scheduler."""

    def __init__(self, plane: ControlPlane, scheduler: str, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace
        self._scheduler = scheduler

    def objects(self) -> dict[str, Manifest]:
        """The objects by kind and name (`podgroups/demo-0-router`)."""
        found = {}
        for kind in KINDS[self._scheduler]:
            version, _, plural = kind.rpartition("/")
            for one in self.plane.items(f"/apis/{version}/namespaces/{self.namespace}/{plural}"):
                found[f"{plural}/{one['metadata']['name']}"] = one
        return found

    def uids(self) -> dict[str, str]:
        """The uids of the objects, by kind and name."""
        return {name: one["metadata"]["uid"] for name, one in self.objects().items()}

    def leaving(self) -> set[str]:
        """The kinds and names of the objects that are being deleted."""
        return {name for name, one in self.objects().items() if "deletionTimestamp" in one["metadata"]}

    def of_podgang(self, name: str) -> dict[str, str]:
        """The uids of the objects that have this label of a PodGang, by kind and name."""
        return {
            where: one["metadata"]["uid"]
            for where, one in self.objects().items()
            if one["metadata"]["labels"]["grove.io/podgang"] == name
        }
