"""The folding of pictures: siblings that differ only in their names are one box with a count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from webhook.model.grove import GroveGeneration
from webhook.offline.gang_tree import gang_tree
from webhook.offline.pictures import Box, BoxShape, drawing, flowchart, folded, gang_picture, tree_lines
from webhook.validators.examples import clique, pod_clique_set, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet


def leaf(name: str, *details: str, **fields: Any) -> Box:
    return Box(f"PodGroup {name}", details, BoxShape.LEAF, name, **fields)


def tree(*below: Box) -> Box:
    return Box("JobSet team-a/train", ("pods",), BoxShape.WHOLE, "team-a/train", below=below)


def lines(box: Box) -> list[str]:
    return list(tree_lines(folded(box)))


def test_two_siblings_that_are_alike_are_both_drawn() -> None:
    assert lines(tree(leaf("a", "4 pods"), leaf("b", "4 pods"))) == [
        "JobSet team-a/train: pods",
        "├── PodGroup a: 4 pods",
        "└── PodGroup b: 4 pods",
    ]


def test_more_siblings_that_are_alike_are_one_box_with_the_number_of_the_others() -> None:
    assert lines(tree(*(leaf(f"worker-{index}", "1 pod") for index in range(400)))) == [
        "JobSet team-a/train: pods",
        "└── PodGroup worker-0: 1 pod, and 399 more like it, up to worker-399",
    ]


def test_siblings_of_two_kinds_are_folded_even_if_they_alternate() -> None:
    stages = [leaf(f"stage-{index}-{part}", pods) for index in range(9) for part, pods in (("a", "1 pod"), ("b", "8"))]
    assert lines(tree(*stages)) == [
        "JobSet team-a/train: pods",
        "├── PodGroup stage-0-a: 1 pod, and 8 more like it, up to stage-8-a",
        "└── PodGroup stage-0-b: 8, and 8 more like it, up to stage-8-b",
    ]


def test_what_is_below_siblings_makes_them_different() -> None:
    both = [leaf("a", below=(leaf("x", "1 pod"),)), leaf("b", below=(leaf("y", "2 pods"),))]
    third = leaf("c", below=(leaf("z", "1 pod"),))
    assert len(folded(tree(*both, third)).below) == 3
    assert len(folded(tree(*both, third, replace(third, title="PodGroup d", name="d"))).below) == 2


def test_siblings_that_wait_for_the_one_before_are_folded_in_turn() -> None:
    chain = [leaf(f"s{index}", "1 pod", waits_for=f"s{index - 1}" if index else None) for index in range(100)]
    assert lines(tree(*chain)) == [
        "JobSet team-a/train: pods",
        "├── PodGroup s0: 1 pod",
        "└── PodGroup s1: 1 pod, waits for s0, and 98 more like it in turn, up to s99",
    ]


def test_siblings_that_wait_for_the_same_one_are_not_in_turn() -> None:
    star = [leaf("base", "1 pod"), *(leaf(f"s{index}", "1 pod", waits_for="base") for index in range(5))]
    assert lines(tree(*star))[2] == "└── PodGroup s0: 1 pod, waits for base, and 4 more like it, up to s4"


def test_what_stops_a_tree_is_never_folded_into_what_does_not() -> None:
    boxes = [leaf(f"w{index}", "1 pod", cannot=index == 7) for index in range(20)]
    assert [(box.name, box.cannot, box.more) for box in folded(tree(*boxes)).below] == [
        ("w0", False, 18),
        ("w7", True, 0),
    ]


def test_of_many_siblings_that_are_all_different_those_that_stop_the_tree_are_kept() -> None:
    boxes = [leaf(f"w{index}", f"{index} pods", cannot=index == 50) for index in range(60)]
    drawn = folded(tree(*boxes)).below
    assert [box.title for box in drawn[:2]] == ["PodGroup w0", "PodGroup w1"]
    assert [box.title for box in drawn[-2:]] == ["PodGroup w50", "40 others"]
    assert len(drawn) == 21


def boxes_of(box: Box) -> Iterator[Box]:
    yield box
    for one in box.below:
        yield from boxes_of(one)


def test_a_set_of_400_pods_has_as_many_boxes_as_one_of_four() -> None:
    def picture(replicas: int) -> Box:
        cliques = [clique(f"part-{index}", replicas=replicas // 4) for index in range(4)]
        groups = [scaling_group("ring", "part-3", replicas=replicas // 4)]
        return gang_picture(gang_tree(PodCliqueSet(pod_clique_set(*cliques, groups=groups)), GroveGeneration.LEGACY))

    assert len(list(boxes_of(picture(400)))) <= len(list(boxes_of(picture(4)))) + 2


def test_text_svg_and_mermaid_say_the_same() -> None:
    chain = [leaf(f"s{index}", "1 pod", waits_for=f"s{index - 1}" if index else None) for index in range(100)]
    box = folded(tree(*chain))
    told = "and 98 more like it in turn, up to s99"
    svg = drawing([box])
    assert all(told in text for text in (svg, flowchart([box]), "\n".join(tree_lines(box))))
    paths = ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}path[@class='waits']")  # noqa: S314 - ours
    assert len(paths) == 1
    assert '-. "starts first" .->' in flowchart([box])
