"""`rollcall explain` of gang objects written by hand: trees as text, JSON, Mermaid and SVG, and the exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import GroupWorld, group_worlds
from tests.unit.cli.conftest import Run
from tests.unit.model.group_worlds import trees_of
from webhook.model.grove import GroveGeneration
from webhook.offline.gang_tree import gang_tree
from webhook.offline.pictures import Box, BoxShape, drawing, gangs_box, group_box
from webhook.offline.satisfiability import walk
from webhook.validators.examples import clique, pod_clique_set, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet

TREE = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: worker, namespace: team-a}
spec: {parentCompositePodGroupName: job, schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: helper, namespace: team-a}
spec: {parentCompositePodGroupName: job, schedulingPolicy: {basic: {}}}
"""
TOP = """\
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: job, namespace: team-a}
spec:
  schedulingPolicy: {gang: {minGroupCount: 2}}
  schedulingConstraints: {topology: [{key: example.com/rack}]}
"""
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: team-a}
spec: {schedulingGroup: {podGroupName: %s}}
"""
HELPER, FIRST, SECOND = PODS % ("h", "helper"), PODS % ("w0", "worker"), PODS % ("w1", "worker")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The groups in one file, and their parent and one pod of each in others."""
    (tmp_path / "groups.yaml").write_text(TREE)
    (tmp_path / "pods.yaml").write_text(f"{HELPER}---\n{FIRST}")
    (tmp_path / "top.yaml").write_text(TOP)
    return tmp_path


def test_a_tree_is_built_from_all_files_and_the_reason_comes_first(rollcall: Run, folder: Path) -> None:
    assert rollcall("explain", str(folder)) == (
        1,
        f"""\
{folder}/top.yaml:1:1: CompositePodGroup team-a/job
    can never start: PodGroup worker needs 2 pods to start, and one is there

    CompositePodGroup team-a/job: starts with 2 of 2 groups, 1 can start, requires one example.com/rack
    ├── PodGroup worker: starts with 2 pods, has 1
    └── PodGroup helper: starts with any pod, has 1

""",
        "",
    )


def test_with_the_missing_pod_the_tree_starts(rollcall: Run, folder: Path) -> None:
    (folder / "second.yaml").write_text(SECOND)
    ran = rollcall("explain", str(folder))
    assert ran.code == 0
    assert ran.out.splitlines()[1] == "    can start"


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (f"{TREE}---\n{TOP}", 3, "    not known .* can start: no pods here .*"),
        (
            TREE,
            1,
            "    can never start: CompositePodGroup job is missing, and PodGroup worker and PodGroup helper name it .*",
        ),
        (f"{TREE}---\n{TOP}---\n{HELPER}---\n{FIRST}---\n{SECOND}", 0, "    can start"),
        (
            "apiVersion: scheduling.k8s.io/v1alpha2\nkind: Workload\nmetadata: {name: job}\n"
            "spec: {podGroupTemplates: [{name: worker, schedulingPolicy: {basic: {}}}]}\n",
            3,
            "    not known .* can start: no group here .* its templates",
        ),
    ],
    ids=["no pods", "no parent", "all", "templates alone"],
)
def test_the_exit_code_follows_the_verdict(rollcall: Run, content: str, code: int, said: str) -> None:
    ran = rollcall("explain", "-", stdin=content)
    assert (ran.code, ran.err) == (code, "")
    assert re.fullmatch(said, ran.out.splitlines()[1])


def test_of_two_trees_the_one_that_cannot_start_decides_the_exit_code(rollcall: Run) -> None:
    other = TOP.replace("name: job", "name: other")
    ran = rollcall("explain", "-", stdin=f"{TREE}---\n{TOP}---\n{other}---\n{HELPER}---\n{FIRST}---\n{SECOND}")
    assert ran.code == 1
    assert [line for line in ran.out.splitlines() if "start" in line and "──" not in line and "of" not in line] == [
        "    can start",
        "    can never start: CompositePodGroup other needs 2 groups to start, and none is below it",
    ]


def test_further_reasons_are_counted_after_the_first(rollcall: Run) -> None:
    groups = "---\n".join(
        TREE.split("---\n", maxsplit=1)[0].replace("name: worker", f"name: worker-{i}") for i in range(9)
    )
    ran = rollcall("explain", "-", stdin=f"{TOP.replace('Count: 2', 'Count: 9')}---\n{groups}---\n{HELPER}")
    said = ran.out.split("\n\n")[0].splitlines()[1:]
    assert len(said) == 6
    assert said[0] == "    can never start: PodGroup worker-0 needs 2 pods to start, and none is there"
    assert said[1] == "        and PodGroup worker-1 needs 2 pods to start, and none is there"
    assert said[-1] == "        and 4 more"


