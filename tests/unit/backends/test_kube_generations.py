"""Which versions of the Workload API are used, by what a cluster serves: those that were read, the announced ones if
they are stated, and no unknown one.
"""

from __future__ import annotations

import pytest

from tests.texts import Text
from tests.unit.backends.kube_gangs import NEITHER, RECORD, TWO, backend, made, podgang
from tests.unit.backends.kube_gangs import TREE as SERVED_1_37
from tests.unit.worlds import settings_of, validate
from webhook.backends.kube import frozen
from webhook.backends.kube.facts import ANNOUNCED
from webhook.backends.kube.generation import GROUP, Generation, served, unread
from webhook.backends.kube.rules.examples import ALL, BASIC, pod_group
from webhook.backends.kube.settings import KubeSettings
from webhook.config.settings import Settings
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.sources.facts import facts_in
from webhook.validators.examples import pod_clique_set

KINDS = ("Workload", "PodGroup")
# What is announced for 1.38, alone and with the versions of 1.37.
NEXT = NEITHER | ANNOUNCED
BOTH = NEXT | SERVED_1_37
UNKNOWN = NEITHER | {Api(GROUP, "v2", kind) for kind in (*KINDS, "CompositePodGroup")}
# Trees that are served only in their announced version.
NEXT_TREES = NEITHER | {Api(GROUP, "v1beta1", kind) for kind in (*KINDS, "CompositePodGroup")}


def _kube(**config: object) -> Settings:
    return settings_of("default-scheduler", {"gangScheduling": True, **config}, standalone=False)


def settings(**config: object) -> KubeSettings:
    return KubeSettings.model_validate({"gangScheduling": True, **config})


@pytest.mark.parametrize(
    ("apis", "config", "expected"),
    [
        (SERVED_1_37 | NEITHER, {}, (Generation.TREE, "v1beta1", "v1alpha3")),
        (BOTH, {}, (Generation.TREE, "v1beta1", "v1alpha3")),
        (BOTH, {"apiGeneration": "v1"}, (Generation.TREE, "v1", "v1beta1")),
        (NEXT, {"apiGeneration": "v1"}, (Generation.TREE, "v1", "v1beta1")),
        (NEXT, {"apiGeneration": "v1", "hierarchical": "off"}, (Generation.V1BETA1, "v1", None)),
        (NEXT_TREES, {"hierarchical": "off"}, (Generation.V1BETA1, "v1beta1", None)),
        (NEXT, {}, None),
        (UNKNOWN, {}, None),
        (UNKNOWN, {"apiGeneration": "v1"}, None),
        # Without the trees that the cluster serves, each clique would be a gang of its own, or all would be merged.
        (NEXT_TREES, {}, None),
        (None, {"apiGeneration": "v1"}, (Generation.TREE, "v1", "v1beta1")),
    ],
)
def test_only_versions_that_were_read_are_used_unless_the_announced_ones_are_stated(
    apis: frozenset[Api] | None, config: dict[str, object], expected: tuple[object, ...] | None
) -> None:
    assert served(settings(**config), apis) == expected


def test_announced_versions_have_the_fields_of_1_37() -> None:
    before = made(podgang(*TWO), SERVED_1_37)
    after = made(podgang(*TWO), NEXT, apiGeneration="v1")
    renamed = {"v1alpha3": "v1beta1", "v1beta1": "v1"}
    for old, new in zip(before, after, strict=True):
        version = old["apiVersion"].partition("/")[2]
        assert new == {**old, "apiVersion": f"{GROUP}/{renamed[version]}"}
    kinds = {Api(GROUP, new["apiVersion"].partition("/")[2], new["kind"]) for new in after}
    assert kinds == set(backend(apiGeneration="v1").gang_kinds(ClusterFacts(apis=NEXT)))


