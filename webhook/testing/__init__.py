"""The conformance kit: the requirements on every backend, as a suite of tests that a backend's author runs.

    from webhook.testing import BackendConformance

    class TestMyBackend(BackendConformance):
        backend = MyBackend
        configurations = ({}, {"queue": "training"})

`BackendConformance` is the whole interface. It combines one file for each part of the contract. No other code of
Rollcall imports this package: it needs the extra `testing`, which a deployment lacks.
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

from webhook.testing.contract import ContractChecks, RuleChecks
from webhook.testing.objects import AdoptionChecks, ObjectChecks
from webhook.testing.pods import NetChecks, PodChecks
from webhook.testing.topologies import TopologyChecks

__all__ = ["BackendConformance"]


class BackendConformance(
    ContractChecks, RuleChecks, PodChecks, NetChecks, ObjectChecks, AdoptionChecks, TopologyChecks
):
    """The requirements on every backend. A backend's author subclasses it, and pytest runs it:

            class TestMyBackend(BackendConformance):
                backend = MyBackend
                configurations = ({}, {"strict": True})
                facts = ClusterFacts(apis=frozenset({POD_GROUP}))

    `configurations` are profile `config`s; each check runs with each of them. `facts` is a cluster in which the
    backend's objects can be made, by default one that serves its `required_apis`. Each failure says what is wrong and
    what to do about it.
    """
