"""Rules for GangGroups: PodGroups, and pods that use one of the older ways, that list each other. Koordinator does not
validate these lists.

Only the first few members of a list are checked, so a long list does not cost more time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from webhook.backends.koordinator.gang_settings import (
    Unreadable,
    group_of,
    is_set,
    key_of_gang,
    listed,
    own_id,
    read_groups,
)
from webhook.backends.koordinator.keys import ANNOTATION_GROUPS, POD_GROUP, POD_GROUPS
from webhook.backends.koordinator.rules.examples import annotated_pod, known, pod_group
from webhook.backends.koordinator.settings import RuleContext
from webhook.model.fields import ANNOTATIONS
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.gang_groups import gang_id
from webhook.model.keys import Needed, ObjectKey
from webhook.model.reading import text
from webhook.model.stored_object import PODS, StoredObject
from webhook.validators.list_faults import told
from webhook.validators.registry import Example, Results, rule

AT = ANNOTATIONS / ANNOTATION_GROUPS
BOTH = (POD_GROUPS, PODS)
# Of a larger gang, at most this many members are looked up and compared.
MOST_MEMBERS = 32


@rule(
    "koordinator/gang-groups-unread",
    kinds=BOTH,
    passes=Example(pod_group("leader", settings={"groups": '["default/leader"]'})),
    fails=Example(pod_group("leader", settings={"groups": "default/leader,default/worker"})),
)
def groups_unreadable(found: StoredObject, _: RuleContext) -> Results:
    """What is no JSON array is a line in koord-scheduler's log, and the gang is taken for its own: it starts without
    the others.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/util/gang_helper.go
    (`StringToGangGroupSlice`) and core/gang.go (`tryInitByPodGroup`), v1.8.0.
    """
    written = _written(found)
    if written is None:
        return
    try:
        read_groups(written)
    except Unreadable as error:
        yield Finding(
            at=AT,
            found=written,
            why=f"it {error}, so koord-scheduler starts this gang without the others",
            remedy='write a JSON array such as ["namespace/leader","namespace/worker"]',
        )


@rule(
    "koordinator/gang-groups-member",
    kinds=BOTH,
    passes=Example(pod_group("leader", "leader", "worker"), facts=known(pod_group("worker", "leader", "worker"))),
    fails=Example(pod_group("leader", settings={"groups": '["default/leader","worker"]'})),
)
def groups_member(found: StoredObject, _: RuleContext) -> Results:
    """A member is looked up by `namespace/name`. One without a namespace never exists, and an item that is no string is
    read as the empty name, which never exists either: all pods of the gang are held, for ever and without an event.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`basicGangRequirementsCheck`)
    and util/gang_helper.go, v1.8.0; Go's encoding/json, which keeps the rest of a list of mixed types.
    """
    for member in told(_of_no_gang(found), () if found.old is None else _of_no_gang(found.old)):
        yield Finding(
            at=AT,
            found=member,
            why="koord-scheduler looks members up by namespace and name, so it would wait for this one for ever",
            remedy='write each member as a string "namespace/name"',
        )


def _of_no_gang(found: StoredObject) -> Iterator[str]:
    return (member for member in _listed(found) if key_of_gang(member) is None)


@rule(
    "koordinator/gang-groups-itself",
    kinds=BOTH,
    passes=Example(annotated_pod(groups='["default/worker"]'), facts=known()),
    fails=Example(pod_group("leader", "worker"), facts=known(pod_group("worker", "worker"))),
)
def groups_itself(found: StoredObject, _: RuleContext) -> Results:
    """Each pod is judged by its own gang's list: a gang that is not in it is not waited for by its own pods, so that
    fewer of them than its minimum may start. Which pods start then depends on who came first (seen).

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`Permit`), v1.8.0.
    """
    members, itself = _listed(found), own_id(found)
    if members and itself and itself not in members:
        yield Finding(
            at=AT,
            found=itself,
            why="the list omits the gang itself, so koord-scheduler does not wait for its own pods",
            remedy="list every gang that is to start together, this one too",
        )


@rule(
    "koordinator/gang-groups-twice",
    kinds=BOTH,
    default=Action.WARN,
    passes=Example(pod_group("leader", "leader")),
    fails=Example(pod_group("leader", "leader", "leader")),
)
def groups_twice(found: StoredObject, _: RuleContext) -> Results:
    """The id of a GangGroup is its list, sorted and joined: with a member twice it is another GangGroup than that of
    members who list it once, and what is kept of it is not shared.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/util/gang_helper.go (`GetGangGroupId`),
    v1.8.0.
    """
    seen: set[str] = set()
    for member in _listed(found):
        if member in seen:
            yield Finding(
                at=AT, found=member, why="listed twice, which makes another gang group", remedy="list it once"
            )
            return
        seen.add(member)


@rule(
    "koordinator/gang-groups-differ",
    kinds=BOTH,
    passes=Example(pod_group("leader", "leader", "worker"), facts=known(pod_group("worker", "worker", "leader"))),
    fails=Example(pod_group("leader", "leader", "worker"), facts=known(pod_group("worker", "worker"))),
)
def groups_differ(found: StoredObject, context: RuleContext) -> Results:
    """Members need not agree, and are not made to: with [leader, worker] on one and [worker] on the other the workers
    start without the leader, which waits for them. Judged when a gang is created, against the members that it lists and
    the PodGroups that list it; an edit of one PodGroup cannot agree with all others at once. A PodGroup of another
    namespace is never the cause of more than a warning: its author may be a stranger.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`Permit`,
    `basicGangRequirementsCheck`), v1.8.0.
    """
    members = _listed(found)
    pod_groups = context.facts.koordinator_pod_groups
    if found.old is not None or not own_id(found) or (found.kind != POD_GROUP.kind and not members):
        return
    if pod_groups is None:
        if members:
            yield Unjudged(AT, "the other PodGroups of the gang group")
        return
    own = group_of(found)
    others = (key for key in _partners(found, context) if key in pod_groups and pod_groups[key].groups != own)
    if (key := nearest(found, others)) is not None:
        yield Finding(
            at=AT,
            found=_written(found),
            why=f"PodGroup {gang_id(key)} has another list, so that one of the two starts without the other",
            remedy="write the same list, with this gang in it, on every member; delete those that have another",
            at_most=most_action(found, key),
        )
        return
    if any(key != found.key and pod_groups[key].groups != own for key in pod_groups.too_long(found.key[0])):
        yield Unjudged(AT, "the PodGroups of the namespace whose list is longer than is kept")


@rule(
    "koordinator/gang-groups-edited",
    kinds=(POD_GROUPS,),
    default=Action.WARN,
    passes=Example(
        pod_group("leader", "leader", minMember=3), old=pod_group("leader", "leader"), facts=known(pod_group("leader"))
    ),
    fails=Example(
        pod_group("leader", "leader", "worker"),
        old=pod_group("leader", "leader"),
        facts=known(pod_group("worker", "leader", "worker")),
    ),
)
def groups_edited(found: StoredObject, _: RuleContext) -> Results:
    """What koord-scheduler keeps of a GangGroup (whether it was ever complete, who stands for it) stays with the list
    that it saw first, and an edit brings no held pod back into the queue.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`SetGangGroupInfo`) and
    gang_cache.go (`onPodGroupUpdate`), v1.8.0.
    """
    if found.old is not None and group_of(found.old) != group_of(found):
        yield Finding(
            at=AT,
            found=f"{len(_listed(found))} members",
            why="koord-scheduler does not follow an edit of the list",
            remedy="delete the gang's pods and PodGroups, and create them anew",
        )


@rule(
    "koordinator/gang-member-missing",
    kinds=(POD_GROUPS,),
    default=Action.WARN,
    passes=Example(pod_group("leader", "leader", "worker"), facts=known(pod_group("worker", "leader", "worker"))),
    fails=Example(pod_group("leader", "leader", "worker"), facts=known()),
)
def member_missing(found: StoredObject, context: RuleContext) -> Results:
    """While a listed gang is not there, every pod of the GangGroup is held, without an event. It may follow, and one of
    two that list each other is always first: so this is never more than a warning, whatever the namespace's creation
    order.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`basicGangRequirementsCheck`,
    called by `PreEnqueue`), v1.8.0.
    """
    pod_groups = context.facts.koordinator_pod_groups
    for key in members_of(found):
        if pod_groups is None:
            yield Unjudged(AT, "the other PodGroups of the gang group")
            return
        if key not in pod_groups:
            yield Finding(
                at=AT,
                found=gang_id(key),
                why="not there yet, and all wait for it",
                remedy="create it, or take it off every list",
                absent=Needed("koordinator_pod_groups", key),
            )
            return


def nearest(found: StoredObject, others: Iterable[ObjectKey]) -> ObjectKey | None:
    """The first of `others` in the object's own namespace, else the first of all."""
    every = list(others)
    return next((key for key in every if key[0] == found.key[0]), every[0] if every else None)


