"""Whether an object needs a write, and which owner it has."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.backends.pod_gangs import OWNER, POD_GANG_OWNER
from webhook.gangs.object_plan import add_digest, holds, is_in_step, is_ours, left_behind, stranger
from webhook.model.grove import PodGang
from webhook.model.reading import Manifest

DESIRED: Manifest = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {
        "name": "demo-0",
        "namespace": "team-a",
        "labels": {"app.kubernetes.io/managed-by": "rollcall"},
        "ownerReferences": [POD_GANG_OWNER],
    },
    "spec": {"minMember": 2, "subGroupPolicy": [{"name": "w", "subGroupSize": 2}]},
}


def live(**changes: Any) -> Manifest:
    """The object as the API server has it, with what it and others filled in."""
    found = deepcopy(add_digest(DESIRED))
    found["metadata"]["labels"]["team"] = "a"
    found["metadata"]["annotations"]["volcano.sh/job-allocated-hypernode"] = "n"
    found["spec"]["queue"] = "default"
    found["spec"]["subGroupPolicy"][0]["minSubGroups"] = 0
    for path, value in changes.items():
        holder: Any = found
        *above, last = path.split("__")
        for part in above:
            holder = holder[part]
        if value is None:
            del holder[last]
        else:
            holder[last] = value
    return found


def test_fields_added_by_others_are_not_a_difference() -> None:
    assert is_in_step(add_digest(DESIRED), live())


DIFFERENT = {
    "another value": live(spec__minMember=1),
    "an item more": live(spec__subGroupPolicy=[{"name": "w", "subGroupSize": 2}, {"name": "x"}]),
    "a label that went": live(metadata__labels={}),
    "no spec": live(spec=None),
    "cut loose": live(metadata__ownerReferences=[]),
    "another controller": live(metadata__ownerReferences=[{**POD_GANG_OWNER, "uid": "other"}]),
    "what was applied is not known": live(metadata__annotations={}),
}


@pytest.mark.parametrize("found", DIFFERENT.values(), ids=DIFFERENT)
def test_a_wanted_field_that_is_missing_or_wrong_is_a_difference(found: Manifest) -> None:
    assert not is_in_step(add_digest(DESIRED), found)


def test_a_field_that_is_no_longer_wanted_is_a_difference() -> None:
    before = {**DESIRED, "spec": {**DESIRED["spec"], "priorityClassName": "high"}}
    assert not is_in_step(add_digest(DESIRED), add_digest(before))


def test_the_digest_does_not_depend_on_the_order() -> None:
    turned = {key: DESIRED[key] for key in reversed(DESIRED)}
    assert add_digest(turned) == add_digest(DESIRED)
    assert "annotations" not in DESIRED["metadata"], "the argument is left as it is"


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ({}, {"a": 1}, True),
        ({"a": None}, {}, False),
        ({"a": {}}, {"a": None}, False),
        ([1, 2], [2, 1], False),
        ((1,), [1], True),
        ("1", 1, False),
        (True, 1, True),
    ],
)
def test_an_object_with_every_wanted_field_has_no_difference(wanted: Any, found: Any, expected: bool) -> None:
    assert holds(wanted, found) is expected


def owned(*owners: Manifest, manager: str | None = "rollcall") -> Manifest:
    labels = {} if manager is None else {"app.kubernetes.io/managed-by": manager}
    return {"metadata": {"name": "x", "labels": labels, "ownerReferences": list(owners)}}


OTHER = {**POD_GANG_OWNER, "kind": "TrainJob", "name": "train", "uid": "77"}
WHOSE = {
    "this gang's": (owned(POD_GANG_OWNER), None, True),
    "this gang's, made by another manager": (owned(POD_GANG_OWNER, manager="grove-operator"), None, False),
    "another controller's": (owned(OTHER), "TrainJob train", False),
    "a PodGang's of the same name that is gone": (owned({**POD_GANG_OWNER, "uid": "old"}), "PodGang demo-0", False),
    "ours, cut loose": (owned(), None, False),
    "made by hand by a user": (
        owned(manager=None),
        "another manager (it has no label app.kubernetes.io/managed-by)",
        False,
    ),
    "a chart's": (owned(manager="Helm"), "another manager (Helm)", False),
    "owned, and not controlled": (owned({**OTHER, "controller": False}, manager="me"), "another manager (me)", False),
}


@pytest.mark.parametrize(("found", "whose", "ours"), WHOSE.values(), ids=WHOSE)
def test_the_owner_of_an_object_is_found(found: Manifest, whose: str | None, ours: bool) -> None:
    assert stranger(found, {"5f1d"}) == whose
    assert is_ours(found, {"5f1d"}) is ours


# PodGang demo-0 of the PodCliqueSet demo, and the same after Grove renamed it.
NEW = "demo-0-1795344276589742021"


def gang(name: str = "demo-0", **identity: Any) -> PodGang:
    metadata = {"name": name, "namespace": "team-a", "uid": "5f1d", "ownerReferences": [OWNER]}
    return PodGang({"metadata": metadata, "spec": {}}, **identity)


def of_podgang(name: str, uid: str) -> Manifest:
    return owned({**POD_GANG_OWNER, "name": name, "uid": uid})


RENAMED = gang(NEW, gang="demo-0")
# The PodGang, an object, and whether the object is left behind.
STAYING: dict[str, tuple[PodGang, Manifest, bool]] = {
    "its PodCliqueSet's": (gang(), owned(OWNER), False),
    "its own": (gang(), of_podgang("demo-0", "5f1d"), False),
    "an earlier PodGang's of its name": (gang(), of_podgang("demo-0", "old"), True),
    "an earlier PodCliqueSet's of its name": (gang(), owned({**OWNER, "uid": "old"}), True),
    "another PodCliqueSet's": (gang(), owned({**OWNER, "name": "other", "uid": "o"}), False),
    "another PodGang's": (gang(), of_podgang("demo-1", "o"), False),
    "another kind's of its name": (gang(), owned({**OTHER, "name": "demo-0"}), False),
    "without a controller": (gang(), owned(), False),
    "renamed: its PodCliqueSet's": (RENAMED, owned(OWNER), False),
    "renamed: an earlier PodGang's of its new name": (RENAMED, of_podgang(NEW, "old"), True),
    "renamed: another PodGang's": (RENAMED, of_podgang("demo-1", "o"), False),
}


@pytest.mark.parametrize(("podgang", "found", "left"), STAYING.values(), ids=STAYING)
def test_an_object_of_an_earlier_owner_is_left_behind(podgang: PodGang, found: Manifest, left: bool) -> None:
    assert left_behind(found, podgang) is left


def test_a_podgang_that_no_podcliqueset_controls_owns_its_objects() -> None:
    alone = PodGang({"metadata": {"name": "demo-0", "namespace": "team-a", "uid": "5f1d"}, "spec": {}})
    assert alone.owner == ("scheduler.grove.io/v1alpha1", "PodGang", "demo-0", "5f1d")
    assert alone.owners == {"5f1d"}
    assert gang().owner == ("grove.io/v1alpha1", "PodCliqueSet", "demo", "9c0e")
    assert gang().owners == {"9c0e", "5f1d"}


def test_a_podgang_whose_name_no_label_can_hold_owns_its_objects() -> None:
    assert gang("g" * 63).owner.kind == "PodCliqueSet"
    assert gang("g" * 64).owner.kind == "PodGang"
