"""Koordinator's gangs and GangGroups: how koord-scheduler reads the settings of a PodGroup and of a pod that names its
gang, the PodGroups that start together, and the rules about their lists.

PodGroups, and pods that use one of the older ways, list each other. Koordinator does not validate these lists. Only
the first few members of a list are checked, so a long list does not cost more time.

Source: koordinator-sh/koordinator v1.8.0, apis/extension/{coscheduling,network_topology,multi_scheduler}.go,
pkg/scheduler/plugins/coscheduling (core/gang.go, util/gang_helper.go).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from webhook.backends.koordinator import keys
from webhook.backends.koordinator.keys import RuleContext
from webhook.model.bounds import digest, fits, list_kept, name_text
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.gang_objects import JUDGED_PODS, StoredObject
from webhook.model.keys import Needed, ObjectKey
from webhook.model.known_objects import TopologyLayer
from webhook.model.pod_groups import GatherRule, KoordinatorPodGroup, KoordinatorPodGroups, gang_id
from webhook.model.projections import key_of
from webhook.model.quantity import Fields, Number, int32, json_value, string
from webhook.model.reading import Manifest, integer, text
from webhook.validators.registry import Example, Results, rule
from webhook.validators.shared_checks import reported_items

Topology = tuple[GatherRule, ...]
T = TypeVar("T")

# The members of one GangGroup have the same annotations, so the parsed value is cached and shared. Long texts are not
# cached: a parsed list may take twenty times the memory of its text.
_KEPT_TEXTS, _LONGEST_KEPT = 128, 4096
# The API server refuses an object whose annotations are longer in sum (TotalAnnotationSizeLimitB), so reading more of
# one is useless.
_LONGEST_ANNOTATION = 256 * 1024


class UnreadableSetting(Exception):
    """An annotation that koord-scheduler cannot read; the text says what is wrong with it."""


class GangReference(NamedTuple):
    """How a pod names its gang. With the label (`by_label`), no setting on the pod is read; in an older way, settings
    are read. If the text is too long for a name, `gang` is what `name_text` keeps of it.
    """

    gang: str
    at: FieldPath
    by_label: bool


def gang_reference(pod: StoredObject) -> GangReference | None:
    """Returns the first of a pod's keys that names a gang. koord-scheduler uses that one."""
    for key in (keys.LABEL_POD_GROUP, keys.LABEL_OLD_NAME):
        if (gang := name_text(pod.labels.get(key))) is not None:
            return GangReference(gang, LABELS / key, key == keys.LABEL_POD_GROUP)
    gang = name_text(pod.annotations.get(keys.ANNOTATION_NAME))
    return None if gang is None else GangReference(gang, ANNOTATIONS / keys.ANNOTATION_NAME, by_label=False)


def is_scheduled_here(pod: StoredObject) -> bool:
    """Returns whether koord-scheduler schedules a pod. The label wins over the field, even if the label is empty."""
    if keys.LABEL_SCHEDULER_NAME in pod.labels:
        return bool(pod.labels[keys.LABEL_SCHEDULER_NAME] == keys.NAME)
    return bool(pod.spec.get("schedulerName") == keys.NAME)


def has_gang_settings(stored: StoredObject) -> bool:
    """Returns whether an object has settings that koord-scheduler reads. A PodGroup without any may belong to another
    scheduler that uses the same kind, so its spec is not judged.
    """
    if stored.kind == keys.POD_GROUP.kind:
        return any(key.startswith(keys.GANG_PREFIX) or key in keys.GANG_SETTINGS for key in stored.annotations)
    reference = gang_reference(stored)
    return reference is not None and not reference.by_label and is_scheduled_here(stored)


def gang_setting(stored: StoredObject, key: str) -> str | None:
    """Returns the value of an annotation that koord-scheduler reads; None if it is missing or empty."""
    return text(stored.annotations.get(key)) if has_gang_settings(stored) else None


