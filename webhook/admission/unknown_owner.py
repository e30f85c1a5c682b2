"""Pods that are opted in, or name a gang scheduler, and whose controller is of a kind that Rollcall does not know."""

from __future__ import annotations

from webhook.config.settings import Profile, Settings
from webhook.model.facts import ClusterFacts
from webhook.model.reading import mapping, text
from webhook.model.record import OPTED_OUT, SCHEDULER_LABEL
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podgang import controller_in
from webhook.validators.registry import BoundRule, UnknownOwner
from webhook.validators.selection import DEFAULT_SCHEDULER


def unknown_owner(pod: Pod, facts: ClusterFacts, settings: Settings) -> UnknownOwner | None:
    """Return the controller of an opted-in pod of whose kind Rollcall makes no gangs. Raises `Malformed`."""
    controller = controller_in(mapping(pod.raw.get("metadata")))
    if controller is None or (controller.group, controller.kind) in settings.kinds.known_controllers:
        return None
    by = text(pod.template.labels.get(SCHEDULER_LABEL)) or facts.namespace_label(pod.namespace, SCHEDULER_LABEL)
    named = pod.scheduler_name
    if by is None and named in settings.profiles and named != DEFAULT_SCHEDULER:
        by = named
    return None if by in {None, OPTED_OUT} else UnknownOwner(pod.template, controller, str(by))


def rules_about(
    owner: UnknownOwner, scheduler: str | None, namespace: str, facts: ClusterFacts, settings: Settings
) -> tuple[Profile, tuple[BoundRule, ...]]:
    """Return the profile by which such a pod is judged, and its rules about it; none if they are off in the namespace.
    `scheduler` is that of the pod's verdict, if it has one.
    """
    profile = settings.profiles.get(scheduler or owner.opted_in_by, settings.profiles[settings.default])
    return profile, profile.unknown_rules[settings.ceiling(profile, facts, namespace)]
