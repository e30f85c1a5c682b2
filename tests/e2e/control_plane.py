"""A control plane on loopback: real etcd, kube-apiserver and kube-controller-manager, and kubectl.

Nothing runs on its nodes and nothing needs to: a scheduler binds pods to Node objects without machines.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.e2e.client_certificate import client_certificate
from tests.e2e.programs import Program, Workplace, eventually, free_port, program
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates

Manifest = dict[str, Any]

# What each version needs to serve its generation of the Workload API; all of it is off by default.
_GATES = {
    "1.35": "GenericWorkload=true,GangScheduling=true",
    "1.36": "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true",
    "1.37": "GenericWorkload=true,CompositePodGroup=true,TopologyAwareWorkloadScheduling=true",
}
_RUNTIME_CONFIG = {
    "1.35": "scheduling.k8s.io/v1alpha1=true",
    "1.36": "scheduling.k8s.io/v1alpha2=true",
    "1.37": "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
}
# Who may ask: token, name, uid, groups. The serving process is given no more than its own ClusterRole.
ADMIN, OPERATOR = "admin-token", "operator-token"
ROLLCALL_NAMESPACE = "rollcall-system"
# The service accounts that a server may be; tests give the second less than a server needs. The reconciler's is the one
# that an installation has, because what it writes is not judged.
ROLLCALL, LIMITED, RECONCILER = "rollcall", "limited", "rollcall-reconciler"
# A person with few rights.
READER = "reader"
_TOKENS = f"""\
{ADMIN},admin,1,system:masters
{OPERATOR},system:serviceaccount:grove-system:grove-operator,2,system:masters
{ROLLCALL},system:serviceaccount:{ROLLCALL_NAMESPACE}:{ROLLCALL},3,system:serviceaccounts
{LIMITED},system:serviceaccount:{ROLLCALL_NAMESPACE}:{LIMITED},4,system:serviceaccounts
{RECONCILER},system:serviceaccount:{ROLLCALL_NAMESPACE}:{RECONCILER},5,system:serviceaccounts
{READER},{READER},6
"""
# The reconciler's requests are audited, because an account with exactly the needed rights must never be refused; so are
# changes of PodCliqueSets, for the annotations of the webhooks.
_AUDIT = f"""\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {{level: Metadata, users: ["system:serviceaccount:{ROLLCALL_NAMESPACE}:{RECONCILER}"]}}
- level: Metadata
  verbs: [create, update, patch]
  resources: [{{group: grove.io, resources: [podcliquesets]}}]
- level: Metadata
  verbs: [delete, deletecollection]
  resources: [{{group: "", resources: [pods]}}]
- {{level: None}}
"""
# No nodes live here, so none can fail; the garbage collector and the namespace controller are what is wanted. That of
# pods deletes by name: a pod whose name a terminating one had a moment ago goes with it, once in some thousand tests.
_CONTROLLERS = (
    "*,-node-lifecycle-controller,-node-ipam-controller,-taint-eviction-controller,-pod-garbage-collector-controller"
)


class Ran(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


class Asked(NamedTuple):
    """One request of the reconciler's, as the API server wrote it down."""

    verb: str
    resource: str
    uri: str
    allowed: bool

    @classmethod
    def of(cls, event: Manifest) -> Asked:
        """From an event of the audit log; `resource` is group and resource."""
        what = event.get("objectRef", {})
        resource = f"{what.get('apiGroup', '')}/{what['resource']}" if "resource" in what else ""
        allowed = event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow"
        return cls(event["verb"], resource, event["requestURI"], allowed)


