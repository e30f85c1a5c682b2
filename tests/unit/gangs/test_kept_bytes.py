"""What a reconciler keeps of each object of a large cluster. `python -m benchmarks.reconciler` measures all of it.

The limits leave a fifth of room for other releases of Python: a second copy of an index or of an object exceeds them.
"""

from __future__ import annotations

import gc
import json
import uuid
from collections.abc import Iterator

from tests.unit.cluster.scripted import Script, client
from tests.unit.kept_bytes import bytes_of
from webhook.backends.koordinator.keys import POD_GROUP
from webhook.gangs.key import gang_of_object, whose_object
from webhook.gangs.pod_watches import Controllers, GangPods
from webhook.gangs.stores import Store
from webhook.model.place import GROVE_POD_CONTROLLERS
from webhook.model.pod_template import Pod
from webhook.model.projections import Resource
from webhook.model.reading import Manifest

GANGS, MEMBERS = 100, 4
POD_GROUPS = Resource(POD_GROUP, "podgroups")


def named(kind: str, name: str, **metadata: object) -> Manifest:
    """The metadata of an object of Grove, as JSON gives it: with texts of its own."""
    found: Manifest = json.loads(json.dumps({"name": name, "namespace": "team", "uid": uid(kind, name), **metadata}))
    return found


def uid(kind: str, name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{name}"))


def owned_by(kind: str, name: str) -> list[Manifest]:
    marks = {"uid": uid(kind, name), "controller": True}
    return [{"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name, **marks}]


def members() -> Iterator[tuple[str, str]]:
    """Each gang with each of its members."""
    for number in range(GANGS):
        gang = f"trainer-{number}"
        for member in range(MEMBERS):
            yield gang, f"{gang}-role{member}"


def pod_group(gang: str, member: str) -> Manifest:
    labels = {
        "app.kubernetes.io/managed-by": "rollcall",
        "app.kubernetes.io/part-of": "trainer",
        "grove.io/podclique": member,
        "grove.io/podgang": gang,
        "rollcall.dev/gang": gang,
    }
    metadata = named("PodGroup", member, labels=labels, ownerReferences=owned_by("PodCliqueSet", "trainer"))
    return {"metadata": metadata, "spec": {"minMember": 2, "scheduleTimeoutSeconds": 600}}


def pod_clique(member: str) -> Manifest:
    return {"metadata": named("PodClique", member, ownerReferences=owned_by("PodCliqueSet", "trainer"))}


def pod(gang: str, member: str) -> Manifest:
    labels = {"app.kubernetes.io/part-of": "trainer", "grove.io/podclique": member, "grove.io/podgang": gang}
    metadata = named("Pod", f"{member}-x7k2p", labels=labels, ownerReferences=owned_by("PodClique", member))
    return {"metadata": metadata, "spec": {"nodeName": "node-1", "schedulerName": "koord-scheduler"}}


def test_a_gang_object_takes_half_a_kilobyte() -> None:
    found = Store(client(Script()), POD_GROUPS, lambda _, __: None, gang_of_object, whose_object)
    empty = bytes_of(found)
    for gang, member in members():
        found.watch.index.put(pod_group(gang, member))
    assert len(list(found.gangs.having("team", ["trainer-7-role2"]))) == 1
    assert (bytes_of(found) - empty) / (GANGS * MEMBERS) < 650


def test_a_pod_on_a_node_takes_at_most_two_kilobytes() -> None:
    """Half of what is counted are the keys and texts of its labels, which a `Row` counts although it shares them."""
    found = GangPods(client(Script()), lambda _: None)
    ((_, watch),) = found.watches()
    empty = bytes_of(found)
    for gang, member in members():
        watch.index.put(pod(gang, member))
    assert (bytes_of(found) - empty) / (GANGS * MEMBERS) < 2000


async def test_a_pod_clique_takes_a_third_of_a_kilobyte() -> None:
    found = Controllers(client(Script()), GROVE_POD_CONTROLLERS, lambda _: None, lambda: None, lambda _: None)
    found.follow({resource.api for resource in GROVE_POD_CONTROLLERS})
    watch = next(watch for kind, watch in found.watches() if kind == "PodClique")
    empty = bytes_of(found)
    for _, member in members():
        watch.index.put(pod_clique(member))
    each = (bytes_of(found) - empty) / (GANGS * MEMBERS)
    await found.close()
    assert each < 350


def test_a_view_of_a_pod_leaves_nothing_to_the_garbage_collector() -> None:
    """It collects rarely, and each judged pod has a view."""
    raw = pod("trainer-0", "trainer-0-role0")
    gc.collect()
    assert Pod(raw).template.spec_path.parts == ("spec",)
    assert gc.collect() == 0
