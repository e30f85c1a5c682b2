"""Releases of Rollcall."""

from __future__ import annotations

from webhook.gangs.key import POD_GANG
from webhook.gangs.writers import Writer
from webhook.upgrades.change import Change, Example, Outcome, gang
from webhook.upgrades.present import POD_CLIQUE_SET, Cluster, PresentGang
from webhook.upgrades.releases import Product

# The first release whose reconciler has the gang objects controlled by the PodCliqueSet.
OWNERSHIP = "0.4.0"
_SOURCE = "https://github.com/ai-dynamo/grove/pull/778"


def _is_taken_over(one: PresentGang, _: Cluster) -> bool:
    return one.writer is Writer.ROLLCALL and POD_GANG in one.owners


def _was_taken_over(one: PresentGang, _: Cluster) -> bool:
    return one.writer is Writer.ROLLCALL and POD_CLIQUE_SET in one.owners


CHANGES = (
    Change(
        "rollcall/takes-over",
        Product.ROLLCALL,
        _is_taken_over,
        Outcome.CONTINUES,
        since=OWNERSHIP,
        why="the reconciler makes the PodCliqueSet the controller of its gang objects; no pod is changed",
        source=_SOURCE,
        hit=Example("0.4.0", gang(owners=frozenset({POD_GANG}))),
        spared=Example("0.3.0", gang(owners=frozenset({POD_GANG}))),
    ),
    Change(
        "rollcall/goes-back",
        Product.ROLLCALL,
        _was_taken_over,
        Outcome.UNKNOWN,
        until=OWNERSHIP,
        why="that release expects the PodGang to control the gang objects, and the PodCliqueSet controls them now: it "
        "does not update them, and it strands a gang whose PodGang Grove has renamed",
        before="run `rollcall gangs give-back`, which lists the gangs that cannot go back",
        source=_SOURCE,
        hit=Example("0.3.0", gang(owners=frozenset({POD_CLIQUE_SET}))),
        spared=Example("0.3.0", gang(owners=frozenset({POD_GANG}))),
    ),
)
