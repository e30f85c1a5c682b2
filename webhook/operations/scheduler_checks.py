"""Checks of schedulers and controllers: each profile's scheduler runs in the version that the configuration states,
and which releases of Kueue and of the controllers of opted-in workloads run.

A scheduler with another name, or outside of the cluster, is not seen. So the checks only warn, except for a
contradiction. Source of the names: the Helm charts of Koordinator, Volcano and KAI, and the manifests of
scheduler-plugins. Source of the images: the manifests and Helm charts of each project, in the releases of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from webhook.backends.coscheduling import CoschedulingBackend
from webhook.backends.kai.keys import FIXED as KAI_FIXED
from webhook.backends.kai.keys import NAME as KAI
from webhook.backends.kai.keys import mixes_namespaces
from webhook.backends.koordinator.keys import NAME as KOORDINATOR
from webhook.backends.volcano.keys import NAME as VOLCANO
from webhook.config.settings import Profile
from webhook.model import grove
from webhook.model.projections import key_of, name_of
from webhook.model.quantity import Version
from webhook.model.reading import Manifest, integer, mapping, selects, text
from webhook.operations.diagnosis import Severity, Symptom, Symptoms, check, configured, deployment, installed
from webhook.operations.snapshot import COLOCATION_PROFILES, DEPLOYMENTS, SCHEDULER_LEASE, Snapshot, images
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER

# By the end of an image's name, without its tag.
_IMAGES = {
    KOORDINATOR: re.compile(r"(^|/)koord-scheduler$"),
    VOLCANO: re.compile(r"(^|/)vc-scheduler$"),
    KAI: re.compile(r"(^|/)kai-scheduler/scheduler$"),
    CoschedulingBackend.name: re.compile(r"(^|/)scheduler-plugins/kube-scheduler$"),
}
# A leader renews every two seconds.
_SILENCE = timedelta(minutes=2)
_KOORD = {"name": KOORDINATOR}
_KAI_IMAGE, _ON_KAI = "ghcr.io/kai-scheduler/kai-scheduler/scheduler", configured({"name": KAI})


class Process(NamedTuple):
    """A Deployment that runs an image: its place, its image's tag, and its number of available replicas."""

    where: str
    tag: str
    available: int


def _processes(snapshot: Snapshot, name: re.Pattern[str]) -> Iterator[Process]:
    for raw in snapshot.all(DEPLOYMENTS):
        for image, tag in images(raw):
            if name.search(image):
                available = integer(mapping(raw.get("status")).get("availableReplicas")) or 0
                yield Process(f"Deployment {'/'.join(key_of(raw))}", tag, available)


@check(
    "schedulers/running",
    level=Severity.WARNING,
    passes=lambda: installed(deployment("koord-scheduler", "ghcr.io/koordinator-sh/koord-scheduler:v1.8.0")),
    fails=lambda: installed(deployment("koord-manager", "ghcr.io/koordinator-sh/koord-manager:v1.8.0")),
)
def running(snapshot: Snapshot) -> Symptoms:
    """For each enabled profile the scheduler of that name runs. A pod whose schedulerName belongs to no running
    scheduler waits for ever, without an event. The check looks at the images of Deployments. For default-scheduler it
    looks at kube-scheduler's Lease, if that scheduler makes gangs. A scheduler that runs in another way is not seen.

    Source: the schedulers' own Helm charts.
    """
    for name, profile in snapshot.settings.profiles.items():
        if name in _IMAGES:
            processes = list(_processes(snapshot, _IMAGES[name]))
            if not processes:
                observation = "no Deployment runs its image"
            elif not any(process.available for process in processes):
                observation = f"{processes[0].where} has no available replica"
            else:
                continue
            yield _unserved(name, observation)
        elif name == DEFAULT_SCHEDULER and profile.backend.settings.gangScheduling:
            yield from _kube_scheduler(snapshot)


def _unserved(name: str, observation: str) -> Symptom:
    return Symptom(
        f"profile {name}",
        observation,
        "its pods wait for ever, and no event says why",
        f"install {name}, or remove the profile from the configuration; ignore this if it runs under another image",
    )


