"""What is known of releases: one entry for each fact, with its source. A new release is a new entry.

Grove: from v0.1.0-alpha.12 on PodGangs are named by epochs and listed in PodGangMaps. The migration of living sets was
seen with the operator built from pull request 778, on kube-scheduler 1.35 to 1.37, koord-scheduler 1.8, KAI 0.16.8 and
Volcano 1.15.1: the old PodGangs are deleted before the new ones are created.

KAI: the fix of KAI-Scheduler#1968 is on the branch v0.17 since 2026-08-06, three days after v0.17.0 (#2022), so the
next release of that branch has it. The branch v0.16 has no such backport, and the notes of v0.16.9 do not name one.
For #2095 see `webhook/backends/kai/keys.py`. #2096 is on main and, after v0.17.1, on v0.17 (#2152, 2026-09-10); no
other backport was seen.

Kubernetes: each alpha of the Workload API is removed by the next minor release, and v1beta1 stays. 1.38 was read as of
1.38.0-beta.0. It is to remove Workload and PodGroup of v1beta1 in 1.43, and CompositePodGroup of v1beta1 in 1.44
(k8s.io/api v0.38.0-beta.0, scheduling/v1beta1/zz_generated.prerelease-lifecycle.go).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from webhook.backends.base import Backend
from webhook.backends.kai import backend as kai
from webhook.backends.kai.keys import BACKPORTS, FIXED
from webhook.backends.kai.keys import NAME as KAI
from webhook.backends.koordinator import backend as koordinator
from webhook.backends.koordinator import gangs
from webhook.backends.kube.workload_api import GROUP
from webhook.backends.volcano import backend as volcano
from webhook.gangs.key import POD_GANG
from webhook.gangs.object_plan import GangObjectWriter
from webhook.model.known_kinds import JOB_SETS
from webhook.model.quantity import Version
from webhook.operations import releases
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER

# The release before the first one, for an example.
_OLDEST = "0.1.0"


def _too_old(
    product: releases.Product, backend: type[Backend[Any]], first: Version, source: str
) -> releases.ReleaseChange:
    name = backend.name
    return releases.ReleaseChange(
        f"{product}/too-old",
        product,
        lambda gang, _: gang.scheduler == name,
        releases.ChangeOutcome.UNKNOWN,
        until=str(first),
        why=f"{backend.version_problem(Version(0, 1))}; what becomes of a living gang is not verified",
        before=f"do not go below {first}",
        source=source,
        hit=releases.ReleaseExample(_OLDEST, releases.gang(scheduler=name)),
        spared=releases.ReleaseExample(str(first), releases.gang(scheduler=name)),
    )


_MOVED = releases.Cluster(moves={"koord-scheduler": "kai-scheduler"})
_PLACED = releases.gang(topology=True)

SCHEDULER_CHANGES = (
    _too_old(
        releases.Product.KOORDINATOR,
        koordinator.KoordinatorBackend,
        koordinator.FIRST_VERSION,
        "https://github.com/koordinator-sh/koordinator/tree/v1.4.0/pkg/scheduler/plugins/coscheduling",
    ),
    releases.ReleaseChange(
        "koordinator/topology",
        releases.Product.KOORDINATOR,
        lambda gang, _: gang.scheduler == koordinator.KoordinatorBackend.name and gang.topology,
        releases.ChangeOutcome.UNKNOWN,
        until=str(gangs.FIRST_VERSION),
        why=f"Koordinator before {gangs.FIRST_VERSION} ignores the topology of a gang, so a replaced pod may be "
        "placed anywhere",
        before=f"do not go below {gangs.FIRST_VERSION} while gangs ask for a topology",
        source="https://github.com/koordinator-sh/koordinator/tree/v1.7.0/pkg/scheduler/frameworkext/networktopology",
        hit=releases.ReleaseExample("1.6.1", _PLACED),
        spared=releases.ReleaseExample("1.6.1", replace(_PLACED, topology=False)),
    ),
    _too_old(
        releases.Product.VOLCANO,
        volcano.VolcanoBackend,
        volcano.FIRST_VERSION,
        "https://github.com/volcano-sh/volcano/commit/56c69011",
    ),
    _too_old(
        releases.Product.KAI,
        kai.KaiBackend,
        kai.FIRST_VERSION,
        "https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.15.0/CHANGELOG.md",
    ),
    releases.ReleaseChange(
        "scheduler/permanent",
        None,
        lambda gang, cluster: gang.scheduler in cluster.moves,
        releases.ChangeOutcome.CONTINUES,
        why="the scheduler of a living workload is permanent, so it stays with {gang.scheduler}; new workloads get "
        "{to}",
        before="keep {gang.scheduler} running and its profile enabled as long as one of its gangs lives",
        after="delete and create the workload again to move it to {to}; `rollcall explain --scheduler {to}` says "
        "before whether it could run there",
        source="https://github.com/ai-dynamo/grove/blob/main/docs/proposals/375-scheduler-backend-framework/README.md "
        "(story 3)",
        hit=releases.ReleaseExample("", releases.gang(), _MOVED),
        spared=releases.ReleaseExample("", releases.gang(scheduler="kai-scheduler"), _MOVED),
    ),
)


_SERVICE = releases.gang(scheduler=KAI, restarts=frozenset({releases.ALWAYS}))
_BATCH = replace(_SERVICE, restarts=frozenset({"Never"}))
_GROVES = replace(_SERVICE, writer=GangObjectWriter.GROVE)
_JOB_SET = releases.gang("train", KAI, kind="JobSet", workload="train", writer=GangObjectWriter.SCHEDULER)

KAI_CHANGES = (
    releases.ReleaseChange(
        "kai/finishing-gangs",
        releases.Product.KAI,
        lambda gang, _: (
            gang.scheduler == KAI
            and (gang.writer is GangObjectWriter.SCHEDULER or bool(gang.restarts - {releases.ALWAYS}))
        ),
        releases.ChangeOutcome.UNKNOWN,
        since="0.16.2",
        until="0.17.1",
        why="this KAI does not see finished pods. If the pods of a gang finish one after another, it evicts the rest "
        "after 60 seconds. Whether they do is not known beforehand",
        before="upgrade to 0.17.1 or newer instead, or set the scheduler's default-staleness-grace-period to -1",
        source="https://github.com/kai-scheduler/KAI-Scheduler/issues/1968, "
        "https://github.com/kai-scheduler/KAI-Scheduler/pull/2022",
        hit=releases.ReleaseExample("0.17", _BATCH),
        spared=releases.ReleaseExample("0.17", _SERVICE),
    ),
    releases.ReleaseChange(
        "kai/podgroup-twins",
        releases.Product.KAI,
        lambda gang, cluster: (
            gang.scheduler == KAI and gang.writer is GangObjectWriter.GROVE and gang.group_name in cluster.twins
        ),
        releases.ChangeOutcome.UNKNOWN,
        until=str(FIXED),
        patched=tuple(map(str, BACKPORTS)),
        why="this KAI identifies a PodGroup by its name without the namespace. Grove names the PodGroup after the "
        "PodGang or the set, and another namespace has one of that name: the two mix, and each may start in part",
        before=f"rename one of the two sets, or upgrade to {FIXED} or newer instead. Of 0.14 the releases from "
        f"{BACKPORTS[0]} on have the fix, of 0.9, 0.12 and 0.16 those after 2026-09-14",
        source="https://github.com/kai-scheduler/KAI-Scheduler/pull/2095, "
        "https://github.com/kai-scheduler/KAI-Scheduler/pull/2138",
        hit=releases.ReleaseExample("0.17.1", _GROVES, releases.Cluster(twins=frozenset({"demo-0"}))),
        spared=releases.ReleaseExample("0.17.1", _SERVICE, releases.Cluster(twins=frozenset({"demo-0"}))),
    ),
    releases.ReleaseChange(
        "kai/gang-floor",
        releases.Product.KAI,
        lambda gang, _: gang.scheduler == KAI,
        releases.ChangeOutcome.CONTINUES,
        until=str(FIXED),
        why="this KAI checks that a subgroup has its minimum of pods only before it allocates, and not where it "
        "collects the pods, which other actions use as well. Running gangs are not touched",
        after="upgrade to 0.17.2 or newer as soon as it can be had: a gang may start in part on older ones",
        source="https://github.com/kai-scheduler/KAI-Scheduler/pull/2096, "
        "https://github.com/kai-scheduler/KAI-Scheduler/pull/2152",
        hit=releases.ReleaseExample("0.17.1", _SERVICE),
        spared=releases.ReleaseExample("0.17.1", releases.gang()),
    ),
    releases.ReleaseChange(
        "kai/podgroup-names",
        releases.Product.KAI,
        lambda gang, _: gang.scheduler == KAI and gang.writer is GangObjectWriter.ROLLCALL,
        releases.ChangeOutcome.CONTINUES,
        why="KAI before #2095 identifies a PodGroup by its name alone, and newer releases by its namespace and name. "
        "The names that Rollcall gives are unique in the cluster, so they stay",
        source="https://github.com/kai-scheduler/KAI-Scheduler/pull/2095",
        hit=releases.ReleaseExample("0.17.2", _SERVICE),
        spared=releases.ReleaseExample("0.17.2", _GROVES),
    ),
    releases.ReleaseChange(
        "kai/jobset-tree",
        releases.Product.KAI,
        lambda gang, _: gang.scheduler == KAI and gang.kind == JOB_SETS.api.kind,
        releases.ChangeOutcome.UNKNOWN,
        since="0.16.0",
        why="from 0.16 on podgrouper makes a tree of subgroups for a JobSet, and before it one flat group; what it "
        "does with the group of a running JobSet is not verified. If 0.16 runs already, nothing changes",
        before="let running JobSets finish, or upgrade while none runs",
        source="https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/CHANGELOG.md (v0.16.0)",
        hit=releases.ReleaseExample("0.17", _JOB_SET),
        spared=releases.ReleaseExample("0.15.2", _JOB_SET),
    ),
)


_BEFORE = "delete the workload before the control plane is upgraded: objects of the old version have to be gone by then"
_AFTER = "create the workload again, with Rollcall running and the new version of the API enabled"


def _has(version: str) -> releases.Concerns:
    return lambda gang, _: f"{GROUP}/{version}" in gang.versions


def _workload_api_gang(version: str) -> releases.PresentGang:
    return releases.gang(scheduler=DEFAULT_SCHEDULER, versions=frozenset({f"{GROUP}/{version}"}))


KUBERNETES_CHANGES = (
    releases.ReleaseChange(
        "kubernetes/workload-v1alpha1",
        releases.Product.KUBERNETES,
        _has("v1alpha1"),
        releases.ChangeOutcome.RECREATE,
        since="1.36.0-alpha.0",
        why="1.36 removes scheduling.k8s.io/v1alpha1 and the pods' field workloadRef. Nothing converts them, and the "
        "membership of a running pod cannot be changed: a replaced pod would wait for a group without the others",
        before=_BEFORE,
        after=f"{_AFTER} (1.36: --runtime-config=scheduling.k8s.io/v1alpha2=true)",
        source="https://github.com/kubernetes/api/blob/v0.36.3/scheduling/v1alpha2/types.go, "
        "https://github.com/kubernetes/api/blob/v0.36.3/core/v1/types.go",
        hit=releases.ReleaseExample("1.37", _workload_api_gang("v1alpha1")),
        spared=releases.ReleaseExample(
            "1.37", replace(_workload_api_gang("v1alpha1"), versions=frozenset({"scheduling.sigs.k8s.io/v1alpha1"}))
        ),
    ),
    releases.ReleaseChange(
        "kubernetes/workload-v1alpha2",
        releases.Product.KUBERNETES,
        _has("v1alpha2"),
        releases.ChangeOutcome.RECREATE,
        since="1.37.0-alpha.0",
        why="1.37 removes scheduling.k8s.io/v1alpha2. Nothing converts the gang objects, and the field schedulingGroup "
        "of a running pod cannot be changed: it names a PodGroup that the new generation does not have",
        before=_BEFORE,
        after=f"{_AFTER} (1.37: --runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true; "
        "remove the feature gate GangScheduling, which 1.37 does not know)",
        source="https://github.com/kubernetes/kubernetes/blob/master/CHANGELOG/CHANGELOG-1.37.md",
        hit=releases.ReleaseExample("1.37", _workload_api_gang("v1alpha2")),
        spared=releases.ReleaseExample("1.36.3", _workload_api_gang("v1alpha2")),
    ),
    releases.ReleaseChange(
        "kubernetes/workload-v1beta1",
        releases.Product.KUBERNETES,
        _has("v1beta1"),
        releases.ChangeOutcome.CONTINUES,
        since="1.38.0-alpha.0",
        why="1.38 serves the Workload and the PodGroups in v1beta1 as 1.37 does, and its kube-scheduler takes the "
        "preemption policy of a group without one from its pods",
        before="remove the feature gate PodGroupPreemptionPolicy, which 1.38 does not know, and keep "
        "--runtime-config=scheduling.k8s.io/v1beta1=true and GenericWorkload, which are off by default in 1.38 as well",
        source="https://github.com/kubernetes/kubernetes/blob/v1.38.0-beta.0/pkg/features/kube_features.go, "
        "https://github.com/kubernetes/kubernetes/blob/v1.38.0-beta.0/pkg/scheduler/schedule_one_podgroup.go",
        hit=releases.ReleaseExample("1.38", _workload_api_gang("v1beta1")),
        spared=releases.ReleaseExample("1.37", _workload_api_gang("v1beta1")),
    ),
    releases.ReleaseChange(
        "kubernetes/composite-v1beta1",
        releases.Product.KUBERNETES,
        _has("v1alpha3"),
        releases.ChangeOutcome.CONTINUES,
        since="1.38.0-alpha.0",
        why="1.38 serves the stored CompositePodGroups in v1beta1 as well, and its kube-scheduler reads them there",
        before="keep the feature gates CompositePodGroup and TopologyAwareWorkloadScheduling, and have v1alpha3 served "
        "until all API servers and kube-schedulers are of 1.38: kube-scheduler 1.37 reads no other version",
        source="https://github.com/kubernetes/api/blob/v0.38.0-beta.0/scheduling/v1beta1/types.go, "
        "https://github.com/kubernetes/kubernetes/blob/v1.38.0-beta.0/pkg/registry/scheduling/rest/storage_scheduling.go",
        hit=releases.ReleaseExample("1.38", _workload_api_gang("v1alpha3")),
        spared=releases.ReleaseExample("1.38", _workload_api_gang("v1beta1")),
    ),
)


_MAPS = "v0.1.0-alpha.12"
_ALPHA_13 = "v0.1.0-alpha.13"
_SOURCE = "https://github.com/ai-dynamo/grove/pull/778"


def _migrates(gang: releases.PresentGang, _: releases.Cluster) -> bool:
    return gang.kind == POD_GANG and not gang.migrated


def _ours(gang: releases.PresentGang, cluster: releases.Cluster) -> bool:
    """Returns whether Grove replaces the PodGang of pods that belong to objects of Rollcall's."""
    return _migrates(gang, cluster) and gang.writer is GangObjectWriter.ROLLCALL and gang.pods > 0


