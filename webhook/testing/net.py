"""Checks of the net: the marks that a backend declares are the ones that it writes. So the API server alone accepts
every pod that Rollcall prepared, and no other.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from webhook.model.admission_request import Kind, Request
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.model.workloads.pod import Pod
from webhook.testing.requirement import require
from webhook.testing.start import may_start
from webhook.testing.strategies import gang_pods, records
from webhook.testing.suite import GENERATED, Configuration, Installed, Suite
from webhook.validators.selection import DEFAULT_SCHEDULER

_POD = Kind("", "v1", "Pod")
_REMEDY = "list in `membership` the labels, annotations and fields of PodChanges by which the scheduler finds the gang"


class NetChecks(Suite):
    """Checks of `membership`, from which the net is compiled, against `prepare_pod`."""

    @GENERATED
    @given(pod=gang_pods(), record=records(""))
    def test_the_net_lets_a_prepared_pod_through(
        self, configuration: Configuration, pod: Manifest, record: Record
    ) -> None:
        installed = self.installed(configuration)
        _, prepared = installed.mutate(pod, replace(record, scheduler=self.backend.name))
        prepared["spec"].pop("schedulingGates", None)
        ways = installed.backend.membership
        require(
            _has_one(installed, prepared) and _may_start(installed, prepared),
            f"a prepared pod has none of {ways} completely, so the net would refuse it",
            _REMEDY,
        )

    @GENERATED
    @given(pod=gang_pods())
    def test_the_net_stops_a_pod_that_was_not_prepared(self, configuration: Configuration, pod: Manifest) -> None:
        installed = self.installed(configuration)
        pod["spec"] |= {"schedulerName": self.backend.name, "schedulingGates": None}
        ways = installed.backend.membership
        if () in ways and self.backend.name == DEFAULT_SCHEDULER:
            # Every pod has that scheduler name, so the net uses the stamp.
            return
        passes, needs_nothing = _has_one(installed, pod), _may_start(installed, pod)
        require(
            passes == needs_nothing,
            f"a pod that has only the schedulerName is {'admitted' if passes else 'refused'} by {ways}, and "
            f"prepare_pod would {'write nothing' if needs_nothing else 'still write'} to identify its gang",
            _REMEDY,
        )


def _has_one(installed: Installed, pod: Manifest) -> bool:
    template = Pod(pod).template
    return any(all(mark.is_on(template) for mark in marks) for marks in installed.backend.membership)


def _may_start(installed: Installed, pod: Manifest) -> bool:
    namespace = str(pod["metadata"]["namespace"])
    return may_start(Request("uid", "CREATE", _POD, namespace, "", pod), installed.facts, installed.settings)
