"""Checks that the `kueue:` block of the configuration states how Kueue is installed.

Kueue reads its Configuration from a file, which is in a ConfigMap that its Deployment mounts. Source:
kubernetes-sigs/kueue v0.19.0, apis/config/{v1beta1,v1beta2} (types, defaults, conversion), pkg/util/waitforpodsready.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.config.kueue_section import seconds_of
from webhook.config.sections import DURATION_PATTERN
from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.controllers import KUEUE as KUEUE_CONTROLLER
from webhook.doctor.deployments import pod_of
from webhook.doctor.examples import installed
from webhook.doctor.kueue import KUEUE_CONFIGURATION, kueue_webhook, kueues, running_kueue
from webhook.doctor.neighbours import KUEUE
from webhook.doctor.parts import MUTATING_WEBHOOKS
from webhook.doctor.snapshot import Snapshot, known
from webhook.model.kueue.keys import FRAMEWORKS
from webhook.model.kueue.settings import INSTALLED, KueueSettings
from webhook.model.projections import key_of, name_of
from webhook.model.reading import Malformed, Manifest, flag, integer, mapping, sequence, text
from webhook.model.selectors import NAMESPACE_NAME
from webhook.model.version import Version

_KIND = MUTATING_WEBHOOKS.resource.api.kind
# The defaults of v1beta2, and of v1beta1 where they differ.
_TIMEOUT, _OLD_TIMEOUT = 1800, 300
_OLD = "v1beta1"
_BASE, _MAX = 60, 3600
_FRAMEWORKS = ("batch/job",)
# A longer value would make the line unreadable.
_LONGEST = 200


class InstalledKueue(NamedTuple):
    """Kueue's Configuration, the namespace that it runs in, its feature gates, and its release by the tag of its
    image.
    """

    configuration: Mapping[str, Any]
    namespace: str
    gates: Mapping[str, bool]
    release: Version | None

    @classmethod
    def found_in(cls, snapshot: Snapshot) -> InstalledKueue | None:
        """What is installed; None if no Deployment of Kueue mounts a Configuration. Raises `FactsUnavailable`."""
        configuration = None if snapshot.kueue is None else known(snapshot.kueue)
        deployment = next(kueues(snapshot), None)
        if configuration is None or deployment is None:
            return None
        gates = {name: value is True for name, value in mapping(configuration.get("featureGates")).items()}
        release = next(KUEUE_CONTROLLER.releases(deployment), None)
        return cls(configuration, key_of(deployment)[0], {**gates, **dict(_gates_of(deployment))}, release)


def _gates_of(deployment: Manifest) -> Iterator[tuple[str, bool]]:
    """The feature gates in the arguments of a Deployment's containers."""
    for container in map(mapping, sequence(pod_of(deployment).get("containers"))):
        for argument in map(str, sequence(container.get("args"))):
            name, _, value = argument.lstrip("-").partition("=")
            for gate in value.split(",") if name == "feature-gates" else ():
                gate_name, _, on = gate.partition("=")
                yield gate_name.strip(), on.strip().lower() == "true"


def settings_of(kueue: InstalledKueue) -> KueueSettings:
    """What a Configuration states, with Kueue's own defaults. Raises `Malformed`."""
    configuration, gates = kueue.configuration, kueue.gates
    retention = mapping(mapping(configuration.get("objectRetentionPolicies")).get("workloads"))
    integrations = mapping(configuration.get("integrations"))
    selector = configuration.get("managedJobsNamespaceSelector")
    return KueueSettings(
        **_pods_ready(kueue),
        deletes_deactivated=retention.get("afterDeactivatedByKueue") is not None,
        scheduler_library=gates.get("SchedulerLibraryIntegration", False),
        topology_aware=gates.get("TopologyAwareScheduling", True),
        workload_timeouts=gates.get("WorkloadLevelWaitForPodsReady", False),
        max_not_ready=gates.get("WaitForPodsReadyMaxNotReady", False),
        counts_minimums=gates.get("BringYourOwnPodGroup", False),
        manage_without_queue_name=flag(configuration.get("manageJobsWithoutQueueName")),
        frameworks=frozenset(map(str, sequence(integrations.get("frameworks")) or _FRAMEWORKS)),
        managed_namespaces=_outside(kueue) if selector is None else dict(mapping(selector)),
    )


