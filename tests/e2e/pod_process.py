"""`python -m tests.e2e.pod_process FOLDER COMMAND...`: `rollcall COMMAND` as it runs in a pod.

A process outside of a cluster needs a kubeconfig, and with it the package `kubernetes`, which takes 35 MB. A pod does
not have it loaded. So what is measured finds the cluster by its environment and by the files of its service account.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webhook.cluster import access

if TYPE_CHECKING:
    # It would take memory of the process that is measured.
    from tests.e2e.control_plane import ControlPlane


def mounted(folder: Path, plane: ControlPlane, token: str, namespace: str) -> Mapping[str, str]:
    """Write what a pod has of its service account into a new folder, and return the environment that goes with it."""
    folder.mkdir()
    (folder / "token").write_text(token)
    (folder / "namespace").write_text(namespace)
    shutil.copy(plane.ca, folder / "ca.crt")
    url = urlsplit(plane.url)
    return {"KUBERNETES_SERVICE_HOST": url.hostname or "", "KUBERNETES_SERVICE_PORT": str(url.port)}


def main() -> None:
    folder, *arguments = sys.argv[1:]
    access.SERVICE_ACCOUNT = Path(folder)
    from webhook.cli import main as rollcall

    rollcall(arguments)


if __name__ == "__main__":
    main()
