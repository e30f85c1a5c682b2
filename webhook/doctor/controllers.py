"""Checks of Kueue and of the controllers that create the pods of opted-in workloads: which of them run, and in which
release.

Source of the images: the manifests and Helm charts of each project, in the releases of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.deployments import images
from webhook.doctor.examples import deployment, installed
from webhook.doctor.parts import DEPLOYMENTS
from webhook.doctor.snapshot import Snapshot
from webhook.model.projections import key_of
from webhook.model.reading import Manifest
from webhook.model.version import Version


class Controller(NamedTuple):
    """A project, the name of its image without the tag, and the release that Rollcall is tested with."""

    name: str
    image: re.Pattern[str]
    tested: Version

    def tags(self, deployment: Manifest) -> Iterator[str]:
        """The tags of its images in a Deployment."""
        return (tag for image, tag in images(deployment) if self.image.search(image))

    def releases(self, deployment: Manifest) -> Iterator[Version]:
        """The releases in the tags of its images in a Deployment. Other tags say nothing."""
        return (version for tag in self.tags(deployment) if (version := Version.parse(tag)) is not None)


KUEUE = Controller("Kueue", re.compile(r"(^|/)kueue$"), Version(0, 19))
TRAINER = Controller("Trainer", re.compile(r"(^|/)trainer-controller-manager$"), Version(2, 2))
CONTROLLERS = (
    KUEUE,
    Controller("JobSet", re.compile(r"(^|/)jobset$"), Version(0, 12)),
    Controller("LeaderWorkerSet", re.compile(r"(^|/)lws$"), Version(0, 9)),
    TRAINER,
    Controller("KubeRay", re.compile(r"(^|/)kuberay/operator$"), Version(1, 6)),
)


def _kueue(tag: str) -> Manifest:
    return deployment("kueue-controller-manager", f"registry.k8s.io/kueue/kueue:{tag}", "kueue-system")


@check(
    "controllers/release",
    level=Level.NOTE,
    passes=lambda: installed(_kueue("v0.19.2")),
    fails=lambda: installed(_kueue("v0.21.0")),
)
def release(snapshot: Snapshot) -> Symptoms:
    """Kueue, JobSet, LeaderWorkerSet, Trainer and KubeRay run in the releases that Rollcall is tested with. Another
    release may hold, mark or count pods in another way. The release is read from the tags of the images; other tags are
    not judged.

    Source: tests/e2e/controlplane, the controllers of the cluster tests.
    """
    for raw in snapshot.all(DEPLOYMENTS):
        for controller in CONTROLLERS:
            for runs in controller.releases(raw):
                if runs[:2] != controller.tested[:2]:
                    major, minor, _ = controller.tested
                    yield Symptom(
                        f"Deployment {'/'.join(key_of(raw))}",
                        f"{controller.name} runs in release {runs}; Rollcall is tested with {major}.{minor}",
                        "another release may hold, mark or count pods in another way than the rules assume",
                        f"read the changes of {controller.name} between the two releases, and try one gang of each "
                        "kind before you rely on it",
                    )
