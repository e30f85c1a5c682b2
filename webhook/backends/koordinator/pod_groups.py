"""Rules about PodGroups of other authors, and about pods that are not Grove's and name a gang by the label or in one
of the two older ways: settings that koord-scheduler silently replaces, and the annotation network-topology-spec.

A PodGroup without any of Koordinator's annotations may belong to another scheduler and is not judged. Only
koord-scheduler reads network-topology-spec: it drops entries that it cannot read and looks for layers that may not
exist. The lists of GangGroups are in `gang_groups`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from webhook.backends import families
from webhook.backends.koordinator import keys
from webhook.backends.koordinator.gang_groups import (
    SPINE_LAYERS,
    Topology,
    UnreadableSetting,
    annotated_pod,
    gang_reference,
    gang_rule,
    gang_setting,
    gather,
    has_gang_settings,
    is_scheduled_here,
    match_policy,
    members_of,
    most_action,
    nearest_gang,
    pod,
    pod_group,
    pod_group_cluster,
    read_topology,
    topology_kept,
    topology_of,
)
from webhook.backends.koordinator.gangs import (
    THE_TOPOLOGY,
    declared_layers,
    is_topology_unknown,
    unavailable,
    undeclared_layers,
)
from webhook.backends.koordinator.keys import RuleContext
from webhook.model.bounds import name_text
from webhook.model.fields import ANNOTATIONS, LABELS, SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.gang_objects import JUDGED_PODS, StoredObject
from webhook.model.keys import Needed
from webhook.model.pod_groups import gang_id
from webhook.model.quantity import int32, nanoseconds
from webhook.model.reading import integer, text
from webhook.validators.registry import Example, Results, rule
from webhook.validators.shared_checks import least_action, reported_items

pod_rule = partial(rule, kinds=(JUDGED_PODS,))

# kube-scheduler's framework caps the wait of a Permit plugin at 15 minutes (maxTimeout, pkg/scheduler/framework).
LONGEST_WAIT_SECONDS = 900
_NANOSECONDS = 10**9


@gang_rule(
    "koordinator/gang-mode",
    passes=Example(pod_group(settings={"mode": "NonStrict"})),
    fails=Example(pod_group(settings={"mode": "nonstrict"})),
)
def mode(stored: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler only logs an unknown mode, also one in the wrong case, and treats the gang as Strict.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodGroup`,
    `tryInitByPodConfig`), v1.8.0.
    """
    written = gang_setting(stored, keys.ANNOTATION_MODE)
    if written is not None and written not in keys.MODES:
        why = "koord-scheduler does not know this mode and uses Strict"
        remedy = f"set it to {_choice(keys.MODES)}, spelled exactly like this"
        yield Finding(at=ANNOTATIONS / keys.ANNOTATION_MODE, value=written, why=why, remedy=remedy)


