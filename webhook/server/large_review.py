"""A large review in the thread: decoded to plain values in pieces, and freed there once it has been answered.

orjson holds the GIL until it is done: a tenth of a second for three megabytes, in which no other call is answered. So
a large body is cut after a member of a list or an object, orjson decodes each piece, and other threads run in between.
Freeing the values takes as long as making them, and is done in pieces too.

The brackets and strings of the body are counted, because decoding takes up to thirty times their size.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from webhook.errors import ReviewError, TooManyValues
from webhook.server.admission_review import Deliberation, Question
from webhook.server.lane import Turn

# A body of this size is decoded in one piece in a few milliseconds.
WHOLE_BYTES = 256 * 1024
PIECE_BYTES = 64 * 1024
# The most brackets and strings, and the memory for each. The largest review that an API server can send has two objects
# of 1.5 MiB. As lists of empty objects these are 2.1 million brackets and 72 MB.
MAX_TOKENS = 2_500_000
TOKEN_BYTES = 60
# The same limit as orjson.
_MAX_DEPTH = 1024

# Group 1 is a bracket or a string, after other characters. A match covers at most some hundred kilobytes, because no
# other thread runs during a match. So it may end before a token, or before the closing quote of a string (group 2). An
# unterminated string is one token up to the end: otherwise the search would restart at each quote in it, which takes
# minutes.
_IN_STRING = rb'[^"\\]{0,4096}+(?:\\.[^"\\]{0,4096}+){0,64}+("|\\?\Z)?'
_TOKEN = re.compile(rb'[^"{}\[\]]{0,65536}+("' + _IN_STRING + rb"|[{}\[\]])?", re.DOTALL)
_REST_OF_STRING = re.compile(_IN_STRING, re.DOTALL)
_BLANK = b" \t\n\r"
_QUOTE = ord('"')
_CLOSING = {ord("{"): b"}", ord("["): b"]"}


def memory_of(size: int) -> int:
    """Returns the most bytes that decoding a body of `size` bytes takes."""
    return min(size, MAX_TOKENS) * TOKEN_BYTES


@dataclass(slots=True)
class Decoded:
    """A decoded body. `release` frees it; any thread may call it when the values are no longer used."""

    value: Any
    # The containers that were built here, and the pieces with their members.
    _outer: list[Any] = field(default_factory=list)
    _pieces: list[Any] = field(default_factory=list)

    def release(self) -> None:
        """Frees the values piece by piece."""
        self.value = None
        for container in self._outer:
            container.clear()
        while self._pieces:
            self._pieces.pop()


def decode(body: bytes, proceed: Callable[[], None]) -> Decoded:
    """Returns what `orjson.loads` returns for `body`. Calls `proceed` between two pieces, which may raise.

    Raises `ReviewError` for invalid JSON, and `TooManyValues`.
    """
    try:
        if len(body) <= WHOLE_BYTES:
            return Decoded(orjson.loads(body))
        pieces = _Pieces(body, proceed)
        try:
            return pieces.decoded()
        except BaseException:
            # The error refers to these until its client is answered, and the next body is decoded meanwhile.
            pieces.release()
            raise
    except orjson.JSONDecodeError as error:
        raise ReviewError(f"the body is not JSON: {error}") from None


@dataclass(slots=True)
class _Container:
    """A list or an object that is being built. `value` has its members before `mark`."""

    opening: int
    value: Any
    mark: int
    begun: bool = False


class _Pieces:
    """The decoding of one body."""

    def __init__(self, body: bytes, proceed: Callable[[], None], piece_bytes: int = PIECE_BYTES) -> None:
        self._body = body
        self._proceed = proceed
        self._piece_bytes = piece_bytes
        self._done = Decoded(None)
        # The positions of the open brackets, each with the position of the string before it: in an object that is its
        # key.
        self._open: list[tuple[int, tuple[int, int]]] = []
        # The outermost of them, with members that are decoded in part.
        self._containers: list[_Container] = []
        # The position after the closing bracket of the outermost container.
        self._end = 0

    def decoded(self) -> Decoded:
        """Decodes the whole body."""
        body, opened = self._body, self._open
        string, mark, number = (0, 0), 0, 0
        tokens = _TOKEN.finditer(body)
        while (token := next(tokens, None)) is not None:
            start, end = token.span(1)
            has_token = start >= 0
            before = start if has_token else token.end()
            # The text before a token is outside strings, so the last comma in it separates two members.
            if opened and before - mark > self._piece_bytes and (comma := body.rfind(b",", token.start(), before)) > 0:
                if number > MAX_TOKENS:
                    raise TooManyValues(MAX_TOKENS)
                self._proceed()
                self._take(comma)
                mark = comma
            if not has_token:
                continue
            number += 1
            character = body[start]
            if character == _QUOTE:
                if token.end(2) < 0:
                    end = self._end_of_string(end)
                    tokens = _TOKEN.finditer(body, end)
                string = (start, end)
            elif character in _CLOSING:
                opened.append((start, string))
                if len(opened) > _MAX_DEPTH:
                    raise _wrong(f"it is nested deeper than {_MAX_DEPTH} levels")
            elif not opened:
                raise _wrong("a bracket is closed that was not opened")
            else:
                opened.pop()
                if len(self._containers) > len(opened):
                    self._close(start, end)
                    mark = end
        return self._finished()

    def release(self) -> None:
        """Frees what was decoded so far."""
        self._containers.clear()
        self._done.release()

    def _end_of_string(self, at: int) -> int:
        """Returns the end of a long string that was read up to `at`."""
        while (rest := _REST_OF_STRING.match(self._body, at)) is not None:
            at = rest.end()
            if rest.end(1) >= 0:
                break
        return at

    def _finished(self) -> Decoded:
        if self._done.value is None:
            # The body cannot be cut, or is not JSON.
            return Decoded(orjson.loads(self._body))
        if self._open or self._body[self._end :].strip(_BLANK):
            raise _wrong("it ends before all brackets are closed, or continues after the end")
        return self._done

    def _take(self, end: int) -> None:
        """Decodes the members of the innermost open bracket up to `end`, and the earlier members of the outer ones."""
        for start, key in self._open[len(self._containers) :]:
            self._enter(start, key)
        self._add(self._containers[-1], self._text(self._containers[-1], end))

    def _enter(self, start: int, key: tuple[int, int]) -> None:
        """Begins to build the container that opens at `start`, in the outer container under `key`."""
        container = _Container(self._body[start], {} if self._body[start] == ord("{") else [], start + 1)
        self._done._outer.append(container.value)
        if not self._containers:
            if self._body[:start].strip(_BLANK):
                raise _wrong("there is text before its first bracket")
            self._done.value = container.value
        else:
            around = self._containers[-1]
            # The container is written as null, so that orjson checks the commas and the key before it.
            piece = self._add(around, self._text(around, start) + b"null", begins=True)
            if isinstance(around.value, dict):
                around.value[orjson.loads(self._body[slice(*key)])] = container.value
            else:
                piece.pop()
                around.value[-1] = container.value
        self._containers.append(container)

    def _close(self, start: int, end: int) -> None:
        container = self._containers.pop()
        if self._body[start:end] != _CLOSING[container.opening]:
            raise _wrong("a bracket is closed by a bracket of another kind")
        self._add(container, self._text(container, start))
        if self._containers:
            self._containers[-1].mark = end
            self._containers[-1].begun = True
        else:
            self._end = end

    def _text(self, container: _Container, end: int) -> bytes:
        text = self._body[container.mark : end].strip(_BLANK)
        container.mark = end
        return text

    def _add(self, container: _Container, text: bytes, *, begins: bool = False) -> Any:
        """Decodes some members of a container and adds them. Members after the first start with a comma."""
        if container.begun and text:
            if not text.startswith(b",") or not text[1:].strip(_BLANK):
                raise _wrong("a comma is missing, or one too many")
            text = text[1:]
        piece = orjson.loads(bytes((container.opening,)) + text + _CLOSING[container.opening])
        container.begun = container.begun or bool(text)
        if isinstance(piece, dict):
            container.value.update(piece)
        else:
            container.value.extend(piece)
        self._done._pieces.append(piece)
        return piece


def _wrong(why: str) -> ReviewError:
    return ReviewError(f"the body is not JSON: {why}")


class LargeReview:
    """One review, from its bytes until its memory is free. All of it runs in the thread of `turn`."""

    def __init__(self, deliberation: Deliberation, turn: Turn) -> None:
        self._deliberation = deliberation
        self._turn = turn
        self._decoded: Decoded | None = None
        turn.clear = self._clear

    def begin(self, body: bytes) -> Question | None:
        """Decodes the body, and decides."""
        # The collector would visit a million new values again and again while all threads wait. A review has no cycles.
        gc.disable()
        return self._deliberation.begin(body, self._decode)

    def _decode(self, body: bytes) -> Any:
        self._decoded = decode(body, self._turn.proceed)
        return self._decoded.value

    def _clear(self) -> None:
        self._deliberation.forget()
        if self._decoded is not None:
            self._decoded.release()
        gc.enable()
