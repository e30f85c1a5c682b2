"""Settings of a gang that koord-scheduler silently replaces: on a PodGroup, or on a pod that uses one of the older
ways. A PodGroup without any of Koordinator's annotations may belong to another scheduler and is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.backends import families
from webhook.backends.koordinator.gang_settings import is_set, match_policy
from webhook.backends.koordinator.keys import (
    ANNOTATION_MATCH_POLICY,
    ANNOTATION_MATCH_POLICY_ALIAS,
    ANNOTATION_MINIMUM,
    ANNOTATION_MODE,
    ANNOTATION_TOTAL_NUMBER,
    ANNOTATION_WAITING_TIME,
    LABEL_OLD_MINIMUM,
    MATCH_POLICIES,
    MODES,
    ONLY_WAITING,
    POD_GROUP,
    POD_GROUPS,
)
from webhook.backends.koordinator.rules.examples import annotated_pod, pod_group
from webhook.backends.koordinator.settings import RuleContext
from webhook.model.fields import ANNOTATIONS, LABELS, SPEC, FieldPath
from webhook.model.findings import Action, Finding
from webhook.model.go_values import int32, nanoseconds
from webhook.model.reading import integer, text
from webhook.model.stored_object import PODS, StoredObject
from webhook.validators.registry import Example, Results, rule

BOTH = (POD_GROUPS, PODS)
# kube-scheduler's framework caps the wait of a Permit plugin at 15 minutes (maxTimeout, pkg/scheduler/framework).
LONGEST_WAIT_SECONDS = 900
_NANOSECONDS = 10**9


@rule(
    "koordinator/gang-mode",
    kinds=BOTH,
    passes=Example(pod_group(settings={"mode": "NonStrict"})),
    fails=Example(pod_group(settings={"mode": "nonstrict"})),
)
def mode(found: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler only logs an unknown mode, also one in the wrong case, and treats the gang as Strict.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodGroup`,
    `tryInitByPodConfig`), v1.8.0.
    """
    written = _annotation(found, ANNOTATION_MODE)
    if written is not None and written not in MODES:
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_MODE,
            found=written,
            why="koord-scheduler does not know this mode and uses Strict",
            remedy=f"set it to {_choice(MODES)}, spelled exactly like this",
        )


