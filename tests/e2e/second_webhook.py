"""Other mutating webhooks: they run in a thread of the test, and the API server calls them for pods."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonpatch

from tests.e2e.control_plane import Manifest
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates


class PlayedWebhook:
    """A webhook called `hook` in a configuration called `name`. `mutate` changes the pod that it is given.

    `selected` are further fields of the webhook: whom it is asked about, and what if it does not answer.
    """

    def __init__(self, name: str, hook: str, folder: Path, mutate: Callable[[Manifest], None], **selected: Any) -> None:
        self.name = name
        self.calls = 0
        self._hook, self._selected = hook, selected
        self._folder = folder / name
        make_development_certificates(self._folder)
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                webhook.calls += 1
                review = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = json.dumps(_answer(review, mutate)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / CERTIFICATE_FILE, self._folder / KEY_FILE)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def registration(self) -> Manifest:
        """Its MutatingWebhookConfiguration."""
        bundle = base64.b64encode((self._folder / CA_FILE).read_bytes()).decode()
        hook = {
            "name": self._hook,
            "clientConfig": {"url": f"https://127.0.0.1:{self._server.server_port}/", "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **self._selected,
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self.name},
            "webhooks": [hook],
        }

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class SecondWebhook(PlayedWebhook):
    """Adds labels to every pod."""

    def __init__(self, name: str, folder: Path, labels: dict[str, str]) -> None:
        def add(pod: Manifest) -> None:
            pod["metadata"].setdefault("labels", {}).update(labels)

        super().__init__(name, "labels.example.com", folder, add)


def _answer(review: dict[str, Any], mutate: Callable[[Manifest], None]) -> dict[str, Any]:
    request = review["request"]
    wanted = deepcopy(request["object"])
    mutate(wanted)
    patch = jsonpatch.make_patch(request["object"], wanted).patch
    response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
