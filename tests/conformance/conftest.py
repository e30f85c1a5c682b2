"""Which tests of the conformance kit the inner loop runs."""

from __future__ import annotations

import pytest

from webhook.testing import BackendConformance


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of all configurations but the last of a suite, which is the one that does most."""
    for item in items:
        suite = getattr(item, "cls", None)
        if isinstance(suite, type) and issubclass(suite, BackendConformance):
            parameters = getattr(item, "callspec", None)
            if parameters is not None and parameters.params.get("configuration") != suite.configurations[-1]:
                item.add_marker(pytest.mark.exhaustive)
