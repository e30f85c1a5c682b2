"""The deadline of a call, from the timeout of the API server."""

from __future__ import annotations

import pytest

from webhook.errors import ReviewError
from webhook.server.admission_review import budget

# A fifth of a second is kept for the way back, or half of what is less than twice that.
BUDGETS = {
    b"": 9.8,
    b"dryRun=true": 9.8,
    b"timeout=5s": 4.8,
    b"timeout=1m": 29.8,
    b"timeout=24h": 29.8,
    b"timeout=" + b"9" * 39 + b"s": 29.8,
    b"timeout=30s": 29.8,
    b"timeout=1.5s": 1.3,
    b"timeout=1s500ms": 1.3,
    b"timeout=.5s": 0.3,
    b"timeout=400ms": 0.2,
    b"timeout=300ms": 0.15,
    b"timeout=20ms": 0.01,
    b"timeout=500%C2%B5s": 0.00025,
    b"timeout=1s&timeout=2s": 1.8,
}


@pytest.mark.parametrize(("query", "seconds"), BUDGETS.items())
def test_the_deadline_of_an_answer_is_before_the_api_server_s_timeout(query: bytes, seconds: float) -> None:
    assert budget(query) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "query", [b"timeout", b"timeout=", b"timeout=0s", b"timeout=-5s", b"timeout=5", b"timeout=NaNs"]
)
def test_an_invalid_timeout_is_reported(query: bytes) -> None:
    with pytest.raises(ReviewError, match=r"^timeout is "):
        budget(query)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (b"timeout=" + b"9" * 40 + b"s", r"^timeout is '9{40}' and more, longer than 40 characters$"),
        (b"timeout=" + b"9" * 8000, r"^the query of the URL has 8008 bytes, more than 256$"),
        (b"a&" * 4000 + b"timeout=1s", r"^the query of the URL has 8010 bytes, more than 256$"),
    ],
)
def test_a_timeout_text_that_is_too_long_is_not_parsed(query: bytes, told: str) -> None:
    with pytest.raises(ReviewError, match=told):
        budget(query)