def most_action(found: StoredObject, cause: ObjectKey) -> Action:
    """The strongest action because of `cause`: an object is never refused because of another namespace."""
    return Action.DENY if cause[0] == found.key[0] else Action.WARN


def _written(found: StoredObject) -> str | None:
    return text(found.annotations.get(ANNOTATION_GROUPS)) if is_set(found) else None


def _listed(found: StoredObject) -> tuple[str, ...]:
    return listed(found) if is_set(found) else ()


def members_of(found: StoredObject) -> Iterator[ObjectKey]:
    """The first members of a list, without the gang itself."""
    itself = own_id(found)
    for member in _listed(found)[:MOST_MEMBERS]:
        key = key_of_gang(member)
        if key is not None and member != itself:
            yield key


def _partners(found: StoredObject, context: RuleContext) -> Iterator[ObjectKey]:
    """The gangs that should have the same list: the first members, and the first PodGroups that list this gang. They
    include a pod's own PodGroup.
    """
    yield from members_of(found)
    itself = key_of_gang(own_id(found))
    pod_groups = context.facts.koordinator_pod_groups
    if itself is None or pod_groups is None:
        return
    if found.kind != POD_GROUP.kind:
        yield itself
    # Each listing has its own limit, so that another namespace cannot hide the faults in this one.
    for listing in (pod_groups.listing(itself), pod_groups.listing_from_abroad(itself)):
        yield from islice((key for key in listing if key != found.key), MOST_MEMBERS)
