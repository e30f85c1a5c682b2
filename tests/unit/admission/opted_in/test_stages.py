"""Stages of a workload whose pod templates name PodGroups below one CompositePodGroup."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import known, schedulers, validate
from webhook.model.facts import ClusterFacts
from webhook.model.pod_groups import Groups, TreeGroup
from webhook.model.reading import Manifest
from webhook.validators.examples import job_set, pod_template, replicated

KUBE = schedulers({"name": "default-scheduler", "config": {"gangScheduling": True}})


def part(name: str, *after: str, status: str = "Complete", group: str | None = None) -> Manifest:
    template = pod_template({"schedulingGroup": {"podGroupName": group or name}})
    depends: dict[str, Any] = {"dependsOn": [{"name": one, "status": status} for one in after]} if after else {}
    return replicated(name, 1, template=template, **depends)


def said(parts: list[Manifest], groups: dict[str, TreeGroup], **spec: Any) -> list[tuple[str, str]]:
    """The place and the reason of what the rule finds. Groups are composites if their name starts with `root`."""
    found = {("default", name): group for name, group in groups.items()}
    facts = known(
        facts=ClusterFacts(
            pod_groups=Groups({key: one for key, one in found.items() if not one.composite}),
            composite_pod_groups=Groups({key: one for key, one in found.items() if one.composite}),
        )
    )
    manifest = job_set(*parts, scheduler="default-scheduler", **spec)
    verdict = validate(manifest, facts=facts, settings=KUBE)
    return [(str(one.at), one.why) for one in verdict.findings if one.rule == "kube/owner-stages"]


def leaf(parent: str | None = "root") -> TreeGroup:
    return TreeGroup(composite=False, minimum=1, parent=parent)


def root(minimum: int | None, parent: str | None = None) -> TreeGroup:
    return TreeGroup(composite=True, minimum=minimum, parent=parent)


TWO = {"a": leaf(), "b": leaf()}
THREE = {**TWO, "c": leaf()}
CASES: dict[str, tuple[list[Manifest], dict[str, TreeGroup], int | None]] = {
    "one group is enough": ([part("a"), part("b", "a")], {"root": root(1), **TWO}, None),
    "a basic parent": ([part("a"), part("b", "a")], {"root": root(None), **TWO}, None),
    "both stages at once": ([part("a"), part("b", "a")], {"root": root(2), **TWO}, 0),
    "both stages, the first only ready": ([part("a"), part("b", "a", status="Ready")], {"root": root(2), **TWO}, 0),
    "no parent": ([part("a"), part("b", "a")], {"a": leaf(None), "b": leaf(None)}, None),
    "an unknown parent": ([part("a"), part("b", "a")], TWO, None),
    "initializers together, and then the trainer": (
        [part("a"), part("b"), part("c", "a", "b")],
        {"root": root(2), **THREE},
        2,
    ),
    "a stage that is ready counts for the next": (
        [part("a"), part("b"), part("c", "a", status="Ready")],
        {"root": root(2), **THREE},
        None,
    ),
    "done before the stage before": (
        [part("a"), part("b", "a"), part("c", "b", status="Ready"), part("d", group="b")],
        {"root": root(2), **THREE},
        1,
    ),
    "a group of another workload": ([part("a"), part("b", "a")], {"root": root(2), **THREE}, None),
    "a group of two stages": ([part("a"), part("b", "a", group="a")], {"root": root(2), "a": leaf()}, 0),
    "a tree of two levels": (
        [part("a"), part("b", "a")],
        {"root": root(2), "root-a": root(1, "root"), "a": leaf("root-a"), "b": leaf()},
        0,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_stages_below_a_parent_that_needs_more_groups_than_have_pods_are_refused(case: str) -> None:
    parts, groups, stopped = CASES[case]
    places = [at for at, _ in said(parts, groups)]
    expected = (
        [] if stopped is None else [f"spec.replicatedJobs[{stopped}].template.spec.template.spec.schedulingGroup"]
    )
    assert places == expected


def test_in_order_each_part_is_still_running_when_the_next_one_starts() -> None:
    order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    ((place, why),) = said([part("a"), part("b")], {"root": root(2), **TWO}, **order)
    assert place == "spec.replicatedJobs[0].template.spec.template.spec.schedulingGroup"
    assert why.startswith("its CompositePodGroup needs 2 groups")


def test_parts_that_start_together_may_need_all_groups() -> None:
    assert said([part("a"), part("b")], {"root": root(2), **TWO}) == []


def test_many_stages_are_not_judged() -> None:
    names = [f"p{index}" for index in range(70)]
    parts = [part(names[0]), *(part(name, names[0]) for name in names[1:])]
    assert said(parts, {"root": root(70), **{name: leaf() for name in names}}) == []
