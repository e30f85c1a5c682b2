"""Seal the pods that `/validate` need not see: see `webhook.validators.seal`."""

from __future__ import annotations

from dataclasses import replace

from webhook.admission.opinion import pod_context
from webhook.config.settings import Profile, Settings
from webhook.model.admission_request import Verdict
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
    if not settings.tenancy.is_grove_operator(user) or pod.podgang is None or pod.podclique is None:
        return None
    outcome = run(seal.asked, pod_context(pod, profile, facts, settings, {}), (pod.template,))
    if outcome.findings or outcome.unjudged:
        return None
    return f"{pod.podgang}/{pod.podclique}/{seal.digest}"


def with_seal(verdict: Verdict, pod: Pod, seal: str | None) -> Verdict:
    """Return the verdict of `/mutate` with the patch that gives the pod this seal, or that empties the seal of its
    author. Raises `Malformed`.
    """
    patch = PatchBuilder(pod.raw)
    if seal is not None or SEAL_ANNOTATION in pod.template.annotations:
        patch.set(("metadata", "annotations"), SEAL_ANNOTATION, seal or "")
    return replace(verdict, patch=(*verdict.patch, *patch.operations)) if patch.operations else verdict
