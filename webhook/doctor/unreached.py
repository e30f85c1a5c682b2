"""Why an API server gets no answer from Rollcall: the likely cause, by its error message and the ready endpoints.

Source: Go's net and net/http, Kubernetes' webhook client and service resolver, and konnectivity, for the messages; on
EKS "Address is not allowed" is reported for Pods outside of the VPC (kubernetes-sigs and Knative issues with that
text).
"""

from __future__ import annotations

from typing import NamedTuple

from webhook.doctor.servers import ready_endpoints
from webhook.doctor.snapshot import Snapshot
from webhook.errors import FactsUnavailable
from webhook.installation.names import SERVER, SERVING_PORT_NAME

# The page with the solutions for each managed offering.
PAGE = "docs/how-to/managed-clusters.md"
_SILENT = (
    "context deadline exceeded",
    "Client.Timeout exceeded",
    "i/o timeout",
    "connection timed out",
    "no route to host",
    "network is unreachable",
    "Address is not allowed",
)
# Observed the API server learns that its certificate is refused before or after it has sent its request.
_CUT = (": EOF", "remote error: tls:")
_NO_TUNNEL = ("No agent available", "No backend available")


class FailedCall(NamedTuple):
    """Why a call of the API server failed, and what to do."""

    why: str
    remedy: str


_UNKNOWN = FailedCall(
    "the API server cannot reach Rollcall, and refuses every gang",
    "see the other findings on webhooks and server: address, caBundle, certificate, endpoints",
)


def cause_of(message: str, snapshot: Snapshot) -> FailedCall:
    """The likely cause of a call that failed with that message."""
    if "x509:" in message:
        return FailedCall(
            "the API server reaches a server but does not trust its certificate: every gang is refused",
            "see the findings on caBundle and certificate; rollcall certs verify makes the same handshakes",
        )
    if "no endpoints available" in message:
        return FailedCall(
            "no server behind the Service is ready: every gang is refused",
            f"find out why: kubectl -n {snapshot.namespace} get pods -l app.kubernetes.io/name={SERVER}",
        )
    if any(words in message for words in _NO_TUNNEL):
        return FailedCall(
            "the control plane's tunnel to the nodes has no connected agent: every gang is refused",
            "find out why konnectivity-agent does not run: kubectl -n kube-system get pods",
        )
    if any(words in message for words in _CUT):
        return FailedCall(
            "a server closes the connection before it answers, as it does if it requires a client certificate "
            "(--client-ca) that the API server does not present: every gang is refused",
            "let the API server present one, or serve without --client-ca: docs/explanation/serving.md, "
            '"Client certificates"',
        )
    if any(words in message for words in _SILENT):
        return _silence(snapshot)
    if "connection refused" in message:
        return _refusal(snapshot)
    return _UNKNOWN


def _silence(snapshot: Snapshot) -> FailedCall:
    """The likely cause of a timeout: packets are dropped on the way, or the servers answer too late."""
    where, ready = _listening(snapshot)
    if not ready:
        return _UNKNOWN
    return FailedCall(
        f"{ready} ready, but the API server gets no answer: a managed control plane cannot reach Pods, or a "
        f"firewall or NetworkPolicy blocks the way; every gang is refused",
        f"let the control plane reach {where} (firewall, security group), or install with --host-network (chart: "
        f"hostNetwork): {PAGE}",
    )


def _refusal(snapshot: Snapshot) -> FailedCall:
    where, ready = _listening(snapshot)
    if not ready:
        return _UNKNOWN
    return FailedCall(
        f"{ready} ready, but no server listens where the API server calls: the addresses of the Pods lead it "
        f"into another network, or it calls another port; every gang is refused",
        f"compare the Service's targetPort with {where}; if a managed control plane has another network than "
        f"the Pods, install with --host-network (chart: hostNetwork): {PAGE}",
    )


def _listening(snapshot: Snapshot) -> tuple[str, str]:
    """The ports of the servers and the number of ready ones, as text; the second is empty if none is known to be
    ready.
    """
    try:
        if url := snapshot.address().url:
            return url, f"the server at {url} may be"
        ready = list(ready_endpoints(snapshot))
    except FactsUnavailable:
        return "the servers", ""
    ports = sorted({port for one in ready for name, port in one.ports.items() if name == SERVING_PORT_NAME})
    where = f"port {', '.join(map(str, ports))} of the Pods" if ports else "the servers"
    count = f"{len(ready)} {'servers are' if len(ready) > 1 else 'server is'}"
    return where, count if ready else ""