@gang_rule(
    "koordinator/gang-match-policy",
    passes=Example(pod_group(settings={"match-policy": "waiting-and-running"})),
    fails=Example(pod_group(settings={"match-policy": "WaitingAndRunning"})),
)
def gang_match_policy(stored: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler only logs an unknown policy, also one in the wrong case, and uses its default, once-satisfied.
    Under that policy recreated pods start one by one.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodGroup`,
    `tryInitByPodConfig`), apis/extension/coscheduling.go (`GetGangMatchPolicy`), v1.8.0.
    """
    read = match_policy(stored) if has_gang_settings(stored) else None
    if read is not None and read[0] not in keys.MATCH_POLICIES:
        why = "koord-scheduler does not know this policy and uses its default, once-satisfied"
        remedy = f"set it to {_choice(keys.MATCH_POLICIES)}, spelled exactly like this"
        yield Finding(at=read[1], value=read[0], why=why, remedy=remedy)


@gang_rule(
    "koordinator/gang-match-policy-alias",
    passes=Example(pod_group(settings={"match-policy": "waiting-and-running"})),
    fails=Example(
        {
            **pod_group(),
            "metadata": {
                "name": "leader",
                "namespace": "default",
                "annotations": {
                    keys.ANNOTATION_MATCH_POLICY: "once-satisfied",
                    keys.ANNOTATION_MATCH_POLICY_ALIAS: "waiting-and-running",
                },
            },
        }
    ),
)
def match_policy_alias(stored: StoredObject, _: RuleContext) -> Results:
    """Two annotations can state the policy. If both are set, koord-scheduler never reads the one of scheduler-plugins.

    Source: koordinator-sh/koordinator, apis/extension/coscheduling.go (`GetGangMatchPolicy`), v1.7.0 and newer.
    """
    first, second = (
        gang_setting(stored, key) for key in (keys.ANNOTATION_MATCH_POLICY, keys.ANNOTATION_MATCH_POLICY_ALIAS)
    )
    if first is not None and second is not None and first != second:
        why = f"koord-scheduler ignores it, because {keys.ANNOTATION_MATCH_POLICY} is set too, to {_cut(first)}"
        remedy = "remove one of the two annotations"
        yield Finding(at=ANNOTATIONS / keys.ANNOTATION_MATCH_POLICY_ALIAS, value=second, why=why, remedy=remedy)


@gang_rule(
    "koordinator/gang-only-waiting",
    default=Action.WARN,
    passes=Example(pod_group(settings={"match-policy": "waiting-and-running"})),
    fails=Example(pod_group(settings={"match-policy": "only-waiting"})),
)
def gang_only_waiting(stored: StoredObject, _: RuleContext) -> Results:
    """Under only-waiting, bound pods do not count. A replacement pod that waits alone never reaches the minimum and
    never binds. The policy is right for gangs whose pods are always recreated together.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`isGangValidForPermit`),
    v1.8.0.
    """
    read = match_policy(stored) if has_gang_settings(stored) else None
    if read is not None and read[0] == keys.ONLY_WAITING:
        why = "bound pods do not count, so a pod that is replaced alone never binds"
        yield Finding(at=read[1], value=keys.ONLY_WAITING, why=why, remedy="set it to waiting-and-running")


@gang_rule("koordinator/gang-minimum", passes=Example(pod_group(minMember=2)), fails=Example(pod_group(minMember=0)))
def minimum(stored: StoredObject, _: RuleContext) -> Results:
    """A minimum below 1 is always reached: pods start one by one, and the PodGroup's phase never leaves Pending.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`basicGangRequirementsCheck`,
    `Permit`) and controller/podgroup.go, v1.8.0; the CRD of PodGroup has no minimum.
    """
    for at, written, least in _minimum(stored):
        if least is not None and least < 1:
            why = "a gang with a minimum below 1 is always complete, so koord-scheduler starts its pods one by one"
            remedy = "set the number of pods that the gang needs to start, at least 1"
            yield Finding(at=at, value=written, why=why, remedy=remedy)


@gang_rule(
    "koordinator/gang-total-number",
    passes=Example(pod_group(minMember=2, settings={"total-number": "4"})),
    fails=Example(pod_group(minMember=2, settings={"total-number": "1"})),
)
def total_number(stored: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler only logs a total that is not a number or is below the minimum, and uses the minimum. Up to v1.6
    the total decides when an attempt to place the whole gang is over. Newer versions only report it. 0 means that there
    is no total.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go, apis/extension/coscheduling.go
    (`GetGangTotalNum`: Go's strconv.ParseInt in base 10), v1.4.0 to v1.8.0.
    """
    written = gang_setting(stored, keys.ANNOTATION_TOTAL_NUMBER)
    if written is None:
        return
    at, total = ANNOTATIONS / keys.ANNOTATION_TOTAL_NUMBER, int32(written)
    needed = next((least for _, _, least in _minimum(stored) if least is not None), None)
    if total is None:
        why = "koord-scheduler reads no number from it and uses the minimum"
        remedy = 'set a whole number in quotes, such as "4", or remove the annotation'
        yield Finding(at=at, value=written, why=why, remedy=remedy)
    elif total != 0 and needed is not None and total < needed:
        why = f"it is below the gang's minimum of {needed}, so koord-scheduler uses the minimum"
        remedy = "set it to the number of the gang's pods, or remove the annotation"
        yield Finding(at=at, value=written, why=why, remedy=remedy)


@pod_rule(
    "koordinator/gang-waiting-time",
    passes=Example(annotated_pod(waiting_time="1h30m")),
    fails=Example(annotated_pod(waiting_time="30")),
)
def waiting_time(stored: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler only logs a duration without a unit, in days, or below 0, and the gang waits for the scheduler's
    default time (600 s). 0 also means the default and is not reported. A PodGroup has a field for this time.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodConfig`),
    apis/extension/coscheduling.go (`GetGangWaitTime`: Go's time.ParseDuration), v1.8.0.
    """
    written = gang_setting(stored, keys.ANNOTATION_WAITING_TIME)
    if written is None:
        return
    waits = nanoseconds(written)
    if waits is None or waits < 0:
        why = "koord-scheduler cannot read it as a duration, and uses its default"
        remedy = 'set a number with a unit, h, m or s, such as "600s"'
        yield Finding(at=ANNOTATIONS / keys.ANNOTATION_WAITING_TIME, value=written, why=why, remedy=remedy)


@gang_rule(
    "koordinator/gang-timeout",
    default=Action.WARN,
    passes=Example(pod_group(scheduleTimeoutSeconds=600)),
    fails=Example(pod_group(scheduleTimeoutSeconds=3600)),
)
def timeout(stored: StoredObject, _: RuleContext) -> Results:
    """A pod waits at most 15 minutes for its gang, because kube-scheduler's framework caps the time. For a value below
    1 koord-scheduler uses its own default (600 s).

    Source: k8s.io/kubernetes, pkg/scheduler/framework/runtime (`maxTimeout`); koordinator-sh/koordinator,
    pkg/scheduler/plugins/coscheduling/util/gang_helper.go (`GetWaitTimeDuration`), v1.7.0 and newer.
    """
    for at, written, seconds in _timeout(stored):
        if seconds > LONGEST_WAIT_SECONDS:
            yield Finding(at=at, value=written, why="a gang waits at most 900 s", remedy="set 900 s or less")
        elif seconds < 1:
            yield Finding(
                at=at, value=written, why="koord-scheduler uses its own default", remedy="set 1 or more, or remove it"
            )


def _minimum(stored: StoredObject) -> Iterator[tuple[FieldPath, object, int | None]]:
    """Yields the path of a gang's minimum, its written value, and the number that koord-scheduler reads from it."""
    if not has_gang_settings(stored):
        return
    if stored.kind == keys.POD_GROUP.kind:
        least = integer(stored.spec.get("minMember"))
        yield SPEC / "minMember", least, least or 0
        return
    for at, values, key in (
        (LABELS, stored.labels, keys.LABEL_OLD_MINIMUM),
        (ANNOTATIONS, stored.annotations, keys.ANNOTATION_MINIMUM),
    ):
        if (written := text(values.get(key))) is not None:
            yield at / key, written, int32(written)
            return


def _timeout(stored: StoredObject) -> Iterator[tuple[FieldPath, object, float]]:
    """Yields how long a pod waits in Permit, in seconds, if a PodGroup states it or a pod states more than 0."""
    if stored.kind == keys.POD_GROUP.kind:
        seconds = integer(stored.spec.get("scheduleTimeoutSeconds")) if has_gang_settings(stored) else None
        if seconds is not None:
            yield SPEC / "scheduleTimeoutSeconds", seconds, seconds
    elif (written := gang_setting(stored, keys.ANNOTATION_WAITING_TIME)) is not None and (
        waits := nanoseconds(written) or 0
    ) > 0:
        # Any fraction of a second counts as a time.
        yield ANNOTATIONS / keys.ANNOTATION_WAITING_TIME, written, max(waits / _NANOSECONDS, 1)


def _choice(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _cut(word: str) -> str:
    # The permitted values are known and short.
    return word if len(word) <= max(map(len, keys.MATCH_POLICIES)) else "something else"


group_pods = families.group_pods(
    "koordinator/group-pods",
    """koord-scheduler holds the pods of a PodGroup until as many as its minMember are there. The rule counts the pods
    in the same files: pods, and the templates of their controllers.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core (`PreEnqueue`: children below the
    minimum), v1.8.0.
    """,
    system="Koordinator",
    kind=keys.POD_GROUPS,
    version="v1alpha1",
)

AT = ANNOTATIONS / keys.ANNOTATION_TOPOLOGY
_SPINE = {"layer": "SpineLayer", "strategy": "MustGather"}
_CLUSTER = pod_group_cluster(network_topologies=SPINE_LAYERS)
_FINE = pod_group(settings=gather(_SPINE))


@gang_rule(
    "koordinator/gang-topology-unread",
    passes=Example(pod_group(settings=gather({**_SPINE, "podCountMultiple": 4})), facts=_CLUSTER),
    fails=Example(pod_group(settings=gather({**_SPINE, "podCountMultiple": "4"})), facts=_CLUSTER),
)
def topology_unreadable(stored: StoredObject, _: RuleContext) -> Results:
    """If one value has the wrong JSON type, such as "4" or 4.0 for a whole number, koord-scheduler logs the error and
    drops the whole annotation. The gang then starts on any nodes.

    Source: koordinator-sh/koordinator, apis/extension/network_topology.go (`GetNetworkTopologySpec`) and
    pkg/scheduler/plugins/coscheduling/core/gang.go, v1.8.0.
    """
    written = gang_setting(stored, keys.ANNOTATION_TOPOLOGY)
    if written is None:
        return
    try:
        read_topology(written)
    except UnreadableSetting as error:
        why = f"it {error}, so koord-scheduler drops all of it and places the gang on any nodes"
        remedy = 'set an object such as {"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"}]}'
        yield Finding(at=AT, value=written, why=why, remedy=remedy)


@gang_rule(
    "koordinator/gang-topology-strategy",
    passes=Example(_FINE, facts=_CLUSTER),
    fails=Example(pod_group(settings=gather({"layer": "SpineLayer", "strategy": "mustGather"})), facts=_CLUSTER),
)
def topology_strategy(stored: StoredObject, _: RuleContext) -> Results:
    """Only the word MustGather, spelled like this, is a requirement. Any other word is not an error either, and the
    gang may be spread.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_types.go
    (`GetMustGatherLayer`), v1.8.0.
    """
    for strategy in reported_items(
        _unknown_strategies(stored), () if stored.old is None else _unknown_strategies(stored.old)
    ):
        why = "koord-scheduler does not know this strategy, so the entry has no effect"
        remedy = f"set it to {' or '.join(keys.STRATEGIES)}, spelled like this"
        yield Finding(at=AT, value=strategy, why=why, remedy=remedy)


def _unknown_strategies(stored: StoredObject) -> Iterator[str]:
    return (entry.strategy for entry in _read(stored) or () if entry.strategy not in keys.STRATEGIES)


@gang_rule(
    "koordinator/gang-topology-missing",
    passes=Example(_FINE, facts=_CLUSTER),
    fails=Example(_FINE, facts=pod_group_cluster(network_topologies={})),
)
def topology_unavailable(stored: StoredObject, context: RuleContext) -> Results:
    """Without a valid ClusterNetworkTopology "default", every pod of a gang with a topology fails. Without the argument
    awareNetworkTopology, the first pod is placed on any node and the others fail. Before v1.7 the annotation is not
    read.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/{core,network_topology_workflow}.go,
    pkg/scheduler/frameworkext/networktopology, v1.7.0 to v1.8.0.
    """
    if _read(stored) is None:
        return
    reason = unavailable(context.settings, context.scheduler_version, context.facts)
    if reason is not None:
        remedy = "remove the annotation, or set up the scheduler's topology"
        absent = THE_TOPOLOGY if context.facts.network_topologies is not None else None
        yield Finding(
            at=AT, value=gang_setting(stored, keys.ANNOTATION_TOPOLOGY), why=reason, remedy=remedy, absent=absent
        )
    elif is_topology_unknown(context.facts):
        yield Unjudged(AT, "the ClusterNetworkTopology", part="network_topologies")


@gang_rule(
    "koordinator/gang-topology-layer",
    passes=Example(
        pod_group(settings=gather({"layer": "NodeTopologyLayer", "strategy": "MustGather"})), facts=_CLUSTER
    ),
    fails=Example(pod_group(settings=gather({"layer": "spineLayer", "strategy": "MustGather"})), facts=_CLUSTER),
)
def topology_layer(stored: StoredObject, context: RuleContext) -> Results:
    """If the layer of MustGather is not declared, no domain is large enough, and every attempt to place the gang fails.
    An administrator chooses the names of the layers, and case matters. koord-scheduler never looks up the layer of
    PreferGather.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go
    (`searchMustGatherSatisfiedNodes`), v1.8.0.
    """
    names = declared_layers(context.facts)
    if names is None:
        # If it is unknown or missing, another rule reports it.
        return
    alike = {name.casefold(): name for name in sorted(names, reverse=True)}
    before = () if stored.old is None else undeclared_layers(_read(stored.old) or (), names)
    for layer in reported_items(undeclared_layers(_read(stored) or (), names), before):
        declared = alike.get(layer.casefold())
        why = "the ClusterNetworkTopology has no such layer, so koord-scheduler never finds room for the gang"
        remedy = "use a declared layer" if declared is None else f"spell it as it is declared: {declared}"
        yield Finding(at=AT, value=layer, why=why, remedy=remedy, absent=THE_TOPOLOGY)


@gang_rule(
    "koordinator/gang-topology-differs",
    passes=Example(
        pod_group("leader", "leader", "worker", settings=gather(_SPINE)),
        facts=pod_group_cluster(
            pod_group("worker", "leader", "worker", settings=gather(_SPINE)), network_topologies=SPINE_LAYERS
        ),
    ),
    fails=Example(
        pod_group("leader", "leader", "worker", settings=gather(_SPINE)),
        facts=pod_group_cluster(pod_group("worker", "leader", "worker"), network_topologies=SPINE_LAYERS),
    ),
)
def topology_differs(stored: StoredObject, context: RuleContext) -> Results:
    """koord-scheduler applies the topology of the gang whose pod it tries first to all pods of the GangGroup. If
    another member has another topology, the result depends on which pod is tried first. The rule judges a gang when it
    is created, against the members that it lists. A member in another namespace causes at most a warning.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`NextPod`) and
    network_topology_workflow.go, v1.7.0 to v1.8.0.
    """
    pod_groups = context.facts.koordinator_pod_groups
    if pod_groups is None or stored.old is not None:
        return
    written = gang_setting(stored, keys.ANNOTATION_TOPOLOGY)
    try:
        topology = None if written is None else topology_kept(read_topology(written))
    except UnreadableSetting:
        return
    others = (key for key in members_of(stored) if key in pod_groups and pod_groups[key].topology != topology)
    if (key := nearest_gang(stored, others)) is not None:
        yield Finding(
            at=AT,
            value=written,
            why=f"PodGroup {gang_id(key)} of the same gang group has another topology, "
            "and the first pod decides which one is used",
            remedy="set the same annotation on every member",
            at_most=most_action(stored, key),
        )


def _read(stored: StoredObject) -> Topology | None:
    """Returns the entries that koord-scheduler reads. A spec without entries also enables the topology search."""
    try:
        return topology_of(stored) if has_gang_settings(stored) else None
    except UnreadableSetting:
        return None


_LABELLED = {keys.LABEL_POD_GROUP: "worker"}


@pod_rule(
    "koordinator/gang-names-disagree",
    membership=True,
    passes=Example(
        pod(labels=_LABELLED, annotations={keys.ANNOTATION_NAME: "worker"}),
        facts=pod_group_cluster(pod_group("worker")),
    ),
    fails=Example(
        pod(labels=_LABELLED, annotations={keys.ANNOTATION_NAME: "leader"}),
        facts=pod_group_cluster(pod_group("worker")),
    ),
)
def names_disagree(stored: StoredObject, _: RuleContext) -> Results:
    """The label wins over the deprecated label, which wins over the annotation. The pod is not a member of the gang
    that another key names, and that gang may wait for the pod for ever.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/util/gang_helper.go (`GetGangNameByPod`),
    v1.4.0 to v1.8.0.
    """
    reference = gang_reference(stored)
    if reference is None or not is_scheduled_here(stored):
        return
    for at, values, key in (
        (LABELS, stored.labels, keys.LABEL_OLD_NAME),
        (ANNOTATIONS, stored.annotations, keys.ANNOTATION_NAME),
    ):
        other = name_text(values.get(key))
        if other is not None and other != reference.gang:
            why = f"koord-scheduler reads {reference.at.parts[-1]} instead, which names another gang"
            yield Finding(at=at / key, value=other, why=why, remedy="name one gang, preferably by that key alone")
            return


@pod_rule(
    "koordinator/gang-min-available",
    membership=True,
    passes=Example(annotated_pod(), facts=pod_group_cluster()),
    fails=Example(pod(annotations={keys.ANNOTATION_NAME: "worker"}), facts=pod_group_cluster()),
)
def min_available(stored: StoredObject, context: RuleContext) -> Results:
    """koord-scheduler makes a gang that is named by an annotation from the first pod with a readable min-available.
    Until then it holds the pods of the gang, without an event. A PodGroup with that name is enough as well.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodConfig`),
    util/gang_helper.go (`GetGangMinNumFromPod`: Go's strconv.ParseInt in base 10), v1.8.0.
    """
    reference = gang_reference(stored)
    if reference is None or reference.by_label or not is_scheduled_here(stored):
        return
    label = text(stored.labels.get(keys.LABEL_OLD_MINIMUM))
    at = ANNOTATIONS / keys.ANNOTATION_MINIMUM if label is None else LABELS / keys.LABEL_OLD_MINIMUM
    written = text(stored.annotations.get(keys.ANNOTATION_MINIMUM)) if label is None else label
    if written is not None and int32(written) is not None:
        return
    key = (stored.key[0], reference.gang)
    pod_groups = context.facts.koordinator_pod_groups
    if key in (context.facts.pods_gangs or {}):
        # Another pod states it.
        return
    if pod_groups is None:
        yield Unjudged(reference.at, f"the PodGroup {reference.gang}", part="koordinator_pod_groups")
    elif key not in pod_groups:
        why = "it is missing or not an integer, so koord-scheduler holds the pod until another pod or a PodGroup has a "
        why += "minimum"
        remedy = f'set {keys.ANNOTATION_MINIMUM} to an integer in quotes, such as "2"'
        yield Finding(at=at, value=written, why=why, remedy=remedy, absent=Needed("koordinator_pod_groups", key))


@pod_rule(
    "koordinator/pod-group-missing",
    default=Action.WARN,
    membership=True,
    passes=Example(pod(labels=_LABELLED), facts=pod_group_cluster(pod_group("worker"))),
    fails=Example(pod(labels=_LABELLED), facts=pod_group_cluster()),
)
def pod_group_missing(stored: StoredObject, context: RuleContext) -> Results:
    """koord-scheduler holds a pod whose label names a missing PodGroup until the PodGroup exists in the pod's
    namespace, without an event. The PodGroup may be created later, so this is a warning. It is a refusal if the
    namespace's label rollcall.dev/creation-order is `strict`.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`PreEnqueue`: "gang has not
    init"), v1.8.0.
    """
    reference = gang_reference(stored)
    if reference is None or not reference.by_label or not is_scheduled_here(stored):
        return
    key = (stored.key[0], reference.gang)
    pod_groups = context.facts.koordinator_pod_groups
    if pod_groups is None:
        yield Unjudged(reference.at, f"the PodGroup {reference.gang}", part="koordinator_pod_groups")
    elif key not in pod_groups:
        yield Finding(
            at=reference.at,
            value=reference.gang,
            why="the namespace has no such PodGroup yet, so koord-scheduler holds the pod without an event",
            remedy="create the PodGroup first",
            absent=Needed("koordinator_pod_groups", key),
            at_least=least_action(context),
        )


@pod_rule(
    "koordinator/gang-settings-unread",
    default=Action.WARN,
    passes=Example(pod(labels=_LABELLED), facts=pod_group_cluster(pod_group("worker"))),
    fails=Example(
        pod(labels=_LABELLED, annotations={keys.ANNOTATION_MINIMUM: "2"}), facts=pod_group_cluster(pod_group("worker"))
    ),
)
def settings_unread(stored: StoredObject, _: RuleContext) -> Results:
    """If the label names the gang, koord-scheduler reads the settings of the PodGroup and never those of the pod. If no
    key names a gang, the pod is in no gang, regardless of its settings.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go (`onPodAddInternal`),
    v1.8.0.
    """
    reference = gang_reference(stored)
    if not is_scheduled_here(stored) or (reference is not None and not reference.by_label):
        return
    settings = [(LABELS / keys.LABEL_OLD_MINIMUM, text(stored.labels.get(keys.LABEL_OLD_MINIMUM)))]
    settings += [(ANNOTATIONS / key, text(stored.annotations.get(key))) for key in keys.GANG_SETTINGS]
    for at, written in settings:
        if written is not None:
            why = (
                "the pod names no gang"
                if reference is None
                else "koord-scheduler ignores it on a pod whose label names a PodGroup"
            )
            remedy = "name a gang" if reference is None else "set it on the PodGroup"
            yield Finding(at=at, value=written, why=why, remedy=remedy)
            return


foreign_member = families.foreign_member(
    "koordinator/foreign-member",
    "koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go (`onPodAddInternal`: any pod "
    "that names the gang), v1.8.0.",
    keys.POD_GROUP,
    *keys.GROUP_MARKS,
)
