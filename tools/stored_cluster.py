"""A small cluster behind a socket, for `scripts/same-answers`: it stores the same objects for every checkout, answers
as an API server does, and notes each request.

It knows no more of Kubernetes than what is asked of it. What is tested on real API servers is in tests/e2e.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

Manifest = dict[str, Any]

# What is served: group, version, plural, kind. Of those that are written the first three make the path.
_SERVED = (
    ("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet"),
    ("grove.io", "v1alpha1", "podcliques", "PodClique"),
    ("grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup"),
    ("grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding"),
    ("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang"),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass"),
    ("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"),
    ("scheduling.k8s.io", "v1beta1", "workloads", "Workload"),
    ("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    ("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota"),
    ("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
    ("scheduling.koordinator.sh", "v1alpha1", "clusternetworktopologies", "ClusterNetworkTopology"),
    ("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
    ("scheduling.volcano.sh", "v1beta1", "queues", "Queue"),
    ("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode"),
    ("scheduling.run.ai", "v2", "queues", "Queue"),
    ("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup"),
    ("kai.scheduler", "v1alpha1", "topologies", "Topology"),
    ("batch", "v1", "jobs", "Job"),
    ("apps", "v1", "statefulsets", "StatefulSet"),
    ("apps", "v1", "deployments", "Deployment"),
    ("apps", "v1", "replicasets", "ReplicaSet"),
    ("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
)
_NAMESPACE = "team-a"


class Noted(NamedTuple):
    """One request."""

    verb: str
    path: str
    body: str


# ---------------------------------------------------------------------------------------------------- its objects


def stored(scheduler: str) -> dict[str, list[Manifest]]:
    """Returns the objects by the path of their collection: a PodCliqueSet with its PodGang and pods, a Job and a JobSet
    that are opted in, nodes in two racks.
    """
    label = {"rollcall.dev/scheduler": scheduler}
    container = {"name": "main", "image": "example.com/main", "resources": {"requests": {"cpu": "1"}}}
    pod_spec = {"containers": [container], "schedulerName": scheduler}
    cliques = [
        {"name": name, "spec": {"roleName": name, "replicas": 2, "minAvailable": 2, "podSpec": pod_spec}}
        for name in ("leader", "worker")
    ]
    owner = _owner("grove.io/v1alpha1", "PodCliqueSet", "demo")
    made_of = {"app.kubernetes.io/part-of": "demo", "app.kubernetes.io/managed-by": "grove-operator"}
    groups = []
    pods = []
    for clique in ("leader", "worker"):
        names = [f"demo-0-{clique}-{number}" for number in range(2)]
        groups.append(
            {
                "name": f"demo-0-{clique}",
                "minReplicas": 2,
                "podReferences": [{"namespace": _NAMESPACE, "name": name} for name in names],
            }
        )
        in_gang = {**made_of, "grove.io/podgang": "demo-0", "grove.io/podclique": f"demo-0-{clique}"}
        controller = _owner("grove.io/v1alpha1", "PodClique", f"demo-0-{clique}")
        gates = {"schedulingGates": [{"name": "rollcall.dev/gang-sync"}]}
        pods += [_object("v1", "Pod", name, in_gang, controller, {**pod_spec, **gates}) for name in names]
    in_job = {"batch.kubernetes.io/job-name": "train", "job-name": "train", **label}
    job_owner = _owner("batch/v1", "Job", "train")
    pods += [_object("v1", "Pod", f"train-{number}", in_job, job_owner, pod_spec) for number in range(2)]
    template = {"metadata": {"labels": label}, "spec": {**pod_spec, "restartPolicy": "Never"}}
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template}
    return {
        "/api/v1/namespaces": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}],
        "/api/v1/nodes": [_node(number) for number in range(4)],
        "/api/v1/pods": pods,
        "/apis/grove.io/v1alpha1/podcliquesets": [
            _object("grove.io/v1alpha1", "PodCliqueSet", "demo", label, None, _set_spec(cliques)),
        ],
        "/apis/grove.io/v1alpha1/podcliques": [
            _object("grove.io/v1alpha1", "PodClique", f"demo-0-{name}", made_of, owner, {"replicas": 2})
            for name in ("leader", "worker")
        ],
        "/apis/grove.io/v1alpha1/clustertopologybindings": [
            {
                "apiVersion": "grove.io/v1alpha1",
                "kind": "ClusterTopologyBinding",
                "metadata": {"name": "dc", "uid": "binding-dc", "resourceVersion": "1"},
                "spec": {
                    "levels": [
                        {"domain": "rack", "key": "example.com/rack"},
                        {"domain": "host", "key": "kubernetes.io/hostname"},
                    ]
                },
            }
        ],
        "/apis/scheduler.grove.io/v1alpha1/podgangs": [
            _object("scheduler.grove.io/v1alpha1", "PodGang", "demo-0", made_of, owner, {"podgroups": groups}),
        ],
        "/apis/batch/v1/jobs": [_object("batch/v1", "Job", "train", label, None, job)],
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets": [
            _object(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                "sets",
                label,
                None,
                {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": {"spec": job}}]},
            )
        ],
        "/apis/scheduling.run.ai/v2/queues": [
            {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": "default-queue", "uid": "queue-default", "resourceVersion": "1"},
                "spec": {"resources": {}},
            }
        ],
    }


def _set_spec(cliques: list[Manifest]) -> Manifest:
    return {"replicas": 1, "template": {"cliques": cliques}}


def _owner(api_version: str, kind: str, name: str) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}


def _object(
    api_version: str, kind: str, name: str, labels: Manifest, owner: Manifest | None, spec: Manifest
) -> Manifest:
    metadata: Manifest = {
        "name": name,
        "namespace": _NAMESPACE,
        "uid": f"{kind}-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-10-01T00:00:00Z",
        "labels": labels,
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _node(number: int) -> Manifest:
    labels = {"kubernetes.io/hostname": f"node-{number}", "example.com/rack": f"rack-{number % 2}"}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "uid": f"node-{number}", "labels": labels, "resourceVersion": "1"},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


# ---------------------------------------------------------------------------------------------------- its server


class Cluster:
    """The objects of all collections, and the events about them, which watches read."""

    def __init__(self, scheduler: str) -> None:
        # Copied, as objects share their parts.
        self.objects: dict[str, list[Manifest]] = json.loads(json.dumps(stored(scheduler)))
        self.requests: list[Noted] = []
        self.changed = threading.Condition()
        self.closed = False
        self._events: list[tuple[str, Manifest]] = []

    @property
    def version(self) -> int:
        """The number of events so far."""
        return len(self._events)

    def selected(self, path: str, query: dict[str, list[str]]) -> list[Manifest] | None:
        """Returns the objects of a collection, of one namespace or of all; None if there is no such collection."""
        collection, namespace = _collection(path)
        if not self._serves(collection):
            return None
        # By name, as an API server does: those that are written at the same time come in any order.
        return [
            item
            for item in sorted(self.objects.get(collection, []), key=_name)
            if (namespace is None or item["metadata"].get("namespace") == namespace)
            and _matches(item, query.get("labelSelector", [""])[0], query.get("fieldSelector", [""])[0])
        ]

    def _serves(self, collection: str) -> bool:
        known = {f"/apis/{group}/{version}/{plural}" for group, version, plural, _ in _SERVED}
        return collection.startswith("/api/v1/") or collection in known

    def named(self, path: str) -> Manifest | None:
        """Returns one object by its path."""
        collection, namespace, name = _addressed(path)
        for item in self.objects.get(collection, []):
            metadata = item["metadata"]
            if (metadata.get("namespace"), metadata["name"]) == (namespace, name):
                return item
        return None

    def apply(self, path: str, body: Any) -> Manifest:
        """Merges an object into the one of its name, as far as server-side apply by one manager does."""
        collection, namespace, name = _addressed(path)
        with self.changed:
            known = self.named(path)
            event = "MODIFIED"
            if known is None:
                metadata = {"name": name, "uid": f"made-{name}", "creationTimestamp": "2026-10-01T00:00:00Z"}
                known, event = {"metadata": metadata}, "ADDED"
                if namespace is not None:
                    metadata["namespace"] = namespace
                self.objects.setdefault(collection, []).append(known)
            if isinstance(body, dict):
                _merge(known, body)
            elif isinstance(body, list):
                _patch(known, body)
            self._tell(collection, event, known)
            return known

    def remove(self, path: str) -> None:
        """Deletes an object."""
        with self.changed:
            known = self.named(path)
            if known is not None:
                collection = _addressed(path)[0]
                self.objects[collection].remove(known)
                self._tell(collection, "DELETED", known)

    def _tell(self, collection: str, event: str, item: Manifest) -> None:
        item["metadata"]["resourceVersion"] = str(self.version + 2)
        self._events.append((collection, {"type": event, "object": json.loads(json.dumps(item))}))
        self.changed.notify_all()

    def events(self, path: str, query: dict[str, list[str]]) -> Iterator[Manifest]:
        """Yields what happens in a collection from now on, until the server is closed."""
        collection, namespace = _collection(path)
        read = int(query.get("resourceVersion", ["1"])[0]) - 1
        while True:
            with self.changed:
                while not self.closed and read >= len(self._events):
                    self.changed.wait(0.5)
                if self.closed:
                    return
                of, event = self._events[read]
                read += 1
            item = event["object"]
            fitting = namespace is None or item["metadata"].get("namespace") == namespace
            if of == collection and fitting and _matches(item, query.get("labelSelector", [""])[0], ""):
                yield event


def _name(item: Manifest) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _collection(path: str) -> tuple[str, str | None]:
    """The collection of all namespaces, and the namespace of a path."""
    start, _, rest = path.partition("/namespaces/")
    namespace, _, plural = rest.partition("/")
    return (f"{start}/{plural}", namespace) if plural else (path, None)


def _addressed(path: str) -> tuple[str, str | None, str]:
    start, _, name = path.removesuffix("/status").rpartition("/")
    collection, namespace = _collection(start)
    return collection, namespace, name


def _matches(item: Manifest, labels: str, fields: str) -> bool:
    """Whether the simple selectors mean an object: `key`, `!key`, `key=value`; and of fields those of equality."""
    present = item["metadata"].get("labels") or {}
    for part in filter(None, labels.split(",") if "(" not in labels else []):
        key, _, value = part.partition("=")
        if key.startswith("!"):
            if key[1:] in present:
                return False
        elif key not in present or (value and present[key] != value):
            return False
    for part in filter(None, fields.split(",")):
        path, _, value = part.partition("=")
        found: Any = item
        for key in path.removesuffix("!").split("."):
            found = (found or {}).get(key)
        if ((found or "") == value) == path.endswith("!"):
            return False
    return True


def _merge(known: Manifest, body: Manifest) -> None:
    for key, value in body.items():
        if isinstance(value, dict) and isinstance(known.get(key), dict):
            _merge(known[key], value)
        else:
            known[key] = value


def _patch(known: Manifest, operations: list[Manifest]) -> None:
    """Applies a JSON Patch; a test that fails changes nothing here."""
    for operation in operations:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        holder: Any = known
        for key in path:
            holder = holder[int(key)] if isinstance(holder, list) else holder.setdefault(key, {})
        if operation["op"] == "remove":
            holder.pop(int(last) if isinstance(holder, list) else last, None)
        elif operation["op"] in {"add", "replace"} and isinstance(holder, dict):
            holder[last] = operation["value"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _note(self, verb: str, body: str = "") -> None:
        self.cluster.requests.append(Noted(verb, self.path, body))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        self._note("WATCH" if "watch" in query else "GET")
        if "watch" in query:
            self._watch(parts.path, query)
        elif parts.path == "/version":
            self._answer(200, {"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
        elif parts.path == "/apis":
            self._answer(200, {"kind": "APIGroupDiscoveryList", "items": _discovered()})
        elif (items := self.cluster.selected(parts.path, query)) is not None:
            self._answer(200, {"metadata": {"resourceVersion": str(self.cluster.version + 1)}, "items": items})
        elif (item := self.cluster.named(parts.path)) is not None:
            self._answer(200, item)
        else:
            self._answer(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"})

    def _watch(self, path: str, query: dict[str, list[str]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            for event in self.cluster.events(path, query):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()

    def _written(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        self._note(self.command, text)
        path, body = urlsplit(self.path).path, json.loads(text or "null")
        if self.command == "DELETE":
            self.cluster.remove(path)
            self._answer(200, {"kind": "Status", "status": "Success"})
        elif self.command == "POST" and "subjectaccessreviews" in path:
            self._answer(201, {**body, "status": {"allowed": True}})
        elif self.command == "POST":
            name = (body.get("metadata") or {}).get("name", "generated")
            self._answer(201, self.cluster.apply(f"{path}/{name}", body))
        else:
            self._answer(200, self.cluster.apply(path, body))

    do_POST = do_PUT = do_PATCH = do_DELETE = _written  # noqa: N815 - the names that the base class looks up


def _discovered() -> list[Manifest]:
    groups: dict[str, dict[str, list[Manifest]]] = {}
    for group, version, plural, kind in _SERVED:
        resource = {"resource": plural, "responseKind": {"group": group, "version": version, "kind": kind}}
        groups.setdefault(group, {}).setdefault(version, []).append(resource)
    return [
        {
            "metadata": {"name": group},
            "versions": [{"version": version, "resources": resources} for version, resources in versions.items()],
        }
        for group, versions in groups.items()
    ]


@contextlib.contextmanager
def serving(scheduler: str) -> Iterator[tuple[str, list[Noted]]]:
    """Serves a cluster, and gives its address and the requests that come."""
    cluster = Cluster(scheduler)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": cluster}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", cluster.requests
    finally:
        with cluster.changed:
            cluster.closed = True
            cluster.changed.notify_all()
        server.shutdown()
        server.server_close()


def kubeconfig(address: str) -> Manifest:
    """Returns the kubeconfig for a cluster at that address."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stored",
        "contexts": [{"name": "stored", "context": {"cluster": "stored", "user": "stored"}}],
        "clusters": [{"name": "stored", "cluster": {"server": address}}],
        "users": [{"name": "stored", "user": {"token": "stored"}}],
    }


def counted(requests: list[Noted], uncounted: str = "") -> str:
    """Returns how many requests of each verb and path there were, one line each. Watches are left out: whether the last
    begins before a command ends depends on the machine. So may the number of those called `uncounted`.
    """
    asked = (request for request in requests if request.verb != "WATCH")
    counts = Counter(f"{request.verb} {urlsplit(request.path).path}" for request in asked)
    lines = (f"{'some' if what == uncounted else count} {what}\n" for what, count in sorted(counts.items()))
    return "".join(lines)


def written(requests: list[Noted]) -> str:
    """Returns the bodies of the requests that write, sorted: the order of independent gangs is not fixed."""
    lines = [
        f"{request.verb} {request.path} {request.body}\n"
        for request in requests
        if request.verb not in {"GET", "WATCH"} and "subjectaccessreviews" not in request.path
    ]
    return "".join(sorted(lines))
