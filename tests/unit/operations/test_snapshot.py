"""Reading a simulated cluster: the requests, the kept fields, and the reports about what cannot be read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization

from tests.played import PlayedClock
from tests.texts import Text
from tests.unit.cluster.scripted import NO_TLS
from webhook.cluster.access import Access
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.model.keys import Api
from webhook.model.reading import Manifest
from webhook.operations import snapshot_reader
from webhook.operations.certificate_checks import HOST, signed_pair
from webhook.operations.diagnosis import configured, example_object, installed, namespace
from webhook.operations.kueue_checks import kueue_webhook, running_kueue
from webhook.operations.snapshot import (
    DEPLOYMENTS,
    GANG_PODS,
    LEASE,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PARTS,
    POD_CLIQUE_SETS_PART,
    SECRET,
    ClockOffset,
    DryRunAnswer,
    PresentedCertificate,
    Snapshot,
    SnapshotPart,
    Unread,
)
from webhook.operations.snapshot_reader import Endpoint, SeenEndpoint, endpoints, read_world

OWN = "rollcall-system"
NOW = "Tue, 01 Sep 2026 12:00:00 GMT"
CLOCK_HERE = parsedate_to_datetime(NOW)
ACCESS = Access("https://cluster", NO_TLS, lambda: None)
GROVE = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"


def path_of(part: SnapshotPart) -> str:
    """Where the objects of a part are read."""
    api, inside = part.resource.api, part.namespace_to_read(OWN)
    start = f"/apis/{api.group}/{api.version}" if api.group else f"/api/{api.version}"
    where = f"{start}/namespaces/{inside}/{part.resource.plural}" if inside else f"{start}/{part.resource.plural}"
    return f"{where}/{part.name}" if part.name else where


class Cluster(httpx.AsyncBaseTransport):
    """Answers by path: a status and a body. What it does not know is not there."""

    def __init__(self, *objects: Manifest, served: frozenset[Api] = frozenset(), **answers: Any) -> None:
        self.asked: list[httpx.Request] = []
        self.answers: dict[str, tuple[int, Any]] = {
            "/version": (200, {"gitVersion": "v1.37.0"}),
            "/apis": (200, {"items": [_group(api) for api in served | _ALWAYS]}),
            GROVE: (422, {"message": "rollcall/scheduler-unknown"}),
        }
        for part in PARTS:
            found = [raw for raw in objects if part.has(raw, OWN)]
            if part.name:
                self.answers[path_of(part)] = (200, found[0]) if found else (404, {"message": "not found"})
            elif found or path_of(part) not in self.answers:
                self.answers[path_of(part)] = (200, {"items": found})

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer for the path."""
        self.asked.append(request)
        code, body = self.answers.get(request.url.path, (404, {"message": f"{request.url.path} not found"}))
        return httpx.Response(code, json=body, headers={"date": NOW})

    def read(self, settings: Settings | None = None) -> Snapshot:
        """The world as it is read."""
        # On this loop the clock stands still.
        return asyncio.run(read_world(settings or configured(), ACCESS, OWN, self, clock=PlayedClock(CLOCK_HERE)))


_ALWAYS = frozenset(part.resource.api for part in PARTS if part.resource.api.group)


def _group(api: Api) -> dict[str, Any]:
    kind = {"resource": f"{api.kind.lower()}s", "responseKind": {"kind": api.kind}}
    return {"metadata": {"name": api.group}, "versions": [{"version": api.version, "resources": [kind]}]}


def test_existing_objects_are_read_and_missing_ones_are_empty() -> None:
    cluster = Cluster(namespace("team-a"), example_object("grove.io/v1alpha1", "PodCliqueSet", "demo", within="team-a"))
    snapshot = cluster.read()
    assert [raw["metadata"]["name"] for raw in snapshot.all(NAMESPACES)] == ["team-a"]
    assert [raw["kind"] for raw in snapshot.all(POD_CLIQUE_SETS_PART)] == ["PodCliqueSet"]
    assert snapshot.single(LEASE) is None
    assert snapshot.version == "v1.37.0"
    assert snapshot.clocks == (ClockOffset("the API server", 0.5),)
    assert snapshot.now == CLOCK_HERE


def test_the_doctor_writes_only_dry_runs() -> None:
    cluster = Cluster()
    gangs = {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}}
    kinds = {Api("scheduling.k8s.io", "v1beta1", kind) for kind in ("Workload", "PodGroup")}
    cluster.answers["/apis"] = (200, {"items": [_group(api) for api in _ALWAYS | kinds]})
    cluster.answers[f"/api/v1/namespaces/{OWN}/pods"] = (201, {"kind": "Pod", "spec": {}})
    snapshot = cluster.read(configured(gangs))
    # Both are asked at once, so either may be first.
    written = {request.url.path: request for request in cluster.asked if request.method != "GET"}
    pods = f"/api/v1/namespaces/{OWN}/pods"
    assert {path: (one.method, one.url.params["dryRun"]) for path, one in written.items()} == {
        GROVE: ("POST", "All"),
        pods: ("POST", "All"),
    }
    assert snapshot.refusal == DryRunAnswer(None, "HTTP 422: rollcall/scheduler-unknown")
    assert snapshot.grouped == DryRunAnswer({"kind": "Pod", "spec": {}})
    assert json.loads(written[pods].content)["spec"]["schedulingGroup"] == {"podGroupName": "rollcall-doctor"}


