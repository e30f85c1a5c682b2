"""Read which kinds the cluster serves: one request for all groups, with a full answer only after a change.

Source: aggregated discovery (KEP-3352), apidiscovery.k8s.io/v2, in every Kubernetes version that Rollcall supports.
"""

from __future__ import annotations

from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotModified, RequestFailed
from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.model.reading import Malformed, mapping
from webhook.model.served_kinds import kinds_of


class Discovery:
    """The kinds that were served at the last request."""

    def __init__(self, client: Client) -> None:
        self.apis: frozenset[Api] | None = None
        # The resource of each kind.
        self.resources: dict[Api, Resource] = {}
        self._client = client
        self._etag: str | None = None

    async def ask(self) -> frozenset[Api]:
        """Return the kinds that are served now. Raises `RequestFailed`."""
        try:
            answer = await self._client.get(requests.discovery(self._etag))
        except NotModified:
            if self.apis is None:
                raise
            return self.apis
        try:
            self.resources = _kinds(answer.content)
        except Malformed as error:
            raise RequestFailed(f"the answer is not a discovery document: {error}") from None
        self._etag = answer.etag
        self.apis = frozenset(self.resources)
        return self.apis


def _kinds(document: Any) -> dict[Api, Resource]:
    items = mapping(document).get("items")
    if not isinstance(items, list):
        # An APIGroupList from a server or a proxy that does not know the requested format. It has no kinds.
        raise RequestFailed(f"the answer is not a discovery document: it is {document.get('kind')}, without items")
    return {resource.api: resource for group in map(mapping, items) for resource in kinds_of(dict(group))}
