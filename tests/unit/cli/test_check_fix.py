"""`rollcall check --fix` and `--diff`: the smallest edit, written into the file or shown."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
from pathlib import Path
from tempfile import mkstemp

import pytest

from tests.unit.cli.checked_manifests import FINE, KOORD, NVLINK
from tests.unit.cli.conftest import Run

COMMENTED = NVLINK.replace("grove.io/mnnvl-group: train", "grove.io/mnnvl-group: 'train'  # all of them")
FIXED = COMMENTED.replace("'train'", "'none'")
SUPPRESSED = NVLINK.replace("train\n", "train # rollcall:ignore koordinator/mnnvl: one domain\n", 1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "set.yaml"
    found.write_text(COMMENTED)
    return found


def test_the_smallest_edit_is_written_and_the_report_is_about_the_rest(rollcall: Run, file: Path) -> None:
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert ran == (
        0,
        "1 PodCliqueSet judged for koord-scheduler (--scheduler): 0 errors\n",
        f"rollcall: {file}:2:1: fixed PodCliqueSet default/demo\n"
        '    set     metadata.annotations[grove.io/mnnvl-group] to "none" (it was "train")\n',
    )
    assert file.read_text() == FIXED


def test_a_second_run_changes_nothing(rollcall: Run, file: Path) -> None:
    rollcall("check", *KOORD, "--fix", str(file))
    before = file.stat()
    assert rollcall("check", *KOORD, "--fix", str(file)).err == ""
    assert file.stat().st_ino == before.st_ino


def test_the_diff_is_shown_and_nothing_is_written(rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    ran = rollcall("check", *KOORD, "--diff", file.name)
    assert ran.code == 1
    assert ran.err == (
        "rollcall: 1 PodCliqueSet judged for koord-scheduler (--scheduler): 1 error, 1 fixable; "
        "rollcall explain set.yaml\n"
    )
    assert file.read_text() == COMMENTED
    subprocess.run(["git", "apply", "-"], input=ran.out, text=True, check=True, cwd=file.parent)
    assert file.read_text() == FIXED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\n", "\r\n"),
        ("kind: PodCliqueSet", "kind:\tPodCliqueSet # a\ttab"),
    ],
)
def test_the_diff_of_unusual_lines_can_be_applied(
    rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    monkeypatch.chdir(file.parent)
    text = COMMENTED.replace(before, after)
    file.write_bytes(text.encode())
    ran = rollcall("check", *KOORD, "--diff", file.name)
    subprocess.run(["git", "apply", "-"], input=ran.out.encode(), check=True, cwd=file.parent)
    assert file.read_bytes().decode() == text.replace("'train'", "'none'")


def test_the_diff_of_standard_input_is_shown(rollcall: Run) -> None:
    ran = rollcall("check", *KOORD, "--diff", "-", stdin=COMMENTED.removesuffix("\n"))
    assert ran.code == 1
    assert "+    grove.io/mnnvl-group: 'none'  # all of them\n" in ran.out


@pytest.mark.parametrize("text", [NVLINK.replace("\n", "\r\n"), "\ufeff" + NVLINK, NVLINK.removesuffix("\n")])
def test_line_ends_and_the_byte_order_mark_stay(rollcall: Run, file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    assert rollcall("check", *KOORD, "--fix", str(file)).code == 0
    assert file.read_bytes().decode() == text.replace(": train", ": none")


def test_added_lines_end_as_the_others(rollcall: Run, file: Path) -> None:
    text = FINE.replace("replicas: 2", "replicas: 2\n        minAvailable: 3", 1).replace("\n", "\r\n")
    file.write_bytes(text.encode())
    rollcall("check", *KOORD, "--fix", str(file))
    written = file.read_bytes().decode()
    assert written.count("\n") == written.count("\r\n")


def test_objects_of_one_file_are_fixed_together_even_if_it_is_named_twice(rollcall: Run, file: Path) -> None:
    other = NVLINK.replace("name: demo", "name: other")
    file.write_text(f"{COMMENTED}---\n{other}")
    ran = rollcall("check", *KOORD, "--fix", str(file), str(file.parent / "." / file.name))
    assert ran.code == 0
    assert ran.err.count("fixed") == 2
    assert file.read_text() == f"{FIXED}---\n{other}".replace(": train", ": none")


def test_an_object_with_an_accepted_error_is_left_as_it_is(rollcall: Run, file: Path) -> None:
    pool = "cliqueNames: [worker]\n"
    wrong = SUPPRESSED.replace(
        pool, f"{pool}      topologyConstraint: {{topologyName: dc, pack: {{required: rack}}}}\n"
    )
    file.write_text(wrong)
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert (ran.code, ": 1 error, " in ran.out, ", 1 suppressed" in ran.out, ran.err) == (1, True, True, "")
    assert file.read_text() == wrong


def test_only_what_can_be_written_counts_as_fixable(rollcall: Run, file: Path) -> None:
    before = COMMENTED.replace("'train'", "&group 'train'").replace("spec:", "  labels: {a: *group}\nspec:", 1)
    file.write_text(before)
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert ran.out.endswith(f"(--scheduler): 1 error; rollcall explain {file}\n")
    assert (ran.code, file.read_text()) == (1, before)


def test_permissions_stay_and_a_link_stays_a_link(rollcall: Run, file: Path) -> None:
    file.chmod(0o640)
    link = file.with_name("link.yaml")
    link.symlink_to(file.name)
    assert rollcall("check", *KOORD, "--fix", str(link)).code == 0
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.read_text() == FIXED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_that_root_fixes_keeps_its_owner(rollcall: Run, file: Path) -> None:
    os.chown(file, 1234, 5678)
    assert rollcall("check", *KOORD, "--fix", str(file)).code == 0
    assert (file.stat().st_uid, file.stat().st_gid, file.read_text()) == (1234, 5678, FIXED)


def test_a_file_of_another_user_keeps_its_group(rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []

    def chown(_: int, user: int, group: int) -> None:
        if user != -1:
            raise PermissionError(1, "Operation not permitted")
        given.append((user, group))

    monkeypatch.setattr(os, "fchown", chown)
    assert rollcall("check", *KOORD, "--fix", str(file)).code == 0
    assert given == [(-1, file.stat().st_gid)]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such calls")
def test_the_access_control_list_of_a_file_stays(rollcall: Run, file: Path) -> None:
    # user::rw- user:1111:rw- group::r-- mask::rw- other::---, as the kernel writes it.
    anybody = 0xFFFFFFFF
    entries = [(1, 6, anybody), (2, 6, 1111), (4, 4, anybody), (16, 6, anybody), (32, 0, anybody)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(file, "system.posix_acl_access", acl)
        os.setxattr(file, "user.note", b"ours")
    except OSError:
        pytest.skip("the file system keeps no access-control lists")
    assert rollcall("check", *KOORD, "--fix", str(file)).code == 0
    assert file.read_text() == FIXED
    assert os.getxattr(file, "system.posix_acl_access") == acl
    assert os.getxattr(file, "user.note") == b"ours"


def test_other_names_of_a_file_are_said_to_keep_the_old_content(rollcall: Run, file: Path) -> None:
    other = file.with_name("other.txt")
    other.hardlink_to(file)
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert (ran.code, ran.err.splitlines()[-1]) == (
        0,
        f"rollcall: {file}: 1 other name of this file (hard link) kept the old content",
    )
    assert (file.read_text(), other.read_text()) == (FIXED, COMMENTED)


def test_a_pipe_is_not_written(rollcall: Run, file: Path) -> None:
    pipe = file.with_name("pipe.yaml")
    os.mkfifo(pipe)
    # What is written stays in the pipe as long as a program has it open.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    pipe.write_text(COMMENTED)
    ran = rollcall("check", *KOORD, "--fix", str(pipe))
    os.close(reader)
    assert (ran.code, ran.err) == (2, f"rollcall: {pipe}: cannot be written: it is not a regular file\n")


def test_no_file_is_written_if_one_is_in_a_folder_that_takes_no_files(
    rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = file.parent / "sealed" / "set.yaml"
    other.parent.mkdir()
    other.write_text(NVLINK)

    def made(*, dir: Path, prefix: str) -> tuple[int, str]:
        if dir == other.parent:
            raise PermissionError(13, "Permission denied")
        return mkstemp(dir=dir, prefix=prefix)

    monkeypatch.setattr("webhook.offline.whole_files.mkstemp", made)
    ran = rollcall("check", *KOORD, "--fix", str(file), str(other))
    why = f"no file can be made in {other.parent}: Permission denied"
    assert (ran.code, ran.err) == (2, f"rollcall: {other}: cannot be written: {why}\n")
    assert (file.read_text(), other.read_text()) == (COMMENTED, NVLINK)
    assert sorted(found.name for found in file.parent.iterdir()) == ["sealed", file.name]


def test_a_file_that_is_mounted_on_its_own_says_so(rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert (ran.code, "mount its folder instead" in ran.err) == (2, True)
    assert [found.name for found in file.parent.iterdir()] == [file.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_file_that_may_not_be_written_is_left_as_it_is(rollcall: Run, file: Path) -> None:
    file.chmod(0o444)
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert (ran.code, ran.err) == (2, f"rollcall: {file}: cannot be written: Permission denied\n")
    assert file.read_text() == COMMENTED


def test_no_file_is_written_if_one_was_changed(rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = file.with_name("zother.yaml")
    other.write_text(NVLINK.replace("name: demo", "name: other"))
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + (b"# saved\n" if path == other else b""))
    assert rollcall("check", *KOORD, "--fix", str(file), str(other)).code == 2
    assert file.read_text() == COMMENTED


def test_nothing_is_written_if_an_input_cannot_be_read(rollcall: Run, file: Path) -> None:
    broken = file.with_name("broken.yaml")
    broken.write_text("a: [")
    assert rollcall("check", *KOORD, "--fix", str(file), str(broken)).code == 2
    assert file.read_text() == COMMENTED


def test_a_file_that_cannot_be_written_is_one_line(rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert (ran.code, ran.err) == (2, f"rollcall: {file}: cannot be written: No space left on device\n")
    assert file.read_text() == COMMENTED
    assert [found.name for found in file.parent.iterdir()] == [file.name]


def test_a_file_that_changes_while_it_is_checked_is_not_written(
    rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes

    def changed(path: Path) -> bytes:
        return read(path) + b"# saved by an editor\n" if path == file else read(path)

    monkeypatch.setattr(Path, "read_bytes", changed)
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert ran.code == 2
    assert f"{file}: was changed" in ran.err
    assert file.read_text() == COMMENTED


def test_a_file_that_is_saved_at_the_last_moment_is_not_overwritten(
    rollcall: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def saved(handle: int) -> None:
        sync(handle)
        file.write_text(f"{COMMENTED}# saved by an editor\n")

    monkeypatch.setattr(os, "fsync", saved)
    ran = rollcall("check", *KOORD, "--fix", str(file))
    assert (ran.code, f"{file}: was changed" in ran.err) == (2, True)
    assert file.read_text() == f"{COMMENTED}# saved by an editor\n"
    assert [found.name for found in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--fix", "-"), "--fix needs files"),
        (("--fix", "--diff", "set.yaml"), "exclude each other"),
        (("--diff", "-o", "json", "set.yaml"), "not go with --output"),
    ],
)
def test_options_that_do_not_go_together_are_usage_errors(rollcall: Run, options: tuple[str, ...], said: str) -> None:
    ran = rollcall("check", *options)
    assert (ran.code, said in " ".join(ran.err.split())) == (2, True)
