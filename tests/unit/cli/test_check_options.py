"""`rollcall check`: what fails, what is reported, and what an author accepts."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.unit.cli.checked_manifests import FINE, KOORD, NVLINK
from tests.unit.cli.conftest import Run, unframed
from webhook.offline import whole_files
from webhook.offline.report import VERSION

MNNVL = "koordinator/mnnvl"
WARNED = FINE.replace("name: leader", "name: er")
MALFORMED = FINE.replace("replicas: 1", "replicas: one", 1)


def annotated(text: str, value: str) -> str:
    return text.replace("  annotations:\n", f"  annotations:\n    rollcall.dev/ignore: {json.dumps(value)}\n")


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (WARNED, (), 0),
        (WARNED, ("--fail-on", "error"), 0),
        (WARNED, ("--fail-on", "warning"), 1),
        (WARNED, ("--fail-on", "unjudged"), 0),
        (NVLINK, ("--fail-on", "unjudged"), 1),
        (WARNED, ("--ignore", "grove/*", "--fail-on", "warning"), 0),
        (WARNED, ("--ignore", "grove/clique-name-suffix", "--fail-on", "warning"), 0),
        (WARNED, ("--select", "koordinator/", "--fail-on", "warning"), 0),
        (NVLINK, ("--select", "koordinator/quota,koordinator/mnnvl"), 1),
        (NVLINK, ("--select", "koordinator/quota"), 0),
        (NVLINK, ("--ignore", "koordinator/mnnvl"), 0),
        # Rules that fail closed are always reported.
        (MALFORMED, ("--select", "koordinator/quota"), 1),
        (MALFORMED, ("--ignore", "grove/*"), 1),
    ],
)
def test_options_choose_what_fails(rollcall: Run, text: str, options: tuple[str, ...], code: int) -> None:
    assert rollcall("check", *KOORD, *options, "-", stdin=text).code == code


def test_a_rule_that_does_not_exist_is_a_usage_error(rollcall: Run) -> None:
    for option in ("--select", "--ignore"):
        ran = rollcall("check", option, "koordinator/mnvl", "-", stdin=FINE)
        assert ran.code == 2
        assert f"{option} koordinator/mnvl: " in unframed(ran.err)
        assert f"did you mean {MNNVL} or " in unframed(ran.err)


def test_a_rule_that_fails_closed_cannot_be_ignored(rollcall: Run) -> None:
    ran = rollcall("check", "--ignore", "grove/shape", "-", stdin=FINE)
    assert (ran.code, "the rule fails closed" in " ".join(ran.err.split())) == (2, True)


@pytest.mark.parametrize("pattern", ["vendor", "vendor/", "*/vendor/*", "vendor/b.yaml", "b.yaml", "*b.y*ml"])
def test_excluded_files_are_not_read(rollcall: Run, tmp_path: Path, pattern: str) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "b.yaml").write_text("a: [")
    (tmp_path / "a.yaml").write_text(FINE)
    ran = rollcall("check", *KOORD, "--exclude", pattern, str(tmp_path))
    assert ran == (0, "1 PodCliqueSet judged for koord-scheduler (--scheduler): 0 errors\n", "")


REASON = "one NVLink domain"


@pytest.mark.parametrize(
    "text",
    [
        NVLINK.replace("train\n", f"train # rollcall:ignore {MNNVL}: {REASON}\n"),
        NVLINK.replace("    grove.io/mnnvl", f"    # rollcall:ignore {MNNVL}: {REASON}\n    grove.io/mnnvl"),
        f"# rollcall:ignore {MNNVL}: {REASON}\n{NVLINK}",
        f"# rollcall:ignore {MNNVL}: {REASON}\n---\n{NVLINK}",
        annotated(NVLINK, f"{MNNVL}: {REASON}"),
        annotated(NVLINK, f"koordinator/quota, {MNNVL}: {REASON}"),
        annotated(NVLINK, f"koordinator/quota: other\n{MNNVL}: {REASON}\n"),
    ],
)
def test_a_finding_with_a_reason_is_accepted_and_stays_in_the_report(rollcall: Run, text: str) -> None:
    ran = rollcall("check", *KOORD, "-o", "json", "-", stdin=text)
    assert ran.code == 0
    found = json.loads(ran.out)
    assert [entry["suppression"] for entry in found["findings"]] == [{"kind": "inSource", "reason": REASON}]
    assert (found["passed"], found["counts"]["error"], found["counts"]["suppressed"]) == (True, 0, 1)
    assert rollcall("check", *KOORD, "--no-suppress", "-", stdin=text).code == 1
    # Other commands do not read suppressions.
    assert rollcall("explain", *KOORD, "-", stdin=text).code == 1


@pytest.mark.parametrize(
    ("text", "note", "hint"),
    [
        (
            annotated(NVLINK, MNNVL),
            f"rollcall:ignore {MNNVL} has no reason",
            " behind a colon",
        ),
        (
            f"# rollcall:ignore grove/shape: I know better\n{MALFORMED}",
            "grove/shape fails closed",
            " does not suppress it",
        ),
        (
            f"# rollcall:ignore koordinator/mnvl: {REASON}\n{NVLINK}",
            'rollcall:ignore "koordinator/mnvl": no rule has that id',
            f"; did you mean {MNNVL} or koordinator/quota or koordinator/qos-class?",
        ),
        (
            annotated(NVLINK, f"koordinator/*: {REASON}"),
            'rollcall:ignore "koordinator/*": no rule has that id',
            "",
        ),
        (
            f"# rollcall:ignore {MNNVL} because I say so\n{NVLINK}",
            f'rollcall:ignore "{MNNVL} because I say so": no rule has that id',
            f"; did you mean {MNNVL}?",
        ),
    ],
)
def test_a_suppression_without_effect_is_noted(rollcall: Run, text: str, note: str, hint: str) -> None:
    ran = rollcall("check", *KOORD, "-", stdin=text)
    assert ran.code == 1
    (line,) = (line for line in ran.out.splitlines() if f"note: {note}" in line)
    assert line.endswith(hint)
    # Once for a file, however many objects it has.
    assert rollcall("check", *KOORD, "-", stdin=f"{text}\n---\n{FINE}").out.count(note) == 1


def test_a_comment_is_about_no_other_line_and_no_other_rule(rollcall: Run) -> None:
    for text in (
        NVLINK.replace("  replicas: 1\n", f"  replicas: 1 # rollcall:ignore {MNNVL}: x\n", 1),
        NVLINK.replace("train\n", "train # rollcall:ignore koordinator/quota: x\n"),
        f"{FINE}---\n# rollcall:ignore {MNNVL}: x\n{FINE}---\n{NVLINK}",
    ):
        assert rollcall("check", *KOORD, "-", stdin=text).code == 1


def test_a_baseline_accepts_what_was_there_and_nothing_new(rollcall: Run, tmp_path: Path) -> None:
    file, known = tmp_path / "set.yaml", tmp_path / "known.json"
    file.write_text(NVLINK)
    written = rollcall("check", *KOORD, "--write-baseline", str(known), str(file))
    assert (written.code, written.err) == (0, f"rollcall: wrote {known}: 1 finding\n")
    file.rename(tmp_path / "moved.yaml")
    (tmp_path / "moved.yaml").write_text(f"# moved\n{NVLINK}")
    ran = rollcall("check", *KOORD, "--baseline", str(known), str(tmp_path))
    assert (ran.code, f"{tmp_path}/moved.yaml:8:5: baseline {MNNVL}" in ran.out) == (0, True)
    assert rollcall("check", *KOORD, "--baseline", str(known), "--no-suppress", str(tmp_path)).code == 1
    (tmp_path / "new.yaml").write_text(NVLINK.replace("name: demo", "name: other"))
    ran = rollcall("check", *KOORD, "--baseline", str(known), str(tmp_path))
    assert ran.code == 1
    assert "1 error, 1 fixable, 1 suppressed" in ran.out


@pytest.mark.parametrize(
    ("content", "why", "end"),
    [
        (
            b'{"version": 1,\n x',
            ":2:2: is not JSON: Expecting property name enclosed in double quotes",
            " in double quotes\n",
        ),
        (b"", ":1:1: is not JSON: Expecting value", "value\n"),
        (b"\xff", ": is not UTF-8, ", " --write-baseline\n"),
        (b"[" * 100_000, ": is nested too deeply, ", " --write-baseline\n"),
        (b"[]", f": is not a baseline of version {VERSION};", " --write-baseline\n"),
    ],
)
def test_a_broken_baseline_is_one_line(rollcall: Run, tmp_path: Path, content: bytes, why: str, end: str) -> None:
    known = tmp_path / "known.json"
    known.write_bytes(content)
    ran = rollcall("check", "--baseline", str(known), "-", stdin=FINE)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(f"rollcall: {known}{why}")
    assert ran.err.endswith(end)


def test_an_endless_baseline_is_one_line(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "MAX_FILE_BYTES", 8 << 20)
    ran = rollcall("check", "--baseline", "/dev/zero", "-", stdin=FINE)
    assert (ran.code, ran.out, ran.err) == (2, "", "rollcall: /dev/zero: is larger than 8 MiB\n")


def test_a_baseline_that_is_a_link_stays_one_with_its_permissions(rollcall: Run, tmp_path: Path) -> None:
    known, link = tmp_path / "known.json", tmp_path / "link.json"
    known.write_text("[]")
    known.chmod(0o640)
    link.symlink_to(known.name)
    assert rollcall("check", *KOORD, "--write-baseline", str(link), "-", stdin=NVLINK).code == 0
    assert (link.is_symlink(), stat.S_IMODE(known.stat().st_mode)) == (True, 0o640)
    assert len(json.loads(known.read_text())["findings"]) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_baseline_that_may_not_be_written_stays(rollcall: Run, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    known.write_text("[]")
    known.chmod(0o444)
    ran = rollcall("check", *KOORD, "--write-baseline", str(known), "-", stdin=NVLINK)
    assert (ran.code, ran.err) == (2, f"rollcall: {known}: cannot be written: Permission denied\n")
    assert known.read_text() == "[]"


def test_a_baseline_does_not_accept_a_rule_that_fails_closed(rollcall: Run, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    written = rollcall("check", *KOORD, "--write-baseline", str(known), "-", stdin=MALFORMED)
    assert (written.code, written.err.count("\n")) == (1, 1)
    assert written.err.startswith(f"rollcall: wrote {known}: 0 findings; rules that fail closed ")
    assert " 1 more, " in written.err
    assert json.loads(known.read_text()) == {"version": 1, "findings": []}


def test_a_broken_baseline_cannot_be_read(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "known.json").write_text("{}")
    ran = rollcall("check", "--baseline", str(tmp_path / "known.json"), "-", stdin=FINE)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"rollcall: {tmp_path}/known.json: is not a baseline of version {VERSION};")


def test_the_schema_of_the_report_is_printed(rollcall: Run) -> None:
    ran = rollcall("schema", "report")
    assert json.loads(ran.out)["title"] == "Rollcall report"
