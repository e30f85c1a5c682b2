"""Configuration files as documents, and the mistakes in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from webhook.errors import ConfigurationError

HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
KOORD = {"name": "koord-scheduler"}


def scheduler(*profiles: Any, default: str = "koord-scheduler", **fields: Any) -> dict[str, Any]:
    return {**HEAD, "scheduler": {"profiles": list(profiles), "defaultProfileName": default}, **fields}


def problems_of(read: Callable[[Any], object], document: Any) -> list[str]:
    """The problems with which `read` refuses a document."""
    with pytest.raises(ConfigurationError) as error:
        read(document)
    return [str(problem) for problem in error.value.problems]
