"""What the plugin Coscheduling of scheduler-plugins places together: `minMember` pods of one PodGroup, which are all
pods of a gang of several members. It knows no topology.

Source: kubernetes-sigs/scheduler-plugins v0.34.7, pkg/coscheduling/core/core.go.
"""

from __future__ import annotations

from webhook.fit.packing import Packing
from webhook.fit.roles import Roles, group_of, in_no_domain, needs_in
from webhook.fit.shape import GangShape


def packing_of(shape: GangShape, roles: Roles) -> Packing:
    """Return what the plugin places together of a gang. Rollcall writes no PodGroup for several members of which one
    has pods above its minimum.
    """
    members = {member.part or member.name for member in shape.members}
    if len(members) > 1 and any(0 < member.minimum < member.pods for member in shape.members):
        return Packing((), unknown=("how one PodGroup counts pods above the minimum",))
    needs = needs_in(shape.needed, roles, in_no_domain)
    return Packing((group_of(shape.name, needs, None),) if needs else (), left_out=shape.left_out)
