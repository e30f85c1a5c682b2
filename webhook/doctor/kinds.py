"""Checks of the kinds that the cluster serves: those that the enabled schedulers' gangs need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from webhook.backends.kai.keys import NAME as KAI
from webhook.backends.kai.keys import POD_GROUP as KAI_POD_GROUP
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.generation import GROUP, UNREAD, generation, missing, unread
from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed, served, snapshot
from webhook.doctor.snapshot import Snapshot
from webhook.model.keys import Api
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS
from webhook.model.workloads.kinds import JOB_SETS

_PRIORITY_CLASS = Api(GROUP, "v1", "PriorityClass")
OF_137 = (Api(GROUP, "v1beta1", "Workload"), Api(GROUP, "v1beta1", "PodGroup"), _PRIORITY_CLASS)
_OTHER_JOB_SET = replace(JOB_SETS.api, version="v1beta1")
_GANGS = {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1alpha2"}}


@check("kinds/served", passes=installed, fails=lambda: installed(settings=configured({"name": "volcano"})))
def served_kinds(snapshot: Snapshot) -> Symptoms:
    """The cluster serves the kinds of each enabled scheduler's gang objects, in the version that Rollcall writes.
    Without them that scheduler's workloads are refused.

    Source: `Backend.required_apis` of each backend.
    """
    apis = snapshot.served()
    for profile in snapshot.settings.profiles.values():
        for api in profile.backend.required_apis:
            if api not in apis:
                others = _other_versions(api, apis)
                yield Symptom(
                    f"profile {profile.name}",
                    f"the cluster does not serve {api}" + (f", only {', '.join(others)}" if others else ""),
                    "its workloads are refused",
                    f"install {profile.name} with its CRDs, or remove the profile from the configuration",
                )


@check(
    "kinds/fields",
    passes=lambda: installed(
        settings=configured({"name": KAI}),
        apis=served(KAI_POD_GROUP),
        spec_fields={KAI_POD_GROUP: frozenset({"minMember", "minSubGroup"})},
    ),
    fails=lambda: installed(
        settings=configured({"name": KAI}),
        apis=served(KAI_POD_GROUP),
        spec_fields={KAI_POD_GROUP: frozenset({"minMember"})},
    ),
)
def fields(snapshot: Snapshot) -> Symptoms:
    """The CRDs have the fields that Rollcall writes. An older CRD of the same version drops them silently, and half a
    gang starts.

    Source: `Backend.required_fields` of each backend.
    """
    facts = snapshot.facts()
    for profile in snapshot.settings.profiles.values():
        for wanted in profile.backend.required_fields:
            if facts.lacks_field(wanted):
                yield Symptom(
                    f"profile {profile.name}",
                    f"{wanted.api} has no spec.{wanted.name}, which came with {wanted.since}",
                    "the API server would drop it silently; workloads of this scheduler are refused",
                    f"apply the CRDs of {wanted.since} or newer: Helm does not update existing CRDs",
                )


@check(
    "kinds/shadow",
    level=Level.WARNING,
    passes=lambda: installed(settings=configured(shadow=[KAI]), apis=served(KAI_POD_GROUP)),
    fails=lambda: installed(settings=configured(shadow=[KAI])),
)
def shadow_kinds(snapshot: Snapshot) -> Symptoms:
    """The cluster serves the kinds without which a scheduler in `shadow` runs no gang. Otherwise the shadow says
    `denied` of every workload, which says nothing about the workloads.

    Source: `Backend.required_apis` of each backend.
    """
    for shadow in snapshot.settings.shadows:
        profile = shadow.settings.profiles[shadow.settings.default]
        for api in profile.backend.required_apis:
            if api not in snapshot.served():
                yield Symptom(
                    f"shadow {shadow.name}",
                    f"the cluster does not serve {api}",
                    f"every workload would be refused for {profile.name}, whatever it says",
                    f"install the CRDs of {profile.name}; the scheduler itself need not run",
                )


@check("kinds/grove", level=Level.WARNING, passes=installed, fails=lambda: installed(apis=frozenset(OF_137)))
def grove_kinds(snapshot: Snapshot) -> Symptoms:
    """The cluster serves Grove's PodCliqueSet and PodGang in the version that Rollcall reads.

    Source: ai-dynamo/grove, operator/api/core/v1alpha1 and scheduler/api/core/v1alpha1.
    """
    apis, read = snapshot.served(), (part.resource.api for part in (POD_CLIQUE_SETS, POD_GANGS))
    absent = [api for api in read if api not in apis and not _other_versions(api, apis)]
    if absent:
        yield Symptom(
            "Grove",
            f"the cluster does not serve {' and '.join(map(str, absent))}",
            "Grove's workloads cannot run here, only other workloads",
            "install Grove if its workloads should run here",
        )


@check(
    "kinds/versions",
    level=Level.WARNING,
    passes=lambda: installed(apis=served(JOB_SETS.api, _OTHER_JOB_SET)),
    fails=lambda: installed(apis=served(_OTHER_JOB_SET) - {JOB_SETS.api}),
)
def versions(snapshot: Snapshot) -> Symptoms:
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
            yield Symptom(
                f"{resource.api.kind}.{resource.api.group}",
                f"the cluster serves only {', '.join(others)}, and Rollcall follows {resource.api.version}",
                "its workloads get no gang objects, and may be stored without having been judged",
                f"serve {resource.api.version} too, or install a release of Rollcall that follows {others[0]}",
            )


def _other_versions(api: Api, apis: Iterable[Api]) -> list[str]:
    """The versions in which a kind is served, besides the one of `api`."""
    return sorted(one.version for one in apis if one.group_kind == api.group_kind and one.version != api.version)


@check(
    "kinds/workload-api",
    passes=lambda: snapshot(
        settings=configured({"name": "default-scheduler", "config": {"gangScheduling": True}}), apis=frozenset(OF_137)
    ),
    fails=lambda: snapshot(settings=configured(_GANGS), apis=frozenset(OF_137), version="v1.37.0"),
)
def workload_api(snapshot: Snapshot) -> Symptoms:
    """If `default-scheduler` makes gangs, the API server serves the Workload API in the version that the configuration
    states, or in any version that Rollcall has read for `auto`. Each alpha version is removed in the next minor
    version of Kubernetes, v1beta1 in 1.43, and all of them are off by default.

    Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 (1.37); kubernetes, pkg/features.
    """
    backend = snapshot.settings.profiles[KubeBackend.name].backend
    apis = snapshot.served()
    if not backend.settings.gangScheduling or generation(backend.settings, apis) is not None:
        return
    found = sorted({f"{api.version} {api.kind}" for api in apis if api.group == GROUP and api != _PRIORITY_CLASS})
    needs = unread(backend.settings, apis)
    version = "" if not isinstance(snapshot.version, str) else snapshot.version
    yield Symptom(
        f"profile {KubeBackend.name}, apiGeneration {backend.settings.apiGeneration}",
        f"the API server {version} does not serve {missing(backend.settings)}; of {GROUP} it serves "
        f"{', '.join(found) or 'nothing but PriorityClass'}".replace("  ", " "),
        "its workloads are refused" if needs is None else f"{needs} are unknown; no gang is made",
        UNREAD
        if needs is not None
        else "set apiGeneration: auto, or make the API server serve it: --runtime-config, and the feature gate "
        "GenericWorkload",
    )