def _kube_scheduler(snapshot: Snapshot) -> Symptoms:
    lease = snapshot.single(SCHEDULER_LEASE)
    renewed = None if lease is None else text(mapping(lease.get("spec")).get("renewTime"))
    if renewed is None:
        yield _unserved(DEFAULT_SCHEDULER, "no process holds a Lease kube-system/kube-scheduler")
    elif snapshot.now - datetime.fromisoformat(renewed) > _SILENCE:
        yield _unserved(DEFAULT_SCHEDULER, f"Lease kube-system/kube-scheduler was not renewed since {renewed}")


@check(
    "schedulers/version",
    passes=lambda: installed(deployment("koord-scheduler", "ghcr.io/koordinator-sh/koord-scheduler:v1.8.0")),
    fails=lambda: installed(
        deployment("koord-scheduler", "ghcr.io/koordinator-sh/koord-scheduler:v1.6.1"),
        settings=configured({**_KOORD, "schedulerVersion": "1.8"}),
    ),
)
def version(snapshot: Snapshot) -> Symptoms:
    """A scheduler's image has the version that the configuration states (`schedulerVersion`), and a version that
    Rollcall can work with. Rules use the stated version.

    Source: `Backend.version_problem` of each backend, and the rules that ask for a version.
    """
    for name, profile in snapshot.settings.profiles.items():
        for process in _processes(snapshot, _IMAGES[name]) if name in _IMAGES else ():
            runs = Version.parse(process.tag)
            if runs is not None and (symptom := _contradiction(profile, process, runs)) is not None:
                yield symptom


def _contradiction(profile: Profile, process: Process, runs: Version) -> Symptom | None:
    stated = profile.backend.scheduler_version
    if (why := profile.backend.version_problem(runs)) is not None:
        return Symptom(process.where, f"it runs {runs}", why, f"install a newer {profile.name}")
    if stated is not None and stated[:2] != runs[:2]:
        return Symptom(
            process.where,
            f"it runs {runs}, but the profile states {stated}",
            "rules use the stated version: the running one may not honour the same things",
            f"set schedulerVersion: {runs} for profile {profile.name}, or install {stated}",
        )
    return None


@check(
    "schedulers/kai-fixes",
    level=Severity.WARNING,
    passes=lambda: installed(deployment("kai-scheduler-default", f"{_KAI_IMAGE}:v0.17.2"), settings=_ON_KAI),
    fails=lambda: installed(deployment("kai-scheduler-default", f"{_KAI_IMAGE}:v0.16.8"), settings=_ON_KAI),
)
def kai_fixes(snapshot: Snapshot) -> Symptoms:
    """KAI is 0.17.2 or newer. Older releases may start a gang in part: where pods are collected, a subgroup below its
    minimum is not held back (#2096). They also take two PodGroups of one name in two namespaces for one (#2095). The
    fix of #2095 alone was backported: of 0.14 the releases from 0.14.9 on have it, of 0.9, 0.12 and 0.16 those after
    2026-09-14.

    Source: kai-scheduler/KAI-Scheduler, pull requests 2095, 2096, 2137, 2138, 2146, 2147, 2148, 2152.
    """
    for process in _processes(snapshot, _IMAGES[KAI]) if KAI in snapshot.settings.profiles else ():
        runs = Version.parse(process.tag)
        if runs is not None and runs < KAI_FIXED:
            yield Symptom(
                process.where,
                f"it runs {runs}",
                "a gang may start in part (KAI-Scheduler#2096)"
                + (
                    ", and two PodGroups of one name in two namespaces may count as one (#2095)"
                    if mixes_namespaces(runs)
                    else ""
                ),
                f"install {KAI_FIXED} or newer",
            )


_VOLCANO_WEBHOOK = re.compile(r"(^|/)vc-webhook-manager$")
# The first fixed patch release of each line that has one; 1.15.0 and later lines have the fix.
_BOUNDED_BODIES = {(1, 12): Version(1, 12, 4), (1, 13): Version(1, 13, 3), (1, 14): Version(1, 14, 2)}


