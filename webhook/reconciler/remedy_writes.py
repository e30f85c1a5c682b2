"""Carries out one remedy. Every write is refused if its object is another one by now, or has changed in what matters.

A wake of koord-scheduler takes two writes. If the process ends between them, the raised minimum differs from the gang
object that the reconciler wants, and the next one writes that object as it writes any other that differs.
"""

from __future__ import annotations

from http import HTTPStatus

from webhook.backends.base import Wake
from webhook.cluster import requests
from webhook.errors import RequestFailed
from webhook.gangs.differences import FIELD_MANAGER
from webhook.gangs.pod import GangPod
from webhook.gangs.remedies import Act, Remedy
from webhook.model import grove
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import Resource, key_of
from webhook.model.reading import Manifest, mapping
from webhook.mutators.prepare_pod import STAMP_ANNOTATION
from webhook.reconciler.writer import Writer

# The field manager of the annotation that makes Grove reconcile a PodCliqueSet.
TRIGGER_MANAGER = f"{FIELD_MANAGER}-trigger"
# On what a wake changes: when it did.
WOKEN_ANNOTATION = "rollcall.dev/woken"
_WOKEN = f"/metadata/annotations/{WOKEN_ANNOTATION.replace('/', '~1')}"


async def carry_out(remedy: Remedy, writer: Writer, now: str) -> bool:
    """Carry out a remedy; return whether anything was done: not if its objects have changed. `now` is the time as
    text. Raises `RequestFailed`, `NotLeading`.
    """
    if remedy.act is Act.REPLACE:
        return any([await writer.delete_unbound(pod) for pod in remedy.pods])
    target, api = remedy.target, remedy.api
    if target is None or api is None:
        return False
    resource = Resource(api, f"{api.kind.lower()}s")
    if remedy.act is Act.TRIGGER:
        return await _trigger(writer, resource, target, now)
    if remedy.act is Act.DELETE:
        return await writer.delete_unchanged(resource, target)
    if remedy.act is Act.RELEASE:
        finalizers = target["metadata"]["finalizers"]
        return await _patch(
            writer,
            "release",
            resource,
            target,
            {"op": "test", "path": "/metadata/finalizers", "value": finalizers},
            {"op": "remove", "path": "/metadata/finalizers"},
        )
    return await _wake(remedy, writer, resource, target, now)


async def _trigger(writer: Writer, resource: Resource, target: Manifest, now: str) -> bool:
    """Have Grove reconcile a PodCliqueSet. With its uid, none is created, and none of the same name is changed."""
    annotated = {**target, "metadata": {**target["metadata"], "annotations": {grove.RECONCILE_TRIGGER: now}}}
    request = requests.apply(resource, annotated, TRIGGER_MANAGER, dry_run=writer.dry_run)
    try:
        await writer.send("trigger", resource, key_of(target), request)
    except RequestFailed as error:
        if error.code == HTTPStatus.CONFLICT:
            return False
        raise
    return True


async def _wake(remedy: Remedy, writer: Writer, resource: Resource, target: Manifest, now: str) -> bool:
    if remedy.wake is Wake.ANNOTATE:
        return await _patch(writer, "wake", resource, target, {"op": "add", "path": _WOKEN, "value": now})
    path, before = "/spec/minMember", mapping(target.get("spec")).get("minMember")
    if before is None:
        # A user has removed it: the reconciler writes the object again, and the scheduler hears of that.
        return False
    # koord-scheduler forgets the pods of a PodGroup that was deleted, and hears of each again when it changes.
    for pod in remedy.pods:
        await _annotate(writer, pod, now)
    raised = await _patch(
        writer,
        "wake",
        resource,
        target,
        {"op": "test", "path": path, "value": before},
        {"op": "replace", "path": path, "value": remedy.raised},
    )
    if not raised:
        return False
    await _patch(
        writer,
        "wake",
        resource,
        target,
        {"op": "test", "path": path, "value": remedy.raised},
        {"op": "replace", "path": path, "value": before},
    )
    # If that was refused, the reconciler itself has set it back meanwhile.
    return True


async def _annotate(writer: Writer, pod: GangPod, now: str) -> None:
    """Annotate a pod that Rollcall prepared."""
    if STAMP_ANNOTATION not in pod.annotations:
        return
    same = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    change = {"op": "add", "path": _WOKEN, "value": now}
    await _sent(writer, "annotate", PODS, pod.namespace, pod.name, [same, change])


async def _patch(writer: Writer, action: str, resource: Resource, live: Manifest, *operations: Manifest) -> bool:
    same = {"op": "test", "path": "/metadata/uid", "value": live["metadata"]["uid"]}
    return await _sent(writer, action, resource, *key_of(live), [same, *operations])


async def _sent(
    writer: Writer, action: str, resource: Resource, namespace: str, name: str, operations: list[Manifest]
) -> bool:
    """Send a patch; return whether it applied."""
    request = requests.json_patch(resource, namespace, name, operations, dry_run=writer.dry_run)
    try:
        await writer.send(action, resource, (namespace, name), request)
    except RequestFailed as error:
        if error.is_outdated_patch:
            return False
        raise
    return True