def test_the_probe_set_is_created_in_a_namespace_that_the_webhooks_select() -> None:
    hooks = installed(settings=configured(registration={"excludedNamespaces": ["default"]}))
    objects = [raw for found in hooks.parts.values() if not isinstance(found, Unread) for raw in found]
    cluster = Cluster(*objects)
    cluster.read()
    assert [one.url.path for one in cluster.asked if one.method == "POST"] == [GROVE.replace("default", "team-a")]


def test_the_existence_of_each_trusted_account_is_read() -> None:
    cluster = Cluster()
    koordinator = "/api/v1/namespaces/koordinator-system/serviceaccounts/koord-scheduler"
    argo = "/api/v1/namespaces/argocd/serviceaccounts/controller"
    flux = "/api/v1/namespaces/flux/serviceaccounts/controller"
    cluster.answers[koordinator] = (200, {"metadata": {"name": "koord-scheduler"}})
    cluster.answers[flux] = (403, {"message": "serviceaccounts is forbidden"})
    named = ["argocd:controller", "flux:controller", "kube-system:backup"]
    users = [f"system:serviceaccount:{name}" for name in named]
    snapshot = cluster.read(configured(tenancy={"exemptUsers": [*users, "alice"]}))
    asked = [request.url.path for request in cluster.asked if "serviceaccounts" in request.url.path]
    assert sorted(asked) == [argo, flux, koordinator]
    found = dict(snapshot.accounts)
    refused = found.pop("system:serviceaccount:flux:controller")
    assert found == {
        "system:serviceaccount:koordinator-system:koord-scheduler": True,
        "system:serviceaccount:argocd:controller": False,
    }
    assert isinstance(refused, Unread)
    assert refused.right == "get serviceaccounts controller in flux"


def test_a_missing_right_is_reported() -> None:
    cluster = Cluster()
    cluster.answers[path_of(GANG_PODS)] = (403, {"message": "pods is forbidden"})
    cluster.answers[GROVE] = (
        403,
        {"message": 'User "me" cannot create resource "podcliquesets" in API group "grove.io"'},
    )
    snapshot = cluster.read()
    assert snapshot.parts[GANG_PODS] == Unread("the Pod objects", "HTTP 403: pods is forbidden", "list pods")
    assert isinstance(snapshot.refusal, Unread)
    assert snapshot.refusal.right == "create podcliquesets in default"
    with pytest.raises(FactsUnavailable, match="it takes the right to list pods"):
        snapshot.all(GANG_PODS)


def test_an_outage_is_not_reported_as_a_missing_right() -> None:
    cluster = Cluster()
    cluster.answers[path_of(GANG_PODS)] = (500, {"message": "etcd is slow"})
    assert cluster.read().parts[GANG_PODS] == Unread("the Pod objects", "HTTP 500: etcd is slow")


def test_a_list_of_several_pages_is_read_to_its_end() -> None:
    cluster = Cluster()
    pages = {"": ("a", "more"), "more": ("b", None)}

    async def paged(request: httpx.Request) -> httpx.Response:
        if request.url.path != path_of(NAMESPACES):
            return await Cluster.handle_async_request(cluster, request)
        name, token = pages[request.url.params.get("continue", "")]
        return httpx.Response(200, json={"items": [namespace(name)], "metadata": {"continue": token}})

    cluster.handle_async_request = paged  # type: ignore[method-assign]
    assert [raw["metadata"]["name"] for raw in cluster.read().all(NAMESPACES)] == ["a", "b"]


def test_without_a_cluster_or_a_name_in_it_nothing_is_read() -> None:
    for code in (401, 500):
        cluster = Cluster()
        cluster.answers["/version"] = (code, {"message": "no"})
        with pytest.raises(FactsUnavailable, match=f"HTTP {code}: no"):
            cluster.read()


def test_missing_discovery_rights_are_reported() -> None:
    cluster = Cluster()
    cluster.answers |= {"/version": (403, {"message": "no"}), "/apis": (403, {"message": "no"})}
    snapshot = cluster.read()
    assert snapshot.version == Unread(Text("version"), "HTTP 403: no", "get /version")
    assert snapshot.apis == Unread("which kinds are served", "HTTP 403: no", "get /apis")


OPERATOR = """\
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler: {defaultProfileName: kai-scheduler}
"""


