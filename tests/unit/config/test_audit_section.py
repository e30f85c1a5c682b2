"""The section `audit`: off unless it is asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.configurations import configuration_of
from webhook.config.file import settings_from
from webhook.config.settings import Auditing


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({}, Auditing(open_reports=False, every=timedelta(hours=1))),
        ({"openReports": True}, Auditing(open_reports=True, every=timedelta(hours=1))),
        ({"openReports": True, "everyMinutes": 5}, Auditing(open_reports=True, every=timedelta(minutes=5))),
    ],
    ids=["default", "on", "every five minutes"],
)
def test_reports_are_written_only_on_request(section: dict[str, Any], expected: Auditing) -> None:
    settings = settings_from(configuration_of("koord-scheduler", audit=section), "test")
    assert settings.auditing == expected
