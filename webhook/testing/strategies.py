"""Strategies for generated tests: names, records, PodGangs, workloads, pods and damaged objects.

A cluster may really have all of them: names are legal and shaped as Grove makes them, up to the limits of Kubernetes.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from webhook.model import grove
from webhook.model.capabilities import KAI_QUEUE, VOLCANO_QUEUE
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.testing.samples import NAMESPACE, PRIORITY_CLASS
from webhook.testing.walking import places, put
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

# The longest label value, and the longest name of an object.
LABEL_VALUE, OBJECT_NAME = 63, 253

# DNS labels that Grove admits: the names of set, scaling group and clique together have at most 45 characters.
dns_labels = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
# Some of these names are a prefix or suffix of others.
_CLIQUES = st.sampled_from(["a", "ab", "a-b", "b", "a-a", "worker", "w0rker-2", "0"])
_KEYS = st.sampled_from(["kubernetes.io/hostname", "example.com/rack"])
_SCALARS = st.none() | st.booleans() | st.integers(-1, 9) | st.sampled_from(["", "other"])


def records(scheduler: str) -> st.SearchStrategy[Record]:
    """Return possible records of a workload of `scheduler`: a quota, queues under several keys, a priority class."""
    queues = st.dictionaries(st.sampled_from([VOLCANO_QUEUE, KAI_QUEUE, "example.com/queue"]), dns_labels, max_size=2)
    return st.builds(
        Record,
        st.just(scheduler),
        st.none() | dns_labels,
        queues.map(lambda found: tuple(sorted(found.items()))),
        st.sampled_from([None, PRIORITY_CLASS, "not-there"]),
    )


def member(name: str, minimum: int, pods: int, **fields: Any) -> Manifest:
    """Return one of a PodGang's `podgroups`."""
    references = [{"namespace": NAMESPACE, "name": f"{name}-{index}"[-OBJECT_NAME:]} for index in range(pods)]
    return {"name": name, "minReplicas": minimum, "podReferences": references, **fields}


def podgang(name: str, *members: Manifest, **spec: Any) -> Manifest:
    """Return a PodGang of these members, as Grove's operator writes it; other keywords go into its spec."""
    labels = {grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE, grove.LABEL_PART_OF: "demo"}
    owner = {
        "apiVersion": f"{grove.GROUP}/v1alpha1",
        "kind": "PodCliqueSet",
        "name": "demo",
        "uid": "uid-of-demo",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}", "labels": labels}
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": {"podgroups": list(members), **spec},
    }


def _filled(start: str, length: int, end: str) -> str:
    """Return a name of exactly `length` characters."""
    return start + "g" * (length - len(start) - len(end)) + end


_LENGTHS = st.sampled_from([LABEL_VALUE, LABEL_VALUE + 1, OBJECT_NAME])


@st.composite
def _names(draw: st.DrawFn, lengths: st.SearchStrategy[int | None]) -> tuple[str, list[str]]:
    """Return names of a PodGang and its members: all of one of these lengths, or (None) as short as usual."""
    base = f"{draw(dns_labels)}-{draw(st.integers(0, 3))}"
    cliques = draw(st.lists(_CLIQUES, min_size=1, max_size=4, unique=True))
    length = draw(lengths)
    if length is None:
        return base, [f"{base}-{name}" for name in cliques]
    return _filled(f"{base}-", length, "-0"), [_filled(f"{base}-", length, f"-{name}") for name in cliques]


_ANY_NAMES = _names(st.none() | _LENGTHS)
SHORT_NAMES = _names(st.none())


def long_gangs() -> st.SearchStrategy[Manifest]:
    """Return plain gangs with names of the maximum length of a label value or an object name, or just too
    long for one.
    """
    return plain_gangs(_names(_LENGTHS))


@st.composite
def plain_gangs(draw: st.DrawFn, names: st.SearchStrategy[tuple[str, list[str]]] = _ANY_NAMES) -> Manifest:
    """PodGangs that only ask to start whole: every gang scheduler can do that."""
    name, members = draw(names)
    sizes = [draw(st.integers(1, 4)) for _ in members]
    return podgang(name, *(member(one, size, size) for one, size in zip(members, sizes, strict=True)))


@st.composite
def demanding_gangs(draw: st.DrawFn) -> Manifest:
    """PodGangs with topology, extra pods, released members and groups of members: some cannot be expressed."""
    name, members = draw(_ANY_NAMES)
    groups = []
    for one in members:
        minimum = draw(st.integers(0, 3))
        groups.append(member(one, minimum, minimum + draw(st.integers(0, 2)), **draw(_constraints())))
    spec = draw(_constraints())
    if draw(st.booleans()):
        some = draw(st.lists(st.sampled_from(members), max_size=2, unique=True))
        spec["topologyConstraintGroupConfigs"] = [
            {"name": f"{name}-g-0", "podGroupNames": some, **draw(_constraints())}
        ]
    return podgang(name, *groups, **spec)


def _constraints() -> st.SearchStrategy[dict[str, Any]]:
    pack = st.fixed_dictionaries({}, optional={"required": _KEYS, "preferred": _KEYS})
    return st.just({}) | pack.map(lambda found: {"topologyConstraint": {"packConstraint": found}})


