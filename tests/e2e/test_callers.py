"""The client certificate of the API server, set up as docs/explanation/serving.md says."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.authorities import Authority
from tests.e2e.client_certificate import NAME
from tests.e2e.conftest import KOORDINATOR, until_asked
from tests.e2e.control_plane import ControlPlane
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer, trusting
from tests.e2e.workloads import two_cliques
from webhook.operations.diagnosis import snapshot
from webhook.operations.webhook_checks import cause_of


@pytest.fixture
def registered(plane: ControlPlane) -> Iterator[list[RollcallServer]]:
    """Servers that go with the test."""
    found: list[RollcallServer] = []
    yield found
    for server in found:
        server.close()


def test_only_an_api_server_with_the_client_certificate_is_answered(
    plane: ControlPlane, registered: list[RollcallServer]
) -> None:
    asking = (f"--client-ca={plane.client.authority}", f"--client-name={NAME}")
    server = RollcallServer(plane, KOORDINATOR, options=asking)
    registered.append(server)
    server.until_ready()
    server.register()
    until_asked(plane)
    with httpx.Client(verify=trusting(server.folder), trust_env=False) as stranger, pytest.raises(httpx.TransportError):
        stranger.post(f"{server.url}/validate", json={}).raise_for_status()


def test_every_call_with_a_certificate_of_another_authority_is_refused(
    plane: ControlPlane, registered: list[RollcallServer], namespace: str
) -> None:
    another = plane.folder / "another-authority.crt"
    another.write_bytes(Authority("another").pem)
    server = RollcallServer(plane, KOORDINATOR, options=(f"--client-ca={another}",))
    registered.append(server)
    server.register()
    path = f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets"

    def refused() -> str | None:
        answer = plane.http.post(path, params={"dryRun": "All"}, json=two_cliques("probe", namespace))
        # The error depends on how far the handshake had come.
        assert "EOF" in answer.text or "remote error: tls:" in answer.text, answer.text
        return answer.text

    said = eventually(refused, "the API server's certificate is refused")
    assert "failed calling webhook" in said
    assert "it requires a client certificate" in cause_of(said, snapshot()).why
