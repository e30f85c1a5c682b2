"""`rollcall manifests`: the printed objects, and refused options."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Run, documents
from webhook.certificates.files import CA_FILE, KEY_FILE, make_development_certificates

MANIFESTS = Path(__file__).parents[3] / "manifests"
CONFIGURATION = str(MANIFESTS / "configuration.yaml")


def test_the_configurations_are_printed_for_kubectl(rollcall: Run, tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    authority = (tmp_path / CA_FILE).read_bytes()
    # A careless concatenation: the key must not end up in the cluster.
    (tmp_path / "both.pem").write_bytes((tmp_path / KEY_FILE).read_bytes() + authority)
    command = ("manifests", "webhooks", "--service", "team/hook:8443", "--ca", f"{tmp_path}/both.pem")
    ran = rollcall(*command)
    assert (ran.code, ran.err) == (0, "")
    mutating, validating = documents(ran.out)
    assert [mutating["metadata"]["name"], validating["metadata"]["name"]] == ["m-rollcall", "v-rollcall"]
    config = mutating["webhooks"][0]["clientConfig"]
    assert config["service"] == {"namespace": "team", "name": "hook", "path": "/mutate", "port": 8443}
    assert base64.b64decode(config["caBundle"]) == authority
    assert json.loads(rollcall(*command, "-o", "json").out)["items"] == [mutating, validating]


def test_the_rights_are_printed_for_kubectl(rollcall: Run) -> None:
    command = ("manifests", "rbac", "--account", "team/hook", "--reconciler", "other/writer")
    found = documents(rollcall(*command).out)
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


def test_the_net_is_printed_for_kubectl_if_it_is_on(rollcall: Run, tmp_path: Path) -> None:
    file = tmp_path / "rollcall.yaml"
    head = "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
    file.write_text(f"{head}registration: {{net: Warn}}\n")
    ran = rollcall("manifests", "net", "--config", str(file), "--namespace", "team")
    assert (ran.code, ran.err) == (0, "")
    found = documents(ran.out)
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("ValidatingAdmissionPolicy", "rollcall-net"),
        ("ValidatingAdmissionPolicyBinding", "rollcall-net"),
        ("ValidatingAdmissionPolicyBinding", "rollcall-net-opted-in"),
    ]
    outside, _ = found[0]["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert outside["values"] == ["kube-system", "kube-node-lease", "team"]
    file.write_text(head)
    ran = rollcall("manifests", "net", "--config", str(file))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("rollcall: registration.net is off")
    assert ran.err.count("\n") == 1


OWN = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
certificates: {mode: selfManaged}
"""


def test_all_objects_are_printed_in_the_order_of_application(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "rollcall.yaml").write_text(OWN)
    found = documents(rollcall("manifests", "all", "--config", f"{tmp_path}/rollcall.yaml").out)
    name = next(one["metadata"]["name"] for one in found if one["kind"] == "ConfigMap")
    assert re.fullmatch(r"rollcall-[0-9a-f]{10}", name)
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("Namespace", "rollcall-system"),
        ("ServiceAccount", "rollcall"),
        ("ServiceAccount", "rollcall-reconciler"),
        ("ClusterRole", "rollcall-serve"),
        ("ClusterRoleBinding", "rollcall-serve"),
        ("ClusterRole", "rollcall-reconcile"),
        ("ClusterRoleBinding", "rollcall-reconcile"),
        ("Role", "rollcall-reconcile"),
        ("RoleBinding", "rollcall-reconcile"),
        ("ResourceQuota", "rollcall-critical-pods"),
        ("ConfigMap", name),
        ("Service", "rollcall"),
        ("Service", "rollcall-reconciler"),
        ("NetworkPolicy", "rollcall"),
        ("NetworkPolicy", "rollcall-reconciler"),
        ("Deployment", "rollcall"),
        ("PodDisruptionBudget", "rollcall"),
        ("Deployment", "rollcall-reconciler"),
        ("PodDisruptionBudget", "rollcall-reconciler"),
        ("MutatingWebhookConfiguration", "m-rollcall"),
        ("ValidatingWebhookConfiguration", "v-rollcall"),
    ]
    (configuration,) = (one for one in found if one["kind"] == "ConfigMap")
    assert configuration["data"] == {"configuration.yaml": OWN}
    assert configuration["immutable"] is True


