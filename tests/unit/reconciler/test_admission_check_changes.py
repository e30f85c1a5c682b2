"""Which changes that the reconciler follows have an AdmissionCheck of Kueue answered."""

from __future__ import annotations

from tests.unit.reconciler.kueue_api import (
    CHECKS,
    SETTINGS,
    WORKLOADS_PATH,
    Answering,
    KueueApi,
    check,
    condition,
    owner,
    workload,
)
from webhook.config.settings import followed_projections

# As the reconciler follows them: not all are the projections that admission follows.
FOLLOWED = {projection.part: projection for projection in followed_projections(SETTINGS, objects=False)}


async def test_a_check_that_becomes_rollcalls_is_answered_for_workloads_that_wait() -> None:
    api = KueueApi(owner(), workload())
    found = Answering(api)
    await found.settle()
    assert api.writes == []
    api.put(CHECKS, check())
    found.checks.changed(FOLLOWED["admission_checks"], "gang")
    assert found.asked == [1]
    await found.look()
    assert len(found.checks.queue) == 2
    assert found.sample("rollcall_admission_checks_pending") == 1


async def test_a_workload_is_answered_when_it_changes() -> None:
    api = KueueApi(check(), owner(), workload(conditions=()))
    found = Answering(api)
    await found.settle()
    api.objects[WORKLOADS_PATH][0]["status"]["conditions"] = [condition("QuotaReserved")]
    found.checks.changed(FOLLOWED["local_queues"], ("default", "job-demo"))
    assert len(found.checks.queue) == 0
    found.checks.changed(FOLLOWED["kueue_workloads"], ("default", "job-demo"))
    assert len(found.checks.queue) == 1