@st.composite
def gang_pairs(draw: st.DrawFn) -> tuple[Manifest, Manifest]:
    """Two PodGangs that may be in one namespace: of one set, or of sets with similar names."""
    own = draw(dns_labels)
    cliques = draw(st.lists(_CLIQUES, min_size=1, max_size=3, unique=True))
    kind = draw(st.sampled_from(["replicas", "scaled", "base and scaled", "prefix", "long"]))
    length = draw(st.sampled_from([LABEL_VALUE, OBJECT_NAME]))
    if kind == "long":
        # Equal except for the last character.
        pair = [(_filled(f"{own}-", length, f"-{index}"), _filled(f"{own}-m", length, f"-{index}")) for index in (0, 1)]
        first, second = (podgang(name, member(only, 2, 2)) for name, only in pair)
        return first, second
    names = {
        "replicas": ((f"{own}-0", f"{own}-0"), (f"{own}-1", f"{own}-1")),
        "scaled": ((f"{own}-0-g-0", f"{own}-0-g-1"), (f"{own}-0-g-1", f"{own}-0-g-2")),
        "base and scaled": ((f"{own}-0", f"{own}-0-g-0"), (f"{own}-0-g-0", f"{own}-0-g-1")),
        "prefix": ((f"{own}-0", f"{own}-0"), (f"{own}x-0", f"{own}x-0")),
    }[kind]
    first, second = (podgang(name, *(member(f"{prefix}-{one}", 1, 1) for one in cliques)) for name, prefix in names)
    return first, second


@st.composite
def workloads(draw: st.DrawFn) -> Manifest:
    """PodCliqueSets that Grove would admit, with topology, minimums and scaling groups."""
    names = draw(st.lists(_CLIQUES, min_size=1, max_size=3, unique=True))
    cliques = []
    for name in names:
        replicas = draw(st.integers(1, 4))
        cliques.append(clique(name, replicas=replicas, minimum=draw(st.integers(1, replicas)), **draw(_topologies())))
    groups = []
    if grouped := draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
        replicas = draw(st.integers(1, 3))
        minimum = draw(st.integers(1, replicas))
        groups.append(scaling_group("g", *grouped, replicas=replicas, minAvailable=minimum, **draw(_topologies())))
    return pod_clique_set(*cliques, groups=groups, **draw(_topologies()))


def _topologies() -> st.SearchStrategy[dict[str, Any]]:
    domains = st.sampled_from(["host", "rack"])
    asked = domains.map(required) | domains.map(preferred)
    return st.just({}) | st.just({}) | asked.map(lambda constraint: {"topologyConstraint": constraint})


# Labels that one scheduler reads and others ignore, and that claim no pod.
_OWN_LABELS = st.fixed_dictionaries(
    {},
    optional={
        "app": st.sampled_from(["demo", ""]),
        "koordinator.sh/qosClass": st.sampled_from(["LS", "BE"]),
        "kai.scheduler/queue": st.just("team-a"),
        "kueue.x-k8s.io/managed": st.just("true"),
    },
)


@st.composite
def gang_pods(draw: st.DrawFn) -> Manifest:
    """Pods of a gang with all kinds of labels, annotations and fields, some of them null."""
    labels = {
        **draw(st.dictionaries(dns_labels, dns_labels, max_size=3)),
        **draw(_OWN_LABELS),
        grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
        grove.LABEL_PART_OF: "demo",
        grove.LABEL_PODCLIQUE: draw(dns_labels),
        grove.LABEL_PODGANG: draw(dns_labels),
        "grove.io/podcliqueset-replica-index": "0",
    }
    metadata: dict[str, Any] = {"generateName": "demo-", "namespace": NAMESPACE, "labels": labels}
    if draw(st.booleans()):
        metadata["annotations"] = draw(st.none() | st.dictionaries(dns_labels, words, max_size=3))
    spec: dict[str, Any] = {"containers": [{"name": "main"}], "hostname": "demo-0", "subdomain": "demo"}
    if draw(st.booleans()):
        spec["schedulerName"] = draw(st.sampled_from(["default-scheduler", None, ""]))
    if draw(st.booleans()):
        gates = st.lists(dns_labels.map(lambda name: {"name": name}), max_size=2)
        spec["schedulingGates"] = draw(st.none() | gates)
    for field in ("schedulingGroup", "workloadRef", "priorityClassName", "nodeSelector"):
        if draw(st.booleans()):
            spec[field] = None
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def damaged(draw: st.DrawFn, sound: Manifest) -> Manifest:
    """`sound` as a cluster with other writers may return it: values missing, changed, of another type."""
    found = deepcopy(sound)
    # A status and metadata of the API server that no desired object has.
    found["status"] = draw(st.none() | st.just({"phase": "Running", "running": 3}))
    found["metadata"] |= {"resourceVersion": "7", "managedFields": []}
    for _ in range(draw(st.integers(0, 3))):
        ways = [way for way in places(found) if way[0] not in {"apiVersion", "kind"}]
        put(found, draw(st.sampled_from(ways)), draw(_SCALARS | st.just({}) | st.just([])))
    return found
