"""The certificate controller against a simulated API: how long it waits, what restarts the wait, and changes between
its read and its write. Time is a number here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from tests.played import PlayedClock
from tests.unit.certificates.certificate_world import SETTINGS
from tests.unit.reconciler.certificate_api import CONFIGURATIONS, CertificateApi
from tests.unit.reconciler.certificate_keeper import IMMEDIATE, Kept, keeping
from tests.waiting import until
from webhook.certificates.x509 import read_certificates

OVERLAP = 60.0
PATIENT = replace(SETTINGS, overlap=timedelta(seconds=OVERLAP))


class StillClock(PlayedClock):
    """Stands still until it is moved, also while the event loop waits."""

    def monotonic(self) -> float:
        return self._moved


@pytest.fixture
def clock() -> StillClock:
    """The clock of everything that is waited for."""
    return StillClock()


async def rotating(api: CertificateApi, kept: Kept) -> None:
    """Begin a rotation of the authority."""
    await until(lambda: kept.at("none"))
    kept.ask_for("rollcall-ca")
    await api.changed()


async def more(count: Callable[[], int]) -> None:
    """Wait until it was looked some times more: what the first of them came to has been obeyed then."""
    before = count()
    await until(lambda: count() > before + 6)


async def test_both_waits_last_as_long_as_the_overlap(api: CertificateApi, clock: StillClock) -> None:
    async with keeping(api, PATIENT, clock) as kept:
        await rotating(api, kept)
        for step, looks in (("proof", lambda: len(api.probes)), ("served", lambda: api.looks)):
            await until(lambda step=step: kept.at(step))  # type: ignore[misc]
            await more(looks)
            clock.move(OVERLAP - 1)
            await more(looks)
            assert kept.at(step)
            assert len(read_certificates(api.bundles().pop())) == 2
            clock.move(1)
            await until(lambda step=step: not kept.at(step))  # type: ignore[misc]
        await until(lambda: kept.at("none"))


async def test_a_failed_observation_restarts_the_wait(api: CertificateApi, clock: StillClock) -> None:
    async with keeping(api, PATIENT, clock) as kept:
        await rotating(api, kept)
        await until(lambda: len(api.probes) > 4)
        api.proving = False
        await more(lambda: len(api.probes))
        clock.move(2 * OVERLAP)
        api.proving = True
        await more(lambda: len(api.probes))
        assert kept.at("proof")
        clock.move(OVERLAP)
        await until(lambda: kept.at("served"))


async def test_a_leader_that_loses_the_lease_restarts_the_wait(api: CertificateApi, clock: StillClock) -> None:
    """Another process may have led meanwhile, and no process observed the servers."""

    async def led_again(api: CertificateApi, kept: Kept) -> None:
        kept.leading = False
        read = len(api.reads)
        kept.controller.wake()
        await until(lambda: len(api.reads) >= read + 4)
        clock.move(2 * OVERLAP)
        kept.leading = True
        kept.controller.wake()

    async with keeping(api, PATIENT, clock) as kept:
        await rotating(api, kept)
        await until(lambda: len(api.probes) > 4)
        await led_again(api, kept)
        await more(lambda: len(api.probes))
        assert kept.at("proof")
        clock.move(OVERLAP)
        await until(lambda: kept.at("served"))
        await more(lambda: api.looks)
        await led_again(api, kept)
        await more(lambda: api.looks)
        assert kept.at("served")
        # Seen for long enough, and the write that follows fails.
        api.refusing["rollcall-ca"] = (500, "no space left")
        clock.move(OVERLAP)
        await until(lambda: kept.metric("rollcall_certificate_failures_total") > 0)
        await led_again(api, kept)
        api.refusing.clear()
        await more(lambda: api.looks)
        assert kept.at("served")
        clock.move(OVERLAP)
        await until(lambda: kept.at("none"))


def both_deaf(api: CertificateApi) -> None:
    api.deaf = {"mutate", "validate"}


def one_deaf(api: CertificateApi) -> None:
    api.deaf = {"validate"}


def another_shown(api: CertificateApi) -> None:
    api.showing = "ab" * 32


@pytest.mark.parametrize("doubtful", [both_deaf, one_deaf, another_shown])
async def test_only_both_hooks_with_the_same_certificate_are_proof(
    api: CertificateApi, clock: StillClock, doubtful: Callable[[CertificateApi], None]
) -> None:
    doubtful(api)
    async with keeping(api, PATIENT, clock) as kept:
        await rotating(api, kept)
        for _ in range(3):
            await more(lambda: len(api.probes))
            clock.move(OVERLAP)
        assert kept.at("proof")
        api.deaf, api.showing = set(), ""
        await more(lambda: len(api.probes))
        clock.move(OVERLAP)
        await until(lambda: kept.at("served"))


async def test_a_configuration_that_changes_before_the_write_is_read_again(api: CertificateApi) -> None:
    def upgraded() -> None:
        """A release that has a hook less."""
        api.register("m-rollcall")
        api.objects[CONFIGURATIONS["m-rollcall"]]["webhooks"].pop(0)

    api.meanwhile["m-rollcall"] = upgraded
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
    assert api.writes.count("PATCH m-rollcall") == 3
    assert api.bundles() == {api.data("rollcall-ca")["ca.crt"]}


async def test_a_configuration_deleted_before_the_write_is_not_recreated(api: CertificateApi) -> None:
    def deleted() -> None:
        del api.objects[CONFIGURATIONS["m-rollcall"]]

    api.meanwhile["m-rollcall"] = deleted
    async with keeping(api) as kept:
        await until(lambda: kept.at("none"))
    assert CONFIGURATIONS["m-rollcall"] not in api.objects
    assert api.bundles() == {api.data("rollcall-ca")["ca.crt"]}


async def test_two_writers_of_one_caBundle_do_not_overload_the_api_server(
    api: CertificateApi, clock: StillClock
) -> None:
    """Such as an injector of another authority, which reacts to every change, as we do."""

    published = 0

    async def contested(request: httpx.Request) -> httpx.Response:
        nonlocal published
        found = await answer(request)
        if request.method == "PATCH" and request.url.path.endswith("v-rollcall") and b"caBundle" in request.content:
            published += 1
            for hook in api.objects[CONFIGURATIONS["v-rollcall"]]["webhooks"]:
                hook["clientConfig"]["caBundle"] = ""
            await api.changed()
        return found

    answer, api.handle_async_request = api.handle_async_request, contested  # type: ignore[method-assign]
    async with keeping(api, IMMEDIATE, clock):
        for expected, waited in ((1, 0.2), (2, 0.4), (3, 0.8), (4, 1.6), (5, 3.2), (6, 5.0), (7, 5.0)):
            await until(lambda expected=expected: published == expected)  # type: ignore[misc]
            clock.move(waited - 0.01)
            await api.changed()
            await more(lambda: len(api.reads))
            assert published == expected
            clock.move(0.02)
            await api.changed()
        await until(lambda: published == 8)
        # After a minute of peace it is written over at once again.
        clock.move(61)
        await api.changed()
        await until(lambda: published == 9)
        clock.move(0.25)
        await api.changed()
        await until(lambda: published == 10)
