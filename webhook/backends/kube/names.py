"""The names of the Workload API's objects: one rule a generation, shared by what stamps pods and what writes objects.

In 1.35 a pod names a Workload and an entry of it; later it names a PodGroup. In 1.37 that is called as the PodClique
is, in trees and without, so that switching `hierarchical` moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from webhook.backends.kube.generation import Generation
from webhook.model.naming import cut_name, label_name, pod_group_name

# Objects are DNS subdomains.
OBJECT_LIMIT = 253
# The one template of a merged gang.
MERGED = "gang"
ROOT = "root"


def pod_group(podgang: str, podclique: str, generation: Generation, *, merged: bool) -> str:
    """The name of the PodGroup for one member of a PodGang, or of all its members when they are merged."""
    if merged:
        return cut_name(podgang, OBJECT_LIMIT)
    if generation is Generation.V1ALPHA2:
        return pod_group_name(podgang, podclique, OBJECT_LIMIT)
    return cut_name(podclique, OBJECT_LIMIT)


def template(name: str, kind: str = "leaf", taken: Iterable[str] = ()) -> str:
    """The name of a template: the member's own where that is a DNS label and none of those `taken`, else a hash."""
    return label_name(name, kind, taken=(ROOT, *taken))


def workload(podgang: str) -> str:
    """The name of the Workload."""
    return cut_name(podgang, OBJECT_LIMIT)


def root(podgang: str, members: Iterable[str]) -> str:
    """The name of the composite over the whole gang: the Workload's, unless a member is called so. kube-scheduler 1.37
    never finds room for a PodGroup that bears the name of its composite (seen), and a Job is its only member.
    """
    name = workload(podgang)
    if all(name != cut_name(member, OBJECT_LIMIT) for member in members):
        return name
    return cut_name(f"{podgang}-{ROOT}", OBJECT_LIMIT)


def composite(podgang: str, config: str) -> str:
    """The name of a composite below the root. The prefix is never left out: a scaled PodGang may bear `config`."""
    return cut_name(f"{podgang}-{config}", OBJECT_LIMIT)
