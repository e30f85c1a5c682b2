"""Releases of Kubernetes: each alpha of the Workload API is removed by the next minor release, and v1beta1 stays.

1.38 was read as of 1.38.0-beta.0. It is to remove Workload and PodGroup of v1beta1 in 1.43, and CompositePodGroup of
v1beta1 in 1.44 (k8s.io/api v0.38.0-beta.0, scheduling/v1beta1/zz_generated.prerelease-lifecycle.go).
"""

from __future__ import annotations

from dataclasses import replace

from webhook.backends.kube.generation import GROUP
from webhook.upgrades.change import Change, Concerns, Example, Outcome, gang
from webhook.upgrades.present import Cluster, PresentGang
from webhook.upgrades.releases import Product
from webhook.validators.selection import DEFAULT_SCHEDULER

_BEFORE = "delete the workload before the control plane is upgraded: objects of the old version have to be gone by then"
_AFTER = "create the workload again, with Rollcall running and the new version of the API enabled"


def _has(version: str) -> Concerns:
    def concerns(one: PresentGang, _: Cluster) -> bool:
        return f"{GROUP}/{version}" in one.versions

    return concerns


def _of(version: str) -> PresentGang:
    return gang(scheduler=DEFAULT_SCHEDULER, versions=frozenset({f"{GROUP}/{version}"}))


CHANGES = (
    Change(
        "kubernetes/workload-v1alpha1",
        Product.KUBERNETES,
        _has("v1alpha1"),
        Outcome.RECREATE,
        since="1.36.0-alpha.0",
        why="1.36 removes scheduling.k8s.io/v1alpha1 and the pods' field workloadRef. Nothing converts them, and the "
        "membership of a running pod cannot be changed: a replaced pod would wait for a group without the others",
        before=_BEFORE,
        after=f"{_AFTER} (1.36: --runtime-config=scheduling.k8s.io/v1alpha2=true)",
        source="https://github.com/kubernetes/api/blob/v0.36.3/scheduling/v1alpha2/types.go, "
        "https://github.com/kubernetes/api/blob/v0.36.3/core/v1/types.go",
        hit=Example("1.37", _of("v1alpha1")),
        spared=Example("1.37", replace(_of("v1alpha1"), versions=frozenset({"scheduling.sigs.k8s.io/v1alpha1"}))),
    ),
    Change(
        "kubernetes/workload-v1alpha2",
        Product.KUBERNETES,
        _has("v1alpha2"),
        Outcome.RECREATE,
        since="1.37.0-alpha.0",
        why="1.37 removes scheduling.k8s.io/v1alpha2. Nothing converts the gang objects, and the field schedulingGroup "
        "of a running pod cannot be changed: it names a PodGroup that the new generation does not have",
        before=_BEFORE,
        after=f"{_AFTER} (1.37: --runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true; "
        "remove the feature gate GangScheduling, which 1.37 does not know)",
        source="https://github.com/kubernetes/kubernetes/blob/master/CHANGELOG/CHANGELOG-1.37.md",
        hit=Example("1.37", _of("v1alpha2")),
        spared=Example("1.36.3", _of("v1alpha2")),
    ),
    Change(
        "kubernetes/workload-v1beta1",
        Product.KUBERNETES,
        _has("v1beta1"),
        Outcome.CONTINUES,
        since="1.38.0-alpha.0",
        why="1.38 serves the Workload and the PodGroups in v1beta1 as 1.37 does, and its kube-scheduler takes the "
        "preemption policy of a group without one from its pods",
        before="remove the feature gate PodGroupPreemptionPolicy, which 1.38 does not know, and keep "
        "--runtime-config=scheduling.k8s.io/v1beta1=true and GenericWorkload, which are off by default in 1.38 as well",
        source="https://github.com/kubernetes/kubernetes/blob/v1.38.0-beta.0/pkg/features/kube_features.go, "
        "https://github.com/kubernetes/kubernetes/blob/v1.38.0-beta.0/pkg/scheduler/schedule_one_podgroup.go",
        hit=Example("1.38", _of("v1beta1")),
        spared=Example("1.37", _of("v1beta1")),
    ),
    Change(
        "kubernetes/composite-v1beta1",
        Product.KUBERNETES,
        _has("v1alpha3"),
        Outcome.CONTINUES,
        since="1.38.0-alpha.0",
        why="1.38 serves the stored CompositePodGroups in v1beta1 as well, and its kube-scheduler reads them there",
        before="keep the feature gates CompositePodGroup and TopologyAwareWorkloadScheduling, and have v1alpha3 served "
        "until all API servers and kube-schedulers are of 1.38: kube-scheduler 1.37 reads no other version",
        source="https://github.com/kubernetes/api/blob/v0.38.0-beta.0/scheduling/v1beta1/types.go, "
        "https://github.com/kubernetes/kubernetes/blob/v1.38.0-beta.0/pkg/registry/scheduling/rest/storage_scheduling.go",
        hit=Example("1.38", _of("v1alpha3")),
        spared=Example("1.38", _of("v1beta1")),
    ),
)
