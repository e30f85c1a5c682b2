"""Published cases about what is said of objects that no gang scheduler judged."""

from __future__ import annotations

import pytest

from tests.unit.cli.cases.published_cases import Case, needs_cases, report
from tests.unit.cli.conftest import Run


@needs_cases
@pytest.mark.parametrize("file", ["pod.yaml", "group.yaml"])
def test_no_gang_scheduler_is_in_the_summary_of_a_plain_pod(
    rollcall: Run, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    said = report(rollcall, monkeypatch, Case("plain-pod", file))
    assert (said["judged"], said["schedulers"], said["findings"]) == (1, [], [])


@needs_cases
def test_a_deployment_that_is_not_opted_in_is_judged_with_its_group(
    rollcall: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = report(rollcall, monkeypatch, Case("schedplugins-358-deployment", "all.yaml"))
    assert [one["scheduler"] for one in said["schedulers"]] == ["scheduler-plugins-scheduler"]
    assert said["ignored"] == 0
