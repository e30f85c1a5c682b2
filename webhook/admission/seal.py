"""Seal the pods that `/validate` need not see: see `webhook.validators.seal`."""

from __future__ import annotations

from dataclasses import replace

from webhook.admission.opinion import pod_context
from webhook.config.settings import Profile, Settings
from webhook.model.admission_request import Operation, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.workloads.pod import Pod
from webhook.mutators.json_patch import PatchBuilder
from webhook.validators.registry import run
from webhook.validators.seal import SEAL_ANNOTATION


def seal_for(pod: Pod, user: str, profile: Profile, facts: ClusterFacts, settings: Settings) -> str | None:
    """Return the seal of a pod that was prepared for the scheduler of `profile`; None for a pod that `/validate` must
    see.
    """
    seal = profile.seal
    if seal is None or not seal.given or not settings.registration.must_answer:
        return None
    podgang, podclique = pod.podgang, pod.podclique
    if not settings.tenancy.is_grove_operator(user) or podgang is None or podclique is None:
        return None
    if seal.parts and any(getattr(facts, part) for part in seal.parts):
        outcome = run(seal.asked, pod_context(pod, profile, facts, settings, {}), pod.template)
        if outcome.findings or outcome.unjudged:
            return None
    return f"{podgang}/{podclique}/{seal.digest}"


def seal_patch(pod: Pod, seal: str | None) -> tuple[Operation, ...]:
    """Return the patch of `/mutate` that gives the pod this seal, or that empties the seal of its author. Raises
    `Malformed`.
    """
    if seal is None and SEAL_ANNOTATION not in pod.template.annotations:
        return ()
    patch = PatchBuilder(pod.raw)
    patch.set(("metadata", "annotations"), SEAL_ANNOTATION, seal or "")
    return tuple(patch.operations)


def unsealed(verdict: Verdict, pod: Pod) -> Verdict:
    """Return the verdict of `/mutate` on a pod that gets no seal. Raises `Malformed`."""
    emptied = seal_patch(pod, None)
    return replace(verdict, patch=(*verdict.patch, *emptied)) if emptied else verdict
