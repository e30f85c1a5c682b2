"""Read what a user names: never more than memory holds, and never for ever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from webhook.errors import InputError

# All objects of a large cluster are smaller. Endless input such as /dev/zero must stop before memory is full.
MAX_FILE_BYTES = 256 << 20
_PART_BYTES = 1 << 20


def content_of(path: Path) -> bytes:
    """The content of a file or pipe; nothing for a named pipe that no program writes to. Raises `InputError` if it is
    too large, and `OSError`.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        return bounded(file, name_of(path))


def bounded(file: BinaryIO, name: str) -> bytes:
    """The rest of a file, which is called `name` in messages. Raises `InputError` if it is too large, and `OSError`."""
    content = bytearray()
    while part := file.read(_PART_BYTES):
        content += part
        if len(content) > MAX_FILE_BYTES:
            raise InputError(name, f"is larger than {MAX_FILE_BYTES >> 20} MiB")
    return bytes(content)


def name_of(path: Path) -> str:
    """The name of a file for messages: a name that is not UTF-8 could not be printed."""
    return os.fsencode(path).decode(errors="replace")


def _without_waiting(path: str, flags: int) -> int:
    """Open a file. A pipe would wait until another program opens it to write."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    # Only to open it: a program that writes may take its time.
    os.set_blocking(handle, True)
    return handle
