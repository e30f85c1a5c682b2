"""Which objects between pods and their workloads are told of when one of them changes, in a simulated cluster."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.grove import CLIQUES, controlled_by, pod_clique
from tests.unit.reconciler.running_reconciler import NOWHERE, at_once
from tests.waiting import until
from webhook.cluster.client import Client
from webhook.gangs.pod_watches import LONGEST, ControllerKey, Controllers
from webhook.model.place import GROVE_POD_CONTROLLERS, POD_CLIQUES

LENGTH = 500


def below(name: str, above: str) -> dict[str, Any]:
    """A PodClique that says that another one controls it. Any user may write an owner reference."""
    found = pod_clique(name)
    found["metadata"]["ownerReferences"] = controlled_by("PodClique", above, f"clique-{above}")
    return found


async def test_a_chain_of_any_length_is_told_of_as_far_as_a_pod_s_chain_reaches() -> None:
    cluster = WritableWorld(POD_CLIQUES)
    # The lowest is read first, so each further one has all before it below it.
    for index in range(LENGTH):
        cluster.put(CLIQUES, below(f"c{index}", f"c{index + 1}"))
    for one, other in (("self", "self"), ("one", "two"), ("two", "one")):
        cluster.put(CLIQUES, below(one, other))
    told = Counter[ControllerKey]()
    client = at_once(Client(NOWHERE, cluster))
    controllers = Controllers(
        client, GROVE_POD_CONTROLLERS, lambda key: told.update([key]), lambda: None, lambda _: None
    )
    controllers.follow({POD_CLIQUES.api})
    try:
        await until(lambda: controllers.filled)
        assert len(told) == LENGTH + 3
        assert max(told.values()) == LONGEST
        told.clear()
        cluster.apply(CLIQUES, below("c400", "elsewhere"))
        await until(lambda: told)
        assert {name: count for (*_, name), count in told.items()} == {f"c{400 - depth}": 1 for depth in range(LONGEST)}
    finally:
        await controllers.close()
        await client.close()
