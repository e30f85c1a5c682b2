"""Configurations of Rollcall, as files have them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

from webhook.config.file import settings_from
from webhook.config.settings import Settings
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


def settings_from_document(document: Manifest, *, standalone: bool) -> Settings:
    """The settings of a configuration. Equal ones are read once, because thousands of tests need some."""
    settings = _settings_from(json.dumps(document), standalone=standalone)
    for profile in settings.profiles.values():
        # What another test prepared.
        profile.prepared.clear()
    return settings


@cache
def _settings_from(document: str, *, standalone: bool) -> Settings:
    return replace(settings_from(json.loads(document), "test"), standalone=standalone)
