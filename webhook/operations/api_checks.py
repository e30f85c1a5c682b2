"""Checks of the API: the kinds that the enabled schedulers' gangs need are served, and feature gates are on, by
indirect evidence where no API shows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from webhook.backends.kai.keys import NAME as KAI
from webhook.backends.kai.keys import POD_GROUP as KAI_POD_GROUP
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.workload_api import GROUP, UNREAD, Generation, KubeSettings, generation, missing, unread
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.model.keys import Api
from webhook.model.known_kinds import JOB_SETS
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS
from webhook.model.reading import mapping
from webhook.operations import diagnosis
from webhook.operations.snapshot import DryRunAnswer, Snapshot, require_read

_PRIORITY_CLASS = Api(GROUP, "v1", "PriorityClass")
OF_137 = (Api(GROUP, "v1beta1", "Workload"), Api(GROUP, "v1beta1", "PodGroup"), _PRIORITY_CLASS)
_OTHER_JOB_SET = replace(JOB_SETS.api, version="v1beta1")
_GANGS = {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1alpha2"}}


@diagnosis.check(
    "kinds/served",
    passes=diagnosis.installed,
    fails=lambda: diagnosis.installed(settings=diagnosis.configured({"name": "volcano"})),
)
def served_kinds(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The cluster serves the kinds of each enabled scheduler's gang objects, in the version that Rollcall writes.
    Without them that scheduler's workloads are refused.

    Source: `Backend.required_apis` of each backend.
    """
    apis = snapshot.served()
    for profile in snapshot.settings.profiles.values():
        for api in profile.backend.required_apis:
            if api not in apis:
                others = _other_versions(api, apis)
                yield diagnosis.Symptom(
                    f"profile {profile.name}",
                    f"the cluster does not serve {api}" + (f", only {', '.join(others)}" if others else ""),
                    "its workloads are refused",
                    f"install {profile.name} with its CRDs, or remove the profile from the configuration",
                )


