"""The parts of the `kubernetes` package that the image omits are never imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.unit.cluster.kubeconfigs import kubeconfig

# As the Dockerfile removes them; of the models the list alone is kept.
LEFT_OUT = re.compile(r"kubernetes\.(aio|client\.api)(\.|$)|kubernetes\.client\.models\.")
_READ = """
import sys
from pathlib import Path
from webhook.cluster.access import find_access
for kubeconfig in sys.argv[1:]:
    print(find_access(Path(kubeconfig), None).authorization())
print(*(name for name in sys.modules if f"{name}.".startswith("kubernetes.")))
"""


def test_kubeconfigs_are_read_without_the_modules_that_the_image_omits(tmp_path: Path) -> None:
    files = []
    for name, user in {"token": {"token": "a"}, "password": {"username": "b", "password": "c"}, "none": {}}.items():
        (tmp_path / name).mkdir()
        files.append(str(kubeconfig(tmp_path / name, user)))
    ran = subprocess.run([sys.executable, "-c", _READ, *files], capture_output=True, text=True, check=True)
    *credentials, imported = ran.stdout.splitlines()
    assert credentials == ["Bearer a", "Basic Yjpj", "None"]
    assert "kubernetes.client.configuration" in imported.split()
    assert [name for name in imported.split() if LEFT_OUT.match(name)] == []
