"""Checks of Grove's operator beside others that gate the pods of its gangs: Rollcall and Kueue."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.deployments import images, pod_of
from webhook.doctor.examples import configured, deployment, installed
from webhook.doctor.grove_operator import EXEMPT, authorized, authorizing, is_operator
from webhook.doctor.kueue import kueue_webhook, kueues, running_kueue
from webhook.doctor.parts import DEPLOYMENTS
from webhook.doctor.snapshot import Snapshot
from webhook.model.projections import key_of
from webhook.model.reading import Manifest, text
from webhook.model.users import service_account
from webhook.upgrades.releases import Release

# The first release with pull request 724.
_ONLY_ITS_OWN = Release("v0.1.0-alpha.12-rc1")
_GATED = {"name": "koord-scheduler", "gate": True}


def _grove(tag: str) -> Manifest:
    return deployment("grove-operator", f"ghcr.io/ai-dynamo/grove/grove-operator:{tag}", "grove-system")


@check(
    "grove/gates",
    level=Level.WARNING,
    passes=lambda: installed(_grove("v0.1.0-alpha.12"), settings=configured(_GATED)),
    fails=lambda: installed(_grove("v0.1.0-alpha.11"), settings=configured(_GATED)),
)
def gates(snapshot: Snapshot) -> Symptoms:
    """Grove's operator removes only its own gate from a pod. Before v0.1.0-alpha.12-rc1 it removed all gates, also
    those of Rollcall (`gate`) and of Kueue. Not checked if no profile has `gate` and Kueue is not installed. The
    release is read from the tag of the image; other tags are not judged.

    Source: ai-dynamo/grove, pull request 724; operator/internal/controller/podclique/components/pod/syncflow.go.
    """
    others = list(_gate_owners(snapshot))
    for raw in snapshot.all(DEPLOYMENTS) if others else ():
        for tag in _tags(raw):
            yield Symptom(
                f"Deployment {'/'.join(key_of(raw))}",
                f"its image has the tag {tag}",
                f"this release removes all gates from a pod at once, also those of {' and '.join(others)}: a gang may "
                "start in part",
                f"upgrade Grove to {_ONLY_ITS_OWN} or later",
            )


def _gate_owners(snapshot: Snapshot) -> Iterator[str]:
    if any(profile.gate for profile in snapshot.settings.profiles.values()):
        yield "Rollcall"
    if any(True for _ in kueues(snapshot)):
        yield "Kueue"


def _tags(deployment: Manifest) -> Iterator[str]:
    """The tags of the images of Grove's operator that are too old."""
    for _, tag in images(deployment) if is_operator(deployment) else ():
        try:
            old = Release(tag) < _ONLY_ITS_OWN
        except ValueError:
            continue
        if old:
            yield tag


def _beside_kueue(*exempt: str) -> Snapshot:
    kueue = running_kueue(serviceAccountName="kueue-controller-manager")
    return installed(kueue, kueue_webhook("mpod.kb.io", "pods"), operator=authorizing(*exempt))


@check(
    "grove/authorizer-kueue",
    level=Level.WARNING,
    passes=lambda: _beside_kueue("system:serviceaccount:kueue-system:kueue-controller-manager"),
    fails=_beside_kueue,
)
def authorizer_kueue(snapshot: Snapshot) -> Symptoms:
    """If Grove's authorizer is enabled, it lets Kueue change pods. Kueue removes its gates from the pods of a
    PodCliqueSet that it queues, and deletes these pods to stop them. Only pods with a queue are concerned.

    Source: ai-dynamo/grove, authorizer-webhook (UPDATE of pods); kubernetes-sigs/kueue, pkg/controller/jobs/pod.
    """
    for raw in kueues(snapshot):
        account = text(pod_of(raw).get("serviceAccountName")) or "default"
        user = service_account(key_of(raw)[0], account)
        if not authorized(snapshot, user):
            yield Symptom(
                EXEMPT,
                "the authorizer is enabled, and Kueue is not exempt",
                "Grove does not let it remove its gates: pods of gangs that Kueue queues never start",
                f"add {user}",
            )
