"""Read which fields the served kinds have, to tell an old CRD from a new one with the same version.

Source: OpenAPI v3 by group and version (KEP-2896), which every authenticated user may read (system:discovery).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotFound, NotModified, RequestFailed
from webhook.model.keys import Api
from webhook.model.projections import spec_fields
from webhook.model.reading import Malformed, mapping, sequence

_KIND = "x-kubernetes-group-version-kind"


class Schemas:
    """The fields of `spec` of the wanted kinds."""

    def __init__(self, client: Client, wanted: Iterable[Api]) -> None:
        self._client = client
        self._wanted = tuple(dict.fromkeys(wanted))
        # By group and version: the ETag of the last answer. An unchanged answer is not sent again.
        self._etags: dict[tuple[str, str], str | None] = {}
        self.known: dict[Api, frozenset[str]] = {}

    async def ask(self) -> Mapping[Api, frozenset[str]]:
        """Return the known fields by kind, without kinds that are not served or have no schema. Raises `RequestFailed`;
        the known fields of unread kinds are kept.
        """
        for place in dict.fromkeys((api.group, api.version) for api in self._wanted):
            kinds = [api for api in self._wanted if (api.group, api.version) == place]
            try:
                answer = await self._client.get(requests.schemas(*place, etag=self._etags.get(place)))
            except NotModified:
                continue
            except NotFound:
                # Not served, or no longer served.
                read: dict[Api, frozenset[str]] = {}
                self._etags.pop(place, None)
            else:
                try:
                    read = _fields(answer.content, kinds)
                except Malformed as error:
                    raise RequestFailed(f"the schemas of {'/'.join(place)} cannot be read: {error}") from None
                self._etags[place] = answer.etag
            # Set together with the ETag, without an await in between: after a "not modified" answer the fields must be
            # here.
            self.known = {api: fields for api, fields in self.known.items() if api not in kinds} | read
        return self.known


def _fields(document: Any, kinds: Container[Api]) -> dict[Api, frozenset[str]]:
    read = ((api, spec_fields(schema)) for api, schema in kinds_in(document, kinds))
    return {api: fields for api, fields in read if fields is not None}


def kinds_in(document: Any, kinds: Container[Api]) -> Iterator[tuple[Api, Mapping[str, Any]]]:
    """Yield those of `kinds` that an OpenAPI document describes, with their schemas. Raises `Malformed`."""
    schemas = mapping(mapping(mapping(document).get("components")).get("schemas"))
    for schema in schemas.values():
        for named in sequence(mapping(schema).get(_KIND)):
            kind = mapping(named)
            api = Api(str(kind.get("group")), str(kind.get("version")), str(kind.get("kind")))
            if api in kinds:
                yield api, mapping(schema)