@diagnosis.check(
    "kinds/fields",
    passes=lambda: diagnosis.installed(
        settings=diagnosis.configured({"name": KAI}),
        apis=diagnosis.served(KAI_POD_GROUP),
        spec_fields={KAI_POD_GROUP: frozenset({"minMember", "minSubGroup"})},
    ),
    fails=lambda: diagnosis.installed(
        settings=diagnosis.configured({"name": KAI}),
        apis=diagnosis.served(KAI_POD_GROUP),
        spec_fields={KAI_POD_GROUP: frozenset({"minMember"})},
    ),
)
def fields(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The CRDs have the fields that Rollcall writes. An older CRD of the same version drops them silently, and half a
    gang starts.

    Source: `Backend.required_fields` of each backend.
    """
    facts = snapshot.facts()
    for profile in snapshot.settings.profiles.values():
        for required_field in profile.backend.required_fields:
            if facts.lacks_field(required_field):
                yield diagnosis.Symptom(
                    f"profile {profile.name}",
                    f"{required_field.api} has no spec.{required_field.name}, which came with {required_field.since}",
                    "the API server would drop it silently; workloads of this scheduler are refused",
                    f"apply the CRDs of {required_field.since} or newer: Helm does not update existing CRDs",
                )


@diagnosis.check(
    "kinds/shadow",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(
        settings=diagnosis.configured(shadow=[KAI]), apis=diagnosis.served(KAI_POD_GROUP)
    ),
    fails=lambda: diagnosis.installed(settings=diagnosis.configured(shadow=[KAI])),
)
def shadow_kinds(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The cluster serves the kinds without which a scheduler in `shadow` runs no gang. Otherwise the shadow says
    `denied` of every workload, which says nothing about the workloads.

    Source: `Backend.required_apis` of each backend.
    """
    for shadow in snapshot.settings.shadows:
        profile = shadow.settings.profiles[shadow.settings.default]
        for api in profile.backend.required_apis:
            if api not in snapshot.served():
                yield diagnosis.Symptom(
                    f"shadow {shadow.name}",
                    f"the cluster does not serve {api}",
                    f"every workload would be refused for {profile.name}, whatever it says",
                    f"install the CRDs of {profile.name}; the scheduler itself need not run",
                )


@diagnosis.check(
    "kinds/grove",
    level=diagnosis.Severity.WARNING,
    passes=diagnosis.installed,
    fails=lambda: diagnosis.installed(apis=frozenset(OF_137)),
)
def grove_kinds(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The cluster serves Grove's PodCliqueSet and PodGang in the version that Rollcall reads.

    Source: ai-dynamo/grove, operator/api/core/v1alpha1 and scheduler/api/core/v1alpha1.
    """
    apis, read = snapshot.served(), (part.resource.api for part in (POD_CLIQUE_SETS, POD_GANGS))
    absent = [api for api in read if api not in apis and not _other_versions(api, apis)]
    if absent:
        yield diagnosis.Symptom(
            "Grove",
            f"the cluster does not serve {' and '.join(map(str, absent))}",
            "Grove's workloads cannot run here, only other workloads",
            "install Grove if its workloads should run here",
        )


@diagnosis.check(
    "kinds/versions",
    level=diagnosis.Severity.WARNING,
    passes=lambda: diagnosis.installed(apis=diagnosis.served(JOB_SETS.api, _OTHER_JOB_SET)),
    fails=lambda: diagnosis.installed(apis=diagnosis.served(_OTHER_JOB_SET) - {JOB_SETS.api}),
)
def versions(snapshot: Snapshot) -> diagnosis.Symptoms:
    """The cluster serves each kind of workload in the version that Rollcall follows, or not at all. A workload that is
    written in another version is judged as long as its kind has both: the API server converts it (matchPolicy
    Equivalent). If Rollcall's version is not served, no gang objects are written for stored workloads. If the kind no
    longer has it, the API server does not ask Rollcall at all.

    Source: Kubernetes documentation, "Dynamic Admission Control" (matchPolicy); apiextensions-apiserver,
    customresource_handler.go (equivalent resources are the versions of the CRD).
    """
    apis, kinds = snapshot.served(), snapshot.settings.kinds
    for resource in (POD_CLIQUE_SETS.resource, POD_GANGS.resource, *kinds.admitted):
        # Some kinds have several versions that Rollcall reads.
        forms = kinds.written(resource.api.group_kind) if resource.api.group_kind in kinds.views else ()
        read = {resource.api, *(form.api for form in forms)}
        if apis.isdisjoint(read) and (others := _other_versions(resource.api, apis)):
            yield diagnosis.Symptom(
                f"{resource.api.kind}.{resource.api.group}",
                f"the cluster serves only {', '.join(others)}, and Rollcall follows {resource.api.version}",
                "its workloads get no gang objects, and may be stored without having been judged",
                f"serve {resource.api.version} too, or install a release of Rollcall that follows {others[0]}",
            )


def _other_versions(api: Api, apis: Iterable[Api]) -> list[str]:
    """Returns the versions in which a kind is served, besides the one of `api`."""
    return sorted(
        other.version for other in apis if other.group_kind == api.group_kind and other.version != api.version
    )


@diagnosis.check(
    "kinds/workload-api",
    passes=lambda: diagnosis.snapshot(
        settings=diagnosis.configured({"name": "default-scheduler", "config": {"gangScheduling": True}}),
        apis=frozenset(OF_137),
    ),
    fails=lambda: diagnosis.snapshot(settings=diagnosis.configured(_GANGS), apis=frozenset(OF_137), version="v1.37.0"),
)
def workload_api(snapshot: Snapshot) -> diagnosis.Symptoms:
    """If `default-scheduler` makes gangs, the API server serves the Workload API in the version that the configuration
    states, or in any version that Rollcall has read for `auto`. Each alpha version is removed in the next minor
    version of Kubernetes, v1beta1 in 1.43, and all of them are off by default.

    Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 (1.37); kubernetes, pkg/features.
    """
    backend = snapshot.settings.profiles[KubeBackend.name].backend
    apis = snapshot.served()
    if not backend.settings.gangScheduling or generation(backend.settings, apis) is not None:
        return
    served_versions = sorted(
        {f"{api.version} {api.kind}" for api in apis if api.group == GROUP and api != _PRIORITY_CLASS}
    )
    needs = unread(backend.settings, apis)
    version = "" if not isinstance(snapshot.version, str) else snapshot.version
    yield diagnosis.Symptom(
        f"profile {KubeBackend.name}, apiGeneration {backend.settings.apiGeneration}",
        f"the API server {version} does not serve {missing(backend.settings)}; of {GROUP} it serves "
        f"{', '.join(served_versions) or 'nothing but PriorityClass'}".replace("  ", " "),
        "its workloads are refused" if needs is None else f"{needs} are unknown; no gang is made",
        UNREAD
        if needs is not None
        else "set apiGeneration: auto, or make the API server serve it: --runtime-config, and the feature gate "
        "GenericWorkload",
    )


def _gangs(**config: Any) -> Settings:
    return diagnosis.configured({"name": KubeBackend.name, "config": {"gangScheduling": True, **config}})


def _tried(**spec: Any) -> Snapshot:
    stored = diagnosis.example_object("v1", "Pod", "rollcall-doctor", spec=spec)
    return diagnosis.snapshot(settings=_gangs(), apis=diagnosis.served(*OF_137), grouped=DryRunAnswer(stored))


def pod_field(spoken: Generation) -> str:
    """Returns the field of a pod's spec that names its group."""
    return "workloadRef" if spoken is Generation.V1ALPHA1 else "schedulingGroup"


@diagnosis.check(
    "gates/pod-field", passes=lambda: _tried(schedulingGroup={"podGroupName": "rollcall-doctor"}), fails=_tried
)
def pod_field_kept(snapshot: Snapshot) -> diagnosis.Symptoms:
    """If `default-scheduler` makes gangs, the API server keeps the field of a pod that names its group. If the feature
    gate GenericWorkload is off, the API server drops the field silently, and every pod starts alone. The check creates
    a pod in Rollcall's own namespace as a dry run. Nothing is stored.

    Source: kubernetes, pkg/api/pod (a field whose gate is off is dropped).
    """
    backend = snapshot.settings.profiles[KubeBackend.name].backend
    spoken = generation(backend.settings, snapshot.served())
    tried = None if snapshot.grouped is None else require_read(snapshot.grouped)
    if not backend.settings.gangScheduling or spoken is None or tried is None:
        return
    if tried.stored is None:
        raise FactsUnavailable(f"the dry run of a pod with a group failed: {tried.message}")
    field = pod_field(spoken)
    if not mapping(tried.stored.get("spec")).get(field):
        yield diagnosis.Symptom(
            "the API server",
            f"it serves {spoken}, but drops spec.{field} of a pod",
            "the pods of a gang belong to no group, and start one by one",
            "enable the feature gate GenericWorkload in the API server, the controller-manager and the scheduler",
        )


@diagnosis.check(
    "gates/scheduler",
    passes=lambda: diagnosis.snapshot(
        settings=_gangs(schedulerGates=["GenericWorkload", "GangScheduling"]), apis=diagnosis.served(*OF_137)
    ),
    fails=lambda: diagnosis.snapshot(settings=_gangs(schedulerGates=[]), apis=diagnosis.served(*OF_137)),
)
def scheduler_gates(snapshot: Snapshot) -> diagnosis.Symptoms:
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
        yield diagnosis.Symptom(
            where,
            "the configuration does not state the gates of kube-scheduler",
            "no API shows them; Rollcall assumes that they agree with what the API server serves; if not, "
            "nothing is enforced",
            f"check that it was started with {on}, and set schedulerGates to them",
            diagnosis.Severity.NOTE,
        )
    elif absent := sorted(needed.difference(settings.schedulerGates)):
        yield diagnosis.Symptom(
            where,
            f"without {', '.join(absent)}",
            f"the API server serves {spoken}, and a scheduler without those gates does not enforce it",
            f"start kube-scheduler with {on} and set schedulerGates; or set gangScheduling: false",
        )