def _is_groves(gang: releases.PresentGang, cluster: releases.Cluster) -> bool:
    """Returns whether Grove replaces the PodGang of pods whose PodGroup its own backend made, or KAI's podgrouper."""
    theirs = gang.writer is GangObjectWriter.GROVE or (
        gang.writer is GangObjectWriter.SCHEDULER and gang.scheduler == KAI
    )
    return _migrates(gang, cluster) and theirs and gang.pods > 0


_NEW = releases.gang(owners=frozenset({releases.POD_CLIQUE_SET}))
_GROVE_GROVES = releases.gang(scheduler="volcano", writer=GangObjectWriter.GROVE)
# Before this upgrade KAI's podgrouper makes the PodGroup.
_PODGROUPER_S = releases.gang(scheduler=KAI, writer=GangObjectWriter.SCHEDULER)

GROVE_CHANGES = (
    releases.ReleaseChange(
        "grove/podgangs-replaced",
        releases.Product.GROVE,
        lambda gang, cluster: _ours(gang, cluster) and gang.owners == {releases.POD_CLIQUE_SET} and not gang.missing,
        releases.ChangeOutcome.CONTINUES,
        since=_MAPS,
        why="Grove replaces the PodGang by one of another name; the gang objects are controlled by the PodCliqueSet, "
        "so they stay",
        source=_SOURCE,
        hit=releases.ReleaseExample(_ALPHA_13, _NEW),
        spared=releases.ReleaseExample("v0.1.0-alpha.11", _NEW),
    ),
    releases.ReleaseChange(
        "grove/gang-objects-incomplete",
        releases.Product.GROVE,
        lambda gang, cluster: _ours(gang, cluster) and (gang.missing or bool(gang.owners - {releases.POD_CLIQUE_SET})),
        releases.ChangeOutcome.UNKNOWN,
        since=_MAPS,
        why="Grove replaces the PodGang by one of another name, and some of the gang objects are missing or have "
        "another controller",
        before="repair the gang first: `rollcall gangs` and `rollcall explain podgang/NAME` say what is wrong",
        source=_SOURCE,
        hit=releases.ReleaseExample(_ALPHA_13, replace(_NEW, missing=True)),
        spared=releases.ReleaseExample(_ALPHA_13, _NEW),
    ),
    releases.ReleaseChange(
        "grove/own-backend",
        releases.Product.GROVE,
        _is_groves,
        releases.ChangeOutcome.RECREATE,
        since=_MAPS,
        why="Grove's own backend writes the PodGroup under the PodGang's new name, and the running pods keep the "
        "annotation with the old one, so the first pod that is replaced is alone in its group and waits for ever",
        before="delete the PodCliqueSet",
        after="create the PodCliqueSet again",
        source=_SOURCE,
        hit=releases.ReleaseExample(_ALPHA_13, _GROVE_GROVES),
        spared=releases.ReleaseExample(_ALPHA_13, _NEW),
    ),
    releases.ReleaseChange(
        "grove/kai-podgroup-names",
        releases.Product.GROVE,
        lambda gang, cluster: _is_groves(gang, cluster) and gang.scheduler == KAI,
        releases.ChangeOutcome.UNKNOWN,
        since="v0.1.0-alpha.12-rc2",
        why="from this release on Grove writes the KAI PodGroup, named as the PodGang, or grove-<set>-<replica> for "
        "all PodGangs of a replica; before, KAI's podgrouper wrote it as pg-<podgang>-<uid>. A KAI before 0.15 ignores "
        "kai.scheduler/skip-podgrouper, so both write",
        before="upgrade KAI to 0.15 or newer before Grove (Dynamo 1.5 requires 0.17.0), and set the scheduler's "
        "default-staleness-grace-period to -1, as Dynamo requires for Grove with KAI",
        source="https://github.com/kai-scheduler/KAI-Scheduler/pull/2117, "
        "https://github.com/ai-dynamo/grove/pull/735, https://github.com/ai-dynamo/dynamo/pull/14553",
        hit=releases.ReleaseExample(_ALPHA_13, _PODGROUPER_S),
        spared=releases.ReleaseExample(_ALPHA_13, _GROVE_GROVES),
    ),
    releases.ReleaseChange(
        "grove/scaled-to-zero",
        releases.Product.GROVE,
        lambda gang, cluster: _migrates(gang, cluster) and not gang.pods,
        releases.ChangeOutcome.UNKNOWN,
        since=_MAPS,
        why="with v0.1.0-alpha.12 a set that was at zero during the migration got a PodGangMap without entries, and "
        "its pods were not created later; which release fixes it is not verified",
        before="scale the set up before the upgrade, or delete it and create it again afterwards",
        source="https://github.com/ai-dynamo/grove/issues/808, https://github.com/ai-dynamo/grove/issues/809",
        hit=releases.ReleaseExample(_ALPHA_13, replace(_NEW, pods=0)),
        spared=releases.ReleaseExample(_ALPHA_13, _NEW),
    ),
    releases.ReleaseChange(
        "grove/back-from-podgangmaps",
        releases.Product.GROVE,
        lambda gang, _: gang.kind == POD_GANG and gang.migrated,
        releases.ChangeOutcome.UNKNOWN,
        until=_MAPS,
        why="the PodGangs are named by epochs already, and an operator without PodGangMaps does not know these names; "
        "what it does with them is not verified",
        before="stay with this generation of Grove",
        source=_SOURCE,
        hit=releases.ReleaseExample("v0.1.0-alpha.11", replace(_NEW, migrated=True)),
        spared=releases.ReleaseExample("v0.1.0-alpha.11", _NEW),
    ),
)


EVERY_CHANGE: tuple[releases.ReleaseChange, ...] = (
    *SCHEDULER_CHANGES,
    *KAI_CHANGES,
    *KUBERNETES_CHANGES,
    *GROVE_CHANGES,
)

# From this release on nothing is known of a product: it is later than what was read. Raise it with the entries.
UNREAD: dict[releases.Product, releases.Release] = {
    releases.Product.KOORDINATOR: releases.Release("1.9.0"),
    releases.Product.VOLCANO: releases.Release("1.16.0"),
    releases.Product.KAI: releases.Release("0.18.0"),
    releases.Product.KUBERNETES: releases.Release("1.39.0-alpha.0"),
    releases.Product.GROVE: releases.Release("v0.1.0-alpha.14-rc0"),
}
