"""The folder that `rollcall facts` writes: whole files, and no other file is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from webhook.errors import InputError
from webhook.offline.whole_files import HEADER, write_folder

NAMESPACES = "apiVersion: v1\nkind: NamespaceList\nitems: []\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_kind_is_one_file_in_a_folder_that_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "cluster"
    assert write_folder(folder, {"namespaces": NAMESPACES}) == []
    assert names(folder) == ["namespaces.yaml"], "and nothing temporary"
    assert (folder / "namespaces.yaml").read_text() == HEADER + NAMESPACES
    umask = os.umask(0o022)
    os.umask(umask)
    assert (folder / "namespaces.yaml").stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_second_run_replaces_its_files_and_removes_those_of_kinds_that_are_unknown_now(tmp_path: Path) -> None:
    write_folder(tmp_path, {"namespaces": "old\n", "queues.scheduling.run.ai": "old\n"})
    assert write_folder(tmp_path, {"namespaces": NAMESPACES}) == [tmp_path / "queues.scheduling.run.ai.yaml"]
    assert names(tmp_path) == ["namespaces.yaml"]
    assert (tmp_path / "namespaces.yaml").read_text() == HEADER + NAMESPACES


def test_other_files_of_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "by-hand.yaml").write_text("kind: QueueList\n")
    (tmp_path / "notes.txt").write_text("mine\n")
    write_folder(tmp_path, {"namespaces": NAMESPACES})
    write_folder(tmp_path, {})
    assert names(tmp_path) == ["by-hand.yaml", "notes.txt"]
    assert (tmp_path / "by-hand.yaml").read_text() == "kind: QueueList\n"


def test_a_file_of_that_name_that_someone_else_wrote_is_not_replaced_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "queues.scheduling.run.ai.yaml").write_text("kind: QueueList\n")
    with pytest.raises(InputError, match=r"queues\.scheduling\.run\.ai\.yaml"):
        write_folder(tmp_path, {"namespaces": NAMESPACES, "queues.scheduling.run.ai": "new\n"})
    assert names(tmp_path) == ["queues.scheduling.run.ai.yaml"]
    assert (tmp_path / "queues.scheduling.run.ai.yaml").read_text() == "kind: QueueList\n"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text(HEADER)
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "namespaces.yaml").symlink_to(outside)
    with pytest.raises(InputError, match=r"namespaces\.yaml"):
        write_folder(folder, {"namespaces": NAMESPACES})
    assert outside.read_text() == HEADER


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written: Not a directory|cannot be written: File exists"):
        write_folder(tmp_path / "file", {})