class ControlPlane:
    """One control plane. `close` leaves nothing behind."""

    def __init__(self, version: str, *gates: str) -> None:
        """`gates` are feature gates besides those of every control plane of its version."""
        self.version = version
        # Nothing for a version that only KUBEBUILDER_ASSETS brings.
        self.gates = ",".join((*filter(None, [_GATES.get(version)]), *gates))
        self.workplace = Workplace(f"kube-{version}")
        self.folder = self.workplace.folder
        self._clients: dict[str, httpx.Client] = {}
        self._audit_read, self._audit_events = 0, list[Manifest]()
        try:
            self._start()
        except BaseException as error:
            for started in self.workplace.programs:
                error.add_note(f"--- {started.name}\n{started.tail()}")
            self.close()
            raise

    def _start(self) -> None:
        make_development_certificates(self.folder)
        self.ca = self.folder / CA_FILE
        _write_account_key(self.folder / "accounts.key")
        (self.folder / "tokens.csv").write_text(_TOKENS)
        (self.folder / "audit.yaml").write_text(_AUDIT)
        self.audit = self.folder / "audit.jsonl"
        self.client = client_certificate(self.folder / "client")
        # A port that was free may be taken a moment later: then another is tried.
        for _ in range(3):
            if self._start_etcd_and_api_server():
                break
        else:
            raise RuntimeError("neither of three pairs of free ports stayed free")
        self.kubeconfig = self.write_kubeconfig(ADMIN)

    def start_controller_manager(self) -> None:
        """Start it once the CRDs are there: its garbage collector then knows them at once, not within half a minute.

        A folder of programs as KUBEBUILDER_ASSETS names it may have none; what is owned then outlives its owner.
        """
        self.collects_garbage = program("kube-controller-manager", f"kube-{self.version}") is not None
        if not self.collects_garbage:
            return
        controllers = self.workplace.start(
            "kube-controller-manager",
            [
                self._program("kube-controller-manager"),
                f"--kubeconfig={self.kubeconfig}",
                f"--controllers={_CONTROLLERS}",
                "--leader-elect=false",
                "--secure-port=0",
                f"--service-account-private-key-file={self.folder / 'accounts.key'}",
                "--use-service-account-credentials=false",
                "--concurrent-gc-syncs=20",
                # At its own 20 a second it collects two gangs a second, and no more however many go.
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                f"--feature-gates={self.gates}",
            ],
        )
        self._own.append(controllers)

    def _start_etcd_and_api_server(self) -> bool:
        client, peer, port = free_port(), free_port(), free_port()
        apis = _RUNTIME_CONFIG.get(self.version, "")
        self.url = f"https://127.0.0.1:{port}"
        self.store_url = f"http://127.0.0.1:{client}"
        etcd = self.workplace.start(
            "etcd",
            [
                self._program("etcd"),
                f"--data-dir={self.folder / 'etcd'}",
                "--unsafe-no-fsync",
                "--log-level=warn",
                f"--listen-client-urls=http://127.0.0.1:{client}",
                f"--advertise-client-urls=http://127.0.0.1:{client}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
            ],
        )
        self.api_server = self.workplace.start(
            "kube-apiserver",
            [
                self._program("kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{client}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                # The Service of the API server wants an address that is not loopback.
                "--endpoint-reconciler-type=none",
                # Nothing forwards a Service's address here, so it calls a webhook's endpoints by their own.
                "--enable-aggregator-routing=true",
                f"--secure-port={port}",
                f"--cert-dir={self.folder / 'kube-apiserver'}",
                f"--tls-cert-file={self.folder / CERTIFICATE_FILE}",
                f"--tls-private-key-file={self.folder / KEY_FILE}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--disable-admission-plugins=ServiceAccount",
                # Some distributions switch it on: an owner reference that blocks deletion is then a right of its own.
                "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
                f"--audit-policy-file={self.folder / 'audit.yaml'}",
                f"--audit-log-path={self.audit}",
                f"--admission-control-config-file={self.client.configuration}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self.folder / 'accounts.key'}",
                f"--service-account-signing-key-file={self.folder / 'accounts.key'}",
                "--service-cluster-ip-range=10.0.0.0/16",
                f"--feature-gates={self.gates}",
                f"--runtime-config={apis}",
            ],
        )
        self._own = [etcd, self.api_server]
        return self.until_ready(etcd)

    def until_ready(self, etcd: Program | None = None) -> bool:
        """Wait until the API server answers; whether it will."""

        def ready() -> bool | None:
            if not self.api_server.running or (etcd is not None and not etcd.running):
                return False
            try:
                return True if self.http.get("/readyz").status_code == httpx.codes.OK else None
            except httpx.TransportError:
                return None

        def settled() -> tuple[bool] | None:
            found = ready()
            return None if found is None else (found,)

        started = eventually(settled, "the API server is ready", timeout=60, pause=0.1)[0]
        if not started:
            self.api_server.stop()
            if etcd is not None:
                etcd.stop()
        return started

    def compact(self) -> None:
        """Forget all versions but the present one, as API servers have etcd do every five minutes."""
        with httpx.Client(base_url=self.store_url, trust_env=False) as etcd:
            found = etcd.post("/v3/kv/range", json={"key": base64.b64encode(b"/").decode()}).raise_for_status()
            revision = found.json()["header"]["revision"]
            etcd.post("/v3/kv/compaction", json={"revision": revision, "physical": True}).raise_for_status()

    def kill_api_server(self) -> None:
        """Kill the API server as soon as no namespace is being deleted. It serves custom resources only some time after
        its next start, and a namespace whose deletion ends before that leaves its custom resources behind.
        """

        def leaving() -> list[str]:
            found = self.items("/api/v1/namespaces") if self.collects_garbage else []
            return [one["metadata"]["name"] for one in found if "deletionTimestamp" in one["metadata"]]

        eventually(lambda: leaving() == [], "no namespace is being deleted", timeout=60)
        self.api_server.stop(kill=True)

    def _program(self, name: str) -> Path:
        found = program(name, f"kube-{self.version}")
        if found is None:
            raise FileNotFoundError(f"there is no {name} among the programs of Kubernetes {self.version}")
        return found

    def check(self) -> None:
        """Raise RuntimeError where one of its own programs has ended by itself."""
        for started in self._own:
            started.check()

    def close(self) -> None:
        """Stop everything and remove what it left."""
        for client in self._clients.values():
            client.close()
        self.workplace.close()

    # asking it

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Trusts the API server."""
        return ssl.create_default_context(cafile=str(self.ca))

    @property
    def http(self) -> httpx.Client:
        """The API as an administrator sees it, without kubectl's start-up time."""
        return self.http_as(ADMIN)

    def http_as(self, token: str) -> httpx.Client:
        """The API as the owner of `token` sees it."""
        if token not in self._clients:
            self._clients[token] = self.new_client(token)
        return self._clients[token]

    def new_client(self, token: str) -> httpx.Client:
        """The same over a separate connection."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, verify=self.tls, headers=headers, timeout=30, trust_env=False)

    def asked(self, since: int = 0) -> list[Asked]:
        """The requests of the reconciler after the first so many."""
        account = f"system:serviceaccount:{ROLLCALL_NAMESPACE}:{RECONCILER}"
        own = [event for event in self._audited() if event["user"]["username"] == account]
        return [Asked.of(event) for event in own[since:]]

    def annotations_of(self, namespace: str, name: str) -> dict[str, str]:
        """What webhooks wrote into the audit log about the last creation of a PodCliqueSet, without their names."""
        for event in reversed(self._audited()):
            what = event.get("objectRef", {})
            if (what.get("resource"), what.get("namespace"), what.get("name")) == ("podcliquesets", namespace, name):
                return {key.rpartition("/")[2]: value for key, value in event.get("annotations", {}).items()}
        return {}

    def _audited(self) -> list[Manifest]:
        """All events of the audit log. It is long in the end, so only what is new in it is read."""
        if self.audit.exists():
            with self.audit.open("rb") as log:
                log.seek(self._audit_read)
                # The API server may be in the middle of a line.
                lines = log.read().rpartition(b"\n")[0]
            if lines:
                self._audit_read += len(lines) + 1
                self._audit_events += map(json.loads, lines.splitlines())
        return self._audit_events

    def pod_deletions(self, namespace: str) -> list[str]:
        """Who deleted pods of the namespace, when, and with what answer, a line a request."""
        return [
            f"{event['requestReceivedTimestamp']} {event['verb']} {event['requestURI']} by {event['user']['username']} "
            f"({event.get('userAgent', '')}): {event.get('responseStatus', {}).get('code')}"
            for event in self._audited()
            if {"resource": "pods", "namespace": namespace}.items() <= event.get("objectRef", {}).items()
        ]

    def notes(self, name: str, namespace: str) -> list[dict[str, str]]:
        """The annotations of Rollcall's validation in the audit events of a PodCliqueSet, without their prefix."""
        found = []
        for event in self._audited():
            what = event.get("objectRef", {})
            if (what.get("resource"), what.get("name"), what.get("namespace")) == ("podcliquesets", name, namespace):
                notes = event.get("annotations", {}).items()
                found.append({key.partition("/")[2]: text for key, text in notes if ".validate.rollcall.dev/" in key})
        return found

    def write_kubeconfig(self, token: str) -> Path:
        """A kubeconfig for the owner of `token`."""
        path = self.folder / f"{token}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "user"}}],
            "current-context": "here",
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def kubectl(self, *arguments: str | Path, stdin: str | None = None, check: bool = False) -> Ran:
        """Run kubectl as an administrator would. With `check`, an exit code other than 0 is an AssertionError."""
        command = [self._program("kubectl"), f"--cache-dir={self.folder / 'kubectl'}", *arguments]
        env = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [str(part) for part in command],
            input=stdin,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        ran = Ran(done.returncode, done.stdout, done.stderr)
        if check and ran.code:
            shown = " ".join(str(part) for part in arguments)
            raise AssertionError(f"kubectl {shown}: exit {ran.code}\n{ran.out}{ran.err}")
        return ran

    def apply(self, *manifests: Manifest, options: Iterable[str] = (), check: bool = False) -> Ran:
        """`kubectl apply` of the manifests, in their order."""
        text = yaml.safe_dump_all(manifests, sort_keys=False)
        return self.kubectl("apply", "-f", "-", *options, stdin=text, check=check)

    def create_namespace(self, name: str) -> None:
        """Create a namespace, unless it exists."""
        answer = self.http.post("/api/v1/namespaces", json={"metadata": {"name": name}})
        assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text

    def get(self, resource: str, name: str, namespace: str | None = None) -> Manifest:
        """One object, as `kubectl get -o json` prints it."""
        where = () if namespace is None else ("-n", namespace)
        found: Manifest = json.loads(self.kubectl("get", resource, name, *where, "-o", "json", check=True).out)
        return found

    def items(self, path: str, **params: str) -> list[Manifest]:
        """The items of a list, as `path` of the API gives them."""
        answer = self.http.get(path, params=params)
        assert answer.status_code == httpx.codes.OK, answer.text
        found: list[Manifest] = answer.json()["items"]
        return found


def _write_account_key(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    path.chmod(0o600)
