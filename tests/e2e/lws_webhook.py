"""Plays the Pod webhook of LeaderWorkerSet: it writes the keys of leaders and workers that their templates cannot have.

As LWS registers it: asked about each pod with LWS's label, never asked again, and no pod without it.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from tests.e2e.second_webhook import PlayedWebhook
from tests.e2e.workload_objects import path_of, sha1

PREFIX = "leaderworkerset.sigs.k8s.io"
CONFIGURATION = "lws-mutating-webhook-configuration"


class LwsWebhook(PlayedWebhook):
    """Registered with a control plane for the length of a `with`.

    `name` decides the place among other webhooks, which are asked by name; with `volcano` it is that of an LWS whose
    gang scheduling is managed by Volcano.
    """

    def __init__(self, plane: ControlPlane, folder: Path, name: str = CONFIGURATION, *, volcano: bool = False) -> None:
        selector = {"matchExpressions": [{"key": f"{PREFIX}/name", "operator": "Exists"}]}
        super().__init__(name, "mpod.kb.io", folder, self.mutate, objectSelector=selector, failurePolicy="Fail")
        self._plane = plane
        self._volcano = volcano

    def __enter__(self) -> LwsWebhook:
        try:
            self._register()
        except BaseException:
            # It would fail the pods of every other test.
            self._unregister()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._unregister()

    def _register(self) -> None:
        """Tell the API server, and wait until it asks."""
        self._plane.apply(self.registration(), check=True)
        metadata = {
            "name": "probe-0",
            "labels": {
                f"{PREFIX}/name": "probe",
                f"{PREFIX}/worker-index": "0",
                f"{PREFIX}/template-revision-hash": "probe",
            },
            "annotations": {f"{PREFIX}/size": "1"},
        }
        probe = {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "example.com/main"}]}}

        def asked() -> bool:
            path = path_of("v1", "Pod", "default")
            answer = self._plane.http.post(path, params={"dryRun": "All"}, json=probe)
            # Not yet known how to be reached, it fails the pod.
            return answer.is_success and f"{PREFIX}/group-index" in answer.json()["metadata"]["labels"]

        eventually(asked, "the API server asks LWS's webhook")

    def _unregister(self) -> None:
        """Unregister from the API server, and stop answering."""
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        self._plane.http.delete(f"{path}/{self.name}").raise_for_status()
        self.close()

    def mutate(self, pod: Manifest) -> None:
        """Fill in the keys that depend on the pod's own name."""
        metadata = pod["metadata"]
        labels, annotations, name = metadata["labels"], metadata["annotations"], metadata["name"]
        ordinal = name.rpartition("-")[2]
        if labels.get(f"{PREFIX}/worker-index") == "0":
            labels.setdefault(f"{PREFIX}/group-index", ordinal)
            labels.setdefault(f"{PREFIX}/group-key", sha1(metadata.get("namespace", "default"), name))
            _subgroup(labels, annotations, name, "0")
        else:
            labels[f"{PREFIX}/worker-index"] = ordinal
            if f"{PREFIX}/subgroup-size" in annotations:
                place = subgroup_of(annotations, int(ordinal))
                _subgroup(labels, annotations, annotations[f"{PREFIX}/leader-name"], place)
        if self._volcano:
            parts = (labels[f"{PREFIX}/{key}"] for key in ("name", "group-index", "template-revision-hash"))
            annotations["scheduling.k8s.io/group-name"] = "-".join(parts)


def subgroup_of(annotations: Manifest, worker: int) -> str:
    """The subgroup of a worker; where the leader is one more than the subgroups take, it is in the first."""
    each = int(annotations[f"{PREFIX}/subgroup-size"])
    alone = (int(annotations[f"{PREFIX}/size"]) - 1) % each == 0
    return str((worker - 1 if alone else worker) // each)


def _subgroup(labels: Manifest, annotations: Manifest, leader: str, place: str) -> None:
    if f"{PREFIX}/subgroup-size" in annotations:
        labels.setdefault(f"{PREFIX}/subgroup-index", place)
        labels.setdefault(f"{PREFIX}/subgroup-key", sha1(leader, place))
