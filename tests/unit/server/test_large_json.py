"""A large body is decoded in pieces with the same result as orjson, or refused if orjson refuses it."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.growth.step_counts import Cost
from webhook.errors import ReviewError, Stopped, TooManyValues
from webhook.server import large_review
from webhook.server.large_review import Decoded, decode

DECODED_IN_PIECES = large_review.WHOLE_BYTES * 3 // 2
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8) | st.floats(-1e9, 1e9)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=6) | st.dictionaries(st.text(max_size=3), below, max_size=6),
    max_leaves=40,
)


def in_pieces(body: bytes, size: int = 1) -> Decoded:
    return large_review._Pieces(body, lambda: None, size).decoded()


def outcome(body: bytes, size: int) -> Any:
    try:
        return in_pieces(body, size).value
    except (ReviewError, orjson.JSONDecodeError):
        return "no JSON"


def whole(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return "no JSON"


@given(VALUES, st.integers(0, 30), st.sampled_from([None, 1, 4]))
def test_decoding_in_pieces_gives_the_complete_value(value: Any, size: int, indent: int | None) -> None:
    body = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    assert outcome(body, size) == orjson.loads(body)


@given(VALUES, st.integers(0, 30), st.data())
def test_invalid_json_is_invalid_in_pieces(value: Any, size: int, data: st.DataObject) -> None:
    body = bytearray(json.dumps(value, ensure_ascii=False).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from([b"", *map(_byte, b'{}[],:"\\1 n')]))
    assert outcome(bytes(body), size) == whole(bytes(body))


def _byte(character: int) -> bytes:
    return bytes((character,))


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[1,2,],"b":3}',
        b'{"a":[{},{}],,"b":3}',
        b'{"a":[{},{}}',
        b'[{"a":1},{"b":2}',
        b'[{"a":1},{"b":2}]]',
        b'[{"a":1},{"b":2}] x',
        b'x [{"a":1},{"b":2}]',
        b"[[],[] []]",
        b'{"a" [1,{}],"b":[]}',
        b'[{"a":[],[]}]',
    ],
)
def test_cutting_into_pieces_hides_no_error(body: bytes) -> None:
    with pytest.raises((ReviewError, orjson.JSONDecodeError)):
        in_pieces(body)


def test_an_unterminated_string_is_scanned_once() -> None:
    body = b'{"' + b'\\"' * 4_000
    cost = Cost(lambda: outcome(body, 1))
    assert outcome(body, 1) == "no JSON"
    # A scan takes dozens of its quotes at once; one that begins again at each of them would take steps for each.
    assert 0 < max(cost.runs.values()) < 4_000 / 16


def test_the_last_of_equal_keys_wins() -> None:
    body = b'{"a":[{},{}],"b":[{},{}],"a":[[],1],"b":{"c":1,"d":2}}'
    assert in_pieces(body).value == orjson.loads(body)


def dense(member: bytes, size: int) -> bytes:
    return b'{"items":[' + member * (size // len(member)) + member.rstrip(b",") + b"]}"


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(
    "member",
    [b"{},", b'"",', b'{"name":"a"},', b'{"a":[[],{"b":"c"}]},', b"[[[[]]]],", b"1,", b"-1.5e10,", b"\n\tnull  ,"],
)
def test_other_threads_run_between_the_pieces(member: bytes) -> None:
    body = dense(member, DECODED_IN_PIECES)
    turns = 0

    def proceed() -> None:
        nonlocal turns
        turns += 1

    assert decode(body, proceed).value == orjson.loads(body)
    assert turns >= len(body) // large_review.PIECE_BYTES - 1


# 300 KB of each of these, with a comma between the items of a list.
LONG = {
    "numbers": b"1," * 150_000 + b"1",
    "white space": b" " * 300_000 + b"1",
    "a string": b'"' + b"x" * 300_000 + b'"',
    "a string of escapes": b'"' + b"\\n" * 150_000 + b'"',
    "a string of quotes": b'"' + b'\\"' * 150_000 + b'"',
    "a string whose parts are as long as a match": b'"' + (b"x" * 4096 + b'\\"') * 73 + b'",{"a":"b"}',
    "a string of brackets and commas": b'"' + b"{,]" * 100_000 + b'"',
}


@pytest.mark.parametrize("content", LONG.values(), ids=LONG.keys())
def test_every_pattern_match_is_fast_and_long_values_are_read_completely(content: bytes) -> None:
    body = b'{"a":[{},' + content + b'],"b":{"c":[1]}}'
    # 300 KB take a millisecond.
    assert max(len(match[0]) for match in large_review._TOKEN.finditer(body)) < 300_000
    assert max(len(match[0]) for match in large_review._REST_OF_STRING.finditer(body)) < 300_000
    assert outcome(body, 1000) == orjson.loads(body)
    assert outcome(body[:-1], 1000) == "no JSON"
    assert outcome(body.replace(b'{"c":', b'{"c" '), 1000) == "no JSON"


@pytest.mark.usefixtures("untraced")
def test_objects_with_numbered_keys_are_cut_into_pieces() -> None:
    body = b"{" + b",".join(b'"%d":%d' % (number, number) for number in range(100_000)) + b"}"
    turns: list[None] = []
    assert decode(body, lambda: turns.append(None)).value == {str(number): number for number in range(100_000)}
    assert len(turns) > 5


def test_decoding_stops_when_the_caller_disconnects() -> None:
    def stop() -> None:
        raise Stopped("no caller waits")

    with pytest.raises(Stopped):
        decode(dense(b"{},", DECODED_IN_PIECES), stop)


MANY = [b"[],", b"{},", b'"",', b"[[[[[[]]]]]],"]


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("member", MANY)
def test_too_many_values_are_refused_whatever_their_size(member: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # A tenth of what is allowed, for the sake of the time.
    monkeypatch.setattr(large_review, "MAX_TOKENS", large_review.MAX_TOKENS // 10)
    with pytest.raises(TooManyValues, match="250000 "):
        decode(dense(member, (7 << 20) // 9), lambda: None)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("member", MANY)
def test_too_many_values_of_the_largest_body_are_refused(member: bytes) -> None:
    with pytest.raises(TooManyValues, match="2500000 "):
        decode(dense(member, (7 << 20) + (1 << 19)), lambda: None)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(
    "member",
    [
        b'{"name":""},',
        *(pytest.param(member, marks=pytest.mark.exhaustive) for member in (b"{},", b'"",', b'"f:a":{},')),
    ],
)
def test_two_objects_of_the_maximum_size_are_accepted(member: bytes) -> None:
    around = b"{%s}" if member.startswith(b'"f') else b"[%s]"
    half = around % (member * (3 * (1 << 19) // len(member)) + member.rstrip(b","))
    found = decode(b'{"object":%s,"oldObject":%s}' % (half, half), lambda: None).value
    assert len(found["object"]) == len(found["oldObject"]) > 0


def test_values_that_were_decoded_in_pieces_can_be_freed() -> None:
    found = decode(dense(b"{},", DECODED_IN_PIECES), lambda: None)
    items = found.value["items"]
    found.release()
    assert (found.value, items) == (None, [])


def test_a_string_full_of_brackets_counts_as_one_value() -> None:
    body = orjson.dumps({"command": ["[{" * (3 << 20), 'a"b\\"']})
    assert decode(body, lambda: None).value == orjson.loads(body)
