"""From a review's bytes to those of its answer: a decision that stops where it needs facts that must be read live.

It reads no clock and awaits nothing. The event loop takes a small review through it; a large one goes to a thread, and
the loop reads what it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator
from dataclasses import replace
from typing import NamedTuple

from webhook.errors import FactsUnavailable
from webhook.logs import log, outline
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed
from webhook.required_facts import in_doubt, required_facts
from webhook.server.review import Decode, read_review, write_review, written_patch
from webhook.settings import Settings

Decision = Callable[[Request, ClusterFacts, Settings], Verdict]

# What is read may name the next that is missing: a group, the one above it, and so on to the root of a tree.
MAX_READ = 8


class Question(NamedTuple):
    """What is to be read live, and what is known already. The answer is all of it together."""

    needed: list[Needed]
    facts: ClusterFacts


class Deliberation:
    """One review. `advance` until it asks nothing more; then `written` is the answer."""

    __slots__ = (
        "_decide",
        "_doubted",
        "_endpoint",
        "_facts",
        "_settings",
        "_steps",
        "patch",
        "request",
        "verdict",
        "written",
    )

    def __init__(
        self,
        endpoint: str,
        decide: Decision,
        settings: Settings,
        facts: Callable[[], ClusterFacts],
        doubted: Container[str] | None,
    ) -> None:
        """`doubted` are the parts of the facts that may be out of date; None where nothing can be read live."""
        self.request: Request | None = None
        self.verdict = ALLOWED
        self.patch = self.written = b""
        self._endpoint = endpoint
        self._decide = decide
        self._settings = settings
        self._facts = facts
        self._doubted = doubted
        self._steps: Generator[Question, ClusterFacts, None] | None = None

    def begin(self, body: bytes, decode: Decode) -> Question | None:
        """Read the review, and decide. Raises `ReviewError`, `TooManyValues`, and what `advance` does."""
        api_version, self.request = read_review(body, decode)
        if self._doubted is None:
            # Nothing can be read live.
            self._conclude(api_version, self.request, self._decide(self.request, self._facts(), self._settings))
            return None
        self._steps = self._deliberate(api_version, self.request, self._doubted)
        return self.advance(None)

    def advance(self, answer: ClusterFacts | FactsUnavailable | None) -> Question | None:
        """Go on with the answer to the last question; the next question, or None at the end. Raises
        `FactsUnavailable`.
        """
        steps = self._steps
        if steps is None:
            return None
        try:
            if isinstance(answer, FactsUnavailable):
                return steps.throw(answer)
            return next(steps) if answer is None else steps.send(answer)
        except StopIteration:
            return None

    def forget(self) -> None:
        """Let go of the review, also where it was not decided to the end."""
        self.request = self._steps = None

    def _deliberate(
        self, api_version: str, request: Request, doubted: Container[str]
    ) -> Generator[Question, ClusterFacts, None]:
        facts = self._facts()
        if "pod_gangs" in doubted:
            # Whether a gang lives is asked before its record may change; what was known is no answer any more.
            facts = replace(facts, pod_gangs=None)
        if needed := required_facts(request, facts, doubted):
            facts = yield Question(list(needed), facts)
        verdict = self._decide(request, facts, self._settings)
        self._conclude(api_version, request, (yield from self._without_doubt(verdict, request, facts)))

    def _conclude(self, api_version: str, request: Request, verdict: Verdict) -> None:
        self.verdict = verdict
        self.patch = written_patch(verdict)
        self.written = write_review(api_version, request, verdict, self.patch)

    def _without_doubt(
        self, verdict: Verdict, request: Request, facts: ClusterFacts
    ) -> Generator[Question, ClusterFacts, Verdict]:
        """The verdict after what it rests on was read live; what is read may be found wrong for want of more."""
        read: set[Needed] = set()
        while len(read) < MAX_READ and (doubts := set(in_doubt(verdict)) - read):
            read |= doubts
            try:
                facts = yield Question(sorted(doubts, key=str), facts)
            except FactsUnavailable as error:
                if not verdict.allowed:
                    raise
                # A warning that may be out of date is no reason to stop anybody.
                log.warning("not read before a warning", endpoint=self._endpoint, why=outline(error))
                break
            verdict = self._decide(request, facts, self._settings)
        return verdict
