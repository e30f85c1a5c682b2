"""Fixtures for unit tests of several folders."""

from __future__ import annotations

import pytest

from webhook.model.bounds import Packed
from webhook.model.reading import Manifest


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[Packed]:
    """The stored objects that were unpacked so far."""
    objects: list[Packed] = []
    manifest = Packed.manifest

    def counted(packed: Packed) -> Manifest:
        objects.append(packed)
        return manifest(packed)

    monkeypatch.setattr(Packed, "manifest", counted)
    return objects
