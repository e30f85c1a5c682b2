"""The gang objects of one namespace, and those that the release 0.1.0 wrote for a living set."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.grove_operator import Played

_RELEASED = Path(__file__).parent / "releases" / "0.1.0"
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

    def write_as_released(self, made: Played) -> None:
        """Write the objects of release 0.1.0 for the set `demo`: its PodGangs control them."""
        text = (_RELEASED / f"gangs-{self._scheduler}.yaml").read_text(encoding="utf-8")
        for name in made.podgangs:
            text = text.replace(f"uid: uid-of-{name}\n", f"uid: {made.podgang(name)['metadata']['uid']}\n")
        text = text.replace("default/", f"{self.namespace}/").replace(
            "namespace: default", f"namespace: {self.namespace}"
        )
        self.write(*yaml.safe_load_all(text))

    def write(self, *manifests: Manifest) -> None:
        """Write objects as the reconciler does."""
        options = "--server-side", "--field-manager=rollcall", "--validate=strict"
        self.plane.apply(*manifests, options=options, check=True)

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

    def controllers(self) -> set[tuple[str, str]]:
        """The kinds and names of what controls the objects."""
        return {
            (owner["kind"], owner["name"])
            for one in self.objects().values()
            for owner in one["metadata"]["ownerReferences"]
            if owner.get("controller")
        }
