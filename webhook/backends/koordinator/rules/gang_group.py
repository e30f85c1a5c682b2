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
# At most this many members of a gang are looked up and compared.
MOST_MEMBERS = 32


@rule(
    "koordinator/gang-groups-unread",
    kinds=BOTH,
    membership=True,
    passes=Example(pod_group("leader", settings={"groups": '["default/leader"]'})),
    fails=Example(pod_group("leader", settings={"groups": "default/leader,default/worker"})),
)
def groups_unreadable(found: StoredObject, _: RuleContext) -> Results:
    """If the annotation is not a JSON array, koord-scheduler only logs the error and treats the gang as a gang of its
    own. The gang starts without the others.

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
            remedy='set a JSON array such as ["namespace/leader","namespace/worker"]',
        )


@rule(
    "koordinator/gang-groups-member",
    kinds=BOTH,
    membership=True,
    passes=Example(pod_group("leader", "leader", "worker"), facts=known(pod_group("worker", "leader", "worker"))),
    fails=Example(pod_group("leader", settings={"groups": '["default/leader","worker"]'})),
)
def groups_member(found: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler looks up a member by `namespace/name`. A member without a namespace never exists. An item that is
    not a string is read as the empty name, which never exists either. All pods of the gang are held for ever, without
    an event.

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
    membership=True,
    passes=Example(annotated_pod(groups='["default/worker"]'), facts=known()),
    fails=Example(pod_group("leader", "worker"), facts=known(pod_group("worker", "worker"))),
)
def groups_itself(found: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler judges each pod by its own gang's list. If a gang is not in its own list, its pods do not wait
    for it, so fewer pods than its minimum may start. Which pods start depends on their order (seen).

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`Permit`), v1.8.0.
    """
    members, itself = _listed(found), own_id(found)
    if members and itself and itself not in members:
        yield Finding(
            at=AT,
            found=itself,
            why="the list does not contain this gang, so koord-scheduler does not wait for its pods",
            remedy="list every gang that must start together, including this one",
        )


@rule(
    "koordinator/gang-groups-twice",
    kinds=BOTH,
    default=Action.WARN,
    membership=True,
    passes=Example(pod_group("leader", "leader")),
    fails=Example(pod_group("leader", "leader", "leader")),
)
def groups_twice(found: StoredObject, _: RuleContext) -> Results:
    """The id of a GangGroup is its list, sorted and joined. A list with a member twice has another id than a list with
    that member once. The two GangGroups do not share their state.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/util/gang_helper.go (`GetGangGroupId`),
    v1.8.0.
    """
    seen: set[str] = set()
    for member in _listed(found):
        if member in seen:
            yield Finding(
                at=AT,
                found=member,
                why="it is listed twice; for koord-scheduler this is not the gang group that lists it once",
                remedy="list it once",
            )
            return
        seen.add(member)


@rule(
    "koordinator/gang-groups-differ",
    kinds=BOTH,
    membership=True,
    passes=Example(pod_group("leader", "leader", "worker"), facts=known(pod_group("worker", "worker", "leader"))),
    fails=Example(pod_group("leader", "leader", "worker"), facts=known(pod_group("worker", "worker"))),
)
def groups_differ(found: StoredObject, context: RuleContext) -> Results:
    """koord-scheduler does not check that members agree. With [leader, worker] on one member and [worker] on the other,
    the workers start without the leader, and the leader waits for them. The rule judges a gang when it is created,
    against the members that it lists and the PodGroups that list it, because an edit of one PodGroup cannot agree with
    all others at once. A PodGroup in another namespace causes at most a warning, because its author may have no
    relation to this gang.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`Permit`,
    `basicGangRequirementsCheck`), v1.8.0.
    """
    members = _listed(found)
    pod_groups = context.facts.koordinator_pod_groups
    if found.old is not None or not own_id(found) or (found.kind != POD_GROUP.kind and not members):
        return
    if pod_groups is None:
        if members:
            yield Unjudged(AT, "the other PodGroups of the gang group", part="koordinator_pod_groups")
        return
    own = group_of(found)
    others = (key for key in _partners(found, context) if key in pod_groups and pod_groups[key].groups != own)
    if (key := nearest(found, others)) is not None:
        yield Finding(
            at=AT,
            found=_written(found),
            why=f"PodGroup {gang_id(key)} has another list, so one of the two starts without the other",
            remedy="set the same list, with this gang, on every member; recreate members that have another list",
            at_most=most_action(found, key),
        )
        return
    if any(key != found.key and pod_groups[key].groups != own for key in pod_groups.too_long(found.key[0])):
        yield Unjudged(AT, "the PodGroups of the namespace with lists that are too long to keep")


@rule(
    "koordinator/gang-groups-edited",
    kinds=(POD_GROUPS,),
    default=Action.WARN,
    membership=True,
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
    """koord-scheduler keeps the state of a GangGroup (whether it was ever complete, which gang represents it) with the
    list that it saw first. An edit does not return held pods to the queue.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`SetGangGroupInfo`) and
    gang_cache.go (`onPodGroupUpdate`), v1.8.0.
    """
    if found.old is not None and group_of(found.old) != group_of(found):
        yield Finding(
            at=AT,
            found=f"{len(_listed(found))} members",
            why="koord-scheduler ignores an edit of the list",
            remedy="delete and recreate the gang's pods and PodGroups",
        )


@rule(
    "koordinator/gang-member-missing",
    kinds=(POD_GROUPS,),
    default=Action.WARN,
    membership=True,
    passes=Example(pod_group("leader", "leader", "worker"), facts=known(pod_group("worker", "leader", "worker"))),
    fails=Example(pod_group("leader", "leader", "worker"), facts=known()),
)
def member_missing(found: StoredObject, context: RuleContext) -> Results:
    """If a listed gang is missing, every pod of the GangGroup is held, without an event. The gang may be created later,
    and if two gangs list each other, one of them is always created first. So this is at most a warning, regardless of
    the creation order of the namespace.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`basicGangRequirementsCheck`,
    called by `PreEnqueue`), v1.8.0.
    """
    pod_groups = context.facts.koordinator_pod_groups
    for key in members_of(found):
        if pod_groups is None:
            yield Unjudged(AT, "the other PodGroups of the gang group", part="koordinator_pod_groups")
            return
        if key not in pod_groups:
            yield Finding(
                at=AT,
                found=gang_id(key),
                why="this PodGroup does not exist yet, and all members wait for it",
                remedy="create it, or remove it from every list",
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
