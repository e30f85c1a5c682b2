"""The manifests of an installation, from each source: the command, the kustomizations, and the chart."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import redirect_stdout
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import program
from webhook.cli import run

MANIFESTS = Path(__file__).parents[2] / "manifests"
CHART = MANIFESTS / "chart"
VARIANTS = ("base", "cert-manager", "self-managed")
# Stand-ins for the kinds of cert-manager and of Prometheus' operator.
KINDS_OF_OTHERS = Path(__file__).parent / "kinds"
CLUSTER_WIDE = (
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "clusterroles",
    "clusterrolebindings",
)
HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}


def helm(*arguments: str | Path, stdin: str | None = None, kubeconfig: Path | None = None) -> tuple[int, str, str]:
    """Run Helm: its exit code and what it printed. The test is skipped if Helm is missing."""
    found = program("helm", "helm-3")
    if found is None:
        pytest.skip("there is no Helm; scripts/test-cluster builds it where its modules can be had")
    command = [str(part) for part in (found, *arguments)]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "HELM_PLUGINS": "/nowhere"}
    if kubeconfig is not None:
        environment["KUBECONFIG"] = str(kubeconfig)
    done = subprocess.run(
        command, input=stdin, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def template(values: Manifest, namespace: str = "rollcall-system", chart: Path = CHART) -> tuple[int, str, str]:
    """Render the chart with Helm for a current Kubernetes."""
    # Hooks are for the end.
    arguments = (
        "template",
        "rollcall",
        chart,
        "-n",
        namespace,
        "--kube-version",
        "1.37",
        "--no-hooks",
        "--values",
        "-",
    )
    return helm(*arguments, stdin=yaml.safe_dump(values))


def rendered(values: Manifest, namespace: str = "rollcall-system", chart: Path = CHART) -> list[Manifest]:
    """What the chart makes of values."""
    code, out, err = template(values, namespace, chart)
    assert code == 0, err
    return documents(out)


def removed(plane: ControlPlane, *namespaces: str) -> None:
    """Remove all objects of Rollcall, and wait until they are deleted."""
    plane.kubectl("delete", "namespace", *namespaces, "--ignore-not-found", check=True)
    plane.kubectl("delete", ",".join(CLUSTER_WIDE), "-l", "app.kubernetes.io/part-of=rollcall", check=True)


def printed(folder: Path, config: Manifest, *options: str) -> list[Manifest]:
    """What the command prints for a configuration."""
    file = folder / "rollcall.yaml"
    file.write_text(yaml.safe_dump({**HEAD, **config}))
    with redirect_stdout(StringIO()) as out:
        assert run(["manifests", "all", "--config", str(file), *options]) == 0
    return documents(out.getvalue())


def documents(text: str) -> list[Manifest]:
    """The objects in a text."""
    return [found for found in yaml.safe_load_all(text) if found]


def said(manifests: Iterable[Manifest]) -> dict[tuple[str, str], Any]:
    """What manifests say, whatever its order and the configuration's own name; without the namespace, which Helm is
    given.
    """
    found: dict[tuple[str, str], Any] = {}
    for manifest in manifests:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind == "Namespace":
            continue
        said_of = deepcopy(manifest)
        if kind == "ConfigMap":
            name = said_of["metadata"]["name"] = "rollcall-configuration"
            said_of["data"] = {file: yaml.safe_load(text) for file, text in said_of["data"].items()}
        elif kind in {"Role", "ClusterRole"}:
            said_of["rules"] = rights(manifest)
        elif kind.endswith("WebhookConfiguration"):
            said_of["webhooks"] = {hook["name"]: hook for hook in said_of["webhooks"]}
        elif kind == "ValidatingAdmissionPolicy":
            said_of["spec"]["validations"] = {one["expression"]: one for one in said_of["spec"]["validations"]}
        elif kind == "Deployment":
            for volume in said_of["spec"]["template"]["spec"]["volumes"]:
                if volume["name"] == "configuration":
                    volume["configMap"]["name"] = "rollcall-configuration"
        assert (kind, name) not in found
        found[kind, name] = said_of
    return found


def rights(role: Manifest) -> set[tuple[str, ...]]:
    """Each right of a role: group, resource, name, verb."""
    return {
        (group, resource, name, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ("",))
        for verb in rule["verbs"]
    }