def operator_of(cluster: Cluster, data: Mapping[str, str] | None, code: int = 200) -> Any:
    """Grove's configuration, where its operator mounts a ConfigMap of this content."""
    container = {"name": "grove-operator", "image": "example.com/grove:1"}
    volumes = [{"name": "config", "configMap": {"name": "grove-cm"}}, {"name": "tls", "secret": {"secretName": "x"}}]
    template = {"spec": {"containers": [container], "volumes": volumes}}
    operator = example_object(
        "apps/v1", "Deployment", "grove-operator", within="grove-system", spec={"template": template}
    )
    cluster.answers[path_of(DEPLOYMENTS)] = (200, {"items": [operator]})
    cluster.answers["/api/v1/namespaces/grove-system/configmaps/grove-cm"] = (code, {"message": "no", "data": data})
    return cluster.read().operator


def test_the_configuration_of_grove_s_operator_is_read_from_its_mount() -> None:
    assert operator_of(Cluster(), {"config.yaml": OPERATOR})["scheduler"] == {"defaultProfileName": "kai-scheduler"}
    assert operator_of(Cluster(), {"notes": "a: [", "other.yaml": "kind: Other"}) is None
    assert operator_of(Cluster(), None) is None
    unread = operator_of(Cluster(), None, 403)
    assert unread.right == "get configmaps grove-cm in grove-system"


def test_kueues_configuration_is_read_from_what_its_deployment_mounts_under_any_name() -> None:
    kueue = running_kueue(volumes=[{"name": "manager-config", "configMap": {"name": "queues-manager-config"}}])
    content = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmanageJobsWithoutQueueName: true\n"
    path = "/api/v1/namespaces/kueue-system/configmaps/queues-manager-config"
    # Another system's Configuration of the same kind is not Kueue's.
    others = "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n"
    for text, wanted in ((content, True), (others, None)):
        cluster = Cluster(kueue, kueue_webhook("mpod.kb.io", "pods"))
        cluster.answers[path] = (200, {"data": {"controller_manager_config.yaml": text}})
        found = cluster.read().kueue
        assert not isinstance(found, Unread)
        assert (found or {}).get("manageJobsWithoutQueueName") is wanted
    # Without webhook configurations that an administrator wrote, the Deployment may be anybody's.
    alone = Cluster(kueue)
    alone.answers[path] = (200, {"data": {"controller_manager_config.yaml": content}})
    assert alone.read().kueue is None
    assert path not in [request.url.path for request in alone.asked]


def test_a_kueue_whose_webhooks_may_not_be_read_is_not_known() -> None:
    cluster = Cluster(running_kueue())
    cluster.answers[path_of(MUTATING_WEBHOOKS)] = (403, {"message": "forbidden"})
    found = cluster.read().kueue
    assert isinstance(found, Unread)
    assert found.what == "Kueue's Configuration"


def test_the_secret_is_read_only_if_no_server_presents_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[SeenEndpoint] = []

    async def look(*_: Any, clock: PlayedClock) -> list[SeenEndpoint]:
        return shown

    monkeypatch.setattr(snapshot_reader, "observe_endpoints", look)
    secret = example_object("v1", "Secret", "rollcall-tls", data={"tls.crt": "YQ==", "tls.key": "Yg=="})
    unreachable = Cluster(secret)
    found = unreachable.read().single(SECRET)
    assert found is not None
    assert found["data"] == {"tls.crt": "YQ=="}
    # First a server without the name of the Service; then Rollcall.
    address = "https://10.0.0.1:8443"
    for host, read in (("proxy.example.com", True), (HOST, False)):
        certificate = signed_pair(host=host).leaf.public_bytes(serialization.Encoding.DER)
        shown[:] = [SeenEndpoint(PresentedCertificate(address, HOST, certificate), ClockOffset(address, 1.0))]
        reached = Cluster(secret)
        snapshot = reached.read()
        assert (path_of(SECRET) in [request.url.path for request in reached.asked]) is read
        assert len(snapshot.clocks) == (1 if read else 2)


def test_the_endpoints_are_verified_by_the_name_of_the_service() -> None:
    def second_port(raw: Manifest) -> None:
        if raw["kind"] == "Service":
            raw["spec"]["ports"] = [{"name": "next", "port": 8444}, {"name": "https", "port": 443}]
        if raw["kind"] == "EndpointSlice":
            raw["ports"].insert(0, {"name": "next", "port": 8444})
            raw["endpoints"][0]["conditions"] = {"ready": False}

    host = "rollcall.rollcall-system.svc"
    assert list(endpoints(installed(changed=second_port))) == [Endpoint("10.0.0.1", 8443, host)]


def test_a_server_behind_a_url_is_verified_directly() -> None:
    def by_url(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"] = {"url": "https://rollcall.example.com/mutate"}

    (found,) = endpoints(installed(changed=by_url))
    assert found == Endpoint("rollcall.example.com", 443, "rollcall.example.com")
    without = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert list(endpoints(installed(without=without))) == []
