"""Releases of Grove's operator. From v0.1.0-alpha.12 on PodGangs are named by epochs and listed in PodGangMaps.

The migration of living sets was seen with the operator built from pull request 778, on kube-scheduler 1.35 to 1.37,
koord-scheduler 1.8, KAI 0.16.8 and Volcano 1.15.1: the old PodGangs are deleted before the new ones are created.
"""

from __future__ import annotations

from dataclasses import replace

from webhook.backends.kai.keys import NAME as KAI
from webhook.gangs.key import POD_GANG
from webhook.gangs.writers import Writer
from webhook.upgrades.change import Change, Example, Outcome, gang
from webhook.upgrades.present import POD_CLIQUE_SET, Cluster, PresentGang
from webhook.upgrades.releases import Product

_MAPS = "v0.1.0-alpha.12"
_ALPHA_13 = "v0.1.0-alpha.13"
_SOURCE = "https://github.com/ai-dynamo/grove/pull/778"


def _migrates(one: PresentGang, _: Cluster) -> bool:
    return one.kind == POD_GANG and not one.migrated


def _ours(one: PresentGang, cluster: Cluster) -> bool:
    """Whether Grove replaces the PodGang of pods that belong to objects of Rollcall's."""
    return _migrates(one, cluster) and one.writer is Writer.ROLLCALL and one.pods > 0


def _is_independent(one: PresentGang, cluster: Cluster) -> bool:
    return _ours(one, cluster) and one.owners == {POD_CLIQUE_SET} and not one.missing


def _is_incomplete(one: PresentGang, cluster: Cluster) -> bool:
    return _ours(one, cluster) and (one.missing or bool(one.owners - {POD_CLIQUE_SET}))


def _is_groves(one: PresentGang, cluster: Cluster) -> bool:
    """Whether Grove replaces the PodGang of pods whose PodGroup its own backend made, or KAI's podgrouper."""
    theirs = one.writer is Writer.GROVE or (one.writer is Writer.SCHEDULER and one.scheduler == KAI)
    return _migrates(one, cluster) and theirs and one.pods > 0


def _is_groves_on_kai(one: PresentGang, cluster: Cluster) -> bool:
    return _is_groves(one, cluster) and one.scheduler == KAI


def _has_no_pods(one: PresentGang, cluster: Cluster) -> bool:
    return _migrates(one, cluster) and not one.pods


def _is_migrated(one: PresentGang, _: Cluster) -> bool:
    return one.kind == POD_GANG and one.migrated


_NEW = gang(owners=frozenset({POD_CLIQUE_SET}))
_GROVES = gang(scheduler="volcano", writer=Writer.GROVE)
# Before this upgrade KAI's podgrouper makes the PodGroup.
_PODGROUPER_S = gang(scheduler=KAI, writer=Writer.SCHEDULER)

CHANGES = (
    Change(
        "grove/podgangs-replaced",
        Product.GROVE,
        _is_independent,
        Outcome.CONTINUES,
        since=_MAPS,
        why="Grove replaces the PodGang by one of another name; the gang objects are controlled by the PodCliqueSet, "
        "so they stay",
        source=_SOURCE,
        hit=Example(_ALPHA_13, _NEW),
        spared=Example("v0.1.0-alpha.11", _NEW),
    ),
    Change(
        "grove/gang-objects-incomplete",
        Product.GROVE,
        _is_incomplete,
        Outcome.UNKNOWN,
        since=_MAPS,
        why="Grove replaces the PodGang by one of another name, and some of the gang objects are missing or have "
        "another controller",
        before="repair the gang first: `rollcall gangs` and `rollcall explain podgang/NAME` say what is wrong",
        source=_SOURCE,
        hit=Example(_ALPHA_13, replace(_NEW, missing=True)),
        spared=Example(_ALPHA_13, _NEW),
    ),
    Change(
        "grove/own-backend",
        Product.GROVE,
        _is_groves,
        Outcome.RECREATE,
        since=_MAPS,
        why="Grove's own backend writes the PodGroup under the PodGang's new name, and the running pods keep the "
        "annotation with the old one, so the first pod that is replaced is alone in its group and waits for ever",
        before="delete the PodCliqueSet",
        after="create the PodCliqueSet again",
        source=_SOURCE,
        hit=Example(_ALPHA_13, _GROVES),
        spared=Example(_ALPHA_13, _NEW),
    ),
    Change(
        "grove/kai-podgroup-names",
        Product.GROVE,
        _is_groves_on_kai,
        Outcome.UNKNOWN,
        since="v0.1.0-alpha.12-rc2",
        why="from this release on Grove writes the KAI PodGroup, named as the PodGang, or grove-<set>-<replica> for "
        "all PodGangs of a replica; before, KAI's podgrouper wrote it as pg-<podgang>-<uid>. A KAI before 0.15 ignores "
        "kai.scheduler/skip-podgrouper, so both write",
        before="upgrade KAI to 0.15 or newer before Grove (Dynamo 1.5 requires 0.17.0), and set the scheduler's "
        "default-staleness-grace-period to -1, as Dynamo requires for Grove with KAI",
        source="https://github.com/kai-scheduler/KAI-Scheduler/pull/2117, "
        "https://github.com/ai-dynamo/grove/pull/735, https://github.com/ai-dynamo/dynamo/pull/14553",
        hit=Example(_ALPHA_13, _PODGROUPER_S),
        spared=Example(_ALPHA_13, _GROVES),
    ),
    Change(
        "grove/scaled-to-zero",
        Product.GROVE,
        _has_no_pods,
        Outcome.UNKNOWN,
        since=_MAPS,
        why="with v0.1.0-alpha.12 a set that was at zero during the migration got a PodGangMap without entries, and "
        "its pods were not created later; which release fixes it is not verified",
        before="scale the set up before the upgrade, or delete it and create it again afterwards",
        source="https://github.com/ai-dynamo/grove/issues/808, https://github.com/ai-dynamo/grove/issues/809",
        hit=Example(_ALPHA_13, replace(_NEW, pods=0)),
        spared=Example(_ALPHA_13, _NEW),
    ),
    Change(
        "grove/back-from-podgangmaps",
        Product.GROVE,
        _is_migrated,
        Outcome.UNKNOWN,
        until=_MAPS,
        why="the PodGangs are named by epochs already, and an operator without PodGangMaps does not know these names; "
        "what it does with them is not verified",
        before="stay with this generation of Grove",
        source=_SOURCE,
        hit=Example("v0.1.0-alpha.11", replace(_NEW, migrated=True)),
        spared=Example("v0.1.0-alpha.11", _NEW),
    ),
)
