"""The auditor: reads the audited kinds page by page and judges each object. No page is kept once it is judged.

Its clients go on after a failure; one requests the next page in advance, and one pauses for other work. The facts of
the cluster are read once. An audit beside other work runs on an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from webhook.cluster.client import Client, Page
from webhook.cluster.clock import MACHINE_CLOCK, Clock, doubled
from webhook.cluster.cluster_facts import Discovery
from webhook.cluster.logs import log
from webhook.config.settings import Settings, followed_projections
from webhook.errors import FactsUnavailable, Gone, NotFound, RequestFailed
from webhook.model.admission_request import ALLOWED, Verdict
from webhook.model.findings import Finding, Unjudged
from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.model.workload_record import OPTED_OUT
from webhook.offline.report import Selection
from webhook.operations.audit import EVERY_RULE, Audit, Judge, Listing, StoredKey, Tally, key_of, listings, results_in
from webhook.operations.cluster_facts import read_objects

T = TypeVar("T")


# How long a cancelled caller waits for the work to end.
CLOSE_SECONDS = 2.0


async def run_in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Returns the result of `work()`, which runs on an event loop in a thread of its own: nothing that it computes
    holds up the caller's loop for longer than Python switches threads. If the caller is cancelled, so is the work.
    """
    outcome: Future[T] = Future()
    ended: Future[None] = Future()
    loop, tasks = asyncio.new_event_loop(), list[asyncio.Task[T]]()

    async def noted() -> T:
        task = asyncio.current_task()
        if task is not None:
            tasks.append(task)
        if outcome.cancelled():
            raise asyncio.CancelledError
        try:
            return await work()
        finally:
            # Connections that were closed just now end in the next turn of the loop.
            await asyncio.sleep(0)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                result = runner.run(noted())
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            if outcome.set_running_or_notify_cancel():
                outcome.set_exception(error)
        else:
            if outcome.set_running_or_notify_cancel():
                outcome.set_result(result)
        finally:
            ended.set_result(None)

    threading.Thread(target=run, name="audit", daemon=True).start()
    try:
        return await asyncio.wrap_future(outcome)
    except asyncio.CancelledError:
        for task in tasks:
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        # What it closes is closed before the caller goes on.
        await asyncio.wait([asyncio.wrap_future(ended)], timeout=CLOSE_SECONDS)
        raise


# The first and the longest pause before a list goes on after a failure, and how often it does so.
RETRY_SECONDS = (0.5, 8.0)
TRIES = 6
# The largest share of the time in which an audit computes beside other work.
SHARE = 0.25
_TOO_MANY, _SERVER_ERROR = 429, 500


class PatientClient(Client):
    """A client whose lists go on after an answer that another try may change: no answer, 429, 5xx, and 410 if the
    version of the list has expired.
    """

    async def pages(self, *arguments: Any, **options: Any) -> AsyncGenerator[Page, None]:
        """Yields pages as `Client.pages` does. Raises `RequestFailed` after `TRIES` failures of one list."""
        async with aclosing(super().pages(*arguments, again=Retries().again, **options)) as pages:
            async for page in pages:
                yield page
                del page


class PrefetchingClient(PatientClient):
    """A patient client that requests the next page while its caller works on one: two pages are in memory."""

    async def pages(self, *arguments: Any, **options: Any) -> AsyncGenerator[Page, None]:
        """Yields pages as `PatientClient.pages` does. The caller lets the event loop run while it works on a page."""
        async with aclosing(super().pages(*arguments, **options)) as pages:
            ahead = asyncio.ensure_future(anext(pages, None))
            try:
                while (page := await ahead) is not None:
                    ahead = asyncio.ensure_future(anext(pages, None))
                    yield page
                    del page
            finally:
                if ahead.done() and not ahead.cancelled():
                    # Its failure is of no interest to a caller that has left.
                    ahead.exception()
                elif ahead.cancel():
                    # The pages are closed only after their last request has ended.
                    await asyncio.wait([ahead])


class PacedClient(PatientClient):
    """A patient client that pauses after each page, so that its thread computes for at most `SHARE` of the time."""

    async def pages(self, *arguments: Any, **options: Any) -> AsyncGenerator[Page, None]:
        """Yields pages as `PatientClient.pages` does."""
        begun = self._clock.processor()
        async with aclosing(super().pages(*arguments, **options)) as pages:
            async for page in pages:
                yield page
                del page
                # Also what the caller did with the page.
                await asyncio.sleep((self._clock.processor() - begun) * (1 / SHARE - 1))
                begun = self._clock.processor()


class Retries:
    """Whether one list goes on after a page that failed: a bounded number of times."""

    def __init__(self) -> None:
        self._failures = 0

    async def again(self, error: RequestFailed) -> bool:
        """Waits and returns True if the page may be requested once more."""
        if isinstance(error, Gone):
            # The list took longer than the API server keeps its version (about five minutes).
            return error.token is not None
        if error.code and error.code != _TOO_MANY and error.code < _SERVER_ERROR:
            return False
        self._failures += 1
        if self._failures > TRIES:
            return False
        await asyncio.sleep(max(doubled(RETRY_SECONDS, self._failures), error.wait or 0.0))
        return True


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """The served kinds, a judge for each of the settings, and the kinds of facts that could not be read, with the
    reason.
    """

    served: Mapping[Api, Resource]
    judges: Sequence[Judge]
    unread: Mapping[str, str]


