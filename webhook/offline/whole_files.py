"""Whole files: what is read is never more than memory holds, and a reader of what is written sees the old content or
the new one, never a part of one.

A folder of facts has one file for each kind. Files of an earlier run for kinds that are no longer read are removed,
because they would say what is no longer known. No other file of the folder is touched.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO

from webhook.errors import InputError

# All objects of a large cluster are smaller. Endless input such as /dev/zero must stop before memory is full.
MAX_FILE_BYTES = 256 << 20
_PART_BYTES = 1 << 20
# How a file is opened, as for `open`.
Opener = Callable[[str, int], int]
# The attributes that do not depend on the content, as a signature does.
_KEPT = re.compile(r"user\.|system\.posix_acl_access$|security\.selinux$")
_LIST = "system.posix_acl_access"
_NOT_REGULAR = "it is not a regular file"
_MOUNTED = "it is mounted on its own, so it cannot be replaced; mount its folder instead"


def open_without_waiting(path: str, flags: int) -> int:
    """Opens a file. A named pipe that no program writes to is empty; else it would wait until one opens it."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    # Only to open it: a program that writes may take its time.
    os.set_blocking(handle, True)
    return handle


def open_only_regular(path: str, flags: int) -> int:
    """Opens a file that is neither a pipe nor a device: these may block a server for ever. Raises `OSError`."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(handle).st_mode
    # Reading a directory fails later with its own message.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        os.close(handle)
        raise OSError(errno.EINVAL, _NOT_REGULAR)
    return handle


def content_of(path: Path, opener: Opener = open_without_waiting, *, most: int | None = None) -> bytes:
    """Returns a file's or pipe's content of at most `most` (`MAX_FILE_BYTES`) bytes. Raises `InputError`, `OSError`."""
    with open(path, "rb", opener=opener) as file:
        return read_bounded(file, name_of(path), most)


def read_bounded(file: BinaryIO, name: str, most: int | None = None) -> bytes:
    """Returns the rest of a file called `name`. Raises `InputError` if it is too large, and `OSError`."""
    content, room = bytearray(), MAX_FILE_BYTES if most is None else most
    while part := file.read(min(_PART_BYTES, room + 1)):
        content += part
        if len(content) > room:
            raise InputError(name, f"is larger than {room >> 20} MiB")
    return bytes(content)


def name_of(path: Path) -> str:
    """Returns the name of a file for messages: a name that is not UTF-8 could not be printed."""
    return os.fsencode(path).decode(errors="replace")


def replace_file(
    path: Path,
    content: bytes,
    *,
    mode: int | None = None,
    like: Path | None = None,
    allowed: Callable[[], object] = lambda: None,
) -> None:
    """Replaces or makes a file. `mode` is its permissions, by default those of any new file. With `like` it gets the
    permissions, access-control list and attributes of that file, and its owner and group if the caller may set them.
    `allowed` is called at the last moment and may raise. Raises `OSError`; then the old file is still there.
    """
    handle, temporary = _temporary(path)
    try:
        with os.fdopen(handle, "wb") as file:
            if like is not None:
                _copy_rights(like, file.fileno())
            else:
                # A temporary file is readable by its owner only.
                os.fchmod(file.fileno(), 0o666 & ~_umask() if mode is None else mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        allowed()
        try:
            temporary.replace(path)
        except OSError as error:
            raise OSError(errno.EBUSY, _MOUNTED) if error.errno == errno.EBUSY else error from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_replaceable(path: Path) -> None:
    """Returns if the caller may write a file, and `replace_file` may put another in its place. Raises `OSError`."""
    # Nobody reads what is written into a pipe, and opening one may block.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, _NOT_REGULAR)
    # A file that is replaced as a whole would not need the right to write it.
    path.open("r+b").close()
    handle, temporary = _temporary(path)
    os.close(handle)
    temporary.unlink()


def _temporary(path: Path) -> tuple[int, Path]:
    """Returns a new file beside another one, open. Raises `OSError`."""
    try:
        # Hidden: readers of a folder of manifests skip what a process that was killed leaves behind.
        handle, name = mkstemp(dir=path.parent, prefix=f".{path.name[:32]}.")
    except OSError as error:
        raise OSError(error.errno, f"no file can be made in {path.parent}: {error.strerror}") from None
    return handle, Path(name)


def _copy_rights(path: Path, target: int) -> None:
    rights = path.stat()
    for owner in (rights.st_uid, -1):
        # Only root gives files away. A member of the group keeps at least the group, whose members may read the file.
        with suppress(OSError):
            os.fchown(target, owner, rights.st_gid)
            break
    mode = stat.S_IMODE(rights.st_mode)
    names = list[str]()
    if sys.platform == "linux":
        with suppress(OSError):
            names = os.listxattr(path)
    for name in filter(_KEPT.match, names):
        try:
            os.setxattr(target, name, os.getxattr(path, name))
        except OSError:
            # The bits of the group are the mask of its access-control list: without the list they would give more.
            if name == _LIST:
                mode &= ~stat.S_IRWXG
    os.fchmod(target, mode)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


# The first line of every file: only files that begin with it are replaced or removed.
HEADER = "# Written by `rollcall facts`. Edits are lost when it runs again.\n"
SUFFIX = ".yaml"


def write_folder(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Writes each text under its name, and returns the removed files. Raises `InputError` before anything is written if
    one of the files exists and is not ours.
    """
    targets = {folder / f"{name}{SUFFIX}": text for name, text in texts.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ours = _ours(folder, targets)
        for target, text in targets.items():
            replace_file(target, (HEADER + text).encode())
        outdated = sorted(ours - targets.keys())
        for path in outdated:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(str(error.filename or folder), f"cannot be written: {error.strerror}") from None
    return outdated


def _ours(folder: Path, targets: Iterable[Path]) -> set[Path]:
    """Returns the files of an earlier run. Raises `InputError` if a target is another file."""
    files = set()
    for path in folder.glob(f"*{SUFFIX}"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.readline(len(HEADER) + 1) == HEADER.encode():
                    files.add(path)
    for target in targets:
        if target not in files and os.path.lexists(target):
            why = "exists and was not written by `rollcall facts`; rename it, or name another folder"
            raise InputError(str(target), why)
    return files
