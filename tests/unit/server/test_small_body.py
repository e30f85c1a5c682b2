"""A small body that has arrived completely is read without the budget; every other body is left for `read_body`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from starlette.types import Scope

from tests.unit.server.conftest import Call, body
from webhook.errors import ReviewError
from webhook.server.intake import ClientGone, small_body


@dataclass
class Holding:
    """A connection whose request has arrived as a whole, or has not."""

    holds: bool = True
    reviewed: bool = False

    def carried_review(self) -> None:
        """Never called in this test."""

    def holds_body(self, _: Scope) -> bool:
        """As it was made."""
        return self.holds


def read(call: Call, length: bytes | None, *, holds: bool = True) -> bytes | None:
    headers = [] if length is None else [(b"content-length", length)]
    call.scope["headers"] = [(b"host", b"rollcall"), *headers]
    return asyncio.run(small_body(call.scope, call.receive, Holding(holds), 10))


def test_a_small_body_is_read() -> None:
    assert read(Call(body(b"{}")), b"2") == b"{}"
    assert read(Call(body(b" " * 10)), b"10") == b" " * 10
    assert read(Call(body(b"{}")), b"0" * 5000 + b"2") == b"{}"


def test_a_content_length_that_is_not_a_number_is_a_client_error() -> None:
    with pytest.raises(ReviewError, match="content-length"):
        read(Call(body(b"{}")), b"ten")


@pytest.mark.parametrize(
    ("length", "holds"), [(b"11", True), (b"1" * 5000, True), (None, True), (b"2", False)], ids=str
)
def test_any_other_body_is_left_to_the_ordinary_reader(length: bytes | None, holds: bool) -> None:
    call = Call(body(b"{}"))
    assert read(call, length, holds=holds) is None
    assert asyncio.run(call.receive())["body"] == b"{}"


def test_a_disconnected_caller_gets_no_answer() -> None:
    with pytest.raises(ClientGone):
        read(Call({"type": "http.disconnect"}), b"2")