def test_a_changed_configuration_gets_another_name(rollcall: Run, tmp_path: Path) -> None:
    """So a change of the configuration is a roll, and the old Pods keep theirs until they go."""
    names = set()
    for text in (OWN, OWN + "# a comment\n"):
        (tmp_path / "rollcall.yaml").write_text(text)
        printed = documents(rollcall("manifests", "all", "--config", f"{tmp_path}/rollcall.yaml").out)
        names |= {one["metadata"]["name"] for one in printed if one["kind"] == "ConfigMap"}
    assert len(names) == 2


def test_without_a_configuration_file_the_cluster_gets_none(rollcall: Run) -> None:
    found = documents(rollcall("manifests", "all", "-n", "team", "--image", "mine:1", "--replicas", "3").out)
    assert not any(one["kind"] == "ConfigMap" for one in found)
    assert {one["metadata"]["namespace"] for one in found if "namespace" in one["metadata"]} == {"team"}
    deployment, _ = (one for one in found if one["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 3
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        assert container["image"] == "mine:1"
        assert not any(argument.startswith("--config") for argument in container["args"])


def test_the_failure_policy_can_be_overridden_in_an_emergency(rollcall: Run) -> None:
    for command in ("webhooks", "all"):
        printed = documents(rollcall("manifests", command, "--failure-policy", "Ignore").out)
        policies = {hook["failurePolicy"] for one in printed for hook in one.get("webhooks", ())}
        assert policies == {"Ignore"}


def test_the_foreign_kinds_are_listed(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "rollcall.yaml").write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
        "scheduler: {profiles: [{name: kai-scheduler}]}\n"
    )
    command = ("manifests", "crds", "--config", f"{tmp_path}/rollcall.yaml")
    found = {one["name"]: one for one in json.loads(rollcall(*command, "-o", "json").out)}
    assert {name for name, one in found.items() if one["required"]} == {
        "podcliquesets.grove.io",
        "podgangs.scheduler.grove.io",
        "podgroups.scheduling.run.ai",
    }
    assert found["queues.scheduling.run.ai"] == {
        "name": "queues.scheduling.run.ai",
        "version": "v2",
        "wantedBy": ["kai-scheduler"],
        "required": False,
    }
    # What Kubernetes serves by itself is no CustomResourceDefinition.
    assert not any(name.partition(".")[2] in {"", "batch", "apps", "scheduling.k8s.io"} for name in found)
    told = rollcall(*command).out.splitlines()
    assert all(line.startswith("# ") for line in told)
    assert len(told) == len(found) + 1


def test_the_committed_manifests_are_up_to_date(rollcall: Run, tmp_path: Path) -> None:
    why = "run: rollcall manifests write manifests --config manifests/configuration.yaml"
    shutil.copytree(MANIFESTS / "monitoring", tmp_path / "monitoring")
    ran = rollcall("manifests", "write", f"{tmp_path}", "--config", f"{MANIFESTS}/configuration.yaml")
    assert ran.code == 0
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    made = {path: text for path, text in made.items() if path.parts[0] != "monitoring"}
    assert sorted(ran.out.split()) == sorted(str(tmp_path / path) for path in made)
    for path, text in made.items():
        assert (MANIFESTS / path).read_text() == text, why
    folders = {path.parts[0] for path in made}
    kept = (path for folder in folders for path in (MANIFESTS / folder).rglob("*") if path.is_file())
    assert {path.relative_to(MANIFESTS) for path in kept} == set(made), why


def test_each_value_of_the_chart_has_a_default_and_a_schema() -> None:
    chart = MANIFESTS / "chart"
    values = yaml.safe_load((chart / "values.yaml").read_text())
    schema = json.loads((chart / "values.schema.json").read_text())
    # Helm sets this value in a chart that is part of another. The configuration has its own schema.
    assert schema["properties"].pop("global") == {"type": "object"}
    schema["properties"]["configuration"] = {}
    sections = {"": (values, schema)}
    sections |= {key: (values[key], found) for key, found in schema["properties"].items() if "properties" in found}
    assert "ports" in sections
    for name, (defaults, found) in sections.items():
        assert found["additionalProperties"] is False, name
        assert sorted(defaults) == sorted(found["properties"]) == sorted(found["required"]), name


DIGEST = f"sha256:{'a' * 64}"
IMAGES = {
    "rollcall:1.0": {"name": "rollcall", "newName": "rollcall", "newTag": "1.0"},
    "rollcall": {"name": "rollcall", "newName": "rollcall"},
    "localhost:5000/rollcall": {"name": "localhost:5000/rollcall", "newName": "localhost:5000/rollcall"},
    "r.example:5000/a/rollcall:1": {
        "name": "r.example:5000/a/rollcall",
        "newName": "r.example:5000/a/rollcall",
        "newTag": "1",
    },
    f"r.example/rollcall@{DIGEST}": {
        "name": "r.example/rollcall",
        "newName": "r.example/rollcall",
        "digest": DIGEST,
    },
    f"r.example/rollcall:1@{DIGEST}": {
        "name": "r.example/rollcall",
        "newName": "r.example/rollcall",
        "digest": DIGEST,
    },
}


@pytest.mark.parametrize(("image", "expected"), IMAGES.items(), ids=IMAGES)
def test_the_image_is_split_so_that_kustomize_can_replace_it(
    rollcall: Run, tmp_path: Path, image: str, expected: dict[str, str]
) -> None:
    configuration = f"{MANIFESTS}/configuration.yaml"
    assert rollcall("manifests", "write", f"{tmp_path}", "--config", configuration, "--image", image).code == 0
    for variant in ("base", "self-managed"):
        (found,) = yaml.safe_load((tmp_path / variant / "kustomization.yaml").read_text())["images"]
        assert found == expected
        workloads = documents((tmp_path / variant / "workloads.yaml").read_text())
        (pod, *_) = (found["spec"]["template"]["spec"] for found in workloads if found["kind"] == "Deployment")
        assert {container["image"] for container in pod["containers"]} == {image}


@pytest.mark.parametrize(
    "text",
    [
        "certificates:\n  # Whose they are.\n  mode: files\n  renewAtPercent: 50\n",
        "certificates: {mode: selfManaged, renewAtPercent: 50}\n",
        "certificates: {renewAtPercent: 50}\n",
        "",
    ],
)
def test_each_variant_has_its_certificate_mode(rollcall: Run, tmp_path: Path, text: str) -> None:
    head = "# Mine.\napiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
    (tmp_path / "rollcall.yaml").write_text(head + text)
    assert rollcall("manifests", "write", f"{tmp_path}/out", "--config", f"{tmp_path}/rollcall.yaml").code == 0
    for variant, mode in (("base", "files"), ("self-managed", "selfManaged")):
        written = (tmp_path / "out" / variant / "configuration.yaml").read_text()
        asked = yaml.safe_load(head + text).get("certificates", {})
        assert yaml.safe_load(written)["certificates"] == {**asked, "mode": mode}


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
    "a failure policy that there is not": ("webhooks", "--failure-policy", "ignore"),
    "a namespace that is no name": ("all", "--namespace", "Rollcall"),
    "a namespace that others live in": ("all", "--namespace", "kube-system"),
    "a folder for a namespace that others live in": ("write", "out", "--config", CONFIGURATION, "-n", "default"),
    "no image": ("all", "--image", ""),
    "an image in two words": ("all", "--image", "rollcall 1"),
    "an image that brings more than itself": ("all", "--image", "rollcall:1\nhostNetwork: true"),
    "an image in capitals": ("all", "--image", "registry.example.com/Rollcall:1"),
    "a digest that is none": ("all", "--image", "rollcall@sha256:1"),
    "an image to write that is none": ("write", "out", "--config", CONFIGURATION, "--image", "rollcall:"),
    "a port of a URL that there is not": ("webhooks", "--url", "https://10.0.0.1:65536"),
    "no port at all": ("webhooks", "--url", "https://10.0.0.1:0"),
    "an address without its brackets": ("webhooks", "--url", "https://::1:8443"),
    "half of its brackets": ("webhooks", "--url", "https://[::1/"),
    "an account with a port": ("rbac", "--account", "team/hook:80"),
    "no replicas": ("all", "--replicas", "0"),
    "a place for the reconciler that there is not": ("all", "--reconciler", "beside"),
    "a folder to write to without a configuration": ("write", "out"),
    "two ports of the same number": ("all", "--health-port", "8443"),
    "a port of the privileged on a node": ("all", "--serving-port", "443", "--host-network"),
    "the kubelet's port on a node": ("all", "--serving-port", "10250", "--host-network"),
    "a port that no container has": ("all", "--serving-port", "0"),
    "a DNS policy that needs more": ("all", "--dns-policy", "None"),
    "a policy for Pods in the nodes' network": ("all", "--from", "10.0.0.0/8", "--host-network"),
    "a caller that is no network": ("all", "--from", "10.0.0.1/8"),
    "a caller that is an address": ("all", "--from", "10.0.0.1"),
    "an authority of callers of no kind": ("all", "--client-ca", "callers"),
    "names of callers without an authority": ("all", "--client-name", "kube-apiserver"),
    "a net of a namespace that there cannot be": ("net", "--namespace", "Team"),
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_impossible_registration_options_are_refused(rollcall: Run, arguments: tuple[str, ...]) -> None:
    ran = rollcall("manifests", *arguments)
    assert (ran.code, ran.out) == (2, "")
    # Each says what it is about: the option, or the file that it names.
    option = next((word for word in reversed(arguments) if word.startswith("-")), "--config")
    assert option in ran.err or arguments[-1] in ran.err


@pytest.mark.parametrize(
    "image",
    [
        "rollcall",
        "rollcall:0.1.0",
        "localhost:5000/team/roll_call--x:1",
        "[fd00::1]:5000/rollcall:V_1",
        "registry.example.com/a/b/rollcall:1@sha256:" + "0" * 64,
    ],
)
def test_every_valid_image_name_is_accepted(rollcall: Run, image: str) -> None:
    ran = rollcall("manifests", "all", "--image", image)
    assert (ran.code, ran.err) == (0, "")
    deployments = [one for one in documents(ran.out) if one["kind"] == "Deployment"]
    containers = [one for found in deployments for one in found["spec"]["template"]["spec"]["containers"]]
    assert {one["image"] for one in containers} == {image}


def test_an_external_server_can_have_an_ipv6_address(rollcall: Run) -> None:
    assert rollcall("manifests", "webhooks", "--url", "https://[fd00::1]:8443").code == 0


def test_account_names_can_have_dots_and_must_differ_if_one_holds_the_key(rollcall: Run, tmp_path: Path) -> None:
    accounts = ("--account", "team/roll.call", "--reconciler", "team/roll.call")
    assert rollcall("manifests", "rbac", *accounts).code == 0
    (tmp_path / "rollcall.yaml").write_text(OWN)
    ran = rollcall("manifests", "rbac", "--config", f"{tmp_path}/rollcall.yaml", *accounts)
    assert (ran.code, ran.out) == (2, "")
    assert "--reconciler" in ran.err


@pytest.mark.parametrize("option", ["--cert-manager", "--reconciler=sidecar"])
def test_options_that_contradict_the_certificate_mode_are_refused(rollcall: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "rollcall.yaml").write_text(OWN)
    ran = rollcall("manifests", "all", "--config", f"{tmp_path}/rollcall.yaml", option)
    assert (ran.code, ran.out) == (2, "")
    assert option.partition("=")[0] in ran.err


@pytest.mark.parametrize("link", ["base", "base/rights.yaml"])
def test_manifests_are_not_written_through_a_symlink(rollcall: Run, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = tmp_path / "out" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere if link == "base" else elsewhere / "file")
    ran = rollcall("manifests", "write", f"{tmp_path}/out", "--config", CONFIGURATION)
    assert ran.code == 2
    assert f"{place}: is a link" in ran.err
    assert list(elsewhere.iterdir()) == []
