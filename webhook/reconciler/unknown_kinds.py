"""Counts the pods that should be in a gang, but whose controller is of a kind that Rollcall does not know.

No label tells these pods from all others, and a watch on every pod of a cluster would cost more than the count is
worth. So the leader lists, once every few minutes, those that may be such pods. It keeps numbers and no objects.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from typing import NamedTuple

from webhook.admission.pod_admission import rules_about, unknown_owner
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock, doubled
from webhook.cluster.logs import log, outline
from webhook.cluster.requests import LIVING
from webhook.config.settings import Settings
from webhook.errors import NotLeading, RequestFailed
from webhook.gangs.escapes import Escape
from webhook.installation.webhooks import NEVER_HERE
from webhook.model import grove
from webhook.model.bounds import share_of
from webhook.model.facts import ClusterFacts
from webhook.model.known_kinds import PODS
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import UnknownOwner
from webhook.workloads.opted_in_gang import GANG_LABEL

# How soon a change of the leader is noticed.
LOOK_SECONDS = 1.0
# The pause between two counts. A kind is declared by a person, so minutes are soon enough.
PERIOD_SECONDS = 300.0
# The first and the longest pause after a count that failed: doubled each time.
RETRY_SECONDS = (10.0, PERIOD_SECONDS)
# The longest time for one count. A hundred thousand pods are a thousand pages.
MOST_SECONDS = 600.0
# A tenant may write any kind into an ownerReference of a pod. So many kinds are counted one by one, with so much of
# their names, and so many are named in the log. The pods of one namespace bring its share of them at most.
KINDS_KEPT = 100
NAME_CHARACTERS = 80
NAMED = 10

_WITHOUT_GANG = f"!{GANG_LABEL},!{grove.LABEL_PODGANG}"
_REMEDY = "declare each kind by a WorkloadShape: `rollcall shapes init KIND --from-crd FILE` drafts one"


class PodList(NamedTuple):
    """One list of pods: of one namespace or of all, with its selectors."""

    namespace: str | None
    fields: str = LIVING
    labels: str = _WITHOUT_GANG

    @property
    def selector(self) -> dict[str, str]:
        """The parameters of the request."""
        return {"labelSelector": self.labels, "fieldSelector": self.fields}


class UnknownKindTally:
    """Numbers of pods, by scheduler and by kind."""

    def __init__(self) -> None:
        self.schedulers: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        # How many kinds the pods of each namespace brought.
        self._brought: Counter[str] = Counter()
        # Pods of further kinds.
        self._besides = 0

    def add(self, owner: UnknownOwner, scheduler: str, namespace: str) -> None:
        """Counts one pod."""
        self.schedulers[scheduler] += 1
        controller = owner.controller
        kind = f"{controller.kind[:NAME_CHARACTERS]}.{controller.group[:NAME_CHARACTERS]}".rstrip(".")
        if kind in self._kinds:
            self._kinds[kind] += 1
        elif len(self._kinds) < KINDS_KEPT and self._brought[namespace] < share_of(KINDS_KEPT):
            self._brought[namespace] += 1
            self._kinds[kind] += 1
        else:
            self._besides += 1

    def __str__(self) -> str:
        """The most frequent kinds, with the number of their pods."""
        every = sorted(self._kinds.items(), key=lambda entry: (-entry[1], entry[0]))
        texts = [f"{kind}: {count}" for kind, count in every[:NAMED]]
        others = sum(count for _, count in every[NAMED:]) + self._besides
        return ", ".join([*texts, f"other kinds: {others}"] if others else texts)


class UnknownKinds:
    """The number of such pods, as the leader last counted them."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        settings: Settings,
        client: Client,
        facts: Callable[[], ClusterFacts],
        metrics: ReconcilerMetrics,
        leads: Callable[[], bool],
        *,
        only: str | None = None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`only` is the one namespace whose pods are counted, None for all."""
        self._settings = settings
        self._client = client
        self._facts = facts
        self._metrics = metrics
        self._leads = leads
        self._clock = clock
        self._only = only
        # Pods of gang schedulers are found by these.
        self._scheduler_names = tuple(name for name in settings.profiles if name != DEFAULT_SCHEDULER)
        # Where no pod is judged.
        self._outside = frozenset((*NEVER_HERE, *settings.registration.excluded_namespaces))
        self._due = 0.0
        self._failures = 0
        self._reported = ""
        # Whether there may be a count to take back.
        self._counted = True

    async def run(self) -> None:
        """Counts from time to time while this process leads, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._leads():
                self._counted = True
                if self._facts().namespaces is not None and self._clock.monotonic() >= self._due:
                    await self.look()
            elif self._counted:
                self._counted, self._due, self._failures, self._reported = False, 0.0, 0, ""
                self._metrics.uncounted.set(0)
                self._show(UnknownKindTally())

    async def look(self) -> None:
        """Counts once. If a list fails, the last count stays. Another leader ends the count."""
        try:
            async with asyncio.timeout(MOST_SECONDS):
                tally = await self._count()
        except NotLeading:
            return
        except TimeoutError:
            self._fail(f"not listed within {MOST_SECONDS:g} s")
        except RequestFailed as error:
            self._fail(outline(error), error.wait or 0.0)
        except Exception:  # noqa: BLE001 - a fault of ours with a count must keep no gang from its objects
            log.exception("pods of unknown kinds not counted")
            self._fail("an internal error")
        else:
            self._failures, self._due = 0, self._clock.monotonic() + PERIOD_SECONDS
            self._metrics.uncounted.set(0)
            self._show(tally)
            self._say(str(tally), tally.schedulers.total())

    def _fail(self, why: str, wait: float = 0.0) -> None:
        self._failures += 1
        self._due = self._clock.monotonic() + max(doubled(RETRY_SECONDS, self._failures), wait)
        self._metrics.uncounted.set(1)
        if self._failures.bit_count() == 1:
            # At 1, 2, 4, 8 and so on.
            log.warning("pods of unknown kinds not counted", why=why, failures=self._failures)

    def _show(self, tally: UnknownKindTally) -> None:
        for scheduler in self._metrics.schedulers:
            self._metrics.escaped.labels(scheduler, Escape.UNKNOWN_KIND.value).set(tally.schedulers[scheduler])

    def _say(self, kinds: str, count: int) -> None:
        if kinds == self._reported:
            return
        self._reported = kinds
        if count:
            log.warning("pods of unknown kinds", kinds=kinds, count=count, remedy=_REMEDY)
        else:
            log.info("no pods of unknown kinds any more")

    # No pod is in two of the lists, so none has to be remembered.

    async def _count(self) -> UnknownKindTally:
        tally = UnknownKindTally()
        whole = frozenset(self._opted_in())
        for pod_list in self._lists(whole):
            elsewhere = frozenset() if pod_list.namespace in whole else whole
            pages = self._client.pages(PODS, namespace=pod_list.namespace, selector=pod_list.selector)
            async with aclosing(pages):
                async for page in pages:
                    self._judge(page.items, elsewhere, tally)
                    # Free the parsed page before the next one arrives, and let other tasks run.
                    del page
                    await asyncio.sleep(0)
                    if not self._leads():
                        raise NotLeading
        return tally

    def _opted_in(self) -> Iterator[str]:
        """Yields the namespaces of which every pod is listed."""
        for name, namespace in (self._facts().namespaces or {}).items():
            if namespace.labels.get(SCHEDULER_LABEL, OPTED_OUT) != OPTED_OUT and self._judges_in(name):
                yield name

    def _judges_in(self, namespace: str) -> bool:
        return namespace not in self._outside and self._only in {None, namespace}

    def _lists(self, whole: frozenset[str]) -> Iterator[PodList]:
        """Yields the namespaces `whole`; elsewhere the pods that name a gang scheduler or have the label."""
        for namespace in sorted(whole):
            yield PodList(namespace)
        for name in self._scheduler_names:
            yield PodList(self._only, f"{LIVING},spec.schedulerName={name}")
        fields = (LIVING, *(f"spec.schedulerName!={name}" for name in self._scheduler_names))
        yield PodList(self._only, ",".join(fields), f"{SCHEDULER_LABEL},{_WITHOUT_GANG}")

    def _judge(self, pods: Iterable[Manifest], elsewhere: frozenset[str], tally: UnknownKindTally) -> None:
        """Counts those of `pods` that should be in a gang, except in `elsewhere`, which have their own lists."""
        facts = self._facts()
        for raw in pods:
            try:
                pod = Pod(raw)
                leaving = mapping(raw.get("metadata")).get("deletionTimestamp") is not None
                if leaving or pod.namespace in elsewhere or not self._judges_in(pod.namespace):
                    continue
                owner = unknown_owner(pod, facts, self._settings)
            except Malformed:
                # The API server stores no such pod.
                continue
            if owner is not None and rules_about(owner, None, pod.namespace, facts, self._settings)[1]:
                tally.add(owner, self._metrics.scheduler(owner.opted_in_by), pod.namespace)
