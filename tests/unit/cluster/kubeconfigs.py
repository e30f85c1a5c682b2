"""Kubeconfigs of one cluster and one user, and a first request to a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import yaml

from tests.waiting import LIMIT_SECONDS
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.requests import ApiRequest


def kubeconfig(folder: Path, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    """A kubeconfig in `folder` with this user and this cluster."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://cluster:6443/", **cluster}}],
        "users": [{"name": "u", "user": {"token": "token"} if user is None else user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
    }
    path.write_text(yaml.safe_dump(content))
    return path


def version(access: Access) -> Any:
    """What the API server answers about its version."""

    async def asked() -> Any:
        client = Client(access, connect_seconds=LIMIT_SECONDS)
        try:
            return (await client.get(ApiRequest("/version"))).content
        finally:
            await client.close()

    return asyncio.run(asked())
