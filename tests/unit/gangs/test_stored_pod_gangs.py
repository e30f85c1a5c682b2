"""The PodGangs that a reconciler keeps, as rules know them."""

from __future__ import annotations

import pytest

from tests.unit.cluster.scripted import Script, client
from webhook.gangs.key import gang_of_object
from webhook.gangs.stores import Store, StoredPodGangs
from webhook.model import grove
from webhook.model.bounds import Packed
from webhook.model.facts import ClusterFacts
from webhook.model.projections import POD_GANGS
from webhook.model.reading import Manifest
from webhook.validators.examples import pod_clique_set
from webhook.validators.shared_checks import gangs_of_set, has_gangs
from webhook.workloads.pod_clique_set import PodCliqueSet

DEMO = PodCliqueSet(pod_clique_set())


def podgang(name: str, workload: object = "demo", namespace: str = "default") -> Manifest:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {grove.LABEL_PART_OF: workload}},
        "spec": {"podgroups": [{"name": f"{name}-worker", "minReplicas": 1}]},
    }


def stored(*podgangs: Manifest) -> StoredPodGangs:
    store = Store(client(Script()), POD_GANGS.resource, lambda _, __: None, gang_of_object)
    for raw in podgangs:
        store.put(raw)
    return StoredPodGangs(store)


def test_the_podgangs_of_a_set_are_those_that_say_so_in_its_namespace() -> None:
    known = stored(podgang("demo-0"), podgang("demo-1"), podgang("other-0", "other"), podgang("demo-0", namespace="b"))
    assert sorted(gangs_of_set(DEMO, known)) == [("default", "demo-0"), ("default", "demo-1")]


def test_a_podgang_that_cannot_be_read_or_is_gone_or_changed_its_set_is_none_of_a_set() -> None:
    known = stored(podgang("demo-0"), podgang("demo-1"), podgang("demo-2", 7), podgang("demo-3"))
    known.store.put({**podgang("demo-0"), "spec": {"podgroups": "none"}})
    known.store.put(podgang("demo-1", "other"))
    known.store.watch.index.drop(podgang("demo-3"))
    assert list(gangs_of_set(DEMO, known)) == []
    assert list(known.store.gangs_of_set(("default", "other"))) == [("default", "demo-1")]
    # One that cannot be read is left out when it is asked for.
    assert list(known.store.gangs_of_set(("default", "demo"))) == [("default", "demo-0")]


@pytest.mark.parametrize("workload", ["other", "demo"])
def test_whether_a_set_has_gangs_is_known_without_a_look_at_the_others(workload: str, unpacked: list[Packed]) -> None:
    facts = ClusterFacts(pod_gangs=stored(podgang("demo-0"), *(podgang(f"a-{n}", workload) for n in range(100))))
    unpacked.clear()
    assert has_gangs(DEMO, facts)
    assert len(unpacked) <= 2