def gang_id_of(stored: StoredObject) -> str:
    """Returns the id of an object's gang; empty if the gang has no name yet."""
    if stored.kind == keys.POD_GROUP.kind:
        return gang_id(stored.key) if stored.name else ""
    reference = gang_reference(stored)
    return "" if reference is None else gang_id((stored.key[0], reference.gang))


def key_of_gang(gang: str) -> ObjectKey | None:
    """Returns the namespace and name in an id; None if one is missing, because such an id names no gang."""
    namespace, _, name = gang.partition("/")
    return (namespace, name) if namespace and name else None


def listed_gangs(stored: StoredObject) -> tuple[str, ...]:
    """Returns the ids in the annotation `groups` as koord-scheduler reads them; empty if it reads none."""
    written = text(stored.annotations.get(keys.ANNOTATION_GROUPS))
    try:
        return () if written is None else read_groups(written)
    except UnreadableSetting:
        return ()


def match_policy(stored: StoredObject) -> tuple[str, FieldPath] | None:
    """Returns the match policy that koord-scheduler reads, and its path."""
    for key in (keys.ANNOTATION_MATCH_POLICY, keys.ANNOTATION_MATCH_POLICY_ALIAS):
        if (policy := text(stored.annotations.get(key))) is not None:
            return policy, ANNOTATIONS / key
    return None


def topology_of(stored: StoredObject) -> Topology | None:
    """Returns the network topology that an object asks for, or None. Raises `UnreadableSetting`."""
    written = text(stored.annotations.get(keys.ANNOTATION_TOPOLOGY))
    return None if written is None else read_topology(written)


def pod_group_facts(stored: StoredObject) -> KoordinatorPodGroup:
    try:
        topology = topology_of(stored)
    except UnreadableSetting:
        topology = None
    groups = _group(listed_gangs(stored) or (gang_id(stored.key),))
    return KoordinatorPodGroup(integer(stored.spec.get("minMember")) or 0, groups, topology_kept(topology))


def topology_kept(topology: Topology | None) -> Topology | None:
    """Returns a topology. If it is too long to keep, a value that equals no other topology."""
    texts = [text for rule in topology or () for text in (rule.layer, rule.strategy, str(rule.pod_count_multiple))]
    return topology if topology is None or fits(texts) else (GatherRule(digest(texts), "", len(topology)),)


def gang_group(stored: StoredObject) -> tuple[str, ...]:
    """Returns the ids of an object's GangGroup as `list_kept` keeps them; only its own id if it lists none."""
    return _group(listed_gangs(stored) or (gang_id_of(stored),))


@lru_cache(maxsize=_KEPT_TEXTS)
def _kept_group(ids: tuple[str, ...]) -> tuple[str, ...]:
    return list_kept(tuple(sorted(ids)))


def _group(ids: tuple[str, ...]) -> tuple[str, ...]:
    return _kept_group(ids) if sum(map(len, ids)) <= _LONGEST_KEPT else list_kept(tuple(sorted(ids)))


def _kept(read: Callable[[str], T]) -> Callable[[str], T]:
    kept = lru_cache(maxsize=_KEPT_TEXTS)(read)
    return lambda written: kept(written) if len(written) <= _LONGEST_KEPT else read(written)


@_kept
def read_groups(written: str) -> tuple[str, ...]:
    """Returns the ids in a `groups` annotation, "" for an item that is no string. Raises `UnreadableSetting`."""
    value = _json(written)
    if value is not None and not isinstance(value, list):
        raise UnreadableSetting("is not a JSON array")
    return tuple(_text(item) or "" for item in value or ())


@_kept
def read_topology(written: str) -> Topology:
    """Returns the entries of a network-topology-spec, sorted. Raises `UnreadableSetting`."""
    spec = _json(written)
    if spec is None:
        return ()
    if not isinstance(spec, Fields):
        raise UnreadableSetting("is not a JSON object")
    rules: list[GatherRule] = []
    for strategy in spec.values_of("gatherStrategy"):
        if strategy is not None and not isinstance(strategy, list):
            raise UnreadableSetting("has a gatherStrategy that is not an array")
        rules = [_rule(entry, f"gatherStrategy[{index}]") for index, entry in enumerate(strategy or ())]
    return tuple(sorted(rules))


