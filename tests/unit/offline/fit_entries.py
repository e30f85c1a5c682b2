"""Entries of a report about gangs in racks, as the judgement would make them."""

from __future__ import annotations

from webhook.fit.domains import DomainRoom
from webhook.fit.feasibility import GangsToEvict, RoomAnswer, RoomEstimate
from webhook.fit.verdict import FitAnswer, FitFamily, FitScope, FitVerdict, PlacedPods, Shortfall, Witness
from webhook.model.fields import SPEC
from webhook.offline.fit_report import FitEntry

GPU = "nvidia.com/gpu"
TRAIN = ("JobSet", "team-a", "train")
ASSUMED = "no webhook lowers"


def rack(name: str, nodes: int, free: int | None = None) -> DomainRoom:
    total = {GPU: 8 * nodes, "cpu": 64000 * nodes, "pods": 110 * nodes}
    left = None if free is None else {GPU: free, "cpu": 8000 * free, "pods": 110 * nodes - 1}
    return DomainRoom("rack", name, nodes, total, left)


NEVER = FitEntry(
    TRAIN,
    "train",
    "koord-scheduler",
    FitVerdict(
        FitAnswer.NEVER,
        Witness(
            FitFamily.TOPOLOGY,
            FitScope.ON_THESE_NODES,
            SPEC / "replicatedJobs" / "worker",
            12,
            "12 pods of 8 nvidia.com/gpu need one rack; the largest rack r7 has room for 9",
            "set parallelism to at most 9, or require one zone",
            "C2",
            ("worker",),
            "r7",
            (Shortfall(GPU, 96, 72),),
        ),
        assumptions=(ASSUMED,),
        steps=40,
    ),
    pods={"worker": 12},
    domains=(rack("r6", 4, 32), rack("r7", 9, 16)),
)
ROOM = FitEntry(
    TRAIN,
    "train",
    "koord-scheduler",
    FitVerdict(FitAnswer.FITS, placement=(PlacedPods("worker", "r6", "n1", 1), PlacedPods("worker", "r6", "n2", 1))),
    more=2,
    pods={"worker": 2},
    domains=(rack("r6", 4, 16), rack("r7", 9, 72)),
    now=RoomEstimate(
        RoomAnswer.ROOM,
        ("rack r7",),
        placement=(PlacedPods("worker", "r7", "n5", 1), PlacedPods("worker", "r7", "n6", 1)),
    ),
)
SHORT = FitEntry(
    TRAIN,
    "train",
    "koord-scheduler",
    FitVerdict(FitAnswer.FITS, placement=tuple(PlacedPods("worker", "r7", f"n{index}", 1) for index in range(9))),
    pods={"worker": 9},
    domains=(rack("r6", 4, 32), rack("r7", 9, 48)),
    now=RoomEstimate(
        RoomAnswer.SHORT,
        why="9 pods of 8 nvidia.com/gpu need one rack; the largest rack r7 has room for 6",
        nearest="rack r7",
        short=(Shortfall(GPU, 72, 48),),
        leaving=GangsToEvict(("eval", "pretrain"), 1),
    ),
)
GROWS = FitEntry(
    TRAIN,
    "train",
    "koord-scheduler",
    FitVerdict(FitAnswer.UNKNOWN, causes=("the cluster may grow, and the shape of its new nodes is not known",)),
    pods={"worker": 12},
    domains=(rack("r6", 4),),
    without_growth=NEVER.verdict.witness,
)
