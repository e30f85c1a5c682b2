"""What the controllers of other projects differ in: programs, configurations, names of their webhooks.

`scripts/test-cluster` builds the programs and copies the manifests of their modules beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.e2e.control_plane import Manifest
from tests.e2e.programs import folder_of


class Ports(NamedTuple):
    """Where a program answers: its health on one port, its webhooks on the other."""

    health: int
    webhook: int


class System(NamedTuple):
    """One controller. `module` is its folder among the programs."""

    name: str
    module: str
    program: str
    # The API version of its configuration file; KubeRay has options instead.
    configuration: str = ""
    # How an installation names its two webhook configurations.
    mutating: str = ""
    validating: str = ""
    # As its own Kustomize patches narrow the webhooks for pods: to pods with this label.
    pods_with: str = ""
    # Systems whose kinds it watches.
    watches: tuple[str, ...] = ()

    @property
    def executable(self) -> Path | None:
        """The program, or None where it is not built."""
        folder = folder_of(self.module)
        found = None if folder is None else folder / self.program
        return found if found is not None and found.is_file() else None

    @property
    def manifests(self) -> Path | None:
        """The folder with its CRDs (`crds`), webhooks (`webhooks.yaml`) and runtimes, or None where it is not built."""
        folder = folder_of(self.module)
        found = None if folder is None else folder / "manifests"
        return found if found is not None and found.is_dir() else None


def _named(prefix: str) -> tuple[str, str]:
    return f"{prefix}-mutating-webhook-configuration", f"{prefix}-validating-webhook-configuration"


SYSTEMS = {
    system.name: system
    for system in (
        System(
            "jobset",
            "jobset-0.12",
            "jobset",
            "config.jobset.x-k8s.io/v1alpha1",
            *_named("jobset"),
            pods_with="jobset.sigs.k8s.io/jobset-name",
        ),
        System(
            "lws",
            "lws-0.9",
            "lws",
            "config.lws.x-k8s.io/v1alpha1",
            *_named("lws"),
            pods_with="leaderworkerset.sigs.k8s.io/name",
        ),
        System(
            "trainer",
            "trainer-2.2",
            "trainer-controller-manager",
            "config.trainer.kubeflow.org/v1alpha1",
            "defaulter.trainer.kubeflow.org",
            "validator.trainer.kubeflow.org",
            # The PodGroups of its plugins are in every control plane.
            watches=("jobset",),
        ),
        # Its webhooks only validate, and are off unless an installation turns them on.
        System("kuberay", "kuberay-1.6", "ray-operator"),
        System("kueue", "kueue-0.19", "kueue", "config.kueue.x-k8s.io/v1beta2", *_named("kueue")),
    )
}


def crd_files_of(name: str) -> list[Path]:
    """The CustomResourceDefinitions of a system's own module; none where it is not built, or is another system."""
    system = SYSTEMS.get(name)
    folder = None if system is None else system.manifests
    return [] if folder is None else sorted((folder / "crds").glob("*.yaml"))


def runtime_files() -> dict[str, Path]:
    """The runtimes that come with Trainer, by file name: `torch_distributed`."""
    folder = SYSTEMS["trainer"].manifests
    return {} if folder is None else {path.stem: path for path in sorted((folder / "runtimes").glob("*.yaml"))}


def configuration(system: System, ports: Ports, certificates: Path) -> Manifest:
    """The content of its configuration file, with leader election and metrics off."""
    common: Manifest = {
        "apiVersion": system.configuration,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports.health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": ports.webhook, "host": "127.0.0.1", "certDir": str(certificates)},
    }
    if system.name == "trainer":
        # It reads its certificates below TMPDIR.
        del common["webhook"]["certDir"]
        common["metrics"]["secureServing"] = False
        return {**common, "certManagement": {"enable": False}}
    return {**common, "internalCertManagement": {"enable": False}}


def options(system: System, ports: Ports, more: Mapping[str, str]) -> list[str]:
    """The command line of one that has no configuration file, with `more` options."""
    assert system.name == "kuberay"
    return [
        *(f"--{name}={value}" for name, value in more.items()),
        f"--health-probe-bind-address=127.0.0.1:{ports.health}",
        "--metrics-addr=0",
        "--enable-leader-election=false",
    ]
