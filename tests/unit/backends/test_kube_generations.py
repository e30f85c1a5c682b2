"""Which versions of the Workload API are used, by what a cluster serves: those that were read, and no unknown one."""

from __future__ import annotations

import pytest

from tests.texts import Text
from tests.unit.backends.kube_gangs import NEITHER, RECORD, TWO, V1ALPHA1, V1ALPHA2, V1BETA1, backend, made, podgang
from tests.unit.backends.kube_gangs import TREE as SERVED_1_37
from tests.unit.worlds import settings_of, validate
from webhook.backends.kube import gangs
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.groups import pod_group
from webhook.backends.kube.workload_api import (
    COMPOSITE,
    COMPOSITE_BETA,
    GROUP,
    Generation,
    KubeSettings,
    served,
    unread,
)
from webhook.config.settings import Settings
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.offline.fact_files import facts_in
from webhook.validators.examples import pod_clique_set

KINDS = ("Workload", "PodGroup", "CompositePodGroup")
# What 1.38.0-beta.0 serves with --runtime-config of v1beta1 and of v1alpha3.
BETA = NEITHER | {Api(GROUP, "v1beta1", kind) for kind in KINDS}
ALPHA = NEITHER | {Api(GROUP, "v1alpha3", kind) for kind in KINDS}
UNKNOWN = NEITHER | {Api(GROUP, "v2", kind) for kind in KINDS}
# Trees that are served only in a version that no release has.
UNKNOWN_TREES = V1BETA1 | NEITHER | {Api(GROUP, "v1beta2", "CompositePodGroup")}
_TREE_OF_1_37 = (Generation.TREE, "v1beta1", "v1alpha3")
_TREE_OF_1_38 = (Generation.TREE, "v1beta1", "v1beta1")
_FLAT = (Generation.V1BETA1, "v1beta1", None)
# What a cluster serves, the settings, and what is written.
SERVED: dict[str, tuple[frozenset[Api] | None, dict[str, object], tuple[object, ...] | None]] = {
    "1.38 with v1beta1 only": (BETA, {}, _TREE_OF_1_38),
    "1.38 with v1beta1 and v1alpha3": (BETA | ALPHA, {}, _TREE_OF_1_38),
    "1.38 with v1beta1, stated": (BETA, {"apiGeneration": "v1beta1"}, _TREE_OF_1_38),
    "1.38 without the gate CompositePodGroup": (BETA - {COMPOSITE_BETA}, {}, _FLAT),
    "1.38 with v1beta1, trees off": (BETA, {"hierarchical": "off"}, _FLAT),
    "v1alpha3 only, which no scheduler reads": (ALPHA, {}, None),
    "1.37": (SERVED_1_37 | NEITHER, {}, _TREE_OF_1_37),
    "1.37 with all of v1alpha3": (SERVED_1_37 | ALPHA, {}, _TREE_OF_1_37),
    "1.37 without the gate CompositePodGroup": (V1BETA1 | NEITHER, {}, _FLAT),
    "1.36": (V1ALPHA2 | NEITHER, {}, (Generation.V1ALPHA2, "v1alpha2", None)),
    "1.35": (V1ALPHA1 | NEITHER, {}, (Generation.V1ALPHA1, "v1alpha1", None)),
    "1.36 where that of 1.37 is stated": (V1ALPHA2 | NEITHER, {"apiGeneration": "v1beta1"}, None),
    "none": (NEITHER, {}, None),
    "versions that were not read": (UNKNOWN, {}, None),
    # Without the trees that the cluster serves, each clique would be a gang of its own, or all would be merged.
    "trees in a version that was not read": (UNKNOWN_TREES, {}, None),
    "trees in a version that was not read, trees off": (UNKNOWN_TREES, {"hierarchical": "off"}, _FLAT),
    "unknown": (None, {}, None),
    "unknown, stated": (None, {"apiGeneration": "v1beta1"}, _TREE_OF_1_37),
}


def _kube(**config: object) -> Settings:
    return settings_of("default-scheduler", {"gangScheduling": True, **config}, standalone=False)


def settings(**config: object) -> KubeSettings:
    return KubeSettings.model_validate({"gangScheduling": True, **config})


