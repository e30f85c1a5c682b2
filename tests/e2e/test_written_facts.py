"""`rollcall facts`, `check --facts` and `check --live` on a real cluster: they answer as its webhook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.command import run_here
from tests.e2e.control_plane import ADMIN, READER, ControlPlane, Manifest
from tests.e2e.fixture_types import Grove
from tests.e2e.rollcall_server import RollcallServer, rollcall
from tests.e2e.workloads import clique, pod_clique_set, two_cliques

QUOTA = "scheduling.grove.io/koordinator-quota"
SECRET = "hunter2"


@pytest.fixture
def few_rights(plane: ControlPlane) -> Iterator[Path]:
    """A kubeconfig of a user who may list namespaces, and nothing else."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "namespaces-only"}
    api = "rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}]
    named = {"name": "namespaces-only"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": READER}
    plane.apply(
        {"apiVersion": api, "kind": "ClusterRole", "metadata": named, "rules": rules},
        {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": named, "roleRef": role, "subjects": [user]},
        check=True,
    )
    yield plane.write_kubeconfig(READER)
    for kind in ("clusterrolebinding", "clusterrole"):
        plane.kubectl("delete", kind, "namespaces-only", check=True)


def checked(manifest: Manifest, folder: Path, server: RollcallServer, *options: str | Path) -> Any:
    """The report of `rollcall check`, with the configuration of the server."""
    path = folder / "set.yaml"
    path.write_text(yaml.safe_dump(manifest))
    done = run_here("check", "--config", server.config, "-o", "json", *options, path)
    assert done.returncode in {0, 1}, done.stderr
    return json.loads(done.stdout)


def findings(report: Any) -> list[tuple[str, str]]:
    return [(found["rule"], found["found"]) for found in report["findings"]]


def test_facts_of_a_cluster_answer_as_its_webhook(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove, tmp_path: Path, few_rights: Path
) -> None:
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": f"quota-{namespace}", "namespace": namespace},
        # As much as the three pods of a set request, and not more.
        "spec": {"max": {"cpu": "3"}, "min": {"cpu": "1"}},
    }
    plane.apply(quota, check=True)
    in_quota = {QUOTA: f"quota-{namespace}"}
    stored = two_cliques("demo", namespace, annotations=in_quota)
    container = stored["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]
    container["env"] = [{"name": "TOKEN", "value": SECRET}]
    created = plane.apply(stored, options=("--dry-run=server",), check=True)
    assert "Warning: " not in created.err
    grove(stored).create()
    admin = plane.write_kubeconfig(ADMIN)
    folder = tmp_path / "cluster"
    told = rollcall("facts", "--kubeconfig", admin, "-o", folder)
    assert f"{folder}/elasticquotas.scheduling.sigs.k8s.io.yaml: " in told
    written = "".join(path.read_text() for path in folder.iterdir())
    assert SECRET not in written
    assert "last-applied" not in written

    # What the webhook refuses is refused with the same rule, what it warns about is found with the same words, and what
    # it admits without a word, also again, is clean.
    wrong = two_cliques("other", namespace, annotations={QUOTA: "nobody-has-it"})
    assert f"metadata.annotations[{QUOTA}]: koordinator/quota: " in plane.apply(wrong).err
    large = pod_clique_set("large", namespace, clique("worker", 4), annotations=in_quota)
    warned = plane.apply(large, check=True).err
    assert "Warning: fit/quota at " in warned
    ways: list[list[str | Path]] = [["--facts", folder], ["--live", "--kubeconfig", admin]]
    for known in ways:
        refused = checked(wrong, tmp_path, server, *known)
        assert findings(refused) == [("koordinator/quota", "nobody-has-it")]
        assert refused["notJudged"] == []
        (found,) = checked(large, tmp_path, server, *known)["findings"]
        assert f"Warning: {found['message']}" in warned
        again = checked(deepcopy(stored), tmp_path, server, *known)
        assert (again["findings"], again["notJudged"]) == ([], [])

    # Without the right to list quotas the rule is not judged, and the line names that right.
    blind = checked(wrong, tmp_path, server, "--live", "--kubeconfig", few_rights)
    assert findings(blind) == []
    (missing,) = [one for one in blind["notJudged"] if one["rule"] == "koordinator/quota"]
    assert missing["remedy"] == (
        "ask for the right to list elasticquotas.scheduling.sigs.k8s.io, or for a folder that `rollcall facts -o DIR` "
        "wrote, and give it with --facts"
    )
    done = run_here("facts", "--kubeconfig", few_rights, "-o", tmp_path / "few")
    assert done.returncode == 3
    assert "elasticquotas.scheduling.sigs.k8s.io could not be read: HTTP 403: " in done.stderr
    assert (tmp_path / "few" / "namespaces.yaml").exists()
    assert not (tmp_path / "few" / "elasticquotas.scheduling.sigs.k8s.io.yaml").exists()


def test_the_field_names_and_served_kinds_of_a_cluster_are_written(plane: ControlPlane, tmp_path: Path) -> None:
    rollcall("facts", "--kubeconfig", plane.write_kubeconfig(ADMIN), "-o", tmp_path)
    definitions = yaml.safe_load((tmp_path / "customresourcedefinitions.apiextensions.k8s.io.yaml").read_text())
    by_name = {one["metadata"]["name"]: one for one in definitions["items"]}
    (version,) = by_name["podcliquesets.grove.io"]["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert {"replicas", "template"} <= spec["properties"].keys()
    served = yaml.safe_load((tmp_path / "apigroups.yaml").read_text())
    assert {"grove.io", "scheduling.k8s.io"} <= {group["metadata"]["name"] for group in served["items"]}