def test_json_contains_the_verdict_the_reasons_and_every_minimum(rollcall: Run, folder: Path) -> None:
    ran = rollcall("explain", "-o", "json", str(folder))
    assert ran.code == 1
    document = json.loads(ran.out)
    assert document["workloads"] == []
    assert document["trees"] == [
        {
            "kind": "CompositePodGroup",
            "name": "team-a/job",
            "answer": "cannot",
            "why": [
                {
                    "reason": "tooFewPods",
                    "kind": "PodGroup",
                    "name": "team-a/worker",
                    "level": 2,
                    "message": "PodGroup worker needs 2 pods to start, and one is there",
                }
            ],
            "tree": {
                "kind": "CompositePodGroup",
                "name": "team-a/job",
                "standing": "cannot",
                "minimum": 2,
                "topology": {"required": "example.com/rack"},
                "below": [
                    {"kind": "PodGroup", "name": "team-a/worker", "standing": "cannot", "minimum": 2, "pods": 1},
                    {"kind": "PodGroup", "name": "team-a/helper", "standing": "can", "minimum": None, "pods": 1},
                ],
            },
            "file": f"{folder}/top.yaml",
            "line": 1,
            "column": 1,
        }
    ]


def test_the_flowchart_marks_the_group_that_blocks_the_tree(rollcall: Run, folder: Path) -> None:
    ran = rollcall("explain", "-o", "mermaid", str(folder))
    assert ran == (
        1,
        """\
flowchart TD
    n0["CompositePodGroup team-a/job<br/>starts with 2 of 2 groups<br/>1 can start<br/>requires one example.com/rack"]\
:::cannot
    n1(["PodGroup worker<br/>starts with 2 pods<br/>has 1"]):::cannot
    n0 --> n1
    n2(["PodGroup helper<br/>starts with any pod<br/>has 1"])
    n0 --> n2
    classDef cannot stroke:#c62828,stroke-dasharray:4 3
""",
        "",
    )


def test_a_GangGroup_of_Koordinator_is_explained(rollcall: Run) -> None:
    groups = "---\n".join(
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\n"
        f"metadata: {{name: {name}, annotations: {{gang.scheduling.koordinator.sh/groups: "
        """'["default/a","default/b","c"]'}}\nspec: {minMember: 1}\n"""
        for name in "ab"
    )
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {pod-group.scheduling.sigs.k8s.io: a}}\n"
    ran = rollcall("explain", "-", stdin=f"{groups}---\n{pod}")
    assert ran.code == 1
    assert ran.out == (
        "<stdin>:1:1: GangGroup default/a\n"
        "    can never start: gang c is listed without a namespace, so it is never found: default/a and default/b "
        "list it\n"
        "        and gang default/b needs 1 pod to start, and none is there\n"
        "\n"
        "    GangGroup default/a: starts with all of 3 gangs, 1 can start\n"
        "    ├── gang default/a: starts with 1 pod, has 1\n"
        "    ├── gang default/b: starts with 1 pod, has 0\n"
        "    └── gang c: listed without a namespace\n"
        "\n"
    )


def test_a_workload_and_a_tree_are_explained_side_by_side(rollcall: Run) -> None:
    both = f"{json.dumps(pod_clique_set())}\n---\n{TREE}---\n{TOP}"
    ran = rollcall("explain", "-o", "json", "-", stdin=both)
    assert ran.code == 3
    document = json.loads(ran.out)
    assert (len(document["workloads"]), len(document["trees"])) == (1, 1)
    assert rollcall("explain", "-o", "mermaid", "-", stdin=both).out.count("flowchart TD") == 1


def test_groups_that_are_preempted_as_a_whole_say_so(rollcall: Run) -> None:
    whole, drawn = TREE.replace("{gang: {minCount: 2}}}", "{gang: {minCount: 2}}, disruptionMode: {all: {}}}"), []
    for content in (TREE, whole):
        ran = rollcall("explain", "-", stdin=f"{content}---\n{TOP}")
        drawn.append([line.strip("├└─ ") for line in ran.out.splitlines() if "PodGroup worker" in line])
    assert drawn == [
        ["PodGroup worker: starts with 2 pods"],
        ["PodGroup worker: starts with 2 pods, preempted as a whole"],
    ]


