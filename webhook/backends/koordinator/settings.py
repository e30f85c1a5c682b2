"""The configuration of a `koord-scheduler` profile."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from webhook.backends.base import BackendSettings
from webhook.backends.setting_values import BindingName, TopologyObjects
from webhook.validators.registry import Context

GangMode = Literal["Strict", "NonStrict"]
MatchPolicy = Literal["once-satisfied", "only-waiting", "waiting-and-running"]
QoSClass = Literal["LSE", "LSR", "LS", "BE"]


class KoordinatorSettings(BackendSettings):
    """The keys are spelled as in Grove's proposal for a Koordinator backend (GREP-537), with safer defaults.

    matchPolicy defaults to waiting-and-running. Under Koordinator's own default, once-satisfied, a gang that was
    complete once is never held again, so recreated pods start one by one. scheduleTimeoutSeconds (seconds, at least 1)
    counts from the first pod that waits in Permit; kube-scheduler's framework caps it at 900. topologyKeyMappings maps
    a node label key to a layer of the ClusterNetworkTopology and wins over that object's labelKey. awareNetworkTopology
    states the CoschedulingArgs field with that name, which Rollcall cannot read from the cluster; Koordinator's chart
    sets it. topologyBinding names the ClusterTopologyBinding that the ClusterNetworkTopology `default` is compared
    with; with topologyObjects `write`, Rollcall writes that object. enableRuntimeQuota and enableCheckParentQuota state
    the ElasticQuotaArgs fields with these names, and disableDefaultQuota the feature gate DisableDefaultQuota. Without
    them nothing is claimed that depends on them.
    """

    gangMode: GangMode = "Strict"
    matchPolicy: MatchPolicy = "waiting-and-running"
    scheduleTimeoutSeconds: int = Field(default=600, ge=1, le=2**31 - 1)
    defaultQoSClass: QoSClass | None = None
    topologyKeyMappings: dict[str, str] = Field(default_factory=dict)
    awareNetworkTopology: bool = True
    topologyBinding: BindingName | None = None
    topologyObjects: TopologyObjects = "compare"
    enableRuntimeQuota: bool | None = None
    enableCheckParentQuota: bool | None = None
    disableDefaultQuota: bool | None = None


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[KoordinatorSettings]
