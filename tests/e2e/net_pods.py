"""Random pods of gangs, and random changes of them, for the net: with, without and with wrong keys; gated or free; of
Grove and of other owners; half of them prepared by a user who forgot a part.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import NamedTuple, TypeVar

from tests.e2e.control_plane import Manifest

T = TypeVar("T")

SCHEDULERS = (
    "koord-scheduler",
    "default-scheduler",
    "volcano",
    "kai-scheduler",
    "lpx-scheduler",
    "scheduler-plugins-scheduler",
)
GATES = ("grove.io/podgang-pending-creation", "rollcall.dev/gang-sync", "example.com/quota")
_LABELS = (
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
    "scheduling.x-k8s.io/pod-group",
    "kai.scheduler/subgroup-name",
)
_ANNOTATIONS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "pod-group-name",
    "kai.scheduler/skip-podgrouper",
    "gang.scheduling.koordinator.sh/name",
)
STAMP = "rollcall.dev/stamp"
SCHEDULER_LABEL = "rollcall.dev/scheduler"
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
SET_NAME, SET_ROLE = "disaggregatedset.x-k8s.io/name", "disaggregatedset.x-k8s.io/role"
# Controllers of declared kinds, with the labels of their pods. KAI's podgrouper knows the first two.
_DECLARED: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("ray.io/v1", "RayCluster", {"ray.io/cluster": "demo", "ray.io/group": "gpu"}),
    ("kubeflow.org/v1", "PyTorchJob", {"training.kubeflow.org/replica-type": "worker"}),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"spark-role": "driver"}),
    ("apps/v1", "StatefulSet", {}),
)
# The keys of Grove's pods for each scheduler, as docs/explanation/net.md says.
_MARKS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "koord-scheduler": (("labels", "pod-group.scheduling.sigs.k8s.io", "demo-0-worker"),),
    "default-scheduler": (),
    "volcano": (
        ("annotations", "scheduling.k8s.io/group-name", "demo-0"),
        ("annotations", "scheduling.volcano.sh/group-name", "demo-0"),
    ),
    "kai-scheduler": (
        ("annotations", "pod-group-name", "demo-0-5f8d7"),
        ("annotations", "kai.scheduler/skip-podgrouper", "true"),
        ("labels", "kai.scheduler/subgroup-name", "demo-0-worker"),
    ),
    "lpx-scheduler": (),
    "scheduler-plugins-scheduler": (("labels", "scheduling.x-k8s.io/pod-group", "demo-0"),),
}


class Case(NamedTuple):
    """A pod that is to be created, or is to become of `old`, which is stored."""

    pod: Manifest
    old: Manifest | None = None

    @property
    def operation(self) -> str:
        """CREATE or UPDATE."""
        return "CREATE" if self.old is None else "UPDATE"


class Pods:
    """Draws pods for one namespace. `field` is the field of a pod's spec by which this Kubernetes knows groups, if any,
    `job` a Job that is there, so that the garbage collector leaves the pods that are stored.
    """

    def __init__(self, seed: int, namespace: str, field: str | None, job: Manifest) -> None:
        self._random = Random(seed)  # noqa: S311 - the same pods in every run, and no secret
        # For the declared kinds alone, so that the other pods do not depend on these.
        self._kinds = Random(seed)  # noqa: S311 - as above
        self._namespace = namespace
        self._field = field
        self._job = job

    def created(self) -> Case:
        """A pod that is created."""
        return Case(self._pod())

    def stored(self) -> Manifest:
        """A pod to be stored first and changed then: mostly one that is held."""
        pod = self._pod(stored=True)
        if self._one_in(4):
            pod["spec"].pop("schedulingGates", None)
        else:
            pod["spec"]["schedulingGates"] = [{"name": gate} for gate in self._random.choice((GATES[:1], GATES[:2]))]
        return pod

    def changed(self, old: Manifest) -> Case:
        """What may become of a stored pod: gates go, and metadata changes."""
        pod = deepcopy(old)
        spec, metadata = pod["spec"], pod["metadata"]
        # A scheduler may have written something into its status since.
        del metadata["resourceVersion"]
        if "schedulingGates" in spec:
            kept = spec.pop("schedulingGates")[: self._random.choice((0, 0, 0, 0, 1, 2))]
            if kept or self._one_in(3):
                spec["schedulingGates"] = kept
        for part in ("labels", "annotations"):
            if self._one_in(3):
                # Also those by which the net selects: whose it is is read of the pod as it was.
                self._mar(metadata, part)
        return Case(pod, old)

    def _mar(self, metadata: Manifest, part: str) -> None:
        held = metadata.setdefault(part, {})
        for key in self._random.sample(sorted(held), min(len(held), self._random.randint(0, 2))):
            if self._one_in(2):
                del held[key]
            else:
                held[key] = ""
        if self._one_in(2):
            key = self._random.choice(_LABELS if part == "labels" else (*_ANNOTATIONS, STAMP))
            held[key] = self._value(key)

    def _pod(self, *, stored: bool = False) -> Manifest:
        grove = self._random.random() < 0.6
        metadata: Manifest = {"generateName": "p-", "namespace": self._namespace, "labels": {}, "annotations": {}}
        spec: Manifest = {"containers": [{"name": "main", "image": "registry.example.com/main:1.0"}]}
        if grove:
            metadata["labels"] |= self._grove_s_labels()
        if not grove or self._one_in(8):
            self._own(metadata, stored=stored)
        recorded = metadata["labels"].get(SCHEDULER_LABEL)
        scheduler = self._scheduler(recorded)
        if scheduler is not None:
            spec["schedulerName"] = scheduler
        if self._one_in(3):
            # Also for a scheduler that it then does not name.
            self._prepare(recorded or scheduler or "default-scheduler", metadata, spec)
        for _ in range(self._random.choice((0, 0, 1, 1, 1, 2))):
            part, keys = self._random.choice((("labels", _LABELS), ("annotations", _ANNOTATIONS)))
            key = self._random.choice(keys)
            metadata[part][key] = self._value(key)
        if self._one_in(12):
            self._join_group(spec)
        if self._one_in(5):
            metadata["annotations"][STAMP] = self._value(STAMP)
        if self._one_in(6):
            spec["schedulingGates"] = [
                {"name": gate} for gate in self._random.sample(GATES, self._random.randint(0, 2))
            ]
        for part in ("labels", "annotations"):
            if not metadata[part] and self._one_in(2):
                del metadata[part]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _scheduler(self, recorded: str | None) -> str | None:
        """The one that it names; mostly that which its label says, or none, where it has the label."""
        if recorded and not self._one_in(4):
            return self._random.choice((recorded, "default-scheduler"))
        return self._random.choice((*SCHEDULERS, *SCHEDULERS, "somebody-elses", None, "default-scheduler"))

    def _prepare(self, scheduler: str, metadata: Manifest, spec: Manifest) -> None:
        """As Rollcall prepares it for that scheduler, or with a part of it forgotten."""
        marks = list(_MARKS.get(scheduler, ()))
        if marks and self._one_in(4):
            marks.remove(self._random.choice(marks))
        for part, key, value in marks:
            metadata[part][key] = value if self._random.random() < 0.8 else self._value(key)
        if scheduler == "default-scheduler" and self._one_in(2):
            self._join_group(spec)
        if not self._one_in(4):
            metadata["annotations"][STAMP] = f"{scheduler}/0123456789abcdef"

    def _join_group(self, spec: Manifest) -> None:
        if self._field is not None:
            spec[self._field] = self._group()

    def _grove_s_labels(self) -> Manifest:
        labels = {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "demo",
            "grove.io/podgang": self._random.choice(("demo-0", "demo-0", "demo-0-g-1", "d" * 63)),
            "grove.io/podclique": self._random.choice(("demo-0-worker", "worker", "w" * 63)),
        }
        if self._one_in(6):
            key = self._random.choice(sorted(labels))
            if self._one_in(2):
                del labels[key]
            else:
                labels[key] = self._random.choice(("", "Helm"))
        return labels

    def _own(self, metadata: Manifest, *, stored: bool) -> None:
        """Who made it, and the label by which it is opted in."""
        labels = metadata["labels"]
        if not self._one_in(6):
            labels[SCHEDULER_LABEL] = self._random.choice((*SCHEDULERS, *SCHEDULERS, "nobody", "none", ""))
        references = [self._reference("batch/v1", "Job", self._job["metadata"]["name"])]
        if not stored:
            references += [
                self._reference("apps/v1", "ReplicaSet", "other"),
                self._reference("example.com/v1", "Job", "other"),
                self._reference("batch/v1", "Job", "other", controller=False),
            ]
            if self._one_in(3):
                self._of_a_group(metadata)
                if self._kinds.randrange(3):
                    self._of_another_kind(metadata)
                return
        if not self._one_in(8):
            # Mostly the first.
            chosen = references[0] if self._one_in(2) else self._random.choice(references)
            metadata["ownerReferences"] = [chosen]

    def _of_a_group(self, metadata: Manifest) -> None:
        """A pod of a LeaderWorkerSet's, or one that looks like it."""
        if not self._one_in(6):
            metadata["labels"][LWS_NAME] = self._random.choice(("lws", "lws", "lws-0", ""))
        name, owner = self._random.choice(
            (("lws-0", "lws"), ("lws-0-1", "lws-0"), ("lws-x", "lws"), ("lws", "lws"), ("lwsx0", "lws"))
        )
        del metadata["generateName"]
        metadata["name"] = name
        metadata["ownerReferences"] = [self._reference("apps/v1", "StatefulSet", owner)]

    def _of_another_kind(self, metadata: Manifest) -> None:
        """A pod of a declared kind, not of a LeaderWorkerSet alone."""
        metadata["labels"].pop(LWS_NAME, None)
        if self._kinds.randrange(2):
            self._of_a_role(metadata)
            return
        del metadata["name"]
        metadata["generateName"] = "p-"
        api_version, kind, labels = self._kinds.choice(_DECLARED)
        # Some lack the labels.
        if self._kinds.randrange(4):
            metadata["labels"] |= labels
        metadata["ownerReferences"] = [self._reference(api_version, kind, "demo")]

    def _of_a_role(self, metadata: Manifest) -> None:
        """A pod of a LeaderWorkerSet that a DisaggregatedSet made, or one that looks like it."""
        made = self._kinds.choice(("demo-5f8-decode", "demo-5f8-decode", "demo-decode", "other-decode", "decode"))
        labels = {LWS_NAME: made, SET_NAME: "demo", SET_ROLE: "decode"}
        if not self._kinds.randrange(3):
            key = self._kinds.choice((SET_NAME, SET_ROLE))
            labels[key] = self._kinds.choice(("", "demo-5f8", "encode", "5f8-decode"))
        metadata["labels"] |= labels
        metadata["name"] = f"{made}-0"
        metadata["ownerReferences"] = [self._reference("apps/v1", "StatefulSet", made)]

    def _reference(self, api_version: str, kind: str, name: str, *, controller: bool = True) -> Manifest:
        reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": self._job["metadata"]["uid"]}
        return {**reference, "controller": True} if controller else reference

    def _group(self) -> Manifest:
        return {"name": "demo-0", "podGroup": "all"} if self._field == "workloadRef" else {"podGroupName": "demo-0"}

    def _value(self, key: str) -> str:
        if key == "kai.scheduler/skip-podgrouper":
            return self._random.choice(("true", "false", "", "True"))
        if key == STAMP:
            return self._random.choice(
                (
                    "",
                    "default-scheduler",
                    "default-scheduler/",
                    "default-scheduler/ab",
                    "volcano/ab",
                    "default-scheduler/b/c",
                    "x",
                )
            )
        return self._random.choice(("demo-0", "demo-0-worker", "other-gang", "", "true"))

    def _one_in(self, number: int) -> bool:
        return self._random.randrange(number) == 0
