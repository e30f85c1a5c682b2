"""Kinds are listed page by page; what fails of one kind or object leaves the others judged."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.unit.cluster.scripted import Script, Step, failure, listed
from tests.unit.operations.stored_objects import FACTS, RULE, SETTINGS, judge, stored_set
from tests.unit.reconciler.running_reconciler import NOWHERE
from tests.unit.worlds import three_schedulers
from tests.waiting import turns
from webhook.config.defaults import force_scheduler
from webhook.config.settings import Enforcement, Settings
from webhook.model.findings import Action
from webhook.model.keys import Api
from webhook.model.known_kinds import JOBS, PODS
from webhook.model.projections import POD_CLIQUE_SETS, Resource
from webhook.operations import auditor
from webhook.operations.audit import Audit, Judge, listings
from webhook.operations.auditor import TURN, AuditFacts, Auditor, PatientClient, PrefetchingClient

GROUPS = Resource(Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup"), "podgroups")
SERVED = {one.api: one for one in (POD_CLIQUE_SETS.resource, JOBS, GROUPS)}
ONLY_SETS = {POD_CLIQUE_SETS.resource.api: POD_CLIQUE_SETS.resource}
# The lists of pods of Grove, of opted-in workloads, and of those that name koord-scheduler.
PODS_LISTED = 3


def patient(transport: httpx.AsyncBaseTransport) -> PatientClient:
    return PatientClient(NOWHERE, transport)


def prefetching(transport: httpx.AsyncBaseTransport) -> PrefetchingClient:
    return PrefetchingClient(NOWHERE, transport)


async def audited(
    *steps: Step, served: dict[Api, Resource] = ONLY_SETS, judges: tuple[Judge, ...] = (), **options: Any
) -> tuple[Audit, Script]:
    """The audit of a cluster that gives these answers; after them all lists are empty."""
    script = Script(*steps, *[listed("1")] * 20)
    client = patient(script)
    found = await Auditor(client, AuditFacts(served, judges or (judge(),), {}), **options).audit()
    await client.close()
    return found, script


async def test_every_page_is_judged() -> None:
    seen: list[tuple[str, int]] = []
    found, script = await audited(
        listed("1", stored_set("a", bad=True), stored_set("b"), token="more"),
        listed("1", stored_set("c", bad=True)),
        page=2,
        progress=lambda what, count: seen.append((what, count)),
    )
    assert [one.object.name for one in found.today.kept] == ["a", "c"]
    assert (found.complete, found.today.refused, found.read["podcliquesets.grove.io"]) == (True, 2, 3)
    assert [request.url.params["limit"] for request in script.asked[:2]] == ["2", "2"]
    assert seen[:2] == [("podcliquesets.grove.io", 2), ("podcliquesets.grove.io", 3)]


async def test_the_next_page_is_requested_while_one_is_judged() -> None:
    asked: list[int] = []

    class Looking(Judge):
        def verdict(self, raw: Any, api: Api) -> Any:
            asked.append(len([one for one in script.asked if "podcliquesets" in one.url.path]))
            return super().verdict(raw, api)

    names = [f"set-{number:02}" for number in range(5 * TURN)]
    script = Script(
        listed("1", *map(stored_set, names), token="more"),
        listed("1", *map(stored_set, names)),
        *[listed("1")] * PODS_LISTED,
    )
    client = prefetching(script)
    found = await Auditor(client, AuditFacts(ONLY_SETS, [Looking(FACTS, SETTINGS)], {})).audit()
    await client.close()
    assert (found.complete, found.today.judged.total()) == (True, 10 * TURN)
    assert (asked[5 * TURN - 1], asked[-1]) == (2, 2)


async def test_a_list_that_fails_while_a_page_is_judged_is_named() -> None:
    script = Script(
        listed("1", stored_set("a"), token="more"), (403, failure(403, "no more")), *[listed("1")] * PODS_LISTED
    )
    client = prefetching(script)
    found = await Auditor(client, AuditFacts(ONLY_SETS, [judge()], {})).audit()
    await client.close()
    assert found.read["podcliquesets.grove.io"] == 1
    assert found.unlisted == {"podcliquesets.grove.io": "HTTP 403: no more"}


async def test_pages_that_are_no_longer_wanted_leave_no_request_behind() -> None:
    client = prefetching(Script(listed("1", stored_set("a"), token="more")))
    before = asyncio.all_tasks()
    async with aclosing(client.pages(POD_CLIQUE_SETS.resource)) as pages:
        async for page in pages:
            assert len(page.items) == 1
            await turns()
            assert len(asyncio.all_tasks() - before) == 1
            break
    assert asyncio.all_tasks() == before
    await client.close()


async def test_one_namespace_is_audited_alone() -> None:
    _, script = await audited(namespace="team-a")
    assert {request.url.path.split("/namespaces/")[1].split("/")[0] for request in script.asked} == {"team-a"}


async def test_a_kind_that_may_not_be_listed_is_named_and_the_others_are_judged() -> None:
    mode = {"gang.scheduling.koordinator.sh/mode": "strict"}
    group = {"metadata": {"name": "own", "namespace": "team-a", "annotations": mode}, "spec": {"minMember": 2}}
    found, _ = await audited(
        (403, failure(403, "podcliquesets is forbidden")),
        listed("1"),
        listed("1", group),
        served=SERVED,
    )
    assert found.unlisted == {"podcliquesets.grove.io": "HTTP 403: podcliquesets is forbidden"}
    assert not found.complete
    assert [one.finding.rule for one in found.today.kept] == ["koordinator/gang-mode"]


async def test_a_kind_that_is_no_longer_served_is_left_out_quietly() -> None:
    found, _ = await audited((404, failure(404, "not found")))
    assert (found.complete, found.unlisted) == (True, {})


@pytest.mark.parametrize("trouble", [(429, failure(429, "later")), (503, b"no"), httpx.ConnectError("refused")])
async def test_a_list_goes_on_after_a_failure(trouble: Step) -> None:
    found, _ = await audited(listed("1", stored_set("a"), token="more"), trouble, listed("1", stored_set("b")))
    assert (found.complete, found.read["podcliquesets.grove.io"]) == (True, 2)


async def test_a_list_is_given_up_after_some_failures() -> None:
    found, script = await audited(*[(500, b"no")] * (auditor.TRIES + 1))
    assert found.unlisted == {"podcliquesets.grove.io": "HTTP 500: no"}
    assert len(script.asked) == auditor.TRIES + 1 + PODS_LISTED


async def test_an_expired_list_goes_on_with_the_token_of_the_answer() -> None:
    gone = {**failure(410, "too old"), "metadata": {"continue": "as it is now"}}
    found, script = await audited(
        listed("1", stored_set("a"), token="old"), (410, gone), listed("9", stored_set("b"), token=None)
    )
    assert (found.complete, found.read["podcliquesets.grove.io"]) == (True, 2)
    assert [request.url.params.get("continue") for request in script.asked[:3]] == [None, "old", "as it is now"]


async def test_an_expired_list_without_a_token_is_incomplete() -> None:
    found, _ = await audited(listed("1", stored_set("a"), token="old"), (410, failure(410, "too old")))
    assert found.unlisted == {"podcliquesets.grove.io": "HTTP 410: too old"}


class Faulty(Judge):
    """A judge with a fault of ours about one object."""

    def verdict(self, raw: Any, api: Api) -> Any:
        if raw["metadata"]["name"] == "b":
            raise RuntimeError("a fault")
        return super().verdict(raw, api)


async def test_a_fault_with_one_object_leaves_the_others_judged() -> None:
    every = [stored_set(name, bad=True) for name in ("a", "b", "c")]
    found, _ = await audited(listed("1", *every), judges=(Faulty(FACTS, SETTINGS),))
    assert [one.object.name for one in found.today.kept] == ["a", "c"]
    assert (found.complete, found.faults, [key.name for key in found.faulty]) == (False, 1, ["b"])


def without_standalone(settings: Settings) -> Settings:
    return replace(settings, standalone=False)


async def test_a_switch_of_the_scheduler_shows_what_is_new_and_what_is_gone() -> None:
    today = without_standalone(three_schedulers())
    # default-scheduler reads no annotation that asks for one NVLink domain either, but says so by another rule.
    switched = force_scheduler(today, "lpx-scheduler", "--as")
    found, script = await audited(
        listed("1", stored_set("a", bad=True), stored_set("b")), judges=(judge(today), judge(switched))
    )
    assert found.new is not None
    assert found.gone is not None
    assert [one.finding.rule for one in found.gone.kept] == [RULE]
    assert {one.finding.rule.partition("/")[0] for one in found.new.kept} <= {"lpx", "rollcall"}
    assert RULE not in {one.finding.rule for one in found.new.kept}
    # Pods are recreated by their workloads.
    assert all("/pods" not in request.url.path for request in script.asked)


async def test_a_job_that_is_no_gang_today_is_none_after_a_switch() -> None:
    today = without_standalone(three_schedulers())
    job = {"metadata": {"name": "plain", "namespace": "team-a"}, "spec": {"template": {"spec": {}}}}
    found, _ = await audited(
        listed("1", job), served={JOBS.api: JOBS}, judges=(judge(today), judge(force_scheduler(today, "lpx-scheduler")))
    )
    assert found.today.judged.total() == 0


def acting(action: Action) -> Settings:
    from webhook.config.settings import Profile

    old = SETTINGS.profiles["koord-scheduler"]
    profile = Profile(old.backend, Enforcement(), Enforcement(rules={RULE: action}), gate=False)
    return replace(SETTINGS, profiles={**SETTINGS.profiles, "koord-scheduler": profile})


@pytest.mark.parametrize(
    ("before", "after", "refused", "allowed"),
    [(Action.DENY, Action.WARN, 0, 1), (Action.WARN, Action.DENY, 1, 0), (Action.DENY, Action.DENY, 0, 0)],
)
async def test_another_configuration_refuses_more_or_less(
    before: Action, after: Action, refused: int, allowed: int
) -> None:
    found, _ = await audited(listed("1", stored_set(bad=True)), judges=(judge(acting(before)), judge(acting(after))))
    assert (found.newly_refused, found.newly_allowed) == (refused, allowed)
    assert found.new is not None
    assert bool(found.new.groups) == (before != after)


def test_no_pod_is_in_two_lists() -> None:
    pods = [one for one in listings(SETTINGS, {}) if one.resource == PODS]
    ended = "status.phase!=Succeeded,status.phase!=Failed"
    assert [(one.labels, one.fields) for one in pods] == [
        ("grove.io/podgang", ended),
        ("!grove.io/podgang,rollcall.dev/scheduler", ended),
        ("!grove.io/podgang,!rollcall.dev/scheduler", f"{ended},spec.schedulerName=koord-scheduler"),
    ]


def test_only_served_kinds_are_listed_in_the_preferred_version() -> None:
    later = Resource(Api(GROUPS.api.group, "v1", "PodGroup"), "podgroups")
    served = {later.api: later, **SERVED}
    kinds = [one.resource for one in listings(SETTINGS, served, pods=False)]
    assert kinds == [POD_CLIQUE_SETS.resource, JOBS, later]