@rule(
    "koordinator/gang-match-policy",
    kinds=BOTH,
    passes=Example(pod_group(settings={"match-policy": "waiting-and-running"})),
    fails=Example(pod_group(settings={"match-policy": "WaitingAndRunning"})),
)
def gang_match_policy(found: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler only logs an unknown policy, also one in the wrong case, and uses its default, once-satisfied.
    Under that policy recreated pods start one by one.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodGroup`,
    `tryInitByPodConfig`), apis/extension/coscheduling.go (`GetGangMatchPolicy`), v1.8.0.
    """
    read = match_policy(found) if is_set(found) else None
    if read is not None and read[0] not in MATCH_POLICIES:
        yield Finding(
            at=read[1],
            found=read[0],
            why="koord-scheduler does not know this policy and uses its default, once-satisfied",
            remedy=f"set it to {_choice(MATCH_POLICIES)}, spelled exactly like this",
        )


@rule(
    "koordinator/gang-match-policy-alias",
    kinds=BOTH,
    passes=Example(pod_group(settings={"match-policy": "waiting-and-running"})),
    fails=Example(
        {
            **pod_group(),
            "metadata": {
                "name": "leader",
                "namespace": "default",
                "annotations": {
                    ANNOTATION_MATCH_POLICY: "once-satisfied",
                    ANNOTATION_MATCH_POLICY_ALIAS: "waiting-and-running",
                },
            },
        }
    ),
)
def match_policy_alias(found: StoredObject, _: RuleContext) -> Results:
    """Two annotations can state the policy. If both are set, koord-scheduler never reads the one of scheduler-plugins.

    Source: koordinator-sh/koordinator, apis/extension/coscheduling.go (`GetGangMatchPolicy`), v1.7.0 and newer.
    """
    first, second = (_annotation(found, key) for key in (ANNOTATION_MATCH_POLICY, ANNOTATION_MATCH_POLICY_ALIAS))
    if first is not None and second is not None and first != second:
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_MATCH_POLICY_ALIAS,
            found=second,
            why=f"koord-scheduler ignores it, because {ANNOTATION_MATCH_POLICY} is set too, to {_cut(first)}",
            remedy="remove one of the two annotations",
        )


@rule(
    "koordinator/gang-only-waiting",
    kinds=BOTH,
    default=Action.WARN,
    passes=Example(pod_group(settings={"match-policy": "waiting-and-running"})),
    fails=Example(pod_group(settings={"match-policy": "only-waiting"})),
)
def gang_only_waiting(found: StoredObject, _: RuleContext) -> Results:
    """Under only-waiting, bound pods do not count. A replacement pod that waits alone never reaches the minimum and
    never binds. The policy is right for gangs whose pods are always recreated together.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`isGangValidForPermit`),
    v1.8.0.
    """
    read = match_policy(found) if is_set(found) else None
    if read is not None and read[0] == ONLY_WAITING:
        yield Finding(
            at=read[1],
            found=ONLY_WAITING,
            why="bound pods do not count, so a pod that is replaced alone never binds",
            remedy="set it to waiting-and-running",
        )


@rule(
    "koordinator/gang-minimum",
    kinds=BOTH,
    passes=Example(pod_group(minMember=2)),
    fails=Example(pod_group(minMember=0)),
)
def minimum(found: StoredObject, _: RuleContext) -> Results:
    """A minimum below 1 is always reached: pods start one by one, and the PodGroup's phase never leaves Pending.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/core.go (`basicGangRequirementsCheck`,
    `Permit`) and controller/podgroup.go, v1.8.0; the CRD of PodGroup has no minimum.
    """
    for at, written, least in _minimum(found):
        if least is not None and least < 1:
            yield Finding(
                at=at,
                found=written,
                why="a gang with a minimum below 1 is always complete, so koord-scheduler starts its pods one by one",
                remedy="set the number of pods that the gang needs to start, at least 1",
            )


@rule(
    "koordinator/gang-total-number",
    kinds=BOTH,
    passes=Example(pod_group(minMember=2, settings={"total-number": "4"})),
    fails=Example(pod_group(minMember=2, settings={"total-number": "1"})),
)
def total_number(found: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler only logs a total that is not a number or is below the minimum, and uses the minimum. Up to v1.6
    the total decides when an attempt to place the whole gang is over. Newer versions only report it. 0 means that there
    is no total.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go, apis/extension/coscheduling.go
    (`GetGangTotalNum`: Go's strconv.ParseInt in base 10), v1.4.0 to v1.8.0.
    """
    written = _annotation(found, ANNOTATION_TOTAL_NUMBER)
    if written is None:
        return
    at, total = ANNOTATIONS / ANNOTATION_TOTAL_NUMBER, int32(written)
    needed = next((least for _, _, least in _minimum(found) if least is not None), None)
    if total is None:
        yield Finding(
            at=at,
            found=written,
            why="koord-scheduler reads no number from it and uses the minimum",
            remedy='set a whole number in quotes, such as "4", or remove the annotation',
        )
    elif total != 0 and needed is not None and total < needed:
        yield Finding(
            at=at,
            found=written,
            why=f"it is below the gang's minimum of {needed}, so koord-scheduler uses the minimum",
            remedy="set it to the number of the gang's pods, or remove the annotation",
        )


@rule(
    "koordinator/gang-waiting-time",
    kinds=(PODS,),
    passes=Example(annotated_pod(waiting_time="1h30m")),
    fails=Example(annotated_pod(waiting_time="30")),
)
def waiting_time(found: StoredObject, _: RuleContext) -> Results:
    """koord-scheduler only logs a duration without a unit, in days, or below 0, and the gang waits for the scheduler's
    default time (600 s). 0 also means the default and is not reported. A PodGroup has a field for this time.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodConfig`),
    apis/extension/coscheduling.go (`GetGangWaitTime`: Go's time.ParseDuration), v1.8.0.
    """
    written = _annotation(found, ANNOTATION_WAITING_TIME)
    if written is None:
        return
    waits = nanoseconds(written)
    if waits is None or waits < 0:
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_WAITING_TIME,
            found=written,
            why="koord-scheduler cannot read it as a duration, and uses its default",
            remedy='set a number with a unit, h, m or s, such as "600s"',
        )


@rule(
    "koordinator/gang-timeout",
    kinds=BOTH,
    default=Action.WARN,
    passes=Example(pod_group(scheduleTimeoutSeconds=600)),
    fails=Example(pod_group(scheduleTimeoutSeconds=3600)),
)
def timeout(found: StoredObject, _: RuleContext) -> Results:
    """A pod waits at most 15 minutes for its gang, because kube-scheduler's framework caps the time. For a value below
    1 koord-scheduler uses its own default (600 s).

    Source: k8s.io/kubernetes, pkg/scheduler/framework/runtime (`maxTimeout`); koordinator-sh/koordinator,
    pkg/scheduler/plugins/coscheduling/util/gang_helper.go (`GetWaitTimeDuration`), v1.7.0 and newer.
    """
    for at, written, seconds in _timeout(found):
        if seconds > LONGEST_WAIT_SECONDS:
            yield Finding(at=at, found=written, why="a gang waits at most 900 s", remedy="set 900 s or less")
        elif seconds < 1:
            yield Finding(
                at=at, found=written, why="koord-scheduler uses its own default", remedy="set 1 or more, or remove it"
            )


def _annotation(found: StoredObject, key: str) -> str | None:
    """The value of an annotation that koord-scheduler reads; None if it is missing or empty."""
    return text(found.annotations.get(key)) if is_set(found) else None


def _minimum(found: StoredObject) -> Iterator[tuple[FieldPath, object, int | None]]:
    """The path of a gang's minimum, its written value, and the number that koord-scheduler reads from it."""
    if not is_set(found):
        return
    if found.kind == POD_GROUP.kind:
        least = integer(found.spec.get("minMember"))
        yield SPEC / "minMember", least, least or 0
        return
    for at, values, key in (
        (LABELS, found.labels, LABEL_OLD_MINIMUM),
        (ANNOTATIONS, found.annotations, ANNOTATION_MINIMUM),
    ):
        if (written := text(values.get(key))) is not None:
            yield at / key, written, int32(written)
            return


def _timeout(found: StoredObject) -> Iterator[tuple[FieldPath, object, float]]:
    """How long a pod waits in Permit, in seconds, if a PodGroup states it or a pod states more than 0."""
    if found.kind == POD_GROUP.kind:
        seconds = integer(found.spec.get("scheduleTimeoutSeconds")) if is_set(found) else None
        if seconds is not None:
            yield SPEC / "scheduleTimeoutSeconds", seconds, seconds
    elif (written := _annotation(found, ANNOTATION_WAITING_TIME)) is not None and (
        waits := nanoseconds(written) or 0
    ) > 0:
        # Any fraction of a second counts as a time.
        yield ANNOTATIONS / ANNOTATION_WAITING_TIME, written, max(waits / _NANOSECONDS, 1)


def _choice(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _cut(word: str) -> str:
    # The permitted values are known and short.
    return word if len(word) <= max(map(len, MATCH_POLICIES)) else "something else"


group_pods = families.group_pods(
    "koordinator/group-pods",
    """koord-scheduler holds the pods of a PodGroup until as many as its minMember are there. The rule counts the pods
    in the same files: pods, and the templates of their controllers.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core (`PreEnqueue`: children below the
    minimum), v1.8.0.
    """,
    system="Koordinator",
    kind=POD_GROUPS,
    version="v1alpha1",
)
