"""Write a file as a whole: a reader sees the old content or the new one, never a part of one."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp


def replace_file(
    path: Path,
    content: bytes,
    *,
    mode: int | None = None,
    owner: os.stat_result | None = None,
    allowed: Callable[[], object] = lambda: None,
) -> None:
    """Replace or make a file. `mode` is its permissions, by default those of any new file. It gets the owner and group
    of the file `owner`, if the caller may set them. `allowed` is called at the last moment and may raise. Raises
    `OSError`. The old file is left as it was then.
    """
    # Hidden: readers of a folder of manifests skip what a process that was killed leaves behind.
    handle, name = mkstemp(dir=path.parent, prefix=f".{path.name[:32]}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            if owner is not None:
                with suppress(PermissionError):
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            # A temporary file is readable by its owner only.
            os.fchmod(file.fileno(), 0o666 & ~_umask() if mode is None else mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        allowed()
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    found = os.umask(0o022)
    os.umask(found)
    return found
