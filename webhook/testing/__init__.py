"""The conformance kit: the requirements on every backend, as a suite of tests that a backend's author runs.

    from webhook.testing import BackendConformance

    class TestMyBackend(BackendConformance):
        backend = MyBackend
        configurations = ({}, {"queue": "training"})

`BackendConformance` is the whole interface; `conformance` combines it from one file for each part of the contract. No
other code of Rollcall imports this package: it needs the extra `testing`, which a deployment lacks.
"""

from __future__ import annotations

try:
    import hypothesis  # noqa: F401 - so that its absence is told here, once, and not from the depth of an import
    import pytest  # noqa: F401 - the same
except ModuleNotFoundError as missing:
    if missing.name not in {"hypothesis", "pytest"}:
        raise
    why = f"webhook.testing needs {missing.name}: install it with `pip install 'rollcall[testing]'`"
    raise ImportError(why, name=missing.name) from None

from webhook.testing.conformance import BackendConformance

__all__ = ["BackendConformance"]
