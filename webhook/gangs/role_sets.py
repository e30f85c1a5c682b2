"""The gangs of the first groups of the LeaderWorkerSets that a workload made for its roles (no I/O).

Sets whose names differ only in the role at the end belong together: they are of one revision. Schedulers do not let the
members of a running gang change, so the members are those that the workload states, whatever the sets have now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from webhook.model.reading import text
from webhook.model.workloads.gang import OptedInGang, roles_gang
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.roles import group_name, groups_together, shared_name
from webhook.model.workloads.workload import OptedInWorkload, Role


def gangs_of_sets(
    workload: OptedInWorkload, together: Mapping[str, int], sets: Iterable[LeaderWorkerSet]
) -> list[OptedInGang]:
    """The gangs of the first groups, one for each revision. `together` has the number of groups of a role that start
    together, if it is not one; `sets` are those that name the workload as their controller.
    """
    revisions: dict[str, dict[str, LeaderWorkerSet]] = {}
    for made in sets:
        role, maker = text(made.labels.get(workload.role_label)), made.controller
        if role is not None and maker is not None and maker.uid == workload.uid:
            name = shared_name(made.name, role)
            if name != made.name:
                revisions.setdefault(name, {})[role] = made
    stated = {role.part.name: role for role in workload.roles}
    newest = max(revisions, key=lambda name: _created(revisions[name].values()), default=None)
    found = []
    for name, made_for in revisions.items():
        roles = {role: _role(role, made) for role, made in made_for.items()}
        # Sets are made one after the other, and without the next one the first must not start.
        every = {**stated, **roles} if name == newest else roles
        members = [
            (group_name(f"{name}-{role}", index), known)
            for role, known in every.items()
            for index in range(groups_together(role, together))
        ]
        found.append(roles_gang(workload, name, members))
    return found


def _role(name: str, made: LeaderWorkerSet) -> Role:
    return Role(made.parts[-1]._replace(name=name), made.replicas, max(made.size, 0))


def _created(sets: Iterable[LeaderWorkerSet]) -> str:
    return max(text(made.metadata.get("creationTimestamp")) or "" for made in sets)
