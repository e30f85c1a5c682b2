"""Kubeconfigs of one cluster and one user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


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
