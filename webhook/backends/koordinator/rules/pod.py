"""Rules for pods that are not Grove's and that name a gang of koord-scheduler: by the label, or in one of the two older
ways.
"""

from __future__ import annotations

from webhook.backends import families
from webhook.backends.koordinator.gang_settings import is_scheduled_here, naming
from webhook.backends.koordinator.keys import (
    ANNOTATION_MINIMUM,
    ANNOTATION_NAME,
    GANG_SETTINGS,
    GROUP_MARKS,
    LABEL_OLD_MINIMUM,
    LABEL_OLD_NAME,
    LABEL_POD_GROUP,
    POD_GROUP,
)
from webhook.backends.koordinator.rules.examples import annotated_pod, known, pod, pod_group
from webhook.backends.koordinator.settings import RuleContext
from webhook.model.bounds import name_text
from webhook.model.fields import ANNOTATIONS, LABELS, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.go_values import int32
from webhook.model.keys import Needed
from webhook.model.reading import text
from webhook.model.stored_object import PODS, StoredObject
from webhook.validators.creation_order import least_action
from webhook.validators.registry import Example, Results, rule

_LABELLED = {LABEL_POD_GROUP: "worker"}


@rule(
    "koordinator/gang-names-disagree",
    kinds=(PODS,),
    membership=True,
    passes=Example(pod(labels=_LABELLED, annotations={ANNOTATION_NAME: "worker"}), facts=known(pod_group("worker"))),
    fails=Example(pod(labels=_LABELLED, annotations={ANNOTATION_NAME: "leader"}), facts=known(pod_group("worker"))),
)
def names_disagree(found: StoredObject, _: RuleContext) -> Results:
    """The label wins over the deprecated label, which wins over the annotation. The pod is not a member of the gang
    that another key names, and that gang may wait for the pod for ever.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/util/gang_helper.go (`GetGangNameByPod`),
    v1.4.0 to v1.8.0.
    """
    named = naming(found)
    if named is None or not is_scheduled_here(found):
        return
    for at, values, key in ((LABELS, found.labels, LABEL_OLD_NAME), (ANNOTATIONS, found.annotations, ANNOTATION_NAME)):
        other = name_text(values.get(key))
        if other is not None and other != named.gang:
            yield Finding(
                at=at / key,
                found=other,
                why=f"koord-scheduler reads {_key(named.at)} instead, which names another gang",
                remedy="name one gang, preferably by that key alone",
            )
            return


@rule(
    "koordinator/gang-min-available",
    kinds=(PODS,),
    membership=True,
    passes=Example(annotated_pod(), facts=known()),
    fails=Example(pod(annotations={ANNOTATION_NAME: "worker"}), facts=known()),
)
def min_available(found: StoredObject, context: RuleContext) -> Results:
    """koord-scheduler makes a gang that is named by an annotation from the first pod with a readable min-available.
    Until then it holds the pods of the gang, without an event. A PodGroup with that name is enough as well.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodConfig`),
    util/gang_helper.go (`GetGangMinNumFromPod`: Go's strconv.ParseInt in base 10), v1.8.0.
    """
    named = naming(found)
    if named is None or named.by_label or not is_scheduled_here(found):
        return
    at, written = _written_minimum(found)
    if written is not None and int32(written) is not None:
        return
    key = (found.key[0], named.gang)
    pod_groups = context.facts.koordinator_pod_groups
    if key in (context.facts.pods_gangs or {}):
        # Another pod states it.
        return
    if pod_groups is None:
        yield Unjudged(named.at, f"the PodGroup {named.gang}", part="koordinator_pod_groups")
    elif key not in pod_groups:
        yield Finding(
            at=at,
            found=written,
            why="it is no whole number, so koord-scheduler holds the pod until another pod or a PodGroup has a minimum",
            remedy=f'set {ANNOTATION_MINIMUM} to a whole number in quotes, such as "2"',
            absent=Needed("koordinator_pod_groups", key),
        )


@rule(
    "koordinator/pod-group-missing",
    kinds=(PODS,),
    default=Action.WARN,
    membership=True,
    passes=Example(pod(labels=_LABELLED), facts=known(pod_group("worker"))),
    fails=Example(pod(labels=_LABELLED), facts=known()),
)
def pod_group_missing(found: StoredObject, context: RuleContext) -> Results:
    """koord-scheduler holds a pod whose label names a missing PodGroup until the PodGroup exists in the pod's
    namespace, without an event. The PodGroup may be created later, so this is a warning. It is a refusal if the
    namespace's label rollcall.dev/creation-order is `strict`.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`PreEnqueue`: "gang has not
    init"), v1.8.0.
    """
    named = naming(found)
    if named is None or not named.by_label or not is_scheduled_here(found):
        return
    key = (found.key[0], named.gang)
    pod_groups = context.facts.koordinator_pod_groups
    if pod_groups is None:
        yield Unjudged(named.at, f"the PodGroup {named.gang}", part="koordinator_pod_groups")
    elif key not in pod_groups:
        yield Finding(
            at=named.at,
            found=named.gang,
            why="the namespace has no such PodGroup yet, so koord-scheduler holds the pod without an event",
            remedy="create the PodGroup first",
            absent=Needed("koordinator_pod_groups", key),
            at_least=least_action(context),
        )


@rule(
    "koordinator/gang-settings-unread",
    kinds=(PODS,),
    default=Action.WARN,
    passes=Example(pod(labels=_LABELLED), facts=known(pod_group("worker"))),
    fails=Example(pod(labels=_LABELLED, annotations={ANNOTATION_MINIMUM: "2"}), facts=known(pod_group("worker"))),
)
def settings_unread(found: StoredObject, _: RuleContext) -> Results:
    """If the label names the gang, koord-scheduler reads the settings of the PodGroup and never those of the pod. If no
    key names a gang, the pod is in no gang, regardless of its settings.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go (`onPodAddInternal`),
    v1.8.0.
    """
    named = naming(found)
    if not is_scheduled_here(found) or (named is not None and not named.by_label):
        return
    settings = [(LABELS / LABEL_OLD_MINIMUM, text(found.labels.get(LABEL_OLD_MINIMUM)))]
    settings += [(ANNOTATIONS / key, text(found.annotations.get(key))) for key in GANG_SETTINGS]
    for at, written in settings:
        if written is not None:
            why = (
                "the pod names no gang"
                if named is None
                else "koord-scheduler ignores it on a pod whose label names a PodGroup"
            )
            remedy = "name a gang" if named is None else "set it on the PodGroup"
            yield Finding(at=at, found=written, why=why, remedy=remedy)
            return


foreign_member = families.foreign_member(
    "koordinator/foreign-member",
    "koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go (`onPodAddInternal`: any pod "
    "that names the gang), v1.8.0.",
    POD_GROUP,
    *GROUP_MARKS,
)


def _written_minimum(found: StoredObject) -> tuple[FieldPath, str | None]:
    """The minimum that koord-scheduler reads: the deprecated label's, else the annotation's."""
    label = text(found.labels.get(LABEL_OLD_MINIMUM))
    if label is not None:
        return LABELS / LABEL_OLD_MINIMUM, label
    return ANNOTATIONS / ANNOTATION_MINIMUM, text(found.annotations.get(ANNOTATION_MINIMUM))


def _key(at: FieldPath) -> str:
    """The label or annotation key at the end of a path."""
    return str(at.parts[-1])
