"""Changes of an object as replacements in its text: comments, order and quoting stay."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.growth.step_counts import Cost
from webhook.model.admission_request import Change
from webhook.model.fields import ROOT, FieldPath, Item
from webhook.offline.manifests import read_text
from webhook.offline.positions import applied_to

TEXT = """\
# The head.
metadata:
  name: demo
  annotations:
    one: "1"  # the first
    two: 'b'
spec:
  list:
  - name: a
    topology: {pack: {required: rack}}
    minimum: 3
  - name: b
    minimum: 1 # one
  text: |
    a
    b
  flow: {x: 1, v: [1, 2], z: 3}
  empty: {}
"""
ANNOTATIONS = ("metadata", "annotations")
ITEM = ("spec", "list", Item(0))


def change(op: str, path: tuple[Any, ...], value: Any = None) -> Change:
    return Change(op, FieldPath(path), None, value)


def edited(text: str, *changes: Change, number: int = 0, at: FieldPath = ROOT) -> str | None:
    """Return the edited text; None if it cannot be edited."""
    edits = read_text(text, "a.yaml")[number].edits(at, changes)
    return applied_to(text, edits) if edits else None


@pytest.mark.parametrize(
    ("changed", "before", "after"),
    [
        (change("replace", (*ANNOTATIONS, "one"), "none"), '"1"  # the first', '"none"  # the first'),
        (change("replace", (*ANNOTATIONS, "two"), "c"), "'b'", "'c'"),
        (change("replace", (*ITEM, "minimum"), 4), "minimum: 3", "minimum: 4"),
        (change("replace", (*ITEM, "minimum"), "4"), "minimum: 3", 'minimum: "4"'),
        (change("replace", (*ITEM, "topology"), {"a": "b"}), "{pack: {required: rack}}", "{a: b}"),
        (change("remove", (*ITEM, "topology")), "    topology: {pack: {required: rack}}\n", ""),
        (change("remove", (*ITEM, "name")), "- name: a\n    topology", "- topology"),
        (change("remove", (*ITEM, "topology", "pack")), "{pack: {required: rack}}", "{}"),
        (change("remove", ("spec", "flow", "x")), "{x: 1, v", "{v"),
        (change("remove", ("spec", "flow", "v")), "x: 1, v: [1, 2], z", "x: 1, z"),
        (change("remove", ("spec", "flow", "z")), ", z: 3}", "}"),
        (change("remove", ("spec", "text")), "  text: |\n    a\n    b\n", ""),
        (change("add", ("spec", "flow", "w"), True), "z: 3}", "z: 3, w: true}"),
        (change("add", ("spec", "empty", "w"), "x"), "empty: {}", "empty: {w: x}"),
        (
            change("add", ("spec", "list", Item(1), "maximum"), 7),
            "minimum: 1 # one\n",
            "minimum: 1 # one\n    maximum: 7\n",
        ),
        (
            change("add", ("metadata", "labels"), {"a/b": "yes"}),
            "    two: 'b'\n",
            "    two: 'b'\n  labels:\n    a/b: \"yes\"\n",
        ),
        (
            change("add", ("spec", "last"), {"a": {"b": 1}}),
            "  empty: {}\n",
            "  empty: {}\n  last:\n    a:\n      b: 1\n",
        ),
    ],
)
def test_a_change_touches_only_its_own_text(changed: Change, before: str, after: str) -> None:
    assert TEXT.count(before) == 1
    assert edited(TEXT, changed) == TEXT.replace(before, after)


def test_the_last_entry_of_a_block_leaves_an_empty_mapping() -> None:
    text = "metadata:\n  annotations:\n    one: a\n  name: x\n"
    assert edited(text, change("remove", (*ANNOTATIONS, "one"))) == "metadata:\n  annotations: {}\n  name: x\n"


def test_a_text_without_a_last_line_end_is_extended() -> None:
    assert edited("spec:\n  a: 1", change("add", ("spec", "b"), 2)) == "spec:\n  a: 1\n  b: 2"


def test_a_text_of_several_lines_at_the_end_of_a_document_leaves_the_next_document_alone() -> None:
    text = "a: |\n  b\n---\nc: 1\n"
    assert edited(text, change("replace", ("a",), "d")) == "a: d\n---\nc: 1\n"
    kept = "a: |+\r\n  b\r\n\r\n--- # next\r\nc: 1\r\n"
    assert edited(kept, change("replace", ("a",), "d")) == "a: d\r\n\r\n--- # next\r\nc: 1\r\n"


def test_lines_end_as_in_the_rest_of_the_file() -> None:
    assert edited("a: 1\r\n---\nb: 1", change("add", ("c",), 2), number=1) == "a: 1\r\n---\nb: 1\r\nc: 2"


@pytest.mark.parametrize(("value", "written"), [("n", '"n"'), ("1e3", '"1e3"'), ("0o17", '"0o17"'), ("=", "=")])
def test_a_text_that_kubectl_would_read_as_something_else_is_quoted(value: str, written: str) -> None:
    assert edited("a: b\n", change("replace", ("a",), value)) == f"a: {written}\n"


def test_several_changes_are_made_together_and_other_documents_stay() -> None:
    text = f"a: 1\n---\n{TEXT}---\nspec: {{list: []}}\n"
    changes = (change("remove", (*ANNOTATIONS, "one")), change("replace", (*ITEM, "minimum"), 4))
    expected = text.replace('    one: "1"  # the first\n', "").replace("minimum: 3", "minimum: 4")
    assert edited(text, *changes, number=1) == expected


def test_an_item_of_a_list_of_objects_is_edited_at_its_place() -> None:
    text = "kind: List\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n"
    at = FieldPath(("items", Item(1)))
    assert edited(text, change("replace", ("metadata", "name"), "c"), at=at) == text.replace("name: b", "name: c")


LIST = """\
kind: List
items:
# the first
- metadata: {name: a}
  spec:
    kept: 1
    gone: 2
