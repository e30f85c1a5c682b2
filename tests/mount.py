"""A Secret as a kubelet mounts it into a Pod, with its symlinks."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Mount(NamedTuple):
    """Each file is a link into `..data`, a link to the folder of one state, and a new state is a new folder to which
    that link is moved, so that no two states are ever mixed.
    """

    folder: Path

    def write(self, files: Mapping[str, bytes]) -> None:
        """Bring it to a new state. A file that the Secret has no more goes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        states = sorted(self.folder.glob("..state-*"))
        number = int(states[-1].name.rpartition("-")[2]) + 1 if states else 0
        state = self.folder / f"..state-{number:06}"
        state.mkdir()
        for name, content in files.items():
            (state / name).write_bytes(content)
        moved = self.folder / "..data_tmp"
        moved.symlink_to(state.name)
        moved.replace(self.folder / "..data")
        for name in files:
            link = self.folder / name
            if not link.is_symlink():
                link.symlink_to(Path("..data") / name)
        for link in self.folder.glob("*"):
            if not link.name.startswith("..") and link.name not in files:
                link.unlink()
        for old in states:
            shutil.rmtree(old)

    def __str__(self) -> str:
        return str(self.folder)
