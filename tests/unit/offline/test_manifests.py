"""Reading manifests: values as kubectl reads them, the position of each field, and a one-line error for unreadable
input.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_objects, json_values
from tests.texts import Text
from tests.unit.growth.step_counts import Cost
from webhook.errors import InputError, Stopped
from webhook.model.fields import FieldPath, Item
from webhook.offline import whole_files
from webhook.offline.manifests import NO_MANIFEST, files_of, read_file, read_text
from webhook.offline.positions import COMMAND_LINE, SERVER, Limits
from webhook.testing.strategies import words


def values(text: str | bytes) -> list[Any]:
    return [document.manifest for document in read_text(text, "f.yaml")]


def why(text: str | bytes, limits: Limits = COMMAND_LINE) -> str:
    with pytest.raises(InputError) as error:
        read_text(text, "f.yaml", limits)
    assert "\n" not in str(error.value)
    return str(error.value)


SCALARS: dict[str, Any] = {
    "yes": True,
    "On": True,
    "off": False,
    "n": False,
    '"yes"': "yes",
    "'off'": "off",
    "true": True,
    "~": None,
    "": None,
    "null": None,
    "1": 1,
    "-1": -1,
    "017": 15,
    "0o17": 15,
    "0x1f": 31,
    "1_000": 1000,
    "1.5": 1.5,
    "1e3": 1000,
    "2.0": 2,
    "1e400": "1e400",
    "18446744073709551616": 18446744073709551616.0,
    "2020-01-01": "2020-01-01",
    "2020-01-01T00:00:00Z": "2020-01-01T00:00:00Z",
    "1:30": "1:30",
    "500m": "500m",
    "!!str 5": "5",
    "!!str yes": "yes",
    "!!int '5'": 5,
    "! 5": "5",
    "089": 89,
    "|-\n  yes": "yes",
    "9" * 500: "9" * 500,
}


@pytest.mark.parametrize(("written", "value"), SCALARS.items(), ids=SCALARS)
def test_a_scalar_has_the_type_that_kubectl_would_send(written: str, value: Any) -> None:
    assert values(f"a: {written}\n") == [{"a": value}]
    assert type(values(f"a: {written}\n")[0]["a"]) is type(value)


def test_keys_become_strings_and_merge_keys_are_merged() -> None:
    assert values("1: x\ntrue: w\n<<: {a: 1, b: 2}\nb: 3\n") == [{"1": "x", "true": "w", "b": 3, "a": 1}]
    assert values("x: &x {a: 1}\nz: {<<: [*x, {a: 2, c: 2}]}\n") == [{"x": {"a": 1}, "z": {"a": 1, "c": 2}}]
    # Not as in YAML, but as in kubectl: a merge key also overrides a key before it.
    assert values("a: 1\n<<: {a: 2}\n") == [{"a": 2}]


def test_an_alias_is_a_copy_and_an_anchor_can_be_redefined() -> None:
    ((found),) = values("a: &x {b: 1}\nc: *x\nd: &x 2\ne: *x\n")
    assert found == {"a": {"b": 1}, "c": {"b": 1}, "d": 2, "e": 2}
    assert found["a"] is not found["c"]


def test_numbers_of_json_have_the_values_that_go_passes_on() -> None:
    assert values('{"a": 2.0, "b": 9223372036854775807, "c": 9223372036854775808, "d": -1.5}') == [
        {"a": 2, "b": 9223372036854775807, "c": 9223372036854775808.0, "d": -1.5}
    ]
    assert isinstance(values('{"c": 9223372036854775808}')[0]["c"], float)


def test_several_json_documents_can_follow_each_other() -> None:
    first, second = read_text('{"a": 1}\n {"b": {"c": 2}}', "f.json")
    assert (first.manifest, second.manifest) == ({"a": 1}, {"b": {"c": 2}})
    assert second.position(FieldPath(("b", "c"))) == (2, 9)
    assert values('{"a": 1}\n---\n{b: 2}') == [{"a": 1}, {"b": 2}]


def test_documents_are_separated_and_empty_ones_skipped() -> None:
    assert values("---\n# nothing\n---\na: 1\n---\n\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]
    assert values("") == []
    assert [document.line for document in read_text("# c\na: 1\n---\n\nb: 2\n", "f")] == [2, 5]


def test_json_with_tabs_and_a_byte_order_mark_is_read() -> None:
    assert values('\ufeff{\n\t"a":\t"\\ud83d\\ude00"}') == [{"a": "😀"}]
    assert values(b'\xef\xbb\xbf{"a": 1}') == [{"a": 1}]


UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "no YAML": ("a: [", "f.yaml:1:5: is not YAML: did not find expected node content"),
    "a tab": ("a:\n\tb: 1", "f.yaml:2:1: is not YAML: found character that cannot start any token"),
    "two colons": ("a: b: c", "f.yaml:1:5: is not YAML: mapping values are not allowed in this context"),
    "an unknown alias": ("a: *x", "f.yaml:1:4: there is no anchor x"),
    "a key twice": ("a:\n  b: 1\n  b: 2", "f.yaml:3:3: the key b appears twice"),
    "a key twice in JSON": ('{"b": {"a": 1},\n"a": 1, "a": 2}', "f.yaml:2:9: the key a appears twice"),
    "a list": ("- 1", Text("f.yaml:1:1: is not a manifest", "this is a list")),
    "text": (
        "hello",
        Text("f.yaml:1:1: is not a manifest", '("hello")'),
    ),
    "items that are no list": (
        "apiVersion: v1\nkind: List\nitems: 3",
        Text("f.yaml:3:1: items of a List", "this is 3"),
    ),
    "items of a typed list, in JSON": (
        '{"kind": "NodeList",\n "items": {"metadata": {}}}',
        Text("f.yaml:2:2: items of a NodeList", "an object of 1 fields"),
    ),
    "an item that is no object": (
        "kind: List\nitems:\n- kind: Pod\n- Pod",
        Text("f.yaml:4:3: items[1] of a List", '"Pod"'),
    ),
    "a Python object": ("a: !!python/object:os.system x", "f.yaml:1:4: has the tag !!python/object:os.system, which a"),
    "a tag": ("a: !secret x", Text("f.yaml:1:4: ", "the tag !secret")),
    "a list as key": ("? [a]\n: 1", Text("f.yaml:1:3: a key", "a list")),
    "null as key": ("~: 1", Text("f.yaml:1:1: a key", "null")),
    "a fraction as key": ("1.5: 1", Text("f.yaml:1:1: a key", "the number 1.5")),
    "a template": ("a: {{ .Values.x }}", Text("f.yaml:1:5: a key", "a mapping", "template")),
    "a word as number": ("a: !!int x", "f.yaml:1:4: 'x' is not a !!int"),
    "not a number in JSON": ('{"a": NaN}', "f.yaml:1:1: NaN is not a number in JSON"),
    "a number too large": ('{"a": 1e999}', "f.yaml:1:1: 1e999 is out of"),
    "a merge of a word": ("<<: x", Text("f.yaml:1:5: ", "merged")),
    "not a number": ("a: .nan", "f.yaml:1:4: .nan is not a number in JSON"),
    "infinity": ("a: -.inf", "f.yaml:1:4: -.inf is not a number in JSON"),
    "half a surrogate": ('{"a": "\\ud800"}', Text("f.yaml:1:1: ", "surrogate")),
    "half a surrogate in text": ("a: \ud800", Text("f.yaml:1:4: ", "surrogate")),
    "UTF-16": ("a: 1".encode("utf-16"), Text("f.yaml: ", "UTF-16")),
    "not UTF-8": (b"a: \xff", "f.yaml:1:4: is not UTF-8"),
    "a control character": ("a: \x01", "f.yaml:1:4: is not YAML: it has the control character U+0001"),
    "deep lists": ("a: " + "[" * 150 + "]" * 150, "f.yaml:1:103: is nested deeper than 100 levels"),
    "very deep lists": ("a: " + "[" * 5000, "f.yaml:1:103: is nested deeper than 100 levels"),
    "deep JSON": ('{"a":' * 150 + "1" + "}" * 150, "f.yaml:1:1: is nested deeper than 100 levels"),
    "very deep JSON": ('{"a":' * 5000 + "1" + "}" * 5000, "f.yaml:1:1: is nested deeper than 100 levels"),
    "deep JSON without an end": ('{"a":' * 150, "f.yaml:1:1: is nested deeper than 100 levels"),
    "very deep JSON without an end": ('{"a":' * 5000, "f.yaml:1:1: is nested deeper than 100 levels"),
    "itself": ("a: &x [*x]", "f.yaml:1:8: the anchor x contains itself"),
    "another version": ("%YAML 3.0\n---\na: 1", "f.yaml:1:1: is not YAML: found incompatible YAML document"),
}


@pytest.mark.parametrize(("text", "told"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_input_is_reported_in_one_line_with_its_place(text: str | bytes, told: str) -> None:
    assert why(text) == Text(told)


def test_the_expansion_of_aliases_is_limited() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, after in zip("abcdefg", "bcdefgh", strict=True):
        lines.append(f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]")
    assert why("\n".join(lines), SERVER) == Text("aliases", "too large")
    assert why(f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]") == Text("aliases", "too large")


def test_the_nesting_of_aliases_is_limited() -> None:
    lines = ["a: &a [x]", *(f"{x}: &{x} {'[' * 40}*{y}{']' * 40}" for x, y in (("b", "a"), ("c", "b"), ("d", "c")))]
    assert why("\n".join(lines)) == "f.yaml:4:47: is nested deeper than 100 levels"


MANIFEST = """\
# A comment, so that nothing is on its line by chance.
kind: PodCliqueSet
metadata:
  annotations:
    grove.io/mnnvl-group: train