def test_unreadable_input_is_reported_with_its_place(rollcall: Run) -> None:
    ran = rollcall("explain", "-", stdin=f"{TOP}---\n{TREE.replace('minCount: 2', 'minCount: two')}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "rollcall: <stdin>:8:1: PodGroup team-a/worker: expected a whole number, found text\n"


# SVG


class Drawn(NamedTuple):
    """A box of a drawing: its corners, and what it says."""

    left: int
    top: int
    right: int
    bottom: int
    lines: tuple[str, ...]


def boxes_of(svg: str) -> list[Drawn]:
    root = ElementTree.fromstring(svg)  # noqa: S314 - what we have just drawn ourselves
    found = []
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        edge, *lines = group
        left, top, width, height = (int(edge.attrib[key]) for key in ("x", "y", "width", "height"))
        found.append(Drawn(left, top, left + width, top + height, tuple(line.text or "" for line in lines)))
        for line in lines:
            assert left < int(line.attrib["x"]) < left + width
            assert top < int(line.attrib["y"]) < top + height
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    assert all(box.left >= 0 and box.top >= 0 and box.right <= width and box.bottom <= height for box in found)
    return found


def overlapping(boxes: list[Drawn]) -> list[tuple[Drawn, Drawn]]:
    return [
        (one, other)
        for index, one in enumerate(boxes)
        for other in boxes[index + 1 :]
        if one.left < other.right and other.left < one.right and one.top < other.bottom and other.top < one.bottom
    ]


def test_the_drawing_shows_every_group_with_its_minimum(rollcall: Run, folder: Path) -> None:
    ran = rollcall("explain", "-o", "svg", str(folder))
    assert (ran.code, ran.err) == (1, "")
    boxes = boxes_of(ran.out)
    assert [box.lines for box in boxes] == [
        (
            "CompositePodGroup team-a/job",
            "starts with 2 of 2 groups",
            "1 can start",
            "requires one example.com/rack",
        ),
        ("PodGroup worker", "starts with 2 pods", "has 1"),
        ("PodGroup helper", "starts with any pod", "has 1"),
    ]
    assert overlapping(boxes) == []
    top, worker, helper = boxes
    assert top.right < worker.left == helper.left
    assert worker.bottom < helper.top
    assert ran.out.count("<path ") == 2
    assert ran.out.count("stroke-dasharray") == 2


def test_a_drawing_has_no_external_references(rollcall: Run, folder: Path) -> None:
    out = rollcall("explain", "-o", "svg", str(folder)).out
    assert out.startswith('<svg xmlns="http://www.w3.org/2000/svg" ')
    assert out.count("http") == 1
    assert not any(word in out for word in ("<script", "<style", "<image", "@import", "@font-face", "href"))


def test_a_PodCliqueSet_is_drawn(rollcall: Run) -> None:
    manifest = pod_clique_set(clique("front"), clique("worker"), groups=[scaling_group("ring", "worker", replicas=2)])
    ran = rollcall("explain", "-o", "svg", "-", stdin=json.dumps(manifest))
    assert ran.code == 0
    titles = [box.lines[0] for box in boxes_of(ran.out)]
    assert titles[:2] == ["PodCliqueSet default/demo", "PodGang demo-0-<epoch>"]
    box = gangs_box(gang_tree(PodCliqueSet(manifest), GroveGeneration.LEGACY))
    assert len(titles) == sum(1 for _ in below(box))


def below(box: Box) -> Any:
    yield box
    for one in box.below:
        yield from below(one)


@given(group_worlds(width=4))
def test_every_group_is_drawn_once_and_no_two_overlap(world: GroupWorld) -> None:
    trees = trees_of(world.manifests())
    boxes = boxes_of(drawing([group_box(tree) for tree in trees]))
    titles = [group_box(branch, top=level == 1).title for tree in trees for branch, level in walk(tree)]
    assert sorted(box.lines[0] for box in boxes) == sorted(titles)
    assert overlapping(boxes) == []


@given(st.text(max_size=200))
def test_the_drawing_is_valid_XML_with_every_name(name: str) -> None:
    (box,) = boxes_of(drawing([Box(name, ("<&>\"'", "\x00\x1b"), BoxShape.LEAF, name)]))
    assert box.lines[1:] == ("<&>\"'", "\\x00\\x1b")
    if name.isprintable() and len(name) <= 90:
        assert box.lines[0] == name


def test_the_drawing_of_a_folder_has_its_groups_in_the_order_of_the_files(rollcall: Run, folder: Path) -> None:
    # Each process of the tests has another hash seed.
    boxes = boxes_of(rollcall("explain", "-o", "svg", str(folder)).out)
    assert [box.lines[0] for box in boxes] == ["CompositePodGroup team-a/job", "PodGroup worker", "PodGroup helper"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_drawing_of_a_folder_is_the_same_in_every_process(rollcall: Run, folder: Path, seed: str) -> None:
    command = [sys.executable, "-m", "webhook", "explain", "-o", "svg", str(folder)]
    ran = subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.decode() == rollcall("explain", "-o", "svg", str(folder)).out


def test_an_empty_input_gives_a_valid_drawing() -> None:
    assert boxes_of(drawing([])) == []
