"""Releases of KAI-Scheduler.

The fix of KAI-Scheduler#1968 is on the branch v0.17 since 2026-08-06, three days after v0.17.0 (#2022), so the next
release of that branch has it. The branch v0.16 has no such backport, and the notes of v0.16.9 do not name one.
For #2095 see `webhook/backends/kai/keys.py`. #2096 is on main and, after v0.17.1, on v0.17 (#2152, 2026-09-10); no
other backport was seen.
"""

from __future__ import annotations

from dataclasses import replace

from webhook.backends.kai.keys import BACKPORTS, FIXED, NAME
from webhook.gangs.writers import Writer
from webhook.model.workloads.kinds import JOB_SETS
from webhook.upgrades.change import Change, Example, Outcome, gang
from webhook.upgrades.present import ALWAYS, Cluster, PresentGang
from webhook.upgrades.releases import Product


def _may_finish(one: PresentGang, _: Cluster) -> bool:
    return one.scheduler == NAME and (one.writer is Writer.SCHEDULER or bool(one.restarts - {ALWAYS}))


def _has_a_twin(one: PresentGang, cluster: Cluster) -> bool:
    return one.scheduler == NAME and one.writer is Writer.GROVE and one.group_name in cluster.twins


def _is_ours(one: PresentGang, _: Cluster) -> bool:
    return one.scheduler == NAME and one.writer is Writer.ROLLCALL


def _is_of_kai(one: PresentGang, _: Cluster) -> bool:
    return one.scheduler == NAME


def _is_a_job_set(one: PresentGang, _: Cluster) -> bool:
    return one.scheduler == NAME and one.kind == JOB_SETS.api.kind


_SERVICE = gang(scheduler=NAME, restarts=frozenset({ALWAYS}))
_BATCH = replace(_SERVICE, restarts=frozenset({"Never"}))
_GROVES = replace(_SERVICE, writer=Writer.GROVE)
_JOB_SET = gang("train", NAME, kind="JobSet", workload="train", writer=Writer.SCHEDULER)

CHANGES = (
    Change(
        "kai/finishing-gangs",
        Product.KAI,
        _may_finish,
        Outcome.UNKNOWN,
        since="0.16.2",
        until="0.17.1",
        why="this KAI does not see finished pods. If the pods of a gang finish one after another, it evicts the rest "
        "after 60 seconds. Whether they do is not known beforehand",
        before="upgrade to 0.17.1 or newer instead, or set the scheduler's default-staleness-grace-period to -1",
        source="https://github.com/kai-scheduler/KAI-Scheduler/issues/1968, "
        "https://github.com/kai-scheduler/KAI-Scheduler/pull/2022",
        hit=Example("0.17", _BATCH),
        spared=Example("0.17", _SERVICE),
    ),
    Change(
        "kai/podgroup-twins",
        Product.KAI,
        _has_a_twin,
        Outcome.UNKNOWN,
        until=str(FIXED),
        patched=tuple(map(str, BACKPORTS)),
        why="this KAI identifies a PodGroup by its name without the namespace. Grove names the PodGroup after the "
        "PodGang or the set, and another namespace has one of that name: the two mix, and each may start in part",
        before=f"rename one of the two sets, or upgrade to {FIXED} or newer instead. Of 0.14 the releases from "
        f"{BACKPORTS[0]} on have the fix, of 0.9, 0.12 and 0.16 those after 2026-09-14",
        source="https://github.com/kai-scheduler/KAI-Scheduler/pull/2095, "
        "https://github.com/kai-scheduler/KAI-Scheduler/pull/2138",
        hit=Example("0.17.1", _GROVES, Cluster(twins=frozenset({"demo-0"}))),
        spared=Example("0.17.1", _SERVICE, Cluster(twins=frozenset({"demo-0"}))),
    ),
    Change(
        "kai/gang-floor",
        Product.KAI,
        _is_of_kai,
        Outcome.CONTINUES,
        until=str(FIXED),
        why="this KAI checks that a subgroup has its minimum of pods only before it allocates, and not where it "
        "collects the pods, which other actions use as well. Running gangs are not touched",
        after="upgrade to 0.17.2 or newer as soon as it can be had: a gang may start in part on older ones",
        source="https://github.com/kai-scheduler/KAI-Scheduler/pull/2096, "
        "https://github.com/kai-scheduler/KAI-Scheduler/pull/2152",
        hit=Example("0.17.1", _SERVICE),
        spared=Example("0.17.1", gang()),
    ),
    Change(
        "kai/podgroup-names",
        Product.KAI,
        _is_ours,
        Outcome.CONTINUES,
        why="KAI before #2095 identifies a PodGroup by its name alone, and newer releases by its namespace and name. "
        "The names that Rollcall gives are unique in the cluster, so they stay",
        source="https://github.com/kai-scheduler/KAI-Scheduler/pull/2095",
        hit=Example("0.17.2", _SERVICE),
        spared=Example("0.17.2", _GROVES),
    ),
    Change(
        "kai/jobset-tree",
        Product.KAI,
        _is_a_job_set,
        Outcome.UNKNOWN,
        since="0.16.0",
        why="from 0.16 on podgrouper makes a tree of subgroups for a JobSet, and before it one flat group; what it "
        "does with the group of a running JobSet is not verified. If 0.16 runs already, nothing changes",
        before="let running JobSets finish, or upgrade while none runs",
        source="https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/CHANGELOG.md (v0.16.0)",
        hit=Example("0.17", _JOB_SET),
        spared=Example("0.15.2", _JOB_SET),
    ),
)
