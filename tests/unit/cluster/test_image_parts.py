"""The parts of the `kubernetes` package that the image omits are never imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

# As the Dockerfile removes them; of the models the list alone is kept.
LEFT_OUT = re.compile(r"kubernetes\.(aio|client\.api)(\.|$)|kubernetes\.client\.models\.")
_READ = """
import sys
from pathlib import Path
from webhook.cluster.access import find
access = find(Path(sys.argv[1]), None)
print(access.authorization())
print(*(name for name in sys.modules if f"{name}.".startswith("kubernetes.")))
"""


@pytest.mark.parametrize("user", [{"token": "secret"}, {"username": "alice", "password": "secret"}, {}])
def test_a_kubeconfig_is_read_without_the_modules_that_the_image_omits(tmp_path: Path, user: dict[str, str]) -> None:
    file = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "one", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "current-context": "one",
    }
    file.write_text(yaml.safe_dump(config))
    ran = subprocess.run([sys.executable, "-c", _READ, str(file)], capture_output=True, text=True, check=True)
    _, imported = ran.stdout.splitlines()
    assert "kubernetes.client.configuration" in imported.split()
    assert [name for name in imported.split() if LEFT_OUT.match(name)] == []