async def read_facts(client: Client, *settings: Settings, clock: Clock = MACHINE_CLOCK) -> AuditFacts:
    """Returns what is known of the cluster, for judging by each of `settings`. Raises `FactsUnavailable`."""
    discovery = Discovery(client)
    try:
        await discovery.ask()
    except RequestFailed as error:
        raise FactsUnavailable(f"the cluster cannot be read: {error}") from None
    # What admission knows, so that both judge alike.
    projections = dict.fromkeys(
        projection for each in settings for projection in followed_projections(each, objects=True)
    )
    cluster_objects = await read_objects(client, projections, pods=False)
    # The API server has pruned the fields that it does not know.
    now = clock.now()
    judges = [Judge(replace(cluster_objects.facts(each.kinds), field_names=None), each, now) for each in settings]
    return AuditFacts(dict(discovery.resources), judges, cluster_objects.failed)


# Objects in one page. The client asks for fewer if their page is too large.
PAGE = 500
# Objects that are judged in one turn of the event loop: a millisecond each at most, if they are usual ones.
TURN = 10
# So many objects that could not be judged are named.
FAULTS_NAMED = 20


@dataclass(slots=True)
class Auditor:
    """Judges what is stored. With a second judge in `known`, both are compared.

    `progress` is called after each page, with what is listed and the objects read of it.
    """

    client: Client
    facts: AuditFacts
    selection: Selection = EVERY_RULE
    namespace: str | None = None
    page: int = PAGE
    progress: Callable[[str, int], None] = lambda _, __: None
    # Makes a tally, with its limits.
    empty: Callable[[], Tally] = Tally

    async def audit(self) -> Audit:
        """Returns the results for all kinds. A kind that cannot be listed is named in them."""
        compared = len(self.facts.judges) > 1
        results = Audit(self.empty(), self.empty() if compared else None, self.empty() if compared else None)
        results.unread.update(self.facts.unread)
        # Pods are recreated by their workloads, so what a switch means for them shows there.
        judges, served = self.facts.judges, self.facts.served
        every_listing = dict.fromkeys(
            listing for judge in judges for listing in listings(judge.settings, served, pods=not compared)
        )
        for listing in every_listing:
            if self.namespace is None or listing.resource.namespaced:
                await self._list(listing, results)
        return results

    async def _list(self, listing: Listing, audit: Audit) -> None:
        resource = listing.resource
        pages = self.client.pages(resource, namespace=self.namespace, selector=listing.selector, limit=self.page)
        try:
            async with aclosing(pages):
                async for page in pages:
                    await self._judge(page.items, resource.api, audit)
                    audit.read[resource.qualified] += len(page.items)
                    # Free the parsed page before the next one arrives.
                    del page
                    self.progress(resource.qualified, audit.read[resource.qualified])
        except NotFound:
            # The kind is gone since the served kinds were read.
            return
        except RequestFailed as error:
            audit.unlisted[resource.qualified] = str(error)

    async def _judge(self, items: Iterable[Manifest], api: Api, audit: Audit) -> None:
        for number, raw in enumerate(items):
            if number % TURN == 0:
                # The client may read the next page.
                await asyncio.sleep(0)
            key = key_of(raw, api)
            try:
                self._judge_one(raw, api, key, audit)
            except Exception:  # noqa: BLE001 - one object must not keep all others from being judged
                audit.faults += 1
                if len(audit.faulty) < FAULTS_NAMED:
                    audit.faulty.append(key)
                if audit.faults.bit_count() == 1:
                    # At 1, 2, 4, 8 and so on.
                    log.exception("stored object not judged", kind=key.kind, name=f"{key.namespace}/{key.name}")

    def _judge_one(self, raw: Manifest, api: Api, key: StoredKey, audit: Audit) -> None:
        first, *others = self.facts.judges
        before = first.verdict(raw, api)
        if not others:
            if before is not None:
                audit.today.add(key, before, results_in(before, self.selection))
            return
        after = _second(others[0], before, raw, api)
        if before is None and after is None:
            return
        self._compare(key, before or ALLOWED, after or ALLOWED, audit)

    def _compare(self, key: StoredKey, before: Verdict, after: Verdict, audit: Audit) -> None:
        if audit.new is None or audit.gone is None:
            return
        old, new = list(results_in(before, self.selection)), list(results_in(after, self.selection))
        audit.today.add(key, before, old)
        audit.new.add(key, after, _difference(new, old))
        audit.gone.add(key, before, _difference(old, new))
        audit.newly_refused += before.allowed and not after.allowed
        audit.newly_allowed += after.allowed and not before.allowed


def _second(judge: Judge, before: Verdict | None, raw: Manifest, api: Api) -> Verdict | None:
    """Returns the second judge's verdict. If it forces a scheduler, objects that are no gang today stay none."""
    if judge.settings.forced is not None and (before is None or before.scheduler in {None, OPTED_OUT}):
        return before
    return judge.verdict(raw, api)


def _difference(some: Iterable[Finding | Unjudged], others: Iterable[Finding | Unjudged]) -> list[Finding | Unjudged]:
    """Returns those of `some` that are not in `others`, each as often as it is not there."""
    left = Counter(map(_identity, others))
    remaining = []
    for finding in some:
        identity = _identity(finding)
        if left[identity]:
            left[identity] -= 1
        else:
            remaining.append(finding)
    return remaining


def _identity(finding: Finding | Unjudged) -> tuple[str, ...]:
    if isinstance(finding, Unjudged):
        return ("", finding.rule, finding.at.anchor)
    return (str(finding.action), *finding.identity)
