"""Objects for the checks: samples for each way to ask for a capability, and strategies for generated names, records,
PodGangs, workloads, pods and damaged objects.

A cluster may really have all of them: names are legal and shaped as Grove makes them, up to the limits of Kubernetes.
Samples also have the longest names that Kubernetes allows, and pods that another system has claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from webhook.model import grove
from webhook.model.capabilities import KAI_QUEUE, QOS_LABEL, QUOTA_ANNOTATION, QUOTA_LABEL, VOLCANO_QUEUE, Capability
from webhook.model.keys import Api, Record
from webhook.model.known_objects import PriorityClass, TopologyBinding
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

Step = str | int
Place = tuple[Step, ...]


def leaves(value: object, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yields each leaf of `value` with its path, in order."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from leaves(below, (*at, key))
    elif isinstance(value, list | tuple):
        for index, below in enumerate(value):
            yield from leaves(below, (*at, index))
    else:
        yield at, value


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """Yields every path in `value` below its root: of leaves, and of the maps and lists that have them."""
    below: Iterator[tuple[Step, object]] = iter(())
    if isinstance(value, dict):
        below = iter(value.items())
    elif isinstance(value, list):
        below = iter(enumerate(value))
    for step, child in below:
        yield (*at, step)
        yield from places(child, (*at, step))


def put_value(value: Any, at: Place, new: object) -> None:
    """Replaces the value at `at` in `value`."""
    *way, last = at
    for step in way:
        value = value[step]
    value[last] = new


def shown(at: Place) -> str:
    """Returns a path for messages."""
    return ".".join(map(str, at))


NAMESPACE = "team"
# A cluster without any CRD: the built-in APIs that backends use.
SERVED_EVERYWHERE = frozenset({Api("scheduling.k8s.io", "v1", "PriorityClass")})
# The kit adds these to facts that lack them: a priority class, and the domains that its workloads name.
PRIORITY_CLASS = "high"
PRIORITY_CLASSES = {PRIORITY_CLASS: PriorityClass(1000, is_default=False)}
TOPOLOGY_BINDINGS = {"dc": TopologyBinding({"rack": "example.com/rack", "host": "kubernetes.io/hostname"})}

_NVLINK = {grove.MNNVL_GROUP: "train"}
_AUTO_NVLINK = {grove.AUTO_MNNVL: grove.AUTO_MNNVL_ENABLED}
_CLAIM = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]


def _gpu(**fields: Any) -> Manifest:
    return clique("worker", requests={grove.GPU_RESOURCE: "8"}, **fields)


USES: Mapping[Capability, tuple[Manifest, ...]] = {
    Capability.GANG: (pod_clique_set(),),
    Capability.MULTI_NODE_NVLINK: (
        pod_clique_set(_gpu(), annotations=_NVLINK),
        pod_clique_set(_gpu(annotations=_NVLINK)),
        pod_clique_set(_gpu(), groups=[scaling_group("group", "worker", annotations=_NVLINK)]),
        pod_clique_set(_gpu(), annotations=_AUTO_NVLINK),
    ),
    Capability.RESOURCE_CLAIMS: (
        pod_clique_set(clique("worker", pod={"resourceClaims": _CLAIM})),
        pod_clique_set(clique("worker", resourceSharing=[{"name": "gpu"}])),
        pod_clique_set(groups=[scaling_group("group", "worker", resourceSharing=[{"name": "gpu"}])]),
        pod_clique_set(resourceClaimTemplates=[{"name": "gpu"}]),
    ),
    Capability.TOPOLOGY_WORKLOAD: (pod_clique_set(topologyConstraint=required("host")),),
    Capability.TOPOLOGY_SCALING_GROUP: (
        pod_clique_set(groups=[scaling_group("group", "worker", topologyConstraint=required("host"))]),
        pod_clique_set(groups=[scaling_group("group", "worker", topologyConstraint=preferred("host"))]),
    ),
    Capability.TOPOLOGY_CLIQUE: (pod_clique_set(clique("worker", topologyConstraint=required("host"))),),
    Capability.TOPOLOGY_PREFERRED: (
        pod_clique_set(topologyConstraint=preferred("host")),
        pod_clique_set(clique("worker", topologyConstraint=preferred("host"))),
    ),
    Capability.TOPOLOGY_DIVERGENT: (
        pod_clique_set(clique("leader"), clique("worker", topologyConstraint=required("host"))),
    ),
    Capability.MULTIPLE_POD_GROUPS: (pod_clique_set(clique("leader"), clique("worker")),),
    Capability.CLIQUE_MINIMUM: (pod_clique_set(clique("worker", replicas=3, minimum=2)),),
    Capability.SCALE_GANG: (pod_clique_set(groups=[scaling_group("group", "worker", replicas=3, minAvailable=2)]),),
    Capability.QUEUE: (
        pod_clique_set(annotations={VOLCANO_QUEUE: "team-a"}),
        pod_clique_set(labels={KAI_QUEUE: "team-a"}),
        pod_clique_set(clique("worker", labels={KAI_QUEUE: "team-a"})),
    ),
    Capability.QUOTA: (
        pod_clique_set(annotations={QUOTA_ANNOTATION: "team-a"}),
        pod_clique_set(clique("worker", labels={QUOTA_LABEL: "team-a"})),
    ),
    Capability.QOS_CLASS: (pod_clique_set(clique("worker", labels={QOS_LABEL: "LSR"})),),
    Capability.PRIORITY_CLASS: (pod_clique_set(priorityClassName=PRIORITY_CLASS),),
}

# A clique's name, a label value and an object name, each of the maximum length.
_NAME, _VALUE, _OBJECT = "c" * 40, "v" * 63, "o" * 253

LONG: tuple[Manifest, ...] = (
    pod_clique_set(
        clique(f"{_NAME}a", annotations={QUOTA_ANNOTATION: _OBJECT}, labels={QOS_LABEL: _VALUE, KAI_QUEUE: _VALUE}),
        clique(
            f"{_NAME}b",
            requests={grove.GPU_RESOURCE: "8"},
            annotations={grove.MNNVL_GROUP: _VALUE, QUOTA_ANNOTATION: _OBJECT[:-1]},
            labels={KAI_QUEUE: _VALUE[:-1]},
            pod={"priorityClassName": _OBJECT, "resourceClaims": _CLAIM},
            topologyConstraint=required(_VALUE),
        ),
        annotations={VOLCANO_QUEUE: _OBJECT},
        groups=[scaling_group(_NAME, f"{_NAME}b", topologyConstraint=preferred(_VALUE))],
        priorityClassName=_OBJECT[:-1],
        topologyConstraint=required(_VALUE[:-1]),
    ),
    pod_clique_set(
        clique(_NAME, replicas=2, minimum=1, requests={grove.GPU_RESOURCE: "8"}),
        annotations={VOLCANO_QUEUE: _OBJECT, grove.MNNVL_GROUP: _VALUE, QUOTA_ANNOTATION: _OBJECT},
        topologyConstraint=preferred(_VALUE),
    ),
)


def gang_pod(**spec: Any) -> Manifest:
    """Returns a pod as Grove's operator creates it; keywords go into its spec."""
    labels = {
        grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
        grove.LABEL_PART_OF: "demo",
        grove.LABEL_PODGANG: "demo-0",
        grove.LABEL_PODCLIQUE: "demo-0-worker",
    }
    metadata: Manifest = {"generateName": "demo-0-worker-", "namespace": NAMESPACE, "labels": labels, "annotations": {}}
    body = {"containers": [{"name": "main"}], "schedulingGates": [{"name": grove.GATE}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


# Where another gang scheduler, or a user, marks a member of a gang: in the metadata, or in a field of the spec.
FOREIGN_CLAIMS: tuple[tuple[str, str, Any], ...] = (
    ("labels", "scheduling.x-k8s.io/pod-group", "other-gang"),
    ("labels", "kai.scheduler/subgroup-name", "other-gang"),
    ("labels", "pod-group.scheduling.sigs.k8s.io", "other-gang"),
    ("labels", "pod-group.scheduling.sigs.k8s.io/name", "other-gang"),
    ("annotations", "scheduling.k8s.io/group-name", "other-gang"),
    ("annotations", "scheduling.volcano.sh/group-name", "other-gang"),
    ("annotations", "pod-group-name", "other-gang"),
    ("annotations", "gang.scheduling.koordinator.sh/name", "other-gang"),
    ("spec", "schedulingGroup", {"podGroupName": "other-gang"}),
    ("spec", "workloadRef", {"name": "other-gang", "podGroup": "workers"}),
    ("spec", "schedulerName", "another-scheduler"),
)


def claimed_pod(holder: str, key: str, value: Any) -> Manifest:
    """Returns a pod of a gang that has the mark of another gang."""
    pod = gang_pod()
    (pod["spec"] if holder == "spec" else pod["metadata"][holder])[key] = value
    return pod


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
    """Returns possible records of a workload of `scheduler`: a quota, queues under several keys, a priority class."""
    queues = st.dictionaries(st.sampled_from([VOLCANO_QUEUE, KAI_QUEUE, "example.com/queue"]), dns_labels, max_size=2)
    return st.builds(
        Record,
        st.just(scheduler),
        st.none() | dns_labels,
        queues.map(lambda chosen: tuple(sorted(chosen.items()))),
        st.sampled_from([None, PRIORITY_CLASS, "not-there"]),
    )


def member(name: str, minimum: int, pods: int, **fields: Any) -> Manifest:
    """Returns one of a PodGang's `podgroups`."""
    references = [{"namespace": NAMESPACE, "name": f"{name}-{index}"[-OBJECT_NAME:]} for index in range(pods)]
    return {"name": name, "minReplicas": minimum, "podReferences": references, **fields}


def podgang(name: str, *members: Manifest, **spec: Any) -> Manifest:
    """Returns a PodGang of these members, as Grove's operator writes it; other keywords go into its spec."""
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
    return start + "g" * (length - len(start) - len(end)) + end


_LENGTHS = st.sampled_from([LABEL_VALUE, LABEL_VALUE + 1, OBJECT_NAME])


@st.composite
def _names(draw: st.DrawFn, lengths: st.SearchStrategy[int | None]) -> tuple[str, list[str]]:
    """Returns names of a PodGang and its members: all of one of these lengths, or (None) as short as usual."""
    base = f"{draw(dns_labels)}-{draw(st.integers(0, 3))}"
    cliques = draw(st.lists(_CLIQUES, min_size=1, max_size=4, unique=True))
    length = draw(lengths)
    if length is None:
        return base, [f"{base}-{name}" for name in cliques]
    return _filled(f"{base}-", length, "-0"), [_filled(f"{base}-", length, f"-{name}") for name in cliques]


_ANY_NAMES = _names(st.none() | _LENGTHS)
SHORT_NAMES = _names(st.none())


def long_gangs() -> st.SearchStrategy[Manifest]:
    """Returns plain gangs with names as long as a label value or object name may be, or just too long."""
    return plain_gangs(_names(_LENGTHS))


@st.composite
def plain_gangs(draw: st.DrawFn, names: st.SearchStrategy[tuple[str, list[str]]] = _ANY_NAMES) -> Manifest:
    """Draws PodGangs that only ask to start whole: every gang scheduler can do that."""
    name, members = draw(names)
    sizes = [draw(st.integers(1, 4)) for _ in members]
    return podgang(name, *(member(member_name, size, size) for member_name, size in zip(members, sizes, strict=True)))


@st.composite
def demanding_gangs(draw: st.DrawFn) -> Manifest:
    """Draws PodGangs with topology, extra pods, released members and groups: some cannot be expressed."""
    name, members = draw(_ANY_NAMES)
    groups = []
    for member_name in members:
        minimum = draw(st.integers(0, 3))
        groups.append(member(member_name, minimum, minimum + draw(st.integers(0, 2)), **draw(_constraints())))
    spec = draw(_constraints())
    if draw(st.booleans()):
        some = draw(st.lists(st.sampled_from(members), max_size=2, unique=True))
        spec["topologyConstraintGroupConfigs"] = [
            {"name": f"{name}-g-0", "podGroupNames": some, **draw(_constraints())}
        ]
    return podgang(name, *groups, **spec)


def _constraints() -> st.SearchStrategy[dict[str, Any]]:
    pack = st.fixed_dictionaries({}, optional={"required": _KEYS, "preferred": _KEYS})
    return st.just({}) | pack.map(lambda levels: {"topologyConstraint": {"packConstraint": levels}})


@st.composite
def gang_pairs(draw: st.DrawFn) -> tuple[Manifest, Manifest]:
    """Draws two PodGangs that may be in one namespace: of one set, or of sets with similar names."""
    set_name = draw(dns_labels)
    cliques = draw(st.lists(_CLIQUES, min_size=1, max_size=3, unique=True))
    kind = draw(st.sampled_from(["replicas", "scaled", "base and scaled", "prefix", "long"]))
    length = draw(st.sampled_from([LABEL_VALUE, OBJECT_NAME]))
    if kind == "long":
        # Equal except for the last character.
        pair = [
            (_filled(f"{set_name}-", length, f"-{index}"), _filled(f"{set_name}-m", length, f"-{index}"))
            for index in (0, 1)
        ]
        first, second = (podgang(name, member(only, 2, 2)) for name, only in pair)
        return first, second
    names = {
        "replicas": ((f"{set_name}-0", f"{set_name}-0"), (f"{set_name}-1", f"{set_name}-1")),
        "scaled": ((f"{set_name}-0-g-0", f"{set_name}-0-g-1"), (f"{set_name}-0-g-1", f"{set_name}-0-g-2")),
        "base and scaled": ((f"{set_name}-0", f"{set_name}-0-g-0"), (f"{set_name}-0-g-0", f"{set_name}-0-g-1")),
        "prefix": ((f"{set_name}-0", f"{set_name}-0"), (f"{set_name}x-0", f"{set_name}x-0")),
    }[kind]
    first, second = (
        podgang(name, *(member(f"{prefix}-{clique_name}", 1, 1) for clique_name in cliques)) for name, prefix in names
    )
    return first, second


@st.composite
def workloads(draw: st.DrawFn) -> Manifest:
    """Draws PodCliqueSets that Grove would admit, with topology, minimums and scaling groups."""
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
    constraints = domains.map(required) | domains.map(preferred)
    return st.just({}) | st.just({}) | constraints.map(lambda constraint: {"topologyConstraint": constraint})


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
    """Draws pods of a gang with all kinds of labels, annotations and fields, some of them null."""
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
    """Draws `sound` as a cluster with other writers may return it: values missing, changed, of another type."""
    harmed = deepcopy(sound)
    # A status and metadata of the API server that no desired object has.
    harmed["status"] = draw(st.none() | st.just({"phase": "Running", "running": 3}))
    harmed["metadata"] |= {"resourceVersion": "7", "managedFields": []}
    for _ in range(draw(st.integers(0, 3))):
        ways = [way for way in places(harmed) if way[0] not in {"apiVersion", "kind"}]
        put_value(harmed, draw(st.sampled_from(ways)), draw(_SCALARS | st.just({}) | st.just([])))
    return harmed
