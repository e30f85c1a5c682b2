"""Where the programs of a control plane are, for a benchmark that starts one."""

from __future__ import annotations

import os
from pathlib import Path

from tests.e2e.programs import folder_of


def find_programs(name: str) -> None:
    """Those that scripts/test-cluster has built, unless the environment names others."""
    if folder_of(name) is None:
        cache = Path(
            os.environ.get("ROLLCALL_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "rollcall"
        )
        found = sorted(cache.expanduser().glob(f"controlplane/{name}-*"), key=lambda folder: folder.stat().st_mtime)
        if not found:
            raise SystemExit(f"there are no programs of {name}: scripts/test-cluster builds them")
        os.environ["ROLLCALL_" + name.upper().replace("-", "_").replace(".", "_")] = str(found[-1])
