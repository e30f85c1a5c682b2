"""Every check with its own healthy and faulty examples."""

from __future__ import annotations

import re

import pytest

from webhook.operations.checks import EVERY_CHECK
from webhook.operations.diagnosis import Check, examine

BY_ID = pytest.mark.parametrize("check", EVERY_CHECK, ids=lambda check: check.id)


@BY_ID
def test_the_healthy_example_of_a_check_passes(check: Check) -> None:
    diagnosis = examine(check.passes(), [check])
    assert (diagnosis.problems, diagnosis.not_known) == ([], [])


@BY_ID
def test_the_faulty_example_of_a_check_is_reported(check: Check) -> None:
    diagnosis = examine(check.fails(), [check])
    assert diagnosis.problems
    assert diagnosis.not_known == []


@BY_ID
def test_a_symptom_has_place_value_reason_and_remedy(check: Check) -> None:
    for found in examine(check.fails(), [check]).problems:
        where, what, why, remedy, _ = found.symptom
        assert len(where) > 4
        assert what
        assert len(why) > 15
        assert len(remedy) > 15
        assert not re.search(r"!|\bplease\b|webhook\.", " ".join((where, what, why, remedy)), re.IGNORECASE)


@BY_ID
def test_a_check_is_documented_with_its_source(check: Check) -> None:
    assert re.fullmatch(r"[a-z]+/[a-z][a-z-]*", check.id)
    assert "Source:" in check.documentation


def test_no_two_checks_share_an_id() -> None:
    ids = [check.id for check in EVERY_CHECK]
    assert len(ids) == len(set(ids))
