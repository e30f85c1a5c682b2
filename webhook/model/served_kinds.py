"""The kinds that a cluster serves, as its discovery document lists them.

Source: aggregated discovery (KEP-3352), apidiscovery.k8s.io/v2, APIGroupDiscovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.model.reading import Manifest, mapping, sequence, text

# The group and kind of one entry of the document, and the version that is written.
GROUP, VERSION, KIND = "apidiscovery.k8s.io", "v2", "APIGroupDiscovery"


def kinds_of(group: Manifest) -> Iterator[Resource]:
    """The kinds of one group. Raises `Malformed`."""
    name = text(mapping(group.get("metadata")).get("name")) or ""
    for version in map(mapping, sequence(group.get("versions"))):
        for resource in map(mapping, sequence(version.get("resources"))):
            kind = text(mapping(resource.get("responseKind")).get("kind"))
            api = Api(name, text(version.get("version")) or "", kind or "")
            yield Resource(api, text(resource.get("resource")) or "", resource.get("scope") != "Cluster")


def document_of(served: Iterable[Resource]) -> Manifest:
    """A discovery document that lists these kinds, and nothing else about them."""
    groups: dict[str, dict[str, list[Manifest]]] = {}
    for resource in sorted(served):
        api = resource.api
        entry = {
            "resource": resource.plural,
            "responseKind": {"group": api.group, "version": api.version, "kind": api.kind},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
        }
        groups.setdefault(api.group, {}).setdefault(api.version, []).append(entry)
    items = [
        {
            "metadata": {"name": group},
            "versions": [{"version": version, "resources": found} for version, found in versions.items()],
        }
        for group, versions in groups.items()
    ]
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": f"{KIND}List", "items": items}
