"""The section `remedies`: off by default, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.configurations import configuration_of
from tests.texts import require_like
from tests.unit.config.configurations import problems_of
from webhook.config.file import settings_from
from webhook.config.settings import RemedySettings
from webhook.gangs.remedies import RemedyCause


def remedies(section: Any) -> RemedySettings:
    return settings_from(configuration_of("koord-scheduler", remedies=section), "test.yaml").remedies


@pytest.mark.parametrize("section", [None, {}, {"causes": []}])
def test_no_cause_is_remedied_by_default(section: Any) -> None:
    assert remedies(section) == RemedySettings(frozenset(), 30.0, 60.0, 10)


def test_every_cause_can_be_named_and_every_bound_be_set() -> None:
    every = [cause.value for cause in RemedyCause]
    section = {"causes": every, "settleSeconds": 5, "pauseSeconds": 10, "perMinute": 1}
    assert remedies(section) == RemedySettings(frozenset(every), 5.0, 10.0, 1)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (
            {"causes": ["forgoten"]},
            'remedies.causes[0]: "forgoten": is not allowed; did you mean forgotten? '
            "(allowed: forgotten, objectLeft, oldMembership, groveGate)",
        ),
        ({"perMinute": 0}, "remedies.perMinute: 0: input should be greater than or equal to 1"),
        ({"pauseSeconds": 5}, "remedies.pauseSeconds: 5: input should be greater than or equal to 10"),
    ],
)
def test_a_mistake_is_reported_with_path_and_value(section: Any, expected: str) -> None:
    require_like(problems_of(remedies, section), [expected])