@pytest.mark.parametrize("case", SERVED)
def test_only_versions_that_were_read_are_used(case: str) -> None:
    apis, config, expected = SERVED[case]
    assert served(settings(**config), apis) == expected


def test_the_objects_of_1_38_have_the_fields_of_1_37() -> None:
    before = made(podgang(*TWO), SERVED_1_37)
    after = made(podgang(*TWO), BETA)
    assert after == [{**old, "apiVersion": f"{GROUP}/v1beta1"} for old in before]
    kinds = {Api(GROUP, "v1beta1", new["kind"]) for new in after}
    assert kinds == set(backend().gang_kinds(ClusterFacts(apis=BETA))) == set(BETA - NEITHER)


@pytest.mark.parametrize(
    ("apis", "named"),
    [(UNKNOWN, "v2 CompositePodGroup, v2 PodGroup, v2 Workload"), (UNKNOWN_TREES, "v1beta2 CompositePodGroup")],
)
def test_a_workload_is_not_judged_if_the_versions_are_unknown(apis: frozenset[Api], named: str) -> None:
    facts = ClusterFacts(apis=apis)
    verdict = validate(pod_clique_set(), settings=_kube(), facts=facts)
    missing = next(one for one in verdict.unjudged if one.rule == "kube/workload-api")
    assert missing.needs == Text(f"{GROUP} {named},", "has not read")
    assert "v1beta1" in missing.remedy
    assert not [one for one in verdict.findings if one.rule == "kube/workload-api"]


def test_no_gang_is_written_and_no_pod_prepared_if_the_versions_are_unknown() -> None:
    used = backend()
    with pytest.raises(Inexpressible) as error:
        used.gang_objects(podgang(*TWO), RECORD, ClusterFacts(apis=UNKNOWN))
    assert [one.needs for one in error.value.unjudged] == [unread(used.settings, UNKNOWN)]
    assert used.dialect(ClusterFacts(apis=UNKNOWN)) is None
    (note,) = used.init(ClusterFacts(apis=UNKNOWN))
    assert note == Text("has not read", "no gang is made")


@pytest.mark.parametrize("version", ["v1", "v2", "v1beta2"])
def test_a_gang_object_of_an_unknown_version_is_not_judged(version: str) -> None:
    """Its fields may have other meanings: read as of v1beta1 it would have no minimum."""
    found = pod_group(version=version, schedulingPolicy={"gang": {"minimum": 0}})
    verdict = validate(found, settings=_kube(), facts=ClusterFacts(apis=BETA | UNKNOWN))
    assert (verdict.allowed, verdict.findings) == (True, ())
    assert [one.needs for one in verdict.unjudged] == [Text(f"{GROUP}/{version} PodGroup,", "has not read")]


def test_documents_of_unknown_versions_leave_their_part_of_the_facts_open() -> None:
    known = facts_in([pod_group()])
    assert len(known.pod_groups or {}) == 1
    assert known.partial is None
    unknown = facts_in([pod_group(version="v2")])
    assert not unknown.pod_groups
    assert unknown.partial == frozenset({"pod_groups"})


def test_trees_are_named_in_the_version_of_the_newest_release_first() -> None:
    assert [trees.resource.api for trees in backend().trees] == [COMPOSITE_BETA, COMPOSITE]
    assert KubeBackend(KubeSettings()).trees == ()


def test_a_protected_composite_is_not_recreated_under_waiting_pods() -> None:
    """From 1.38 on it is deleted only after the groups below it, which are deleted only after their pods."""
    old = made(podgang(*TWO), SERVED_1_37)
    new = [{**one, "spec": {**one["spec"], "workloadRef": {}}} if "Composite" in one["kind"] else one for one in old]
    until = gangs.frozen(new, old)
    assert until is not None
    protected = [
        {**one, "metadata": {**one["metadata"], "finalizers": [gangs.COMPOSITE_PROTECTION]}}
        if one["kind"] == "CompositePodGroup"
        else one
        for one in old
    ]
    later = gangs.frozen(new, protected)
    assert later is not None
    assert later.until < until.until
