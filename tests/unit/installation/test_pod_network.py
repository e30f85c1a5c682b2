"""How the server is reachable if the API server cannot reach Pods, and which callers are allowed: written by hand."""

from __future__ import annotations

import pytest

from tests.unit.installation.test_installation import WAYS, installed, of_kind
from webhook.config.defaults import default_settings
from webhook.installation.installed_objects import installed_objects
from webhook.installation.parameters import ClientCertificates, DnsPolicy, Network, Options, Ports
from webhook.model.reading import Manifest

CHOSEN = Ports(serving=10443, next=10444, health=10081, reconciler=10080)
ON_HOST = Network(CHOSEN, host_network=True)
LABELS = {"app.kubernetes.io/name": "rollcall", "app.kubernetes.io/part-of": "rollcall"}
SERVERS = {"matchLabels": {**LABELS, "app.kubernetes.io/component": "server"}}
RECONCILERS = {"matchLabels": {**LABELS, "app.kubernetes.io/component": "reconciler"}}


def tcp(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def deployments(way: str, network: Network) -> dict[str, Manifest]:
    return of_kind(installed(way, network), "Deployment")


@pytest.mark.parametrize("way", WAYS)
def test_containers_listen_on_the_chosen_ports(way: str) -> None:
    wanted = {"https": 10443, "next": 10444, "health": 10081, "reconciler": 10080}
    arguments = {"--port=10443", "--next-port=10444", "--health-port=10081", "--port=10080"}
    if way != "self-managed":
        del wanted["next"]
        arguments.remove("--next-port=10444")
    containers = [
        container
        for deployment in deployments(way, Network(CHOSEN)).values()
        for container in deployment["spec"]["template"]["spec"]["containers"]
    ]
    listened = [port for container in containers for port in container["ports"]]
    assert {port["name"]: port["containerPort"] for port in listened} == wanted
    assert not any("hostPort" in port for port in listened)
    told = {argument for container in containers for argument in container["args"]}
    assert {argument for argument in told if "port=" in argument} == arguments


@pytest.mark.parametrize("way", WAYS)
def test_callers_of_a_service_do_not_depend_on_container_ports(way: str) -> None:
    services, usual = (of_kind(installed(way, network), "Service") for network in (Network(CHOSEN), Network()))
    assert services == usual
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert of_kind(installed(way, Network(CHOSEN)), kind) == of_kind(installed(way), kind)


@pytest.mark.parametrize("way", WAYS)
def test_only_the_server_has_the_host_network(way: str) -> None:
    """Of a reconciler beside it the containers share that."""
    for name, deployment in deployments(way, ON_HOST).items():
        pod = deployment["spec"]["template"]["spec"]
        ports = [port for container in pod["containers"] for port in container["ports"]]
        if name == "rollcall":
            assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
            assert all(port["hostPort"] == port["containerPort"] for port in ports)
        else:
            assert not {"hostNetwork", "dnsPolicy"} & pod.keys()
            assert not any("hostPort" in port for port in ports)
    namespace = of_kind(installed(way, ON_HOST), "Namespace")["rollcall-system"]["metadata"]["labels"]
    assert namespace["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_dns_policy_can_be_set() -> None:
    for network, policy in (
        (Network(host_network=True, dns_policy=DnsPolicy.DEFAULT), "Default"),
        (Network(dns_policy=DnsPolicy.CLUSTER_FIRST), "ClusterFirst"),
        (Network(), None),
    ):
        found = deployments("deployment", network)
        assert found["rollcall"]["spec"]["template"]["spec"].get("dnsPolicy") == policy
        assert "dnsPolicy" not in found["rollcall-reconciler"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("way", WAYS)
def test_on_the_host_network_an_old_server_ends_before_a_new_one_starts(way: str) -> None:
    """With a server on each node no other finds room: a roll that waits for it never ends."""
    found = deployments(way, ON_HOST)
    roll = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    assert found["rollcall"]["spec"]["strategy"] == roll
    for name in found.keys() - {"rollcall"}:
        assert found[name]["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_no_policy_is_made_for_pods_on_which_it_has_no_effect() -> None:
    assert set(of_kind(installed("sidecar", ON_HOST), "NetworkPolicy")) == set()
    policies = of_kind(installed("self-managed", ON_HOST), "NetworkPolicy")
    assert set(policies) == {"rollcall-reconciler"}
    # Nor does a selector of Pods find them.
    *_, servers = policies["rollcall-reconciler"]["spec"]["egress"]
    assert servers == {"ports": tcp(10443, 10444)}


def test_callers_are_limited_but_probes_and_scrapes_are_not() -> None:
    callers: tuple[Manifest, ...] = ({"ipBlock": {"cidr": "10.0.0.0/28"}}, {"namespaceSelector": {}})
    network = Network(CHOSEN, callers=callers)
    policies = of_kind(installed("self-managed", network), "NetworkPolicy")
    assert policies["rollcall"]["spec"]["ingress"] == [
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/28"}}, {"namespaceSelector": {}}], "ports": tcp(10443, 10444)},
        {"from": [{"podSelector": RECONCILERS}], "ports": tcp(10443, 10444)},
        {"ports": tcp(10081)},
    ]
    assert policies["rollcall-reconciler"]["spec"]["ingress"] == [{"ports": tcp(10080)}]
    *_, servers = policies["rollcall-reconciler"]["spec"]["egress"]
    assert servers == {"to": [{"podSelector": SERVERS}], "ports": tcp(10443, 10444)}
    beside = of_kind(installed("sidecar", network), "NetworkPolicy")
    assert beside["rollcall"]["spec"]["ingress"] == [
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/28"}}, {"namespaceSelector": {}}], "ports": tcp(10443)},
        {"ports": tcp(10081, 10080)},
    ]


def test_a_privileged_port_is_opened_by_a_sysctl_of_the_pod() -> None:
    assert low_ports("self-managed", Ports(serving=443)) == {"rollcall": "443", "rollcall-reconciler": None}
    assert low_ports("self-managed", Ports(reconciler=80)) == {"rollcall": None, "rollcall-reconciler": "80"}
    assert low_ports("self-managed", Ports(443, 444, 81, 80)) == {"rollcall": "81", "rollcall-reconciler": "80"}
    assert low_ports("self-managed", Ports(serving=10250)) == {"rollcall": None, "rollcall-reconciler": None}
    assert low_ports("sidecar", Ports(reconciler=80)) == {"rollcall": "80"}


def low_ports(kind: str, ports: Ports) -> dict[str, str | None]:
    """By Deployment the first port that its Pods' network leaves to processes without privileges, None for 1024."""
    assert Network(ports).problem is None
    found: dict[str, str | None] = {}
    for name, deployment in deployments(kind, Network(ports)).items():
        security = deployment["spec"]["template"]["spec"]["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 65532)
        (sysctl,) = security.get("sysctls") or [None]
        assert sysctl is None or sysctl["name"] == "net.ipv4.ip_unprivileged_port_start"
        found[name] = None if sysctl is None else sysctl["value"]
    return found


PROBLEMS = {
    "two of a number": (Network(Ports(health=8443)), "two of the ports"),
    "a port of the privileged on a node": (Network(Ports(serving=443), host_network=True), "cannot listen on port 443"),
    "the kubelet's port": (Network(Ports(serving=10250), host_network=True), "port 10250 is the kubelet's"),
    "callers of a node": (Network(host_network=True, callers=({"ipBlock": {}},)), "NetworkPolicies"),
}


@pytest.mark.parametrize(("network", "why"), PROBLEMS.values(), ids=PROBLEMS)
def test_an_impossible_combination_has_a_reason(network: Network, why: str) -> None:
    assert network.problem is not None
    assert why in network.problem


@pytest.mark.parametrize("network", [Network(), ON_HOST, Network(Ports(serving=10250)), Network(CHOSEN)])
def test_a_possible_combination_has_no_problem(network: Network) -> None:
    assert network.problem is None


@pytest.mark.parametrize(("kind", "source"), [("configmap", "configMap"), ("secret", "secret")])
def test_the_server_gets_the_certificates_of_client_authorities_but_no_key(kind: str, source: str) -> None:
    clients = ClientCertificates.read(f"{kind}/api-servers", ("kube-apiserver", "other"))
    found = of_kind(installed_objects(default_settings(), Options("rollcall:1", clients=clients)), "Deployment")
    pod = found["rollcall"]["spec"]["template"]["spec"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "clients")
    items = [{"key": "ca.crt", "path": "ca.crt"}]
    assert volume["projected"] == {"defaultMode": 0o444, "sources": [{source: {"name": "api-servers", "items": items}}]}
    (server,) = pod["containers"]
    (mount,) = (mount for mount in server["volumeMounts"] if mount["name"] == "clients")
    assert mount == {"name": "clients", "mountPath": "/etc/rollcall/clients", "readOnly": True}
    assert server["args"][-3:] == [
        "--client-ca=/etc/rollcall/clients/ca.crt",
        "--client-name=kube-apiserver",
        "--client-name=other",
    ]
    assert "clients" not in str(found["rollcall-reconciler"])


@pytest.mark.parametrize("written", ["api-servers", "pod/a", "configmap/", "configmap/A", "secret/a b", "secret/a/b"])
def test_an_authority_is_named_with_its_kind(written: str) -> None:
    with pytest.raises(ValueError, match="neither configmap/NAME"):
        ClientCertificates.read(written, ())
