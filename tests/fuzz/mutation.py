"""How one input is made from others: by values that reviews exchange, by unexpected types and numbers, by text that is
hard for parsers, and by plain bytes.

What words mean something is taken from the code under test: the strings that it compares with and looks up.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import orjson
import yaml

import webhook
from tests.fuzz.inputs import CHECK, EXPLAIN, REVIEWED, Input

# Longer bodies are slow, and say no more than short ones; now and then one of this size is made on purpose.
MAX_BODY = 20_000
_POOLED = 60
# How often an edit is made higher up than at the end of the way down.
_STOP = 0.12
# How often an edit is within an object.
_WITHIN = 0.97
# Whole numbers below this become floats.
_ANY_FLOAT = 1e300

_STRINGS = (
    "", " ", "a", "-", "A" * 64, "a" * 254, "b" * 5000, "\x00", "a\nb", "\x1b[31m", "\u202e", "é" * 40,
    "\ud83d\ude00" * 70, "\ufeff", "\uffff", "a/b/c", "a,b", "{}", "[]", "null", "1e3", "-1", "0", "+1", "1.5",
    "99999999999999999999", "9" * 5000, "0x10", "1_000", "١٢", "NaN", "1Ki", "1e400", "1E-400", "100m",
    "0.0000000001n", "default/x", "~1", "~0", "true", "$ref", "%s", "{{x}}", "metadata.name", "a.b[0]", "]",
    "rollcall.dev/gang-sync",
)  # fmt: skip
_NUMBERS = (
    0, 1, -1, 2, 3, 7, 63, 64, 100, 1000, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, 2**64, 2**80, 0.5,
    -0.0, 1.0, 2.0, 1e300, 5e-324, 1e22,
)  # fmt: skip
# Deeper than what is written here may be: so by hand.
_TOO_DEEP = b'{"a":' * 3000 + b"1" + b"}" * 3000
# What makes a whole body unreadable: half of a surrogate pair, a number out of range.
_POISON = ("\ud800", 10**400, 1e999)
_TOKENS = (
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"NaN", b"-Infinity", b"1e999", b"-", b"{",
    b"}", b"[", b"]", b",", b":", b'"', b"null", b"true", b"\xef\xbb\xbf", b"//", b"/**/", b"\n---\n", b"\n...\n",
    b"&a ", b"*a", b"<<: *a", b"!!binary ", b"!!set ", b"!!str ", b"!x ", b"? ", b"| ", b">-\n", b"\t",
    b"%YAML 1.2\n---\n", b"# ", b"'", b"@", b"`", b"0o7", b"0x_", b"1_0", b"1:20", b".inf", b".NaN", b"=", b"~",
    b"2001-01-01", b"\xe2\x80\xa8", b"\xc2\x85", b"\r", b"- - - ", b"\\", b"\\x41", b"9" * 400, b"[" * 300,
    b'{"a":' * 300, b"- " * 300, b"&a [*a, *a]", b"\xf0\x9f\x98\x80",
)  # fmt: skip
_QUERIES = (
    "", "", "timeout=10s", "timeout=1ns", "timeout=1h1m", "timeout=", "timeout=x", "timeout=-1s",
    "timeout=9" + "9" * 400 + "s", "timeout=1s&timeout=5s", "timeout=%ff", "timeout=.s", "timeout=1.1.1s",
    "timeout=%C2%B5s", "timeout=5%C2%B5s", "a&b=&=&&;", "timeout=0s", "scheduler=volcano", "scheduler=nobody",
    "scheduler=", "strict=true", "strict", "strict=1&scheduler=kai-scheduler", "scheduler=%00%0a", "%",
    "timeout=\u0661s",
)  # fmt: skip
_WORLDS = ("default", "every", "cluster", "asked")
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

# The position of a value: its container, and its key or index in it.
Spot = tuple[Any, Any]


@cache
def words_of_the_code() -> list[str]:
    """The strings of `webhook` that may be keys or values: one word each."""
    found: set[str] = set()
    for path in Path(webhook.__file__).parent.rglob("*.py"):
        if "cli" in path.parts or "reconciler" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 64:
                found.add(node.value)
    return sorted(word for word in found if word.isprintable() and not set(word) & set(" {}"))


class Mutator:
    """Makes inputs of inputs. `random` is all that it depends on, besides what it has been shown."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._words = words_of_the_code()
        # What was seen under each key, to be put under the same one elsewhere.
        self._pool: dict[str, list[Any]] = {}
        self._keys: list[str] = []
        self._shown: list[bytes] = []
        self._edits: list[Callable[[Any, Spot], None]] = [
            self._other_value, self._other_value, self._other_value, self._scalar, self._scalar, self._remove,
            self._remove, self._add_key, self._add_key, self._add_key, self._repeat, self._swap, self._wrap,
            self._rename, self._within, self._number,
        ]  # fmt: skip

    def show(self, found: Input) -> None:
        """Learn the values of an input."""
        try:
            value = orjson.loads(found.body)
        except orjson.JSONDecodeError:
            return
        if found.path in REVIEWED:
            self._shown.append(found.body)
        for holder, key in spots([value]):
            if isinstance(holder, dict) and isinstance(key, str) and len(key) < 300:
                pool = self._pool.get(key, [])
                kept = _written(holder[key])
                if kept is not None and len(kept) < 1500 and kept not in pool:
                    if not pool:
                        self._pool[key] = pool
                        self._keys.append(key)
                    if len(pool) < _POOLED:
                        pool.append(kept)
                    else:
                        pool[self._random.randrange(_POOLED)] = kept

    def mutate(self, found: Input) -> Input:
        """An input that is like `found`, and not the same."""
        random = self._random
        chance = random.random()
        if chance < 0.05:
            found = found._replace(world=random.choice(_WORLDS))
        if chance < 0.02:
            found = found._replace(query=random.choice(_QUERIES))
        if chance > 0.995:
            found = found._replace(parts=random.randint(1, 4))
        if found.path in REVIEWED and random.random() < 0.3:
            found = found._replace(path=random.choice(REVIEWED))
        try:
            value = orjson.loads(found.body)
        except orjson.JSONDecodeError:
            return found._replace(body=self._manifest() if random.random() < 0.05 else self._bytes(found.body))
        if found.path in {CHECK, EXPLAIN} and random.random() < 0.3:
            found = found._replace(path=random.choice((CHECK, EXPLAIN)))
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            value = self._edit(value)
        try:
            body = self._body(value, found.path)
        except RecursionError:
            body = _TOO_DEEP
        if random.random() < 0.06:
            body = self._bytes(body)
        return found._replace(body=body if len(body) <= MAX_BODY else found.body)

    def _body(self, value: Any, path: str) -> bytes:
        random = self._random
        if path not in REVIEWED and random.random() < 0.3:
            try:
                return _yaml([value], random.choice((None, True, False)))
            except (yaml.YAMLError, UnicodeEncodeError, RecursionError):
                pass
        if random.random() < 0.5 and (written := _written(value)) is not None:
            return written
        return json.dumps(value, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")

    def _manifest(self) -> bytes:
        """The objects of some reviews as a stream of documents."""
        documents = []
        for _ in range(self._random.randint(1, 4)):
            document = _inside(orjson.loads(self._random.choice(self._shown)))
            documents.append(self._edit(document) if self._random.random() < 0.5 else document)
        try:
            return _yaml(documents, False)
        except (yaml.YAMLError, UnicodeEncodeError, RecursionError):
            try:
                return b"\n".join(json.dumps(document).encode() for document in documents)
            except RecursionError:
                return _TOO_DEEP

    # Structure

    def _edit(self, value: Any) -> Any:
        random = self._random
        if random.random() < 0.06:
            return self._review_edit(value)
        # Mostly within the objects: an invalid review is refused at once.
        inner = _objects(value) if random.random() < _WITHIN else []
        root = random.choice(inner) if inner else value
        spot = self._spot(root)
        if spot is None:
            return value if inner else self._anything()
        random.choice(self._edits)(root, spot)
        return value

    def _spot(self, value: Any) -> Spot | None:
        """A random path in a value, chosen from the top: high fields decide more, and there are fewer of them."""
        found: Spot | None = None
        holder = value
        while isinstance(holder, dict | list) and holder:
            key = self._random.choice(list(holder)) if isinstance(holder, dict) else self._random.randrange(len(holder))
            found = holder, key
            holder = holder[key]
            if self._random.random() < _STOP:
                break
        return found

    def _review_edit(self, value: Any) -> Any:
        """A change of the envelope that keeps it one."""
        request = value.get("request") if isinstance(value, dict) else None
        if not isinstance(request, dict):
            return self._anything() if self._random.random() < 0.1 else value
        other = orjson.loads(self._random.choice(self._shown))
        theirs = other.get("request") if isinstance(other, dict) else None
        theirs = theirs if isinstance(theirs, dict) else {}
        what = self._random.randrange(8)
        if what == 0:
            request["operation"] = self._random.choice(_OPERATIONS)
        elif what == 1:
            # One and the same: written down it is there twice.
            request["oldObject"] = request.get("object")
            request["operation"] = "UPDATE"
        elif what == 2:
            request["object"], request["oldObject"] = request.get("oldObject"), request.get("object")
        elif what == 3:
            request["kind"] = theirs.get("kind")
        elif what == 4:
            request["oldObject"] = theirs.get("object")
            request["operation"] = "UPDATE"
        elif what == 5:
            request["object"] = theirs.get("object")
        elif what == 6:
            request["namespace"] = self._random.choice(("default", "volcanic", "warned", "nowhere", "kube-system", ""))
        else:
            request["subResource"] = self._random.choice(("", "status", "scale", None, 1))
        return value

    def _other_value(self, _: Any, spot: Spot) -> None:
        holder, key = spot
        pool = self._pool.get(key) if isinstance(key, str) else None
        if not pool:
            pool = self._pool[self._random.choice(self._keys)]
        holder[key] = orjson.loads(self._random.choice(pool))

    def _scalar(self, _: Any, spot: Spot) -> None:
        spot[0][spot[1]] = self._anything()

    def _number(self, _: Any, spot: Spot) -> None:
        holder, key = spot
        found = holder[key]
        if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < _ANY_FLOAT:
            holder[key] = found + self._random.choice((-2, -1, 1, 2, 0.5))
        else:
            holder[key] = self._random.choice(_NUMBERS)

    def _remove(self, _: Any, spot: Spot) -> None:
        del spot[0][spot[1]]

    def _add_key(self, _: Any, spot: Spot) -> None:
        holder = spot[0][spot[1]]
        if not isinstance(holder, dict):
            holder = spot[0]
        if isinstance(holder, dict):
            key = self._random.choice(self._keys if self._random.random() < 0.7 else self._words)
            pool = self._pool.get(key)
            holder[key] = orjson.loads(self._random.choice(pool)) if pool else self._anything()
        else:
            holder.append(self._anything())

    def _repeat(self, _: Any, spot: Spot) -> None:
        holder, key = spot
        if isinstance(holder, list):
            times = self._random.choice((1, 1, 2, 9, 40))
            item = _written(holder[key])
            if item is not None and len(item) * times < MAX_BODY:
                holder.extend(orjson.loads(item) for _ in range(times))

    def _swap(self, root: Any, spot: Spot) -> None:
        """Swap two values, unless one is within the other."""
        holder, key = spot
        there, at = self._spot(root) or spot
        mine, theirs = holder[key], there[at]
        if not (isinstance(mine, dict | list) or isinstance(theirs, dict | list)) or there is holder:
            holder[key], there[at] = theirs, mine

    def _wrap(self, _: Any, spot: Spot) -> None:
        holder, key = spot
        value = holder[key]
        name = self._random.choice(self._keys)
        as_list = self._random.random() < 0.5
        for _ in range(self._random.choice((1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 5, 5, 30, 120, 260, 1100))):
            value = [value] if as_list else {name: value}
        holder[key] = value

    def _rename(self, _: Any, spot: Spot) -> None:
        holder, key = spot
        if isinstance(holder, dict):
            to = self._random.choice(self._words if self._random.random() < 0.8 else _STRINGS)
            holder[to] = holder.pop(key)

    def _within(self, _: Any, spot: Spot) -> None:
        """A change of a string: of the JSON that it holds, or of its characters."""
        holder, key = spot
        found = holder[key]
        if not isinstance(found, str):
            return
        try:
            inner = orjson.loads(found.encode("utf-8", "replace"))
        except orjson.JSONDecodeError:
            inner = None
        if isinstance(inner, dict | list):
            place = self._spot(inner)
            if place is not None:
                self._random.choice(self._edits[:-2])(inner, place)
            holder[key] = json.dumps(inner)
            return
        at = self._random.randrange(len(found) + 1)
        what = self._random.randrange(5)
        more = self._random.choice(_STRINGS if what % 2 else self._words)
        # One of: inserted, put behind, cut here, cut out, twice.
        made = (found[:at] + more + found[at:], found + more, found[:at], found[:at] + found[at + 1 :], found * 2)[what]
        holder[key] = made[:6000]

    def _anything(self) -> Any:
        what = self._random.randrange(10)
        if self._random.random() < 0.01:
            return self._random.choice(_POISON)
        if what < 3:
            return self._random.choice(self._words)
        if what < 5:
            return self._random.choice(_STRINGS)
        if what < 7:
            return self._random.choice(_NUMBERS)
        if what < 8 and self._keys:
            return orjson.loads(self._random.choice(self._pool[self._random.choice(self._keys)]))
        return self._random.choice(([], {}, None, True, False, [None], [[]], [{}], {"": None}, [""], {"a": {}}))

    # Bytes

    def _bytes(self, body: bytes) -> bytes:
        random = self._random
        made = bytearray(body)
        for _ in range(1 << random.randrange(4)):
            at = random.randrange(len(made) + 1)
            to = min(len(made), at + (1 << random.randrange(8)))
            what = random.randrange(7)
            if what == 0:
                made[at:at] = random.choice(_TOKENS)
            elif what == 1:
                made[at:to] = b""
            elif what == 2:
                made[at:at] = made[at:to]
            elif what == 3 and at < len(made):
                made[at] = random.randrange(256)
            elif what == 4:
                made[at:to] = random.choice(_TOKENS)
            elif what == 5:
                made[at:at] = random.choice(self._words).encode()
            elif what == 6 and random.random() < 0.2:
                del made[at:]
        return bytes(made[:MAX_BODY])


def spots(value: Any) -> Iterator[Spot]:
    """Every place in a value."""
    level = [value]
    while level:
        holder = level.pop()
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], dict | list):
                level.append(holder[key])


def _written(value: Any) -> bytes | None:
    """A value as JSON, None for one that cannot be written: half of a surrogate pair, or nested too deep."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return None


def _yaml(documents: list[Any], flow: bool | None) -> bytes:
    text: str = yaml.safe_dump_all(documents, default_flow_style=flow)
    return text.encode("utf-8", "surrogatepass")


def _objects(review: Any) -> list[Any]:
    """The new object of a review, twice, and the old one."""
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict):
        return []
    found = [request.get("object"), request.get("object"), request.get("oldObject")]
    return [one for one in found if isinstance(one, dict | list) and one]


def _inside(review: Any) -> Any:
    request = review.get("request") if isinstance(review, dict) else None
    return request.get("object") if isinstance(request, dict) else review
