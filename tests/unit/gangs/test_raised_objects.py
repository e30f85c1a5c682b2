"""Whether the status of an object has changed since this process raised its minimum, by the versions of the object."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cluster.scripted import NO_TLS
from webhook.backends.volcano.keys import POD_GROUP
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.gangs.stores import Store
from webhook.model.keys import ObjectKey
from webhook.model.projections import Resource

KEY = ("team-a", "demo-0")


class Volcanos:
    """The store of Volcano's PodGroups, whose watch has read version 10. `changed` are the objects reported."""

    def __init__(self) -> None:
        self.changed: list[ObjectKey] = []
        self.store = Store(
            Client(Access("https://cluster", NO_TLS, lambda: None)),
            Resource(POD_GROUP, "podgroups"),
            lambda key, _: self.changed.append(key),
            lambda _: "demo-0",
        )
        self.read_until("10")
        self.deliver("5", "Inqueue", 2)
        self.changed.clear()

    def read_until(self, version: str) -> None:
        """The watch gets a bookmark."""
        self.store.watch._version = version

    def deliver(self, version: str, phase: str, minimum: int) -> None:
        """A list or a watch delivers the PodGroup."""
        self.store.watch.index.put(pod_group(version, phase, minimum))

    def seen(self) -> bool:
        return self.store.has_new_status(KEY)


def pod_group(version: str, phase: str, minimum: int) -> dict[str, Any]:
    """Its minimum was 2, and was raised."""
    metadata: dict[str, Any] = {"namespace": KEY[0], "name": KEY[1], "uid": "u", "resourceVersion": version}
    if minimum > 2:
        metadata["annotations"] = {"rollcall.dev/raised": "2026-11-30T12:00:00.000000+00:00"}
    return {"metadata": metadata, "spec": {"minMember": minimum}, "status": {"phase": phase}}


def test_a_later_status_is_a_sign_and_an_object_from_before_the_raise_is_none() -> None:
    volcanos = Volcanos()
    volcanos.store.put(pod_group("12", "Running", 4), raised=True)
    assert not volcanos.seen()
    # A list may be older than a write, and its items are not compared with the answer.
    volcanos.deliver("5", "Inqueue", 2)
    volcanos.deliver("11", "Pending", 4)
    assert not volcanos.seen()
    volcanos.deliver("13", "Running", 4)
    assert not volcanos.seen(), "something else has changed"
    volcanos.changed.clear()
    volcanos.deliver("14", "Inqueue", 4)
    assert (volcanos.seen(), volcanos.changed) == (True, [KEY])
    assert volcanos.store.objects[KEY].keys() == {"apiVersion", "kind", "metadata", "spec"}
    volcanos.deliver("15", "Running", 4)
    assert volcanos.seen(), "it stays so until the next raise"
    volcanos.store.put(pod_group("16", "Running", 5), raised=True)
    assert not volcanos.seen()


def test_a_sign_that_the_watch_delivers_before_the_answer_to_the_write_counts() -> None:
    volcanos = Volcanos()
    volcanos.deliver("15", "Inqueue", 4)
    volcanos.read_until("15")
    volcanos.store.put(pod_group("12", "Running", 4), raised=True)
    assert volcanos.seen()
    assert volcanos.changed == [KEY, KEY]


@pytest.mark.parametrize(("raised", "later"), [("v12", "v13"), ("12", "v13"), ("v12", "13")])
def test_versions_that_are_no_numbers_show_nothing(raised: str, later: str) -> None:
    volcanos = Volcanos()
    volcanos.store.put(pod_group(raised, "Running", 4), raised=True)
    volcanos.deliver(later, "Inqueue", 4)
    assert not volcanos.seen()


def test_an_object_that_is_created_again_shows_nothing_of_the_former_one() -> None:
    volcanos = Volcanos()
    volcanos.store.put(pod_group("12", "Running", 4), raised=True)
    volcanos.deliver("13", "Inqueue", 4)
    assert volcanos.seen()
    volcanos.store.watch.index.drop(pod_group("14", "Inqueue", 4))
    assert not volcanos.seen()
    volcanos.deliver("15", "Pending", 4)
    assert not volcanos.seen()
