"""`rollcall manifests`: what is printed, and what is no address."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Run
from webhook.certificates import CA_FILE, KEY_FILE, make_development_certificates


def test_the_configurations_are_printed_for_kubectl(rollcall: Run, tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    authority = (tmp_path / CA_FILE).read_bytes()
    # A careless concatenation: the key must not end up in the cluster.
    (tmp_path / "both.pem").write_bytes((tmp_path / KEY_FILE).read_bytes() + authority)
    command = ("manifests", "webhooks", "--service", "team/hook:8443", "--ca", f"{tmp_path}/both.pem")
    ran = rollcall(*command)
    assert (ran.code, ran.err) == (0, "")
    mutating, validating = yaml.safe_load_all(ran.out)
    assert [mutating["metadata"]["name"], validating["metadata"]["name"]] == ["m-rollcall", "v-rollcall"]
    config = mutating["webhooks"][0]["clientConfig"]
    assert config["service"] == {"namespace": "team", "name": "hook", "path": "/mutate", "port": 8443}
    assert base64.b64decode(config["caBundle"]) == authority
    assert json.loads(rollcall(*command, "-o", "json").out)["items"] == [mutating, validating]


def test_the_rights_are_printed_for_kubectl(rollcall: Run) -> None:
    command = ("manifests", "rbac", "--account", "team/hook", "--reconciler", "other/writer")
    found = list(yaml.safe_load_all(rollcall(*command).out))
    assert [(one["kind"], one["metadata"]["name"], one["metadata"].get("namespace")) for one in found] == [
        ("ClusterRole", "rollcall-serve", None),
        ("ClusterRoleBinding", "rollcall-serve", None),
        ("ClusterRole", "rollcall-reconcile", None),
        ("ClusterRoleBinding", "rollcall-reconcile", None),
        ("Role", "rollcall-reconcile", "other"),
        ("RoleBinding", "rollcall-reconcile", "other"),
    ]
    assert found[1]["subjects"] == [{"kind": "ServiceAccount", "namespace": "team", "name": "hook"}]
    assert found[5]["subjects"] == [{"kind": "ServiceAccount", "namespace": "other", "name": "writer"}]


def test_the_net_is_printed_for_kubectl_where_there_is_one(rollcall: Run, tmp_path: Path) -> None:
    file = tmp_path / "rollcall.yaml"
    head = "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
    file.write_text(f"{head}registration: {{net: Warn}}\n")
    ran = rollcall("manifests", "net", "--config", str(file), "--namespace", "team")
    assert (ran.code, ran.err) == (0, "")
    found = list(yaml.safe_load_all(ran.out))
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("ValidatingAdmissionPolicy", "rollcall-net"),
        ("ValidatingAdmissionPolicyBinding", "rollcall-net"),
        ("ValidatingAdmissionPolicyBinding", "rollcall-net-opted-in"),
    ]
    outside, _ = found[0]["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert outside["values"] == ["kube-system", "kube-node-lease", "team"]
    file.write_text(head)
    assert rollcall("manifests", "net", "--config", str(file)) == (
        0,
        "",
        "rollcall: registration.net is off: there is nothing to print\n",
    )


WRONG = {
    "a Service without a namespace": ("webhooks", "--service", "rollcall"),
    "a Service that begins with a digit": ("webhooks", "--service", "team/1hook"),
    "a port that there is not": ("webhooks", "--service", "team/hook:65536"),
    "a port of none": ("webhooks", "--service", "team/hook:0"),
    "no TLS": ("webhooks", "--url", "http://localhost:8443"),
    "a user in the URL": ("webhooks", "--url", "https://me@localhost"),
    "a query in the URL": ("webhooks", "--url", "https://localhost/?a=b"),
    "an authority that is none": ("webhooks", "--ca", "pyproject.toml"),
    "an authority that is not there": ("webhooks", "--ca", "absent.crt"),
    "a configuration that is not there": ("webhooks", "--config", "absent.yaml"),
    "an account without a namespace": ("rbac", "--account", "rollcall"),
    "a reconciler's account without a namespace": ("rbac", "--reconciler", "rollcall"),
    "a net of a namespace that there cannot be": ("net", "--namespace", "Team"),
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_what_cannot_be_registered_is_refused(rollcall: Run, arguments: tuple[str, ...]) -> None:
    ran = rollcall("manifests", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err