# the second
-   metadata:
      name: b
    spec:
      gone: |+
        text

- spec:
    gone: 2
    # behind it
metadata: {}
"""


@pytest.mark.parametrize(
    ("index", "changed", "before", "after"),
    [
        (0, change("remove", ("spec", "gone")), "    kept: 1\n    gone: 2\n", "    kept: 1\n"),
        (
            0,
            change("add", ("spec", "new"), "x"),
            "    kept: 1\n    gone: 2\n",
            "    kept: 1\n    gone: 2\n    new: x\n",
        ),
        (1, change("replace", ("metadata", "name"), "c"), "name: b", "name: c"),
        (1, change("add", ("metadata", "labels"), {"a": "b"}), "name: b\n", "name: b\n      labels:\n        a: b\n"),
        (2, change("remove", ("spec", "gone")), "- spec:\n    gone: 2\n", "- spec: {}\n"),
        (2, change("replace", ("spec", "gone"), 3), "    gone: 2\n    # behind", "    gone: 3\n    # behind"),
    ],
)
@pytest.mark.parametrize("anchor", ["", "  # & and so the whole list is read\n"], ids=["alone", "whole"])
def test_an_object_of_a_list_in_lines_is_edited_alone(
    index: int, changed: Change, before: str, after: str, anchor: str
) -> None:
    text = f"a: 1\n---\n{LIST}{anchor}---\nb: 2\n"
    assert text.count(before) == 1
    at = FieldPath(("items", Item(index)))
    assert edited(text, changed, number=1, at=at) == text.replace(before, after)


def test_objects_of_one_list_and_of_other_documents_are_edited_in_turn() -> None:
    text = "items:\n- {name: a}\n- {name: b}\n---\nname: c\n"
    first, second = read_text(text, "a.yaml")

    def renamed(at: FieldPath) -> str:
        edits = (second if at == ROOT else first).edits(at, (change("replace", ("name",), "new"),))
        return applied_to(text, edits)

    one, two = FieldPath(("items", Item(0))), FieldPath(("items", Item(1)))
    assert [renamed(at) for at in (one, ROOT, two, one)] == [
        text.replace(old, "name: new") for old in ("name: a", "name: c", "name: b", "name: a")
    ]
    first.forget()
    assert renamed(two) == text.replace("name: b", "name: new")


def test_json_is_edited_too() -> None:
    text = '{\n  "spec": {\n    "a": "x",\n    "b": 2\n  }\n}\n'
    assert edited(text, change("replace", ("spec", "a"), "none")) == text.replace('"x"', '"none"')
    assert edited(text, change("remove", ("spec", "b"))) == '{\n  "spec": {\n    "a": "x"\n  }\n}\n'


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        pytest.param(
            "a: &x {b: 1}\nspec: *x\n", change("replace", ("spec", "b"), 2), id="a value that another place uses"
        ),
        pytest.param(
            "a: &x {b: 1}\nspec:\n  <<: *x\n  c: 1\n", change("remove", ("spec", "b")), id="a value that is merged in"
        ),
        pytest.param(
            "a: &x {b: 1}\nspec:\n  b: 2\n  <<: *x\n",
            change("replace", ("spec", "b"), 3),
            id="a value that kubectl takes from a later merge",
        ),
        pytest.param("a: | # about b\n  b\n", change("replace", ("a",), "c"), id="a comment at a text of lines"),
        pytest.param("spec:\n  a: 1\n", change("remove", ("spec", "missing")), id="a field that is not there"),
        pytest.param(
            "spec:\n- a: 1\n  # about b\n  b: 2\n", change("remove", ("spec", Item(0), "a")), id="a comment in the way"
        ),
        pytest.param(f"spec:\n  a: 1\n  b: {'x' * 200_000}\n", change("remove", ("spec", "a")), id="a large document"),
    ],
)
def test_what_cannot_be_written_without_another_change_is_not_edited(text: str, changed: Change) -> None:
    assert edited(text, changed) is None


def test_positions_count_lines_and_columns_of_the_file() -> None:
    [edit] = read_text(f"a: 1\n---\n{TEXT}", "a.yaml")[1].edits(
        FieldPath(), (change("replace", (*ANNOTATIONS, "one"), "none"),)
    )
    assert (edit.line, edit.column, edit.end_line, edit.end_column, edit.inserted) == (7, 10, 7, 13, '"none"')


def test_the_edits_of_all_documents_of_a_file_take_time_in_proportion_to_it() -> None:
    def steps(number: int) -> int:
        documents = read_text("a: 1\n---\n" * number, "a.yaml")
        changed = (change("replace", ("a",), 2),)
        cost = Cost(lambda: [document.edits(ROOT, changed) for document in documents], memory=False)
        return max(cost.runs.values())

    assert steps(80) <= 4 * steps(20)
