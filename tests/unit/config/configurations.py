"""Configuration files as documents."""

from __future__ import annotations

from typing import Any

HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
KOORD = {"name": "koord-scheduler"}


def scheduler(*profiles: Any, default: str = "koord-scheduler", **fields: Any) -> dict[str, Any]:
    return {**HEAD, "scheduler": {"profiles": list(profiles), "defaultProfileName": default}, **fields}
