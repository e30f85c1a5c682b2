"""Played time for every test of audits."""

from tests.unit.reconciler.conftest import anyio_backend

__all__ = ["anyio_backend"]
