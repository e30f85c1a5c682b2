"""Real schedulers beside a control plane, with only the plugins that gangs need."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import Program, program

# As Koordinator's own configuration (config/manager/scheduler-config.yaml, v1.8.0), without the plugins that need its
# node agent.
_COSCHEDULING = (
    "preEnqueue",
    "preFilter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "postBind",
)
_ELASTIC_QUOTA = ("preFilter", "postFilter", "reserve")
# By default a scheduler sends 50 requests a second, and hundreds of gangs would wait for that.
_FAST = {"qps": 1000, "burst": 2000}


def start_scheduler(plane: ControlPlane, name: str) -> Program:
    """Start `kube`, `kube of two names`, `koordinator`, the same with one of two ways of its quotas, or
    `scheduler-plugins`. Raises FileNotFoundError where there is no program of it.
    """
    starts = {
        "kube": _kube,
        "kube of two names": _kube_of_two_names,
        "koordinator": _koordinator,
        "koordinator with quotas": lambda plane: _koordinator(plane, {"enableRuntimeQuota": False}),
        "koordinator with runtime quotas": lambda plane: _koordinator(plane, {"enableRuntimeQuota": True}),
        "scheduler-plugins": _scheduler_plugins,
    }
    return starts[name](plane)


def _kube(plane: ControlPlane) -> Program:
    fast = (f"--kube-api-{option}={number}" for option, number in _FAST.items())
    return _start_kube(plane, f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", *fast)


# Under which kube-scheduler is to be had as well, where it has two names.
SECOND_NAME = "batch-scheduler"


def _kube_of_two_names(plane: ControlPlane) -> Program:
    """One process with two profiles, which differ in nothing but their names."""
    config = plane.folder / "kube-scheduler.yaml"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
        "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": SECOND_NAME}],
    }
    config.write_text(yaml.safe_dump(content))
    return _start_kube(plane, f"--config={config}")


def _start_kube(plane: ControlPlane, *options: str) -> Program:
    found = program("kube-scheduler", f"kube-{plane.version}")
    if found is None:
        raise FileNotFoundError(f"there is no kube-scheduler among the programs of Kubernetes {plane.version}")
    command: list[str | Path] = [found, *options, "--secure-port=0", f"--feature-gates={plane.gates}"]
    # v1.35.4 panics now and then (nil pointer in podGroupInfo.UnscheduledPods): seen when pods of a gang were deleted.
    return plane.workplace.start("kube-scheduler", command, revived=plane.version == "1.35")


def start_behind(plane: ControlPlane, kubeconfig: Path) -> Program:
    """Start koord-scheduler with that way to the API server. Raises FileNotFoundError as `start_scheduler` does."""
    return _koordinator(plane, kubeconfig=kubeconfig)


def _koordinator(plane: ControlPlane, quotas: Manifest | None = None, kubeconfig: Path | None = None) -> Program:
    """`quotas` are arguments of the plugin ElasticQuota, which is off without any."""
    kubeconfig = kubeconfig or plane.kubeconfig
    found = program("koord-scheduler", "koordinator-1.8")
    if found is None:
        raise FileNotFoundError("there is no koord-scheduler among the programs")
    config = kubeconfig.with_suffix(".koord-scheduler.yaml")
    plugins: Manifest = {point: {"enabled": [{"name": "Coscheduling"}]} for point in _COSCHEDULING}
    plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]}
    arguments = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "CoschedulingArgs",
        "awareNetworkTopology": True,
    }
    configs = [{"name": "Coscheduling", "args": arguments}]
    if quotas is not None:
        for point in _ELASTIC_QUOTA:
            plugins.setdefault(point, {"enabled": []})["enabled"].append({"name": "ElasticQuota"})
        api = "kubescheduler.config.k8s.io/v1"
        configs.append({"name": "ElasticQuota", "args": {"apiVersion": api, "kind": "ElasticQuotaArgs", **quotas}})
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), **_FAST},
        "profiles": [{"schedulerName": "koord-scheduler", "plugins": plugins, "pluginConfig": configs}],
    }
    config.write_text(yaml.safe_dump(content))
    command: list[str | Path] = [
        found,
        f"--config={config}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
        "--enable-network-topology-manager=true",
        "--secure-port=0",
        "--port=0",
        "-v=4",
    ]
    # v1.8.0 panics now and then ("assignment to entry in nil map", in the queue's runPreEnqueuePlugin): seen when a pod
    # that was being scheduled changed its gates.
    return plane.workplace.start("koord-scheduler", command, revived=True)


def _scheduler_plugins(plane: ControlPlane) -> Program:
    found = program("scheduler-plugins", "scheduler-plugins-0.34")
    if found is None:
        raise FileNotFoundError("there is no scheduler of scheduler-plugins among the programs")
    config = plane.folder / "scheduler-plugins.yaml"
    # As its chart makes it (manifests/install/charts, v0.34.7), with Coscheduling alone.
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}}
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), **_FAST},
        "profiles": [{"schedulerName": "scheduler-plugins-scheduler", "plugins": plugins}],
    }
    config.write_text(yaml.safe_dump(content))
    command: list[str | Path] = [found, f"--config={config}", "--secure-port=0", "-v=4"]
    return plane.workplace.start("scheduler-plugins", command)
