"""A collector's certificate is verified like those of other servers: not more strictly with a newer Python."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests
from opentelemetry.sdk.trace.export import SpanExportResult

from tests.tls_listener import tls_listener
from tests.trust_cases import ADDRESS, REFUSED, TRUSTED, TrustCase
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import server_context
from webhook.cluster import span_export
from webhook.cluster.span_export import collector_session, exporter_to

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    # `requests` would prefer them.
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)


def sent(case: TrustCase, folder: Path) -> int:
    authorities = folder / "ca.crt"
    authorities.write_bytes(case.bundle)
    with tls_listener(server_context(case.pair), ANSWER) as port, collector_session() as session:
        # As the exporter sets it, for OTEL_EXPORTER_OTLP_CERTIFICATE.
        session.verify = str(authorities)
        return session.post(f"https://{ADDRESS}:{port}/v1/traces", data=b"x", timeout=LIMIT_SECONDS).status_code


@pytest.mark.parametrize("name", ["an authority without key identifiers", "an authority without key usage"])
def test_a_collector_with_a_trusted_certificate_gets_traces(name: str, tmp_path: Path) -> None:
    assert sent(TRUSTED[name], tmp_path) == 200


@pytest.mark.parametrize("name", ["another authority", "another host", "the host as common name alone", "expired"])
def test_an_untrusted_collector_gets_no_traces(name: str, tmp_path: Path) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        sent(REFUSED[name], tmp_path)


def test_the_exporter_uses_the_verifying_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = TRUSTED["an authority without key identifiers"]
    (tmp_path / "ca.crt").write_bytes(case.bundle)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(span_export, "EXPORT_SECONDS", LIMIT_SECONDS)
    with tls_listener(server_context(case.pair), ANSWER) as port:
        exporter = exporter_to(f"https://{ADDRESS}:{port}")
        assert exporter.export([]) is SpanExportResult.SUCCESS


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_collector_that_redirects_is_not_followed(code: int, tmp_path: Path) -> None:
    """The headers of the exporter may be credentials, and `requests` removes only Authorization."""
    case = TRUSTED["an authority without key identifiers"]
    (tmp_path / "ca.crt").write_bytes(case.bundle)
    with tls_listener(server_context(case.pair), ANSWER) as other:
        away = f"HTTP/1.1 {code} Away\r\nlocation: https://{ADDRESS}:{other}/v1/traces\r\ncontent-length: 0\r\n\r\n"
        with tls_listener(server_context(case.pair), away.encode()) as port, collector_session() as session:
            session.verify = str(tmp_path / "ca.crt")
            url = f"https://{ADDRESS}:{port}/v1/traces"
            assert session.post(url, data=b"x", timeout=LIMIT_SECONDS).status_code == code
