"""Write the facts of a cluster into a folder that `--facts` reads: one file for each kind.

Each file is replaced as a whole, so a reader never sees half of one. Files of an earlier run for kinds that are no
longer read are removed, because they would say what is no longer known. No other file of the folder is touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from webhook.errors import InputError
from webhook.sources.whole_files import replace_file

# The first line of every file: only files that begin with it are replaced or removed.
HEADER = "# Written by `rollcall facts`. Edits are lost when it runs again.\n"
SUFFIX = ".yaml"


def write_folder(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write each text under its name, and return the removed files. Raises `InputError` before anything is written if
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
    """Return the files of an earlier run. Raises `InputError` if a target is another file."""
    found = {path for path in folder.glob(f"*{SUFFIX}") if path.is_file() and not path.is_symlink() and _is_ours(path)}
    for target in targets:
        if target not in found and os.path.lexists(target):
            raise InputError(
                str(target), "exists and was not written by `rollcall facts`; rename it, or name another folder"
            )
    return found


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline(len(HEADER) + 1) == HEADER.encode()