@check(
    "schedulers/volcano-webhook",
    level=Severity.WARNING,
    passes=lambda: installed(deployment("volcano-admission", "volcanosh/vc-webhook-manager:v1.14.2")),
    fails=lambda: installed(deployment("volcano-admission", "volcanosh/vc-webhook-manager:v1.14.1")),
)
def volcano_webhook(snapshot: Snapshot) -> Symptoms:
    """Volcano's webhook server bounds what it reads. Before v1.12.4, v1.13.3 and v1.14.2 (CVE-2026-44247) any pod that
    can connect to it can have it killed with one large request. The release is read from the tag of its image.

    Source: https://github.com/volcano-sh/volcano/security/advisories/GHSA-8wxp-xxp2-rcgx; release notes of v1.15.0.
    """
    for process in _processes(snapshot, _VOLCANO_WEBHOOK):
        runs = Version.parse(process.tag)
        if runs is not None and runs < (fixed := _BOUNDED_BODIES.get(runs[:2], min(_BOUNDED_BODIES.values()))):
            yield Symptom(
                process.where,
                f"it runs {runs}, which has CVE-2026-44247",
                "a pod that sends it one large request has it killed; until it is back, what it must answer for "
                "cannot be created",
                f"install Volcano {fixed} or newer, or let only the API server connect to it (NetworkPolicy)",
            )


def _colocation(scheduler: str) -> Manifest:
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "batch"},
        "spec": {"schedulerName": scheduler},
    }


@check(
    "schedulers/colocation-profile",
    level=Severity.WARNING,
    passes=lambda: installed(_colocation("koord-scheduler")),
    fails=lambda: installed(_colocation("koord-scheduler"), settings=configured({"name": "volcano"}, _KOORD)),
)
def colocation_profile(snapshot: Snapshot) -> Symptoms:
    """No ClusterColocationProfile of Koordinator sets the schedulerName of pods that are for another scheduler.
    Koordinator's webhook runs first. Rollcall then finds a pod that another system has claimed, and does not change it.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/mutating/cluster_colocation_profile.go.
    """
    pod = {grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE}
    for raw in snapshot.all(COLOCATION_PROFILES):
        spec = mapping(raw.get("spec"))
        name = text(spec.get("schedulerName"))
        others = [profile for profile in snapshot.settings.profiles if profile not in {name, DEFAULT_SCHEDULER}]
        selector = mapping(spec.get("selector"))
        required = {key: value for key, value in mapping(selector.get("matchLabels")).items() if key in pod}
        # Labels that only some pods have may be those of a gang, so this is reported.
        if name is not None and others and selects({"matchLabels": required}, pod):
            yield Symptom(
                f"ClusterColocationProfile {name_of(raw)}",
                f"it writes schedulerName {name} into the pods that it selects",
                f"Rollcall does not change a pod that another system has claimed: a gang for "
                f"{', '.join(others)} never starts",
                "remove schedulerName from it, or narrow its selectors to pods that are not in gangs",
            )


class Controller(NamedTuple):
    """A project, the name of its image without the tag, and the release that Rollcall is tested with."""

    name: str
    image: re.Pattern[str]
    tested: Version

    def tags(self, deployment: Manifest) -> Iterator[str]:
        """Returns the tags of its images in a Deployment."""
        return (tag for image, tag in images(deployment) if self.image.search(image))

    def releases(self, deployment: Manifest) -> Iterator[Version]:
        """Returns the releases in the tags of its images in a Deployment. Other tags say nothing."""
        return (version for tag in self.tags(deployment) if (version := Version.parse(tag)) is not None)


KUEUE_CONTROLLER = Controller("Kueue", re.compile(r"(^|/)kueue$"), Version(0, 19))
TRAINER = Controller("Trainer", re.compile(r"(^|/)trainer-controller-manager$"), Version(2, 2))
CONTROLLERS = (
    KUEUE_CONTROLLER,
    Controller("JobSet", re.compile(r"(^|/)jobset$"), Version(0, 12)),
    Controller("LeaderWorkerSet", re.compile(r"(^|/)lws$"), Version(0, 9)),
    TRAINER,
    Controller("KubeRay", re.compile(r"(^|/)kuberay/operator$"), Version(1, 6)),
)


def _kueue(tag: str) -> Manifest:
    return deployment("kueue-controller-manager", f"registry.k8s.io/kueue/kueue:{tag}", "kueue-system")


@check(
    "controllers/release",
    level=Severity.NOTE,
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
