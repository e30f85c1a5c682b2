"""Whether a cluster answers, found out with one request: a command that reads twenty kinds would wait for each one."""

from __future__ import annotations

from http import HTTPStatus

import httpx

from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.requests import Request
from webhook.errors import FactsUnavailable, RequestFailed

# Enough for another continent, and a person has an answer within two seconds. For name, connection and TLS each.
CONNECT_SECONDS = 1.0


async def reach(access: Access, transport: httpx.AsyncBaseTransport | None = None) -> None:
    """Return if the API server answers and accepts the credentials. Raises `FactsUnavailable`."""
    client = Client(access, transport, connect_seconds=CONNECT_SECONDS)
    try:
        await client.get(Request("/version"))
    except RequestFailed as error:
        if error.code == HTTPStatus.UNAUTHORIZED:
            raise FactsUnavailable(f"the cluster {access.url} does not accept the credentials: {error}") from None
        # Any other code is an answer: it may be forbidden to read the version. A redirect is one of another server.
        if error.code < HTTPStatus.BAD_REQUEST:
            # A failed connection names it.
            server = "" if access.url in str(error) else f" {access.url}"
            raise FactsUnavailable(
                f"cannot connect to the cluster{server}: {error}; is it the right context?"
            ) from None
    finally:
        await client.close()
