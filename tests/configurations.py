"""Configurations of Rollcall, as files have them."""

from __future__ import annotations

from typing import Any

from webhook.model.reading import Manifest


def configuration_of(*profiles: str | Manifest, default: str | None = None, **sections: Any) -> Manifest:
    """A RollcallConfiguration with these profiles, each a name or a whole profile. The first is the default."""
    given = [{"name": profile} if isinstance(profile, str) else profile for profile in profiles]
    return {
        "apiVersion": "rollcall.dev/v1alpha1",
        "kind": "RollcallConfiguration",
        "scheduler": {"defaultProfileName": default or given[0]["name"], "profiles": given},
        **sections,
    }