@pytest.mark.parametrize(
    ("apis", "named"),
    [(NEXT, "v1 PodGroup, v1 Workload, v1beta1 CompositePodGroup"), (NEXT_TREES, "v1beta1 CompositePodGroup")],
)
def test_a_workload_is_not_judged_if_the_versions_are_unknown(apis: frozenset[Api], named: str) -> None:
    facts = ClusterFacts(apis=apis)
    verdict = validate(pod_clique_set(), settings=_kube(), facts=facts)
    missing = next(one for one in verdict.unjudged if one.rule == "kube/workload-api")
    assert missing.needs == Text(f"{GROUP} {named},", "has not read")
    assert "apiGeneration: v1" in missing.remedy
    assert not [one for one in verdict.findings if one.rule == "kube/workload-api"]


def test_no_gang_is_written_and_no_pod_prepared_if_the_versions_are_unknown() -> None:
    used = backend()
    with pytest.raises(Inexpressible) as error:
        used.gang_objects(podgang(*TWO), RECORD, ClusterFacts(apis=NEXT))
    assert [one.needs for one in error.value.unjudged] == [unread(used.settings, NEXT)]
    assert used.dialect(ClusterFacts(apis=NEXT)) is None
    (note,) = used.init(ClusterFacts(apis=NEXT))
    assert note == Text("has not read", "no gang is made")


@pytest.mark.parametrize("version", ["v2", "v1beta2"])
def test_a_gang_object_of_an_unknown_version_is_not_judged(version: str) -> None:
    """Its fields may have other meanings: read as of v1beta1 it would have no minimum."""
    found = pod_group(version=version, schedulingPolicy={"gang": {"minimum": 0}})
    verdict = validate(found, settings=_kube(), facts=ClusterFacts(apis=BOTH))
    assert (verdict.allowed, verdict.findings) == (True, ())
    assert [one.needs for one in verdict.unjudged] == [Text(f"{GROUP}/{version} PodGroup,", "has not read")]


@pytest.mark.parametrize("config", [{}, {"apiGeneration": "v1"}], ids=["auto", "stated"])
def test_a_gang_object_of_an_announced_version_is_judged(config: dict[str, object]) -> None:
    """A user must not avoid the rules by the version, where a cluster serves several."""
    facts = ClusterFacts(apis=BOTH)
    faulty = {**BASIC, **ALL}
    announced = validate(pod_group(version="v1", **faulty), settings=_kube(**config), facts=facts)
    released = validate(pod_group(**faulty), settings=_kube(), facts=facts)
    assert [one.rule for one in announced.findings] == [one.rule for one in released.findings] != []
    assert announced.unjudged == released.unjudged


def test_documents_of_unknown_versions_leave_their_part_of_the_facts_open() -> None:
    known = facts_in([pod_group()])
    assert len(known.pod_groups or {}) == 1
    assert known.partial is None
    unknown = facts_in([pod_group(version="v2")])
    assert not unknown.pod_groups
    assert unknown.partial == frozenset({"pod_groups"})


def test_only_the_stated_versions_are_followed() -> None:
    """Two versions of one kind are the same objects: followed twice, each would be counted twice."""
    for config in ({}, {"apiGeneration": "v1"}):
        followed = {one.resource.api for one in backend(**config).followed(objects=True)}
        assert (followed & ANNOUNCED) == (ANNOUNCED if config else frozenset())
        assert (Api(GROUP, "v1beta1", "PodGroup") in followed) is not bool(config)


def test_a_protected_composite_is_not_recreated_under_waiting_pods() -> None:
    """From 1.38 on it is deleted only after the groups below it, which are deleted only after their pods."""
    old = made(podgang(*TWO), SERVED_1_37)
    new = [{**one, "spec": {**one["spec"], "workloadRef": {}}} if "Composite" in one["kind"] else one for one in old]
    until = frozen.frozen(new, old)
    assert until is not None
    protected = [
        {**one, "metadata": {**one["metadata"], "finalizers": [frozen.COMPOSITE_PROTECTION]}}
        if one["kind"] == "CompositePodGroup"
        else one
        for one in old
    ]
    later = frozen.frozen(new, protected)
    assert later is not None
    assert later.until < until.until
