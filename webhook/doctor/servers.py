"""Checks of the servers: the Service has ready endpoints, and they are not all on one machine."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import installed
from webhook.doctor.parts import BUDGETS, DEPLOYMENTS, ENDPOINT_SLICES, SERVICE
from webhook.doctor.snapshot import Snapshot
from webhook.installation.names import SERVER
from webhook.model.endpoint_slices import ServiceEndpoint, endpoints_in, port_name
from webhook.model.projections import labels_of, name_of
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.selectors import selects


def _by_url(snapshot: Snapshot) -> bool:
    """Whether the webhooks use a URL: servers outside of the cluster cannot be checked."""
    return bool(snapshot.address().url)


@check("server/service", passes=installed, fails=lambda: installed(without=("Service",)))
def service(snapshot: Snapshot) -> Symptoms:
    """The Service that the webhooks name exists and has the port that they name. Not checked if they name a URL.

    Source: Kubernetes API reference, admissionregistration/v1 ServiceReference.
    """
    if _by_url(snapshot):
        return
    wanted, found = snapshot.address().port, snapshot.one(SERVICE)
    where = f"Service {snapshot.namespace}/{SERVER}"
    why = "the API server finds no server to call, and refuses every gang"
    if found is None:
        yield Symptom(where, "it is missing", why, "install it, or use --namespace if Rollcall is in another namespace")
        return
    ports = [mapping(one).get("port") for one in sequence(mapping(found.get("spec")).get("ports"))]
    if wanted not in ports:
        yield Symptom(where, f"it has no port {wanted}, only {ports}", why, f"give it port {wanted}")


def _one_node(raw: Manifest) -> None:
    for endpoint in raw.get("endpoints", ()):
        endpoint["nodeName"] = "node-a"


@check("server/endpoints", passes=installed, fails=lambda: installed(changed=_one_node))
def endpoints(snapshot: Snapshot) -> Symptoms:
    """At least two replicas behind the Service are ready, on different nodes. With one replica, a rollout or a lost
    node refuses every gang until it is back. It is an error if no replica is ready, or if none has the port that the
    Service leads to.

    Source: Kubernetes API reference, discovery.k8s.io/v1 (EndpointConditions, EndpointPort); a targetPort that no
    container has is left out of the slices.
    """
    if _by_url(snapshot):
        return
    everybody, number = list(ready_endpoints(snapshot)), snapshot.address().port
    # Another check reports a missing Service or port.
    name = port_name(snapshot.one(SERVICE) or {}, number)
    ready = [one for one in everybody if name is None or name in one.ports]
    nodes = {one.node for one in ready if one.node}
    where = f"Service {snapshot.namespace}/{SERVER}"
    why = "the API server finds no server to call, and refuses every gang"
    if not everybody:
        see = f"kubectl -n {snapshot.namespace} get pods -l app.kubernetes.io/name={SERVER}"
        remedy = f"find out why: {see}; each Pod says why at /readyz on its port `health`"
        yield Symptom(where, "no endpoint is ready", why, remedy)
    elif not ready:
        said = f"no ready endpoint has its port {number}{f' ({name})' if name else ''}"
        remedy = "set the targetPort of the Service to the name or the number of a port of the containers"
        yield Symptom(where, said, why, remedy)
    elif len(ready) == 1:
        why = "while it is replaced, or after its node is lost, every gang is refused"
        yield Symptom(where, "one endpoint is ready", why, "run two replicas or more", Level.WARNING)
    elif len(nodes) == 1:
        why = "if that node is lost, every gang is refused until others run"
        remedy = "spread them over nodes, as the manifests do (topologySpreadConstraints)"
        yield Symptom(where, f"all {len(ready)} endpoints are on node {nodes.pop()}", why, remedy, Level.WARNING)


def ready_endpoints(snapshot: Snapshot) -> Iterator[ServiceEndpoint]:
    """The ready endpoints of the Service. Raises `FactsUnavailable`."""
    for found in snapshot.all(ENDPOINT_SLICES):
        yield from (endpoint for endpoint in endpoints_in(found) if endpoint.ready)


@check(
    "server/disruption-budget",
    level=Level.WARNING,
    passes=installed,
    fails=lambda: installed(without=("PodDisruptionBudget",)),
)
def disruption_budget(snapshot: Snapshot) -> Symptoms:
    """A PodDisruptionBudget covers the pods behind the Service. Without it, draining nodes can evict all of them at
    once.

    Source: Kubernetes documentation, "Specifying a Disruption Budget".
    """
    found = None if _by_url(snapshot) else snapshot.one(SERVICE)
    if found is None:
        return
    labels = mapping(mapping(found.get("spec")).get("selector"))
    for raw in snapshot.all(DEPLOYMENTS):
        if mapping(raw.get("metadata")).get("namespace") == snapshot.namespace and name_of(raw) == SERVER:
            labels = labels_of(mapping(mapping(raw.get("spec")).get("template")))  # type: ignore[arg-type]
    if not any(selects(mapping(raw.get("spec")).get("selector"), labels) for raw in snapshot.all(BUDGETS)):
        yield Symptom(
            f"Service {snapshot.namespace}/{SERVER}",
            "no PodDisruptionBudget covers the pods behind it",
            "draining nodes may evict all replicas at once, and every gang is refused until one is back",
            "install the one from the manifests: it lets only one replica be evicted at a time",
        )
