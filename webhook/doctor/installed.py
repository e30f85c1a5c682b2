"""The configuration that an installation runs with, read from what its server mounts.

Checks use it if no file is given: an operator on call may have no file, or the wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import httpx

from webhook.cluster import requests
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.config.defaults import default_settings
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.config.shadow_section import named_files
from webhook.doctor.deployments import pod_of
from webhook.doctor.parts import DEPLOYMENTS
from webhook.errors import RequestFailed
from webhook.installation.containers import CONFIGURATION_FILE, CONFIGURATION_VOLUME
from webhook.installation.names import SERVER
from webhook.model.kubernetes_kinds import CONFIG_MAPS
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.sources.limits import Problem
from webhook.sources.yaml_values import documents_of


class Installed(NamedTuple):
    """The installed configuration. If it could not be found: all backends with defaults, and the reason in
    `unknown`.
    """

    settings: Settings
    unknown: str = ""


async def installed_settings(
    access: Access, namespace: str, transport: httpx.AsyncBaseTransport | None = None
) -> Installed:
    """The settings of the installation in that namespace. Raises `ConfigurationError` if its file is invalid."""
    client = Client(access, transport)
    try:
        return await _read(client, namespace)
    except (RequestFailed, Malformed) as error:
        return Installed(default_settings(), str(error))
    finally:
        await client.close()


async def _read(client: Client, namespace: str) -> Installed:
    deployment = (await client.get(requests.read(DEPLOYMENTS.resource, SERVER, namespace))).content
    name = _mounted(deployment)
    if name is None:
        # Without a file both processes run with their defaults.
        return Installed(default_settings())
    held = (await client.get(requests.read(CONFIG_MAPS, name, namespace))).content
    source, data = f"ConfigMap {namespace}/{name}", mapping(mapping(held).get("data"))
    document = _document(data, CONFIGURATION_FILE, source)
    shadows = {
        file: settings_from(_document(data, file, source), f"{source}, {file}", shadow_files=None)
        for file in named_files(document)
        if file in data
    }
    return Installed(settings_from(document, source, shadow_files=shadows))


def _document(data: Mapping[str, object], file: str, source: str) -> object:
    """The only document of a file in a ConfigMap. Raises `RequestFailed` if it is not there or is not YAML."""
    content = text(data.get(file))
    if content is None:
        raise RequestFailed(f"{source} has no {file}")
    try:
        documents = [document.value for document in documents_of(content)]
    except Problem as error:
        raise RequestFailed(f"{source} is not YAML: {error}") from None
    return documents[0] if len(documents) == 1 else None


def _mounted(deployment: Manifest) -> str | None:
    """The name of the ConfigMap that holds the server's configuration file."""
    for volume in map(mapping, sequence(pod_of(deployment).get("volumes"))):
        if volume.get("name") == CONFIGURATION_VOLUME:
            return text(mapping(volume.get("configMap")).get("name"))
    return None