def _rule(entry: Any, place: str) -> GatherRule:
    if entry is None:
        return GatherRule("", "", 0)
    if not isinstance(entry, Fields):
        raise UnreadableSetting(f"has a {place} that is not an object")
    layer, strategy = (_word(entry, name, place) for name in ("layer", "strategy"))
    multiple = 0
    for value in entry.values_of("podCountMultiple"):
        number = multiple if value is None else value.int64() if isinstance(value, Number) else None
        if number is None:
            raise UnreadableSetting(
                f"has a {place}.podCountMultiple that is not a whole number, without quotes and decimal point"
            )
        multiple = number
    return GatherRule(layer, strategy, multiple)


def _word(entry: Fields, name: str, place: str) -> str:
    """Returns the value of a field of type string. Null is never an error and leaves the field unchanged."""
    word = ""
    for value in entry.values_of(name):
        parsed = word if value is None else _text(value)
        if parsed is None:
            raise UnreadableSetting(f"has a {place}.{name} that is not a string")
        word = parsed
    return word


def _text(value: Any) -> str | None:
    """Returns a JSON string; None for any other value. `Number` is a str only in Python."""
    return string(value) if isinstance(value, str) and not isinstance(value, Number) else None


def _json(written: str) -> Any:
    if len(written) > _LONGEST_ANNOTATION:
        raise UnreadableSetting("is longer than the API server allows for annotations")
    try:
        return json_value(written)
    except ValueError:
        raise UnreadableSetting("is not JSON") from None


class Gang(NamedTuple):
    """A gang: the number of pods it starts with, and the listed gangs that it starts together with. A gang that lists
    none has only itself here. The minimum is None for a gang that is not initialised: its pods are held.
    """

    minimum: int | None
    listed: tuple[str, ...]


def read_gang(raw: Manifest) -> tuple[ObjectKey, Gang]:
    """Returns the key and the gang of a PodGroup. Raises `Malformed`."""
    key, stored = key_of(raw), StoredObject(raw, keys.POD_GROUP.kind, keys.POD_GROUP.version)
    return key, Gang(integer(stored.spec.get("minMember")) or 0, listed_gangs(stored) or (gang_id(key),))


def gang_of_pod(pod: StoredObject) -> tuple[str, Gang | None] | None:
    """Returns the name of a pod's gang, and the gang itself if the pod describes it and so needs no PodGroup. None for
    a pod without a gang. Raises `Malformed`.
    """
    reference = gang_reference(pod)
    if reference is None or reference.by_label:
        return None if reference is None else (reference.gang, None)
    written = text(pod.labels.get(keys.LABEL_OLD_MINIMUM)) or text(pod.annotations.get(keys.ANNOTATION_MINIMUM)) or ""
    return reference.gang, Gang(int32(written), listed_gangs(pod) or (gang_id((pod.key[0], reference.gang)),))


def pod_group(
    name: str = "leader", /, *listed: str, settings: Mapping[str, str] | None = None, **spec: Any
) -> Manifest:
    """Returns a PodGroup that lists gangs of its namespace. `settings` are annotations without their prefix."""
    annotations = {keys.ANNOTATION_MODE: "Strict", **_prefixed(settings)}
    if listed:
        annotations[keys.ANNOTATION_GROUPS] = json.dumps([f"default/{other}" for other in listed])
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    api = f"{keys.POD_GROUP.group}/{keys.POD_GROUP.version}"
    return {"apiVersion": api, "kind": keys.POD_GROUP.kind, "metadata": metadata, "spec": {"minMember": 2, **spec}}


