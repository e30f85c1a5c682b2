"""PodReading: how one scheduler reads a pod template, and the needs that it reads out of one.

A flag is only on where the scheduler surely has that part of its arithmetic: without a flag a pod needs less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from webhook.fit.apart import NONE_WRITTEN, apart_left_out, apart_of
from webhook.fit.eligibility import Eligibility
from webhook.fit.left_out import affinity_left_out, overhead_left_out, spread_left_out
from webhook.fit.pods import PodNeeds
from webhook.fit.ports import ports_of
from webhook.fit.requests import OF_KUBERNETES, RequestRules, requests_of
from webhook.fit.settings import FitSettings
from webhook.fit.spread import spread_of
from webhook.model.node import is_device
from webhook.model.reading import text
from webhook.model.workloads.podtemplate import PodTemplate


@dataclass(frozen=True, slots=True)
class PodReading:
    """What a scheduler checks of a pod. `requests` is its arithmetic; the flags are its filters: node affinity and
    taints, host ports, anti-affinity, topology spread. `both_ways`: a pod is held against the anti-affinity of those
    of its gang that were placed at the same moment, as against its own.

    Of nodes: `oversubscribes` adds what Volcano's annotations state, and `gpus_by_claims` counts the GPUs of
    ResourceSlices with those of device plugins. `devices_by_class`: a DeviceClass may stand for an extended resource,
    so that nodes without it can still give it.
    """

    requests: RequestRules = OF_KUBERNETES
    affinity: bool = True
    taints: bool = True
    ports: bool = True
    apart: bool = True
    both_ways: bool = True
    spread: bool = True
    oversubscribes: bool = False
    gpus_by_claims: bool = False
    devices_by_class: bool = True

    def under(self, settings: FitSettings) -> PodReading:
        """Return the reading without what the scheduler ignores by its own configuration: resources, and filters."""
        rules, off = self.requests, settings.disabled_filters
        ignored = rules.ignored | settings.ignored_resources
        groups = rules.ignored_groups | settings.ignored_groups
        return replace(
            self,
            requests=replace(
                rules, ignored=ignored, ignored_groups=groups, compared=rules.compared and "NodeResourcesFit" not in off
            ),
            affinity=self.affinity and "NodeAffinity" not in off,
            taints=self.taints and "TaintToleration" not in off,
            ports=self.ports and "NodePorts" not in off,
            apart=self.apart and "InterPodAffinity" not in off,
            spread=self.spread and "PodTopologySpread" not in off,
        )


# What Koordinator computes from the usage of the moment, or places by Device objects, or renames.
_OF_KOORDINATOR = ("kubernetes.io/batch-", "kubernetes.io/mid-", "batch.koordinator.sh/", "koordinator.sh/")
# What Volcano's plugin deviceshare places: virtual GPUs and NPUs.
_OF_VOLCANO = ("volcano.sh/", "huawei.com/", "hami.io/", "nvidia.com/gpumem", "nvidia.com/gpucores")

# While 1.36 places a group, its list of nodes with anti-affinity stays as it was; 1.37 mends this
# (pkg/scheduler/backend/cache/snapshot.go, AssumePod).
KUBE = PodReading(both_ways=False)
COSCHEDULING = PodReading()
KOORDINATOR = PodReading(RequestRules(unsure=_OF_KOORDINATOR))
# KAI has neither pod-level resources nor topology spread.
KAI = PodReading(
    RequestRules(pod_level=False, kai_gpus=True),
    spread=False,
    gpus_by_claims=True,
    devices_by_class=False,
)
# Each of Volcano's predicates can be switched off in its configuration. These are on as it is installed. Its list of
# nodes with anti-affinity is made when a session starts (pkg/scheduler/plugins/util/k8s/snapshot.go, NewSnapshot).
VOLCANO = PodReading(
    RequestRules(exact=True, unsure=_OF_VOLCANO), both_ways=False, oversubscribes=True, devices_by_class=False
)


def needs_of(
    template: PodTemplate,
    reading: PodReading,
    others: Mapping[str, PodTemplate],
    *,
    stored: bool,
    namespace: str,
    written: Mapping[str, Mapping[str, str]] = NONE_WRITTEN,
) -> PodNeeds:
    """Return what a scheduler must find for each pod of a template. Raises `Malformed`.

    `others` has the templates of all roles of the gang by name, this one among them, and `written` what is known of the
    labels that controllers write into their pods. `stored` templates are those of
    stored pods: the API server has defaulted them, and admission can add nothing.
    """
    if text(template.spec.get("nodeName")) is not None:
        # No scheduler places it.
        return PodNeeds({}, Eligibility(), unjudged=("spec.nodeName places the pods without a scheduler",))
    request, unjudged = requests_of(template, reading.requests, stored=stored)
    devices = [resource for resource in template.resources if is_device(resource)]
    eligibility = Eligibility.of(template.spec, stored=stored, resources=devices)
    spread = spread_of(template) if reading.spread else ()
    left_out = (
        *(affinity_left_out(template) if reading.apart else ()),
        *(
            apart_left_out(template, others, stored=stored, namespace=namespace, written=written)
            if reading.apart
            else ()
        ),
        *(spread_left_out(template, spread) if reading.spread else ()),
        *(() if stored else overhead_left_out(template)),
    )
    return PodNeeds(
        request,
        eligibility.without(affinity=not reading.affinity, taints=not reading.taints),
        ports_of(template.spec, stored=stored) if reading.ports else (),
        apart_of(template, others, stored=stored, namespace=namespace, written=written) if reading.apart else (),
        spread,
        unjudged=unjudged,
        left_out=left_out,
    )
