"""The settings that koord-scheduler reads from a PodGroup and from a pod that names its gang, and how it reads them.

Source: koordinator-sh/koordinator v1.8.0, apis/extension/{coscheduling,network_topology,multi_scheduler}.go,
pkg/scheduler/plugins/coscheduling/core/gang.go and util/gang_helper.go.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from webhook.backends.koordinator.keys import (
    ANNOTATION_GROUPS,
    ANNOTATION_MATCH_POLICY,
    ANNOTATION_MATCH_POLICY_ALIAS,
    ANNOTATION_NAME,
    ANNOTATION_TOPOLOGY,
    GANG_PREFIX,
    GANG_SETTINGS,
    LABEL_OLD_NAME,
    LABEL_POD_GROUP,
    LABEL_SCHEDULER_NAME,
    NAME,
    POD_GROUP,
)
from webhook.model.bounds import digest, fits, list_kept, name_text
from webhook.model.fields import ANNOTATIONS, LABELS, FieldPath
from webhook.model.gang_groups import GatherRule, KoordinatorPodGroup, gang_id
from webhook.model.go_values import Fields, Number, json_value, string
from webhook.model.keys import ObjectKey
from webhook.model.reading import integer, text
from webhook.model.stored_object import StoredObject

Topology = tuple[GatherRule, ...]

# The members of one GangGroup have the same annotations, so the parsed value is cached and shared. Long texts are not
# cached: a parsed list may take twenty times the memory of its text.
_KEPT_TEXTS, _LONGEST_KEPT = 128, 4096
# The API server refuses an object whose annotations are longer in sum (TotalAnnotationSizeLimitB), so reading more of
# one is useless.
_LONGEST_ANNOTATION = 256 * 1024


class Unreadable(Exception):
    """An annotation that koord-scheduler cannot read; the text says what is wrong with it."""


class Naming(NamedTuple):
    """How a pod names its gang. With the label (`by_label`), no setting on the pod is read; in an older way, settings
    are read. If the text is too long for a name, `gang` is what `name_text` keeps of it.
    """

    gang: str
    at: FieldPath
    by_label: bool


def naming(pod: StoredObject) -> Naming | None:
    """The first of a pod's keys that names a gang. koord-scheduler uses that one."""
    for key in (LABEL_POD_GROUP, LABEL_OLD_NAME):
        if (gang := name_text(pod.labels.get(key))) is not None:
            return Naming(gang, LABELS / key, key == LABEL_POD_GROUP)
    gang = name_text(pod.annotations.get(ANNOTATION_NAME))
    return None if gang is None else Naming(gang, ANNOTATIONS / ANNOTATION_NAME, by_label=False)


def is_scheduled_here(pod: StoredObject) -> bool:
    """Whether koord-scheduler schedules a pod. The label wins over the field, even if the label is empty."""
    if LABEL_SCHEDULER_NAME in pod.labels:
        return bool(pod.labels[LABEL_SCHEDULER_NAME] == NAME)
    return bool(pod.spec.get("schedulerName") == NAME)


def is_set(found: StoredObject) -> bool:
    """Whether an object has settings that koord-scheduler reads. A PodGroup without any may belong to another scheduler
    that uses the same kind, so its spec is not judged.
    """
    if found.kind == POD_GROUP.kind:
        return any(key.startswith(GANG_PREFIX) or key in GANG_SETTINGS for key in found.annotations)
    named = naming(found)
    return named is not None and not named.by_label and is_scheduled_here(found)


def own_id(found: StoredObject) -> str:
    """The id of an object's gang; empty if the gang has no name yet."""
    if found.kind == POD_GROUP.kind:
        return gang_id(found.key) if found.name else ""
    named = naming(found)
    return "" if named is None else gang_id((found.key[0], named.gang))


def key_of_gang(gang: str) -> ObjectKey | None:
    """The namespace and name in an id; None if one is missing, because such an id names no gang."""
    namespace, _, name = gang.partition("/")
    return (namespace, name) if namespace and name else None


def listed(found: StoredObject) -> tuple[str, ...]:
    """The ids in the annotation `groups` as koord-scheduler reads them; empty if it reads none."""
    written = text(found.annotations.get(ANNOTATION_GROUPS))
    try:
        return () if written is None else read_groups(written)
    except Unreadable:
        return ()


def match_policy(found: StoredObject) -> tuple[str, FieldPath] | None:
    """The match policy that koord-scheduler reads, and its path."""
    for key in (ANNOTATION_MATCH_POLICY, ANNOTATION_MATCH_POLICY_ALIAS):
        if (policy := text(found.annotations.get(key))) is not None:
            return policy, ANNOTATIONS / key
    return None