def pod(*, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> Manifest:
    marks = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    metadata = {"name": "worker-0", "namespace": "default", **marks}
    spec = {"schedulerName": keys.NAME, "containers": [{"name": "main", "image": "example.com/main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def annotated_pod(**settings: str) -> Manifest:
    """Returns a pod that names its gang by the older annotation. Keywords are further settings, with `_` for `-`."""
    annotations = {keys.ANNOTATION_NAME: "worker", keys.ANNOTATION_MINIMUM: "2"}
    written = {key.replace("_", "-"): value for key, value in settings.items()}
    return pod(annotations={**annotations, **_prefixed(written)})


def gather(*rules: Mapping[str, Any]) -> dict[str, str]:
    return {keys.ANNOTATION_TOPOLOGY.removeprefix(keys.GANG_PREFIX): json.dumps({"gatherStrategy": list(rules)})}


# A ClusterNetworkTopology with a layer above the nodes.
SPINE_LAYERS = {
    "default": (
        TopologyLayer("SpineLayer", None, ("example.com/spine",)),
        TopologyLayer("NodeTopologyLayer", "SpineLayer", ()),
    )
}


def gather_from(layer: str, strategy: str = "MustGather") -> dict[str, str]:
    return _prefixed(gather({"layer": layer, "strategy": strategy}))


def pod_group_cluster(*pod_groups: Manifest, **facts: Any) -> ClusterFacts:
    views = [StoredObject(manifest, keys.POD_GROUP.kind, keys.POD_GROUP.version) for manifest in pod_groups]
    stored = KoordinatorPodGroups({view.key: pod_group_facts(view) for view in views})
    return ClusterFacts(koordinator_pod_groups=stored, **facts)


def _prefixed(settings: Mapping[str, str] | None) -> dict[str, str]:
    return {keys.GANG_PREFIX + key: value for key, value in (settings or {}).items()}


AT = ANNOTATIONS / keys.ANNOTATION_GROUPS
# A rule about PodGroups, and about pods that state the settings of their gang.
gang_rule = partial(rule, kinds=(keys.POD_GROUPS, JUDGED_PODS))
# At most this many members of a gang are looked up and compared.
MOST_MEMBERS = 32


@gang_rule(
    "koordinator/gang-groups-unread",
    membership=True,
    passes=Example(pod_group("leader", settings={"groups": '["default/leader"]'})),
    fails=Example(pod_group("leader", settings={"groups": "default/leader,default/worker"})),
)
def groups_unreadable(stored: StoredObject, _: RuleContext) -> Results:
    """If the annotation is not a JSON array, koord-scheduler only logs the error and treats the gang as a gang of its
    own. The gang starts without the others.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/util/gang_helper.go
    (`StringToGangGroupSlice`) and core/gang.go (`tryInitByPodGroup`), v1.8.0.
    """
    written = gang_setting(stored, keys.ANNOTATION_GROUPS)
    if written is None:
        return
    try:
        read_groups(written)
    except UnreadableSetting as error:
        why = f"it {error}, so koord-scheduler starts this gang without the others"
        remedy = 'set a JSON array such as ["namespace/leader","namespace/worker"]'
        yield Finding(at=AT, value=written, why=why, remedy=remedy)


@gang_rule(
    "koordinator/gang-groups-member",
    membership=True,
    passes=Example(
        pod_group("leader", "leader", "worker"), facts=pod_group_cluster(pod_group("worker", "leader", "worker"))
    ),
    fails=Example(pod_group("leader", settings={"groups": '["default/leader","worker"]'})),
)
def groups_member(stored: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler looks up a member by `namespace/name`. A member without a namespace never exists. An item that is
    not a string is read as the empty name, which never exists either. All pods of the gang are held for ever, without
    an event.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`basicGangRequirementsCheck`)
    and util/gang_helper.go, v1.8.0; Go's encoding/json, which keeps the rest of a list of mixed types.
    """
    for member in reported_items(_unresolvable(stored), () if stored.old is None else _unresolvable(stored.old)):
        why = "koord-scheduler looks members up by namespace and name, so it would wait for this one for ever"
        yield Finding(at=AT, value=member, why=why, remedy='write each member as a string "namespace/name"')


def _unresolvable(stored: StoredObject) -> Iterator[str]:
    return (member for member in _listed(stored) if key_of_gang(member) is None)


@gang_rule(
    "koordinator/gang-groups-itself",
    membership=True,
    passes=Example(annotated_pod(groups='["default/worker"]'), facts=pod_group_cluster()),
    fails=Example(pod_group("leader", "worker"), facts=pod_group_cluster(pod_group("worker", "worker"))),
)
def groups_itself(stored: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler judges each pod by its own gang's list. If a gang is not in its own list, its pods do not wait
    for it, so fewer pods than its minimum may start. Which pods start depends on their order (seen).

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`Permit`), v1.8.0.
    """
    members, itself = _listed(stored), gang_id_of(stored)
    if members and itself and itself not in members:
        why = "the list does not contain this gang, so koord-scheduler does not wait for its pods"
        remedy = "list every gang that must start together, including this one"
        yield Finding(at=AT, value=itself, why=why, remedy=remedy)


@gang_rule(
    "koordinator/gang-groups-twice",
    default=Action.WARN,
    membership=True,
    passes=Example(pod_group("leader", "leader")),
    fails=Example(pod_group("leader", "leader", "leader")),
)
def groups_twice(stored: StoredObject, _: RuleContext) -> Results:
    """The id of a GangGroup is its list, sorted and joined. A list with a member twice has another id than a list with
    that member once. The two GangGroups do not share their state.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/util/gang_helper.go (`GetGangGroupId`),
    v1.8.0.
    """
    seen: set[str] = set()
    for member in _listed(stored):
        if member in seen:
            why = "it is listed twice; for koord-scheduler this is not the gang group that lists it once"
            yield Finding(at=AT, value=member, why=why, remedy="list it once")
            return
        seen.add(member)


@gang_rule(
    "koordinator/gang-groups-differ",
    membership=True,
    passes=Example(
        pod_group("leader", "leader", "worker"), facts=pod_group_cluster(pod_group("worker", "worker", "leader"))
    ),
    fails=Example(pod_group("leader", "leader", "worker"), facts=pod_group_cluster(pod_group("worker", "worker"))),
)
def groups_differ(stored: StoredObject, context: RuleContext) -> Results:
    """koord-scheduler does not check that members agree. With [leader, worker] on one member and [worker] on the other,
    the workers start without the leader, and the leader waits for them. The rule judges a gang when it is created,
    against the members that it lists and the PodGroups that list it, because an edit of one PodGroup cannot agree with
    all others at once. A PodGroup in another namespace causes at most a warning, because its author may have no
    relation to this gang.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`Permit`,
    `basicGangRequirementsCheck`), v1.8.0.
    """
    members = _listed(stored)
    pod_groups = context.facts.koordinator_pod_groups
    if stored.old is not None or not gang_id_of(stored) or (stored.kind != keys.POD_GROUP.kind and not members):
        return
    if pod_groups is None:
        if members:
            yield Unjudged(AT, "the other PodGroups of the gang group", part="koordinator_pod_groups")
        return
    group = gang_group(stored)
    others = (key for key in _partners(stored, context) if key in pod_groups and pod_groups[key].groups != group)
    if (key := nearest_gang(stored, others)) is not None:
        why = f"PodGroup {gang_id(key)} has another list, so one of the two starts without the other"
        remedy = "set the same list, with this gang, on every member; recreate members that have another list"
        written = gang_setting(stored, keys.ANNOTATION_GROUPS)
        yield Finding(at=AT, value=written, why=why, remedy=remedy, at_most=most_action(stored, key))
        return
    if any(key != stored.key and pod_groups[key].groups != group for key in pod_groups.too_long(stored.key[0])):
        yield Unjudged(AT, "the PodGroups of the namespace with lists that are too long to keep")


@rule(
    "koordinator/gang-groups-edited",
    kinds=(keys.POD_GROUPS,),
    default=Action.WARN,
    membership=True,
    passes=Example(
        pod_group("leader", "leader", minMember=3),
        old=pod_group("leader", "leader"),
        facts=pod_group_cluster(pod_group("leader")),
    ),
    fails=Example(
        pod_group("leader", "leader", "worker"),
        old=pod_group("leader", "leader"),
        facts=pod_group_cluster(pod_group("worker", "leader", "worker")),
    ),
)
def groups_edited(stored: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler keeps the state of a GangGroup (whether it was ever complete, which gang represents it) with the
    list that it saw first. An edit does not return held pods to the queue.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`SetGangGroupInfo`) and
    gang_cache.go (`onPodGroupUpdate`), v1.8.0.
    """
    if stored.old is not None and gang_group(stored.old) != gang_group(stored):
        why = "koord-scheduler ignores an edit of the list"
        remedy = "delete and recreate the gang's pods and PodGroups"
        yield Finding(at=AT, value=f"{len(_listed(stored))} members", why=why, remedy=remedy)


@rule(
    "koordinator/gang-member-missing",
    kinds=(keys.POD_GROUPS,),
    default=Action.WARN,
    membership=True,
    passes=Example(
        pod_group("leader", "leader", "worker"), facts=pod_group_cluster(pod_group("worker", "leader", "worker"))
    ),
    fails=Example(pod_group("leader", "leader", "worker"), facts=pod_group_cluster()),
)
def member_missing(stored: StoredObject, context: RuleContext) -> Results:
    """If a listed gang is missing, every pod of the GangGroup is held, without an event. The gang may be created later,
    and if two gangs list each other, one of them is always created first. So this is at most a warning, regardless of
    the creation order of the namespace.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`basicGangRequirementsCheck`,
    called by `PreEnqueue`), v1.8.0.
    """
    pod_groups = context.facts.koordinator_pod_groups
    for key in members_of(stored):
        if pod_groups is None:
            yield Unjudged(AT, "the other PodGroups of the gang group", part="koordinator_pod_groups")
            return
        if key not in pod_groups:
            value = gang_id(key)
            why = "this PodGroup does not exist yet, and all members wait for it"
            remedy = "create it, or remove it from every list"
            yield Finding(at=AT, value=value, why=why, remedy=remedy, absent=Needed("koordinator_pod_groups", key))
            return


def nearest_gang(stored: StoredObject, others: Iterable[ObjectKey]) -> ObjectKey | None:
    """Returns the first of `others` in the object's own namespace, else the first of all."""
    every = list(others)
    return next((key for key in every if key[0] == stored.key[0]), every[0] if every else None)


def most_action(stored: StoredObject, cause: ObjectKey) -> Action:
    """Returns the strongest action because of `cause`: an object is never refused because of another namespace."""
    return Action.DENY if cause[0] == stored.key[0] else Action.WARN


def _listed(stored: StoredObject) -> tuple[str, ...]:
    return listed_gangs(stored) if has_gang_settings(stored) else ()


def members_of(stored: StoredObject) -> Iterator[ObjectKey]:
    """Yields the first members of a list, without the gang itself."""
    itself = gang_id_of(stored)
    for member in _listed(stored)[:MOST_MEMBERS]:
        key = key_of_gang(member)
        if key is not None and member != itself:
            yield key


def _partners(stored: StoredObject, context: RuleContext) -> Iterator[ObjectKey]:
    """Yields the gangs that need the same list: first members, and first PodGroups that list this gang."""
    yield from members_of(stored)
    itself = key_of_gang(gang_id_of(stored))
    pod_groups = context.facts.koordinator_pod_groups
    if itself is None or pod_groups is None:
        return
    if stored.kind != keys.POD_GROUP.kind:
        yield itself
    # Each listing has its own limit, so that another namespace cannot hide the faults in this one.
    for listing in (pod_groups.listing(itself), pod_groups.listing_from_abroad(itself)):
        yield from islice((key for key in listing if key != stored.key), MOST_MEMBERS)