def _outside(kueue: InstalledKueue) -> Manifest:
    values = ["kube-system", text(kueue.configuration.get("namespace")) or kueue.namespace]
    return {"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "NotIn", "values": values}]}


def _pods_ready(kueue: InstalledKueue) -> Manifest:
    """The settings of `waitForPodsReady`: v1beta2 waits unless a gate turns it off, v1beta1 only with `enable`."""
    block = mapping(kueue.configuration.get("waitForPodsReady"))
    old = str(kueue.configuration.get("apiVersion")).endswith(f"/{_OLD}")
    if kueue.gates.get("DisableWaitForPodsReady", False) or (old and not flag(block.get("enable"))):
        return {"pods_ready_seconds": None, "recovery_seconds": None}
    strategy = mapping(block.get("requeuingStrategy"))
    timeout = _seconds(block.get("timeout")) or (_OLD_TIMEOUT if old else _TIMEOUT)
    recovery = _seconds(block.get("recoveryTimeout"))
    blocks = block.get("blockAdmission")
    return {
        "pods_ready_seconds": timeout,
        # 0 turns it off.
        "recovery_seconds": timeout if recovery is None else recovery or None,
        "unscheduled_seconds": _seconds(block.get("unscheduledTimeout")) or None,
        "block_admission": old if blocks is None else flag(blocks),
        "backoff_limit": integer(strategy.get("backoffLimitCount")),
        "backoff_base_seconds": _or(integer(strategy.get("backoffBaseSeconds")), _BASE),
        "backoff_max_seconds": _or(integer(strategy.get("backoffMaxSeconds")), _MAX),
    }


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _seconds(value: Any) -> int | None:
    """A duration as Go writes it, in whole seconds."""
    written = text(value)
    if written is None:
        return None
    if not re.search(DURATION_PATTERN, written):
        raise Malformed(value, "a duration")
    return seconds_of(written)


def _stated(settings: KueueSettings) -> dict[str, Any]:
    """The settings by their place in Kueue's Configuration, which is that in the `kueue:` block."""
    found: dict[str, Any] = {"waitForPodsReady.enable": settings.pods_ready_seconds is not None}
    if settings.pods_ready_seconds is not None:
        found |= {
            "waitForPodsReady.timeout": f"{settings.pods_ready_seconds}s",
            "waitForPodsReady.recoveryTimeout": f"{settings.recovery_seconds or 0}s",
            "waitForPodsReady.unscheduledTimeout": f"{settings.unscheduled_seconds or 0}s",
            "waitForPodsReady.blockAdmission": settings.block_admission,
            "waitForPodsReady.requeuingStrategy.backoffLimitCount": settings.backoff_limit,
            "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": settings.backoff_base_seconds,
            "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": settings.backoff_max_seconds,
        }
    return {
        **found,
        "manageJobsWithoutQueueName": settings.manage_without_queue_name,
        "managedJobsNamespaceSelector": _unordered(settings.managed_namespaces),
        "integrations.frameworks": sorted(settings.frameworks & _ASKED_ABOUT),
        "featureGates.SchedulerLibraryIntegration": settings.scheduler_library,
        "featureGates.TopologyAwareScheduling": settings.topology_aware,
        "featureGates.WorkloadLevelWaitForPodsReady": settings.workload_timeouts,
        "featureGates.WaitForPodsReadyMaxNotReady": settings.max_not_ready,
        "featureGates.BringYourOwnPodGroup": settings.counts_minimums,
        "objectRetentionPolicies.workloads.afterDeactivatedByKueue": (
            "a duration" if settings.deletes_deactivated else None
        ),
    }


# Rules ask about no other framework.
_ASKED_ABOUT = frozenset(FRAMEWORKS.values())


def _unordered(selector: Mapping[str, Any]) -> Manifest:
    """A label selector with its expressions and their values sorted."""
    expressions = [
        {
            "key": one.get("key"),
            "operator": one.get("operator"),
            "values": sorted(map(str, sequence(one.get("values")))),
        }
        for one in map(mapping, sequence(selector.get("matchExpressions")))
    ]
    return {
        "matchLabels": dict(mapping(selector.get("matchLabels"))),
        "matchExpressions": sorted(expressions, key=json.dumps),
    }


def _mounted(block: Manifest, tag: str = "v0.19.0") -> Snapshot:
    configuration = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **block}
    return installed(running_kueue(tag), kueue_webhook("mpod.kb.io", "pods"), kueue=configuration)


