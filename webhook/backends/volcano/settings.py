"""The configuration of a `volcano` profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from webhook.backends.base import BackendSettings
from webhook.backends.setting_values import BindingName, TopologyObjects, unquoted_off
from webhook.backends.volcano.keys import DEFAULT_QUEUE, ROOT_QUEUE
from webhook.model.naming import is_subdomain
from webhook.validators.registry import Context


def _queue(name: str) -> str:
    if not is_subdomain(name):
        raise PydanticCustomError("queue_name", "is not a valid name of a Queue")
    if name == ROOT_QUEUE:
        raise PydanticCustomError("queue_name", "is the parent of all queues, but a gang must be in a leaf queue")
    return name


TopologyMode = Annotated[Literal["off", "hypernode"], BeforeValidator(unquoted_off)]


class VolcanoSettings(BackendSettings):
    """defaultQueue is the queue of a PodCliqueSet that names none. topology `hypernode` states that the cluster has
    HyperNodes with tier names and that the scheduler runs its plugin network-topology-aware. Rollcall cannot read from
    the cluster whether the plugin is on, and Volcano's chart does not enable it by default. Without the plugin a
    topology is accepted and ignored. topologyBinding names the ClusterTopologyBinding that the HyperNodes are compared
    with; with topologyObjects `write`, Rollcall writes HyperNodes from it and from the labels of the nodes.
    enableHierarchy states the argument with that name of the plugin capacity: whether
    the queues above a gang's queue limit it. Without it nothing is claimed that depends on it.
    """

    defaultQueue: Annotated[str, AfterValidator(_queue)] = DEFAULT_QUEUE
    topology: TopologyMode = "off"
    topologyBinding: BindingName | None = None
    topologyObjects: TopologyObjects = "compare"
    enableHierarchy: bool | None = None


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[VolcanoSettings]
