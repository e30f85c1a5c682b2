"""Somebody else's mutating webhook, which adds labels to every pod."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import Manifest
from webhook.certificates import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates


class SecondWebhook:
    """It runs in a thread of the test."""

    def __init__(self, name: str, folder: Path, labels: dict[str, str]) -> None:
        self.name = name
        self.calls = 0
        self._folder = folder / name
        make_development_certificates(self._folder)
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                webhook.calls += 1
                review = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = json.dumps(_answer(review, labels)).encode()
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
        """Its MutatingWebhookConfiguration, for all pods."""
        bundle = base64.b64encode((self._folder / CA_FILE).read_bytes()).decode()
        hook = {
            "name": "labels.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{self._server.server_port}/", "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
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


def _answer(review: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    request = review["request"]
    present = request["object"]["metadata"].get("labels", {})
    patch: list[dict[str, Any]] = [] if present else [{"op": "add", "path": "/metadata/labels", "value": {}}]
    missing = {key: value for key, value in labels.items() if present.get(key) != value}
    patch += [{"op": "add", "path": f"/metadata/labels/{key}", "value": value} for key, value in missing.items()]
    response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    if missing:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
