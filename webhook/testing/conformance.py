"""BackendConformance: the whole suite."""

from __future__ import annotations

from webhook.testing.adoption import AdoptionChecks
from webhook.testing.contract import ContractChecks
from webhook.testing.net import NetChecks
from webhook.testing.objects import ObjectChecks
from webhook.testing.pods import PodChecks
from webhook.testing.rules import RuleChecks
from webhook.testing.topologies import TopologyChecks


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
