"""From the bytes of a review to the bytes of its answer: a decision that pauses for facts that must be read live.

It reads no clock and awaits nothing. The event loop runs a small review; a thread runs a large one, and the event loop
reads the facts that it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from webhook.admission.live_reads import in_doubt, required_facts
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed
from webhook.server.review import Decode, read_review, write_review, written_patch
from webhook.telemetry.logs import log, outline

Decision = Callable[[Request, ClusterFacts, Settings], Verdict]
# What shadows say of a request and its verdict, as audit annotations.
Shadowing = Callable[[Request, Verdict, ClusterFacts], Mapping[str, str]]

# A fact that was read may name the next missing one: a group, its parent, and so on to the root of a tree.
MAX_READ = 8


class Question(NamedTuple):
    """The facts to read live, and the known facts. The answer is both together."""

    needed: list[Needed]
    facts: ClusterFacts


class Deliberation:
    """One review. Call `advance` until it asks nothing more; then `written` is the answer."""

    __slots__ = (
        "_decide",
        "_doubted",
        "_endpoint",
        "_facts",
        "_now",
        "_settings",
        "_shadows",
        "_steps",
        "patch",
        "request",
        "verdict",
        "written",
    )

    def __init__(  # noqa: PLR0913 - what it decides by, and when
        self,
        endpoint: str,
        decide: Decision,
        settings: Settings,
        facts: Callable[[], ClusterFacts],
        doubted: Container[str] | None,
        *,
        now: datetime | None = None,
        shadows: Shadowing | None = None,
    ) -> None:
        """`doubted` are the parts of the facts that may be out of date; None if nothing can be read live. `now` is when
        the review was received. `shadows` is called once, with the final verdict.
        """
        self.request: Request | None = None
        self.verdict = ALLOWED
        self.patch = self.written = b""
        self._endpoint = endpoint
        self._decide = decide
        self._settings = settings
        self._facts = facts
        self._doubted = doubted
        self._now = now
        self._shadows = shadows
        self._steps: Generator[Question, ClusterFacts, None] | None = None

    def begin(self, body: bytes, decode: Decode) -> Question | None:
        """Read the review and decide. Raises `ReviewError`, `TooManyValues`, and the errors of `advance`."""
        api_version, self.request = read_review(body, decode, self._now)
        if self._doubted is None:
            # Nothing can be read live.
            facts = self._facts()
            self._conclude(api_version, self.request, self._decide(self.request, facts, self._settings), facts)
            return None
        self._steps = self._deliberate(api_version, self.request, self._doubted)
        return self.advance(None)

    def advance(self, answer: ClusterFacts | FactsUnavailable | None) -> Question | None:
        """Continue with the answer to the last question. Return the next question, or None at the end. Raises
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
        """Free the review, even if it was not decided."""
        self.request = self._steps = None

    def _deliberate(
        self, api_version: str, request: Request, doubted: Container[str]
    ) -> Generator[Question, ClusterFacts, None]:
        facts = self._facts()
        if "pod_gangs" in doubted:
            # A record may change only if its gang does not exist, so the outdated list of gangs is not used.
            facts = replace(facts, pod_gangs=None)
        if needed := required_facts(request, facts, doubted, self._settings.kinds):
            facts = yield Question(list(needed), facts)
        verdict = self._decide(request, facts, self._settings)
        verdict, facts = yield from self._without_doubt(verdict, request, facts)
        self._conclude(api_version, request, verdict, facts)

    def _conclude(self, api_version: str, request: Request, verdict: Verdict, facts: ClusterFacts) -> None:
        self.verdict = verdict
        self.patch = written_patch(verdict)
        notes = {} if self._shadows is None else self._shadows(request, verdict, facts)
        self.written = write_review(api_version, request, verdict, self.patch, notes)

    def _without_doubt(
        self, verdict: Verdict, request: Request, facts: ClusterFacts
    ) -> Generator[Question, ClusterFacts, tuple[Verdict, ClusterFacts]]:
        """Return the verdict after its facts were read live, and the facts. The facts that were read may show that more
        are needed.
        """
        read: set[Needed] = set()
        while len(read) < MAX_READ and (doubts := set(in_doubt(verdict)) - read):
            read |= doubts
            try:
                facts = yield Question(sorted(doubts, key=str), facts)
            except FactsUnavailable as error:
                if not verdict.allowed:
                    raise
                # A warning that may be out of date must not block the request.
                log.warning("not read before a warning", endpoint=self._endpoint, why=outline(error))
                break
            verdict = self._decide(request, facts, self._settings)
        return verdict, facts
