"""Audits what is stored, from time to time, and keeps a Report of openreports.io in each namespace with findings.

The leader does it, in a task of its own. It reads and judges in a thread with pauses, so gangs do not wait for it.
Only the differences are written: a report that has changed, and the deletion of one whose namespace has no finding any
more. A namespace may refuse its report, such as by a quota. It is counted, and the audit has not failed unless reports
cannot be written at all: a tenant must not be able to keep an alert firing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

import httpx

from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock, doubled
from webhook.cluster.logs import log, outline
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, NotFound, NotLeading, RequestFailed
from webhook.gangs.object_plan import add_digest, holds
from webhook.model.gang_objects import REPORT_NAME, REPORTS, is_rollcall_report
from webhook.model.keys import Api
from webhook.model.projections import key_of
from webhook.model.reading import Manifest
from webhook.operations.audit import Audit, KeptFinding, Tally
from webhook.operations.audit_forms import report_of, reports, tally_for_reports
from webhook.operations.auditor import Auditor, PacedClient, Retries, read_facts, run_in_thread
from webhook.reconciler.metrics import ACTIONS, AuditMetrics
from webhook.reconciler.writer import Writer

# How soon a change of the leader is noticed.
LOOK_SECONDS = 1.0
# The first and the longest pause after an audit that failed: doubled each time.
RETRY_SECONDS = (30.0, 1800.0)
# An audit that is due waits for gangs to be written, at most this long.
WAIT_SECONDS = 600.0
# The longest time for one audit with its reports.
MOST_SECONDS = 3600.0
# So many namespaces whose report is another program's, or could not be written, are named.
NAMED = 10
# Where it is tried whether reports can be written at all: it always exists, and belongs to no tenant.
DEFAULT_NAMESPACE = "default"

# Why the report of a namespace was not written. An error would keep what it was raised with, such as a large report.
_Unwritten = dict[str, str]


class AuditReports:
    """The audits of one process."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        settings: Settings,
        access: Access,
        client: Client,
        writer: Writer,
        metrics: AuditMetrics,
        leads: Callable[[], bool],
        *,
        served: Callable[[], frozenset[Api] | None],
        idle: Callable[[], bool],
        only: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`served` are the kinds that the cluster serves, None before they are known. `idle` is whether no gang waits
        to be written. `only` is the one namespace that is audited, None for all.
        """
        self._settings = settings
        self._access = access
        self._client = client
        self._writer = writer
        self._metrics = metrics
        self._leads = leads
        self._served = served
        self._idle = idle
        self._only = only
        self._transport = transport
        self._clock = clock
        # When the next audit is due; None while this process does not lead.
        self._due: float | None = None
        self._failures = 0
        self._said_unserved = False

    async def run(self) -> None:
        """Audits from time to time while this process leads, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._leads():
                self._due, self._failures = None, 0
                self._metrics.clear()
            elif self._due is None:
                self._due = self._clock.monotonic()
            else:
                late = self._clock.monotonic() - self._due
                if (late >= WAIT_SECONDS or (late >= 0 and self._idle())) and self._is_served():
                    await self.audit()

    def _is_served(self) -> bool:
        served = self._served()
        is_served = served is not None and REPORTS.api in served
        if served is not None and not is_served and not self._said_unserved:
            log.warning("no audit", why=f"the cluster does not serve {REPORTS.qualified}", remedy="install its CRD")
        self._said_unserved = served is not None and not is_served
        return is_served

    async def audit(self) -> None:
        """Audits once and writes the reports. If anything fails, it is tried again later."""
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(MOST_SECONDS):
                outcome, listed = await run_in_thread(self._audited)
                if outcome.unlisted:
                    # Without some kinds, reports would lose results.
                    self._fail("; ".join(f"{kind}: {why}" for kind, why in sorted(outcome.unlisted.items())))
                    return
                unwritten = await self._write(outcome.today, listed)
                if unwritten and not await self._is_possible():
                    self._fail(f"reports cannot be written: {_first(unwritten)}")
                    return
        except NotLeading:
            return
        except TimeoutError:
            self._fail(f"not finished within {MOST_SECONDS:g} s")
        except (RequestFailed, FactsUnavailable) as error:
            self._fail(outline(error), getattr(error, "wait", None) or 0.0)
        except Exception:  # noqa: BLE001 - a fault of ours in an audit must keep no gang from its objects
            log.exception("audit failed")
            self._fail("an internal error")
        else:
            self._show(outcome.today, self._clock.monotonic() - begun, unwritten)

    async def _audited(self) -> tuple[Audit, Mapping[str, list[KeptFinding]]]:
        """Returns the audit, and what each namespace's report lists. It runs in a thread: findings are many."""
        client = PacedClient(self._access, self._transport, clock=self._clock)
        try:
            auditor = Auditor(
                client,
                await read_facts(client, self._settings, clock=self._clock),
                namespace=self._only,
                progress=self._require_lead,
                empty=tally_for_reports,
            )
            audit = await auditor.audit()
            return audit, dict(reports(audit.today))
        finally:
            await client.close()

    def _require_lead(self, _: str, __: int) -> None:
        if not self._leads():
            raise NotLeading

    async def _write(self, tally: Tally, listed: Mapping[str, list[KeptFinding]]) -> _Unwritten:
        """Makes the stored reports those of `listed`. Raises `RequestFailed` if they cannot be listed."""
        seen, foreign, unwritten = set[str](), set[str](), _Unwritten()
        async with aclosing(self._stored()) as stored:
            # A tenant may have written a large report with Rollcall's label, so none is kept.
            async for live in stored:
                namespace, _ = key_of(live)
                if namespace in seen:
                    continue
                seen.add(namespace)
                if is_rollcall_report(live):
                    await self._put(namespace, listed.get(namespace), tally, live, unwritten)
                else:
                    foreign.add(namespace)
        for namespace in sorted(listed.keys() - seen):
            await self._put(namespace, listed[namespace], tally, None, unwritten)
        if foreign:
            names = ", ".join(sorted(foreign)[:NAMED])
            log.warning("reports left alone", why="another program wrote them", name=REPORT_NAME, namespaces=names)
        return unwritten

    async def _put(
        self,
        namespace: str,
        kept: Sequence[KeptFinding] | None,
        tally: Tally,
        live: Manifest | None,
        unwritten: _Unwritten,
    ) -> None:
        """Writes the report of one namespace if it differs, or deletes it."""
        # Let other tasks run.
        await asyncio.sleep(0)
        try:
            if kept is not None:
                report = add_digest(report_of(namespace, kept, tally, live, self._clock.now()))
                if live is None or not holds(report, live):
                    await self._writer.apply(REPORTS, report)
            elif live is not None:
                await self._writer.delete(REPORTS, live)
        except NotFound:
            # The namespace is gone meanwhile.
            return
        except RequestFailed as error:
            unwritten[namespace] = outline(error)

    async def _is_possible(self) -> bool:
        """Returns whether the API server would accept a report in a namespace that no tenant can close to it. What it
        refuses elsewhere is then up to those namespaces.
        """
        report = report_of(self._only or DEFAULT_NAMESPACE, (), Tally(), None, self._clock.now())
        try:
            await self._writer.rehearse(REPORTS, add_digest(report))
        except RequestFailed:
            return False
        return True

    async def _stored(self) -> AsyncGenerator[Manifest, None]:
        """Yields the reports of Rollcall's name, one page after the other. Raises `RequestFailed`."""
        selector = {"fieldSelector": f"metadata.name={REPORT_NAME}"}
        pages = self._client.pages(REPORTS, namespace=self._only, selector=selector, again=Retries().again)
        async with aclosing(pages):
            async for page in pages:
                for raw in page.items:
                    yield raw
                del page

    def _show(self, tally: Tally, seconds: float, unwritten: _Unwritten) -> None:
        pause = self._settings.auditing.every.total_seconds()
        self._failures = self._failures + 1 if unwritten else 0
        if unwritten:
            pause = min(pause, doubled(RETRY_SECONDS, self._failures))
            if self._failures.bit_count() == 1:
                names = ", ".join(sorted(unwritten)[:NAMED])
                log.warning(
                    "reports not written",
                    count=len(unwritten),
                    namespaces=names,
                    why=_first(unwritten),
                    name=REPORT_NAME,
                )
        self._due = self._clock.monotonic() + pause
        self._metrics.failing.set(0)
        self._metrics.unwritten.set(len(unwritten))
        self._metrics.seconds.set(seconds)
        self._metrics.finished.set(self._clock.now().timestamp())
        counts = {action: tally.total(action) for action in ACTIONS}
        for action, count in counts.items():
            self._metrics.findings.labels(action).set(count)
        log.info("audited", objects=tally.judged.total(), refused=tally.refused, **counts, seconds=round(seconds, 1))

    def _fail(self, why: str, wait: float = 0.0) -> None:
        self._failures += 1
        self._due = self._clock.monotonic() + max(doubled(RETRY_SECONDS, self._failures), wait)
        self._metrics.failing.set(1)
        if self._failures.bit_count() == 1:
            # At 1, 2, 4, 8 and so on.
            log.warning("audit did not finish", why=why, failures=self._failures)


def _first(unwritten: _Unwritten) -> str:
    return ": ".join(min(unwritten.items()))
