"""Read the audited kinds page by page and judge each object. No page is kept once it is judged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from webhook.audit.facts import Known
from webhook.audit.kinds import Listing, listings
from webhook.audit.results import Audit
from webhook.audit.stored import Judge, StoredKey, key_of
from webhook.audit.tally import EVERY_RULE, Tally, results_in
from webhook.cluster.client import Client
from webhook.errors import NotFound, RequestFailed
from webhook.model.admission_request import ALLOWED, Verdict
from webhook.model.findings import Finding, Unjudged
from webhook.model.keys import Api
from webhook.model.reading import Manifest
from webhook.model.record import OPTED_OUT
from webhook.offline.report import Selection
from webhook.telemetry.logs import log

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
    known: Known
    selection: Selection = EVERY_RULE
    namespace: str | None = None
    page: int = PAGE
    progress: Callable[[str, int], None] = lambda _, __: None
    # Makes a tally, with its limits.
    empty: Callable[[], Tally] = Tally

    async def audit(self) -> Audit:
        """Return the results for all kinds. A kind that cannot be listed is named in them."""
        compared = len(self.known.judges) > 1
        found = Audit(self.empty(), self.empty() if compared else None, self.empty() if compared else None)
        found.unread.update(self.known.unread)
        # Pods are recreated by their workloads, so what a switch means for them shows there.
        judges, served = self.known.judges, self.known.served
        wanted = dict.fromkeys(one for judge in judges for one in listings(judge.settings, served, pods=not compared))
        for listing in wanted:
            if self.namespace is None or listing.resource.namespaced:
                await self._list(listing, found)
        return found

    async def _list(self, listing: Listing, found: Audit) -> None:
        resource = listing.resource
        pages = self.client.pages(resource, namespace=self.namespace, selector=listing.selector, limit=self.page)
        try:
            async with aclosing(pages):
                async for page in pages:
                    await self._judge(page.items, resource.api, found)
                    found.read[resource.qualified] += len(page.items)
                    # Free the parsed page before the next one arrives.
                    del page
                    self.progress(resource.qualified, found.read[resource.qualified])
        except NotFound:
            # The kind is gone since the served kinds were read.
            return
        except RequestFailed as error:
            found.unlisted[resource.qualified] = str(error)

    async def _judge(self, items: Iterable[Manifest], api: Api, found: Audit) -> None:
        for number, raw in enumerate(items):
            if number % TURN == 0:
                # The client may read the next page.
                await asyncio.sleep(0)
            key = key_of(raw, api)
            try:
                self._judge_one(raw, api, key, found)
            except Exception:  # noqa: BLE001 - one object must not keep all others from being judged
                found.faults += 1
                if len(found.faulty) < FAULTS_NAMED:
                    found.faulty.append(key)
                if found.faults.bit_count() == 1:
                    # At 1, 2, 4, 8 and so on.
                    log.exception("stored object not judged", kind=key.kind, name=f"{key.namespace}/{key.name}")

    def _judge_one(self, raw: Manifest, api: Api, key: StoredKey, found: Audit) -> None:
        first, *others = self.known.judges
        before = first.verdict(raw, api)
        if not others:
            if before is not None:
                found.today.add(key, before, results_in(before, self.selection))
            return
        after = _second(others[0], before, raw, api)
        if before is None and after is None:
            return
        self._compare(key, before or ALLOWED, after or ALLOWED, found)

    def _compare(self, key: StoredKey, before: Verdict, after: Verdict, found: Audit) -> None:
        if found.new is None or found.gone is None:
            return
        old, new = list(results_in(before, self.selection)), list(results_in(after, self.selection))
        found.today.add(key, before, old)
        found.new.add(key, after, _without(new, old))
        found.gone.add(key, before, _without(old, new))
        found.newly_refused += before.allowed and not after.allowed
        found.newly_allowed += after.allowed and not before.allowed


def _second(judge: Judge, before: Verdict | None, raw: Manifest, api: Api) -> Verdict | None:
    """Return the verdict of the second judge. If it judges everything for one scheduler, objects that are no gang today
    stay none.
    """
    if judge.settings.forced is not None and (before is None or before.scheduler in {None, OPTED_OUT}):
        return before
    return judge.verdict(raw, api)


def _without(some: Iterable[Finding | Unjudged], others: Iterable[Finding | Unjudged]) -> list[Finding | Unjudged]:
    """Return those of `some` that are not in `others`, each as often as it is not there."""
    left = Counter(map(_identity, others))
    found = []
    for one in some:
        identity = _identity(one)
        if left[identity]:
            left[identity] -= 1
        else:
            found.append(one)
    return found


def _identity(found: Finding | Unjudged) -> tuple[str, ...]:
    if isinstance(found, Unjudged):
        return ("", found.rule, found.at.anchor)
    return (str(found.action), *found.identity)