_FRAMEWORKS_OF_MANIFESTS = {"integrations": {"frameworks": sorted(INSTALLED.frameworks)}}


@check(
    "kueue/configuration",
    level=Level.WARNING,
    passes=lambda: _mounted(_FRAMEWORKS_OF_MANIFESTS),
    fails=lambda: _mounted({**_FRAMEWORKS_OF_MANIFESTS, "waitForPodsReady": {"timeout": "5m"}}),
)
def configuration(snapshot: Snapshot) -> Symptoms:
    """The `kueue:` block of the configuration states what Kueue's Configuration says. Rules read the block, because
    Kueue's settings are no API object. The check reads the ConfigMap that Kueue's Deployment mounts, in v1beta1 or
    v1beta2, with the defaults of Kueue 0.19 and 0.20. The `version` of the block is compared with the tag of Kueue's
    image. If the ConfigMap or the Deployment is not found, the finding is a note.

    Source: kubernetes-sigs/kueue, apis/config/{v1beta1,v1beta2} (types and defaults).
    """
    name = _registered(snapshot)
    if name is None:
        return
    found = InstalledKueue.found_in(snapshot)
    if found is None:
        yield Symptom(
            name,
            "Kueue is installed, and no Deployment of its image with a ConfigMap was found",
            "rules read the kueue: block of the configuration, which could not be compared",
            "compare the block with the file that Kueue is started with",
            Level.NOTE,
        )
        return
    stated = snapshot.settings.kueue.release
    if stated is not None and found.release is not None and stated[:2] != found.release[:2]:
        yield Symptom(
            "Kueue's image",
            f"it has the release {found.release}, and the kueue: block says version {stated.major}.{stated.minor}",
            "rules about Kueue use the block: they warn of what does not happen, or miss what does",
            "leave version out of the kueue: block: in a cluster, the API versions that Kueue serves show it",
        )
    theirs, ours = _stated(settings_of(found)), _stated(snapshot.settings.kueue)
    for place in [place for place in theirs if place in ours]:
        if theirs[place] != ours[place]:
            yield Symptom(
                f"{KUEUE_CONFIGURATION.called}, {place}",
                f"it is {_shown(theirs[place])}, and the kueue: block says {_shown(ours[place])}",
                "rules about Kueue use the block: they warn of what does not happen, or miss what does",
                f"write {place} into the kueue: block as it is in Kueue's Configuration",
            )


def _shown(value: Any) -> str:
    shown = json.dumps(value, separators=(", ", ": "))
    return shown if len(shown) <= _LONGEST else "another one"


def _registered(snapshot: Snapshot) -> str | None:
    """A webhook configuration of Kueue's, if there is one."""
    return next((f"{_KIND} {name_of(raw)}" for raw in snapshot.all(MUTATING_WEBHOOKS) if KUEUE.registered(raw)), None)
