"""Equal strings of a gang's pods are one object, and are freed with the pods."""

from __future__ import annotations

import sys

from webhook.gangs.members import parts_of
from webhook.model.reading import Manifest


def pod(name: str, note: str) -> Manifest:
    """A pod as JSON gives it: with texts of its own."""
    labels = {"grove.io/podgang": "".join(["demo", "-0"]), "note": "".join(note)}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}}


def test_sibling_pods_share_equal_strings() -> None:
    one, other = (parts_of(pod(name, "same")).labels["grove.io/podgang"] for name in ("a", "b"))
    assert one is other


def test_sibling_pods_share_equal_parts() -> None:
    one, other = (parts_of(pod(name, "same")) for name in ("a", "b"))
    assert (one.labels is other.labels, one.annotations is other.annotations, one.spec is other.spec) == (True,) * 3
    assert one.cut is other.cut


def test_parts_with_lists_are_kept_alike() -> None:
    raw = {"metadata": {"name": "a"}, "spec": {"schedulerName": "x", "resourceClaims": [{"name": "gpu"}]}}
    one, other = parts_of(raw), parts_of(raw)
    assert one.spec == other.spec == raw["spec"]


def test_strings_of_deleted_pods_are_freed() -> None:
    kept = parts_of(pod("a", "text of a tenant")).labels["note"]
    for index in range(5000):
        parts_of(pod("b", f"another {index}"))
    # By this name and by the call: nothing else refers to it.
    assert sys.getrefcount(kept) == 2
