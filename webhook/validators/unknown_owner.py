"""The rule about pods whose controller is of a kind that Rollcall does not know."""

from __future__ import annotations

from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA
from webhook.model.findings import Action, Finding
from webhook.model.known_objects import Namespace
from webhook.model.reading import Manifest
from webhook.model.record import SCHEDULER_LABEL
from webhook.validators.registry import Context, Example, Results, Subject, UnknownOwner, rule


def _pod(api_version: str, kind: str) -> Manifest:
    owner = {"apiVersion": api_version, "kind": kind, "name": "demo", "uid": "1", "controller": True}
    metadata = {"name": "demo-0", "namespace": "default", "ownerReferences": [owner]}
    container = {"name": "main", "image": "example.com/main"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


_OPTED_IN = ClusterFacts(namespaces={"default": Namespace({SCHEDULER_LABEL: "koord-scheduler"})})


@rule(
    "owner/unknown-kind",
    subject=Subject.UNKNOWN_OWNER,
    default=Action.WARN,
    passes=Example(_pod("apps/v1", "ReplicaSet"), facts=_OPTED_IN),
    fails=Example(_pod("example.com/v1", "Training"), facts=_OPTED_IN),
)
def unknown_kind(found: UnknownOwner, _: Context[Any]) -> Results:
    """The pods of a kind that Rollcall does not know start one by one, although their namespace, their label or their
    schedulerName asks for a gang scheduler. Pods of Deployments, StatefulSets and DaemonSets, and pods without a
    controller, are not reported.

    Source: webhook/model/workloads/shapes (the kinds that are known are those in Python and the declared ones).
    """
    kind = found.controller.kind
    yield Finding(
        at=METADATA / "ownerReferences",
        found=kind,
        why=f"Rollcall does not know this kind, so its pods start one by one, not as a gang of {found.opted_in_by}",
        remedy=f"declare it by a WorkloadShape: `rollcall shapes init {kind} --from-crd FILE` drafts one",
    )
