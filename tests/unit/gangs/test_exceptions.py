"""A rule that an exception covers is no reason why a gang does not start, until the exception ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.gangs.judged_gangs import FACTS, judged, podgang, whole
from tests.unit.worlds import koordinator
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.pod_reasons import rule_reasons
from webhook.model.findings import Exceptions, RuleException, WorkloadSelector
from webhook.model.grove import PodGang
from webhook.validators.examples import clique, pod_clique_set
from webhook.workloads.pod_clique_set import PodCliqueSet

UNTIL = datetime(2027, 2, 1, tzinfo=UTC)
BEFORE = UNTIL - timedelta(seconds=1)
RULE = "koordinator/scheduler-name-label"
REFUSED = pod_clique_set(
    clique("leader"), clique("worker", labels={"scheduling.koordinator.sh/scheduler-name": "batch"})
)


def reasons(exception: RuleException, now: datetime) -> list[GangReason]:
    settings = replace(koordinator(standalone=False), exceptions=Exceptions([exception]))
    workload = PodCliqueSet({**REFUSED, "metadata": {**REFUSED["metadata"], "name": "demo"}}, "default")
    profile = settings.profiles["koord-scheduler"]
    return [one.reason for one in rule_reasons(PodGang(podgang()), workload, profile, FACTS, settings, now)]


GRANTED = RuleException("one", frozenset({RULE}), frozenset({"default"}), "ticket", "anna", UNTIL)


@pytest.mark.parametrize(
    ("exception", "now", "expected"),
    [
        pytest.param(GRANTED, BEFORE, [], id="it applies"),
        pytest.param(GRANTED, UNTIL, [GangReason.UNHONOURED], id="it has ended"),
        pytest.param(
            replace(GRANTED, namespaces=frozenset({"team-b"})), BEFORE, [GangReason.UNHONOURED], id="another namespace"
        ),
        pytest.param(
            replace(GRANTED, rules=frozenset({"koordinator/quota"})), BEFORE, [GangReason.UNHONOURED], id="another rule"
        ),
        pytest.param(
            replace(GRANTED, workloads=WorkloadSelector(names=frozenset({"demo"}))), BEFORE, [], id="its workload"
        ),
        pytest.param(
            replace(GRANTED, workloads=WorkloadSelector(names=frozenset({"other"}))),
            BEFORE,
            [GangReason.UNHONOURED],
            id="another workload",
        ),
    ],
)
def test_an_excepted_rule_is_no_reason(exception: RuleException, now: datetime, expected: list[GangReason]) -> None:
    assert reasons(exception, now) == expected


def test_health_is_judged_at_its_time() -> None:
    settings = replace(koordinator(standalone=False), exceptions=Exceptions([GRANTED]))
    before, after = (judged(whole(), workload=REFUSED, settings=settings, now=now) for now in (BEFORE, UNTIL))
    assert GangReason.UNHONOURED not in [one.reason for one in before.obstacles]
    assert after.obstacles[0].reason is GangReason.UNHONOURED
