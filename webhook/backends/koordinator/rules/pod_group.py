"""Settings of a gang that koord-scheduler silently replaces: on a PodGroup, or on a pod that uses one of the older
ways. A PodGroup without any of Koordinator's annotations may belong to another scheduler and is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.backends.koordinator.gang_settings import is_set, match_policy
from webhook.backends.koordinator.go_values import int32, nanoseconds
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
    """Any other word, and any other case, is a line in koord-scheduler's log, and the gang is Strict.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodGroup`,
    `tryInitByPodConfig`), v1.8.0.
    """
    written = _annotation(found, ANNOTATION_MODE)
    if written is not None and written not in MODES:
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_MODE,
            found=written,
            why="koord-scheduler does not know that mode and takes Strict",
            remedy=f"write {_choice(MODES)}, in this case",
        )


@rule(
    "koordinator/gang-match-policy",
    kinds=BOTH,
    passes=Example(pod_group(settings={"match-policy": "waiting-and-running"})),
    fails=Example(pod_group(settings={"match-policy": "WaitingAndRunning"})),
)
def gang_match_policy(found: StoredObject, _: RuleContext) -> Results:
    """Any other word, and any other case, is a line in koord-scheduler's log, and the gang gets the scheduler's
    default: once-satisfied, under which re-created pods start one by one.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`tryInitByPodGroup`,
    `tryInitByPodConfig`), apis/extension/coscheduling.go (`GetGangMatchPolicy`), v1.8.0.
    """
    read = match_policy(found) if is_set(found) else None
    if read is not None and read[0] not in MATCH_POLICIES:
        yield Finding(
            at=read[1],
            found=read[0],
            why="koord-scheduler does not know that policy and takes its default, once-satisfied",
            remedy=f"write {_choice(MATCH_POLICIES)}, in this case",
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
    """Two annotations carry the policy. Where both are there, the one of scheduler-plugins is never read.

    Source: koordinator-sh/koordinator, apis/extension/coscheduling.go (`GetGangMatchPolicy`), v1.7.0 and newer.
    """
    first, second = (_annotation(found, key) for key in (ANNOTATION_MATCH_POLICY, ANNOTATION_MATCH_POLICY_ALIAS))
    if first is not None and second is not None and first != second:
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_MATCH_POLICY_ALIAS,
            found=second,
            why=f"koord-scheduler never reads it beside {ANNOTATION_MATCH_POLICY}, which says {_cut(first)}",
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
    """Under only-waiting, bound pods do not count, so a lone replacement pod never reaches the minimum and never binds.
    It is right for gangs of which all pods are always re-created together.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`isGangValidForPermit`),
    v1.8.0.
    """
    read = match_policy(found) if is_set(found) else None
    if read is not None and read[0] == ONLY_WAITING:
        yield Finding(
            at=read[1],
            found=ONLY_WAITING,
            why="a pod that is replaced alone never binds",
            remedy="write waiting-and-running",
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
                why="a gang of no pods is always complete, so koord-scheduler starts its pods one by one",
                remedy="write how many pods it needs to start, at least 1",
            )


@rule(
    "koordinator/gang-total-number",
    kinds=BOTH,
    passes=Example(pod_group(minMember=2, settings={"total-number": "4"})),
    fails=Example(pod_group(minMember=2, settings={"total-number": "1"})),
)
def total_number(found: StoredObject, _: RuleContext) -> Results:
    """A total that is no number, or below the minimum, is a line in koord-scheduler's log, and the minimum is taken. Up
    to v1.6 the total decides when a try of the whole gang is over; newer ones only report it. 0 means none.

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
            why="koord-scheduler reads no number from it and takes the minimum",
            remedy='write a whole number in quotes, such as "4", or remove the annotation',
        )
    elif total != 0 and needed is not None and total < needed:
        yield Finding(
            at=at,
            found=written,
            why=f"it is below the gang's minimum of {needed}, so koord-scheduler takes that instead",
            remedy="write the number of the gang's pods, or remove the annotation",
        )


@rule(
    "koordinator/gang-waiting-time",
    kinds=(PODS,),
    passes=Example(annotated_pod(waiting_time="1h30m")),
    fails=Example(annotated_pod(waiting_time="30")),
)
def waiting_time(found: StoredObject, _: RuleContext) -> Results:
    """A duration without a unit, of days, or below 0 is a line in koord-scheduler's log, and the gang waits as long as
    the scheduler's default says (600 s). 0 means the default too, and is left alone. A PodGroup has a field for it.

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
            why="koord-scheduler reads no time from it and waits as long as its default says",
            remedy='write a number with a unit, h, m or s, such as "600s"',
        )


@rule(
    "koordinator/gang-timeout",
    kinds=BOTH,
    default=Action.WARN,
    passes=Example(pod_group(scheduleTimeoutSeconds=600)),
    fails=Example(pod_group(scheduleTimeoutSeconds=3600)),
)
def timeout(found: StoredObject, _: RuleContext) -> Results:
    """No pod waits longer than 15 minutes for its gang, whatever it says: kube-scheduler's framework caps it. Below 1
    koord-scheduler takes its own default (600 s).

    Source: k8s.io/kubernetes, pkg/scheduler/framework/runtime (`maxTimeout`); koordinator-sh/koordinator,
    pkg/scheduler/plugins/coscheduling/util/gang_helper.go (`GetWaitTimeDuration`), v1.7.0 and newer.
    """
    for at, written, seconds in _timeout(found):
        if seconds > LONGEST_WAIT_SECONDS:
            yield Finding(at=at, found=written, why="no gang waits longer than 900 s", remedy="write 900 s or less")
        elif seconds < 1:
            yield Finding(
                at=at, found=written, why="koord-scheduler takes its own default", remedy="write 1 or more, or nothing"
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
