"""Checks of feature gates, by indirect evidence where no API shows them."""

from __future__ import annotations

from typing import Any

from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.generation import Generation, generation
from webhook.backends.kube.settings import KubeSettings
from webhook.config.settings import Settings
from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, served, snapshot, thing
from webhook.doctor.kinds import OF_137
from webhook.doctor.snapshot import Snapshot, Tried, known
from webhook.errors import FactsUnavailable
from webhook.model.reading import mapping


def _gangs(**config: Any) -> Settings:
    return configured({"name": KubeBackend.name, "config": {"gangScheduling": True, **config}})


def _tried(**spec: Any) -> Snapshot:
    stored = thing("v1", "Pod", "rollcall-doctor", spec=spec)
    return snapshot(settings=_gangs(), apis=served(*OF_137), grouped=Tried(stored))


def pod_field(spoken: Generation) -> str:
    """The field of a pod's spec that names its group."""
    return "workloadRef" if spoken is Generation.V1ALPHA1 else "schedulingGroup"


@check(
    "gates/pod-field",
    passes=lambda: _tried(schedulingGroup={"podGroupName": "rollcall-doctor"}),
    fails=_tried,
)
def pod_field_kept(snapshot: Snapshot) -> Symptoms:
    """If `default-scheduler` makes gangs, the API server keeps the field of a pod that names its group. If the feature
    gate GenericWorkload is off, the API server drops the field silently, and every pod starts alone. The check creates
    a pod in Rollcall's own namespace as a dry run. Nothing is stored.

    Source: kubernetes, pkg/api/pod (a field whose gate is off is dropped).
    """
    backend = snapshot.settings.profiles[KubeBackend.name].backend
    spoken = generation(backend.settings, snapshot.served())
    tried = None if snapshot.grouped is None else known(snapshot.grouped)
    if not backend.settings.gangScheduling or spoken is None or tried is None:
        return
    if tried.stored is None:
        raise FactsUnavailable(f"the dry run of a pod with a group failed: {tried.message}")
    field = pod_field(spoken)
    if not mapping(tried.stored.get("spec")).get(field):
        yield Symptom(
            "the API server",
            f"it serves {spoken}, but drops spec.{field} of a pod",
            "the pods of a gang belong to no group, and start one by one",
            "enable the feature gate GenericWorkload in the API server, the controller-manager and the scheduler",
        )


@check(
    "gates/scheduler",
    passes=lambda: snapshot(
        settings=_gangs(schedulerGates=["GenericWorkload", "GangScheduling"]), apis=served(*OF_137)
    ),
    fails=lambda: snapshot(settings=_gangs(schedulerGates=[]), apis=served(*OF_137)),
)
def scheduler_gates(snapshot: Snapshot) -> Symptoms:
    """The feature gates of kube-scheduler, as `schedulerGates` of the configuration states them, are those that gangs
    need. No API shows them. If GenericWorkload is off only in the scheduler, everything is stored and nothing is
    enforced. If the configuration does not state the gates, the finding is a note.

    Source: kubernetes, pkg/features; kubernetes/enhancements, KEP-4671 and KEP-6012; seen with v1.37.0.
    """
    settings: KubeSettings = snapshot.settings.profiles[KubeBackend.name].backend.settings
    if not settings.gangScheduling or (spoken := generation(settings, snapshot.served())) is None:
        return
    needed = {"GenericWorkload"}
    if spoken in {Generation.V1ALPHA1, Generation.V1ALPHA2}:
        needed.add("GangScheduling")
    if settings.hierarchical == "required":
        needed |= {"TopologyAwareWorkloadScheduling", "CompositePodGroup"}
    where = f"profile {KubeBackend.name}, schedulerGates"
    on = f"--feature-gates={','.join(f'{gate}=true' for gate in sorted(needed))}"
    if settings.schedulerGates is None:
        yield Symptom(
            where,
            "the configuration does not state the gates of kube-scheduler",
            "no API shows them; Rollcall assumes that they agree with what the API server serves; if not, "
            "nothing is enforced",
            f"check that it was started with {on}, and set schedulerGates to them",
            Level.NOTE,
        )
    elif absent := sorted(needed.difference(settings.schedulerGates)):
        yield Symptom(
            where,
            f"without {', '.join(absent)}",
            f"the API server serves {spoken}, and a scheduler without those gates does not enforce it",
            f"start kube-scheduler with {on} and set schedulerGates; or set gangScheduling: false",
        )
