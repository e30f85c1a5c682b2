"""The gangs of the first groups of the LeaderWorkerSets that a workload made for its roles (no I/O).

Sets whose names differ only in the role at the end belong together: they are of one revision. Schedulers do not let the
members of a running gang change, so the members are those that the workload states, whatever the sets have now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webhook.model.reading import text
from webhook.model.workloads.gang import OptedInGang, gang_of_first_groups
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.roles import shared_name
from webhook.model.workloads.workload import OptedInWorkload, Role


def gangs_of_sets(workload: OptedInWorkload, sets: Iterable[LeaderWorkerSet]) -> Iterator[OptedInGang]:
    """The gangs of the first groups, one for each revision. `sets` name the workload as their controller. Raises
    `Malformed`.
    """
    revisions: dict[str, dict[str, LeaderWorkerSet]] = {}
    for made in sets:
        role, maker = text(made.labels.get(workload.role_label)), made.controller
        if role is not None and maker is not None and maker.uid == workload.uid:
            name = shared_name(made.name, role)
            if name != made.name:
                revisions.setdefault(name, {})[role] = made
    stated = {role.part.name: role for role in workload.roles}
    for name, made_for in revisions.items():
        roles = {role: _role(role, made, stated.get(role)) for role, made in made_for.items()}
        # Sets are made one after the other, and without the next one the first must not start. A revision with another
        # role is an old one.
        every = {**stated, **roles} if roles.keys() <= stated.keys() else roles
        yield from gang_of_first_groups(workload, name, every.values())


def _role(name: str, made: LeaderWorkerSet, stated: Role | None) -> Role:
    return Role(made.parts[-1]._replace(name=name), made.replicas if stated is None else stated.groups, made.size)