spec:
  template:
    cliques:
    - name: leader
    - name: worker
      spec: {podSpec: {containers: [{name: main}]}}
"""


@pytest.mark.parametrize(
    ("parts", "place"),
    [
        ((), (2, 1)),
        (("metadata", "annotations", "grove.io/mnnvl-group"), (5, 5)),
        (("spec", "template", "cliques", Item(1, "worker")), (10, 7)),
        (("spec", "template", "cliques", Item(1), "spec", "podSpec", "containers", Item(0), "name"), (11, 38)),
        (("metadata", "labels", "absent"), (3, 1)),
        (("spec", "template", "cliques", Item(7)), (8, 5)),
        (("kind", "below a word"), (2, 1)),
    ],
)
def test_a_field_has_its_position_and_a_missing_one_that_of_its_parent(parts: Any, place: tuple[int, int]) -> None:
    (document,) = read_text(MANIFEST, "f.yaml")
    assert document.position(FieldPath(parts)) == place


@given(json_objects)
def test_json_survives_a_round_trip(manifest: dict[str, Any]) -> None:
    assert values(json.dumps(manifest)) == [manifest]


def keys_of(value: Any, parts: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield (*parts, key), key
            yield from keys_of(below, (*parts, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from keys_of(below, (*parts, Item(index)))


@given(json_objects)
def test_the_position_of_a_key_is_correct(manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest, indent=1)
    (document,) = read_text(text, "f.json")
    lines = text.split("\n")
    for parts, key in keys_of(manifest):
        line, column = document.position(FieldPath(parts))
        assert lines[line - 1][column - 1 :].startswith(json.dumps(key))


@given(json_objects)
def test_yaml_and_json_give_the_same_value(manifest: dict[str, Any]) -> None:
    text = yaml.safe_dump(manifest, allow_unicode=True, default_flow_style=None, default_style='"')
    (document,) = read_text("--- # as YAML\n" + text, "f.yaml")
    assert document.manifest == manifest
    for parts, _ in keys_of(manifest):
        line, column = document.position(FieldPath(parts))
        assert text.split("\n")[line - 2][column - 1] in '"?'


@given(st.text(max_size=200) | json_values.map(json.dumps) | words)
def test_any_text_gives_documents_or_a_one_line_error(text: str) -> None:
    try:
        found = read_text(text, "f.yaml")
    except InputError as error:
        assert len(str(error).split("\n")) == 1
    else:
        assert all(isinstance(document.manifest, dict) for document in found)


@given(st.binary(max_size=100))
def test_any_bytes_give_documents_or_a_one_line_error(content: bytes) -> None:
    try:
        read_text(content, "f.yaml")
    except InputError as error:
        assert len(str(error).split("\n")) == 1


def test_files_are_found_in_folders_and_keep_their_names(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "deep/c.json", "deep/.hidden/d.yaml", "notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    found = [path.relative_to(tmp_path).as_posix() for path in files_of([tmp_path])]
    assert found == ["a.yml", "b.yaml", "deep/c.json"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: .* no manifests"):
        list(files_of([tmp_path / "empty"]))
    with pytest.raises(InputError, match="no such file"):
        read_file(tmp_path / "missing.yaml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_file(tmp_path / "deep")
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        list(files_of([tmp_path / ("x" * 5000)]))


def test_a_link_that_leads_nowhere_is_reported_and_a_pipe_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{}")
    (tmp_path / "b.yaml").symlink_to("nowhere.yaml")
    (tmp_path / "c.yaml").symlink_to("c.yaml")
    (tmp_path / "up").symlink_to("..", target_is_directory=True)
    os.mkfifo(tmp_path / "d.yaml")
    assert [path.name for path in files_of([tmp_path])] == ["a.yaml", "b.yaml", "c.yaml"]
    with pytest.raises(InputError, match=r"b\.yaml: no such file"):
        read_file(tmp_path / "b.yaml")
    with pytest.raises(InputError, match=r"c\.yaml: cannot be read: "):
        read_file(tmp_path / "c.yaml")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{}")
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(InputError, match="closed: cannot be read: Permission denied"):
        list(files_of([tmp_path]))


def test_an_endless_input_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "MAX_FILE_BYTES", 8 << 20)
    with pytest.raises(InputError, match=r"/dev/zero: is larger than 8 MiB"):
        read_file(Path("/dev/zero"))


def test_a_pipe_that_nobody_writes_to_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=f"pipe: {NO_MANIFEST}"):
        read_file(tmp_path / "pipe", may_be_empty=False)


def test_a_pipe_of_a_shell_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, b"kind: Pod")
        os.close(writer)
        (document,) = read_file(Path(f"/dev/fd/{reader}"))
    finally:
        os.close(reader)
    assert document.manifest == {"kind": "Pod"}


@pytest.mark.parametrize("second", ["0", "1e3", "true", '"a"'])
def test_a_plain_value_after_a_json_document_is_refused(second: str) -> None:
    assert why('{"kind": "A"}\n' + second).startswith("f.yaml:2:1: is not a manifest: ")
    # The second is JSON as far as it goes, and all of it is no YAML.
    assert why('{"kind": "A"}\n' + second + "o").startswith("f.yaml:2:1: is not YAML")


def test_the_limits_apply_to_the_whole_text() -> None:
    few = Limits(documents=3, values=1000, aliased=1000)
    read_text("a: 1\n---\nb: 1\n---\nc: 1\n", "f.yaml", few)
    for text in ("a: 1\n---\n" * 4, '{"a": 1}\n' * 4):
        with pytest.raises(InputError, match="more than 3 documents"):
            read_text(text, "f.yaml", few)
    for text in ("a: [" + "[]," * 1300 + "]", '{"a": [' + "[]," * 1300 + "[]]}"):
        with pytest.raises(InputError, match="more than 1000 values"):
            read_text(text, "f.yaml", few)
    one = "a: &a [" + "x, " * 20 + "]\nb: *a\n"
    read_text(one, "f.yaml", few)
    with pytest.raises(InputError, match=r"aliases .* too large"):
        read_text("---\n".join([one] * 3), "f.yaml", few)


def test_a_string_of_brackets_is_one_value() -> None:
    few = Limits(documents=3, values=1000, aliased=1000)
    (document,) = read_text('{"a": "' + "[{," * 5000 + '"}', "f.yaml", few)
    assert len(document.manifest["a"]) == 15000


def test_an_unterminated_string_is_scanned_once() -> None:
    few = Limits(documents=3, values=1000, aliased=1000)

    cost = Cost()
    with pytest.raises(InputError, match="is not YAML"):
        cost.add(lambda: read_text('{"' + '\\",' * 8_000, "f.yaml", few))
    # Fewer than there are quotes.
    assert 0 < cost.runs.total() < 1_000


@pytest.mark.parametrize("text", ["a:\n" + "- 1\n" * 2000, '{"a": [' + "{}," * 2000 + "{}]}"])
def test_reading_stops_when_the_caller_disconnects(text: str) -> None:
    def stop() -> None:
        raise Stopped("no caller waits")

    with pytest.raises(Stopped):
        read_text(text, "f.yaml", Limits(documents=3, values=1500, aliased=1000), stop)


def test_a_text_with_thousands_of_directives_is_not_parsed() -> None:
    text = "".join(f"%TAG !{number}! tag:example.com,2026:\n" for number in range(5_000))
    with pytest.raises(InputError, match="has more than 32 directives"):
        read_text(f"{text}--- {{}}\n", "body")
