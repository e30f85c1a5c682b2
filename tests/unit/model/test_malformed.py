"""What is said of a value of the wrong type."""

from __future__ import annotations

import json

import pytest

from webhook.model.reading import Malformed


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2", "text"),
        (2, "a number"),
        (2.5, "a decimal number"),
        (False, "true or false"),
        (None, "null"),
        ({}, "an object"),
        ([], "a list"),
    ],
    ids=json.dumps,
)
def test_the_type_of_a_value_is_in_plain_words(value: object, words: str) -> None:
    assert str(Malformed(value, "a duration")) == f"expected a duration, found {words}"
