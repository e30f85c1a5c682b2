"""HTTP to a trace collector, with its certificate verified like that of every other server."""

from __future__ import annotations

from typing import Any

from requests import Session
from requests.adapters import HTTPAdapter

from webhook.network.client_tls import verifying


def collector_session() -> Session:
    """Return a session for the exporter that uses our TLS context."""
    session = Session()
    session.mount("https://", _Adapter())
    return session


class _Adapter(HTTPAdapter):
    """urllib3's own context is strict since Python 3.13."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Create the connections to a collector."""
        super().init_poolmanager(*args, **kwargs, ssl_context=verifying())

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Create the connections to a collector through a proxy."""
        return super().proxy_manager_for(*args, **kwargs, ssl_context=verifying())