def topology_of(found: StoredObject) -> Topology | None:
    """The network topology that an object asks for; None if it asks for none. Raises `Unreadable`."""
    written = text(found.annotations.get(ANNOTATION_TOPOLOGY))
    return None if written is None else read_topology(written)


def pod_group_facts(found: StoredObject) -> KoordinatorPodGroup:
    """The facts that are kept of a stored PodGroup."""
    try:
        topology = topology_of(found)
    except Unreadable:
        topology = None
    groups = _group(listed(found) or (gang_id(found.key),))
    return KoordinatorPodGroup(integer(found.spec.get("minMember")) or 0, groups, topology_kept(topology))


def topology_kept(topology: Topology | None) -> Topology | None:
    """A topology. If it is too long to keep, a value that equals no other topology."""
    texts = [text for rule in topology or () for text in (rule.layer, rule.strategy, str(rule.pod_count_multiple))]
    return topology if topology is None or fits(texts) else (GatherRule(digest(texts), "", len(topology)),)


def group_of(found: StoredObject) -> tuple[str, ...]:
    """The ids of an object's GangGroup, sorted; only its own id if it lists none. A long list is shortened by
    `list_kept`.
    """
    return _group(listed(found) or (own_id(found),))


@lru_cache(maxsize=_KEPT_TEXTS)
def _kept_group(ids: tuple[str, ...]) -> tuple[str, ...]:
    return list_kept(tuple(sorted(ids)))


def _group(ids: tuple[str, ...]) -> tuple[str, ...]:
    return _kept_group(ids) if sum(map(len, ids)) <= _LONGEST_KEPT else list_kept(tuple(sorted(ids)))


def read_groups(written: str) -> tuple[str, ...]:
    """The ids in a `groups` annotation, with "" for an item that is not a string. Raises `Unreadable`."""
    return _kept_groups(written) if len(written) <= _LONGEST_KEPT else _groups(written)


def read_topology(written: str) -> Topology:
    """The entries of a network-topology-spec, sorted because their order does not matter. Raises `Unreadable`."""
    return _kept_topology(written) if len(written) <= _LONGEST_KEPT else _topology(written)


def _groups(written: str) -> tuple[str, ...]:
    value = _json(written)
    if value is not None and not isinstance(value, list):
        raise Unreadable("is not a JSON array")
    return tuple(_text(item) or "" for item in value or ())


def _topology(written: str) -> Topology:
    spec = _json(written)
    if spec is None:
        return ()
    if not isinstance(spec, Fields):
        raise Unreadable("is not a JSON object")
    rules: list[GatherRule] = []
    for strategy in spec.named("gatherStrategy"):
        if strategy is not None and not isinstance(strategy, list):
            raise Unreadable("has a gatherStrategy that is not an array")
        rules = [_rule(entry, f"gatherStrategy[{index}]") for index, entry in enumerate(strategy or ())]
    return tuple(sorted(rules))


def _rule(entry: Any, place: str) -> GatherRule:
    if entry is None:
        return GatherRule("", "", 0)
    if not isinstance(entry, Fields):
        raise Unreadable(f"has a {place} that is not an object")
    layer, strategy = (_word(entry, name, place) for name in ("layer", "strategy"))
    multiple = 0
    for value in entry.named("podCountMultiple"):
        number = multiple if value is None else value.int64() if isinstance(value, Number) else None
        if number is None:
            raise Unreadable(
                f"has a {place}.podCountMultiple that is not a whole number, without quotes and decimal point"
            )
        multiple = number
    return GatherRule(layer, strategy, multiple)


def _word(entry: Fields, name: str, place: str) -> str:
    """The value of a field of type string. Null is never an error and leaves the field unchanged."""
    word = ""
    for value in entry.named(name):
        found = word if value is None else _text(value)
        if found is None:
            raise Unreadable(f"has a {place}.{name} that is not a string")
        word = found
    return word


def _text(value: Any) -> str | None:
    """A JSON string; None for any other value. `Number` is a str only in Python."""
    return string(value) if isinstance(value, str) and not isinstance(value, Number) else None


def _json(written: str) -> Any:
    if len(written) > _LONGEST_ANNOTATION:
        raise Unreadable("is longer than the API server allows for annotations")
    try:
        return json_value(written)
    except ValueError:
        raise Unreadable("is not JSON") from None


_kept_groups = lru_cache(maxsize=_KEPT_TEXTS)(_groups)
_kept_topology = lru_cache(maxsize=_KEPT_TEXTS)(_topology)
