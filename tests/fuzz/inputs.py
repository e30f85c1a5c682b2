"""The inputs of the fuzzer: one body to one path of one world; and a corpus of inputs, one JSON line each."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

# The smallest inputs found that reach what the seeds do not.
CORPUS = Path(__file__).with_name("corpus.jsonl")

VALIDATE, MUTATE, CHECK, EXPLAIN = "/validate", "/mutate", "/check", "/capabilities"
REVIEWED = (VALIDATE, MUTATE)


class Input(NamedTuple):
    """One call. `parts` is the number of messages in which the body arrives."""

    world: str
    path: str
    body: bytes
    query: str = ""
    parts: int = 1

    def line(self) -> str:
        """As a line of a corpus; a body that is no UTF-8 in base64."""
        try:
            body = {"body": self.body.decode()}
        except UnicodeDecodeError:
            body = {"base64": base64.b64encode(self.body).decode()}
        said = {"world": self.world, "path": self.path, "query": self.query, "parts": self.parts, **body}
        return json.dumps({key: value for key, value in said.items() if value not in {"", 1}})

    @classmethod
    def of_line(cls, line: str) -> Input:
        """The input that a line of a corpus holds."""
        said = json.loads(line)
        body = base64.b64decode(said["base64"]) if "base64" in said else said.get("body", "").encode()
        return cls(said["world"], said["path"], body, said.get("query", ""), said.get("parts", 1))


def read_corpus(path: Path = CORPUS) -> list[Input]:
    """The inputs of a corpus; none where there is no such file."""
    return [Input.of_line(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_corpus(inputs: Iterable[Input], path: Path = CORPUS) -> None:
    """Keep inputs as a corpus, in an order that does not depend on when each was found."""
    path.write_text("".join(f"{line}\n" for line in sorted(found.line() for found in inputs)))
