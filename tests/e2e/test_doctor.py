"""`rollcall doctor` on a real cluster: an installation by our manifests has no findings, and each fault has exactly its
finding.

Each test breaks one thing and mends it. What other tests leave behind in namespaces of their own is theirs.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import KOORDINATOR, apply_crds, crd_files, further_crd_files, until_asked
from tests.e2e.control_plane import ADMIN, LIMITED, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.expired_server import ExpiredServer
from tests.e2e.fixture_types import Rollcall
from tests.e2e.programs import COMMAND, eventually, free_port
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.second_webhook import PlayedWebhook
from tests.e2e.workloads import two_cliques
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates
from webhook.cluster.access import find_access
from webhook.config.file import settings_from
from webhook.operations.api_checks import pod_field_kept
from webhook.operations.checks import EVERY_CHECK
from webhook.operations.diagnosis import Diagnosis, Severity, examine
from webhook.operations.snapshot import DryRunAnswer
from webhook.operations.snapshot_reader import read_world

_BOTH = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_NAMES = {_BOTH[0]: "m-rollcall", _BOTH[1]: "v-rollcall"}
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
# No container runs here, so no Deployment of a scheduler exists.
_AS_ALWAYS = {"schedulers/running", "accounts/there"}


class Installation:
    """A server and a reconciler, registered, and the doctor to look at them."""

    def __init__(self, plane: ControlPlane, server: RollcallServer, reconciler: ReconcilerProcess) -> None:
        self.plane = plane
        self.server = server
        self.reconciler = reconciler
        self._registered = {plural: self._configuration(plural) for plural in _BOTH}

    def diagnosis(self, config: Manifest = KOORDINATOR, token: str = ADMIN) -> Diagnosis:
        """What the doctor says, to the owner of a token."""
        access = find_access(self.plane.write_kubeconfig(token))
        return examine(asyncio.run(read_world(settings_from(config, "test"), access, ROLLCALL_NAMESPACE)), EVERY_CHECK)

    def told(self, config: Manifest = KOORDINATOR) -> set[str]:
        """The checks with a finding worse than a note, without those that always fail here."""
        found = self.diagnosis(config).problems
        kept = {one.check for one in found if one.level is not Severity.NOTE and " test-" not in one.symptom.where}
        return kept - _AS_ALWAYS

    def until_told(self, *checks: str) -> None:
        """Wait until exactly these checks have findings: the API server applies a change with a delay."""

        def as_wanted() -> bool:
            told = self.told()
            assert told == set(checks), f"told are {told}"
            return True

        eventually(as_wanted, f"{' and '.join(checks)} are told", pause=0.3)

    def command(self, *options: str) -> subprocess.CompletedProcess[str]:
        """The installed command, as a person runs it."""
        command = [COMMAND, "doctor", "--config", self.server.config, *options]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60, check=False)

    def change(self, change: Callable[[Manifest], None]) -> None:
        """Change each webhook of both configurations."""
        for plural in _BOTH:
            live = self._configuration(plural)
            for hook in live["webhooks"]:
                change(hook)
            self.plane.http.put(f"{_ADMISSION}/{plural}/{_NAMES[plural]}", json=live).raise_for_status()

    def mend(self) -> None:
        """Register it again as it was."""
        for plural, before in self._registered.items():
            self.plane.http.delete(f"{_ADMISSION}/{plural}/{_NAMES[plural]}")
            metadata = {"name": _NAMES[plural], "labels": before["metadata"]["labels"]}
            copy = {**before, "metadata": metadata}
            self.plane.http.post(f"{_ADMISSION}/{plural}", json=copy).raise_for_status()
        until_asked(self.plane)

    def _configuration(self, plural: str) -> Manifest:
        found: Manifest = self.plane.http.get(f"{_ADMISSION}/{plural}/{_NAMES[plural]}").json()
        return found


@pytest.fixture(scope="module")
def installation(
    version: str, control_plane: Callable[[str], ControlPlane], rollcall: Rollcall
) -> Iterator[Installation]:
    plane = control_plane(version)
    server, reconciler = rollcall(plane), ReconcilerProcess(plane, KOORDINATOR)
    reconciler.until_leading()
    yield Installation(plane, server, reconciler)
    reconciler.close()


@pytest.fixture
def mended(installation: Installation) -> Iterator[Installation]:
    """An installation whose webhook configurations a test may change."""
    yield installation
    installation.mend()


def test_the_doctor_finds_no_fault_in_an_installation_by_our_manifests(installation: Installation) -> None:
    diagnosis = installation.diagnosis()
    assert diagnosis.not_known == []
    assert installation.told() == set()

    def fine() -> bool:
        ran = installation.command("--kubeconfig", str(installation.plane.kubeconfig))
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
        return True

    # What others have left behind in their namespaces goes.
    eventually(fine, "the command says so, too", timeout=60)


def test_the_doctor_reports_faults_with_remedies_and_exits_with_1(mended: Installation) -> None:
    mended.plane.http.delete(f"{_ADMISSION}/{_BOTH[0]}/m-rollcall").raise_for_status()
    ran = mended.command("--kubeconfig", str(mended.plane.kubeconfig), "-o", "json")
    assert (ran.returncode, ran.stderr) == (1, "")
    found = [
        one for one in json.loads(ran.stdout)["findings"] if one["level"] == "error" and " test-" not in one["where"]
    ]
    assert [(one["check"], one["where"]) for one in found] == [
        ("webhooks/registered", "MutatingWebhookConfiguration m-rollcall")
    ]
    assert "kubectl apply" in found[0]["remedy"]


def test_a_served_certificate_of_another_authority_is_reported(mended: Installation, tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    other = b64encode((tmp_path / CA_FILE).read_bytes()).decode()
    mended.change(lambda hook: hook["clientConfig"].update(caBundle=other))
    mended.until_told("server/certificate", "webhooks/answered")
    (answered,) = (one for one in mended.diagnosis().problems if one.check == "webhooks/answered")
    assert "x509: certificate signed by unknown authority" in answered.symptom.observation


def test_an_expired_certificate_is_reported(mended: Installation, tmp_path: Path) -> None:
    server = ExpiredServer(tmp_path)
    try:
        mended.change(lambda hook: hook.update(clientConfig=server.client_config(hook["clientConfig"])))
        mended.until_told("server/certificate", "webhooks/answered")
        found = [one.symptom.observation for one in mended.diagnosis().problems if one.check == "server/certificate"]
        assert any(said.startswith("the certificate that is served expired at") for said in found)
    finally:
        server.close()


def test_a_webhook_that_was_changed_by_hand_is_reported_with_the_field(mended: Installation) -> None:
    def spoil(hook: Manifest) -> None:
        if hook["name"] == "pods.mutate.rollcall.dev":
            hook["failurePolicy"] = "Ignore"

    mended.change(spoil)
    (found,) = (one for one in mended.diagnosis().problems if one.check == "webhooks/as-printed")
    assert found.symptom.where == "MutatingWebhookConfiguration m-rollcall, pods.mutate.rollcall.dev"
    assert found.symptom.observation == 'failurePolicy is "Ignore" and not "Fail"'


def test_a_later_webhook_that_overwrites_our_patch_is_reported(installation: Installation) -> None:
    hook = {
        "name": "mpod-create.koordinator.sh",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "objectSelector": {"matchLabels": {"of-nobody": "true"}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    late = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "site-koordinator"}, "webhooks": [hook]}
    path = f"{_ADMISSION}/{_BOTH[0]}"
    installation.plane.http.post(path, json=late).raise_for_status()
    try:
        assert installation.told() == {"webhooks/order"}
    finally:
        installation.plane.http.delete(f"{path}/site-koordinator")


CONTAINER = {"name": "main", "image": "example.com/main"}
GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
# A policy that takes the label of a gang, and runs again after the webhooks have changed a pod.
STRIPPING_POLICY: list[Manifest] = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "strip"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
                ]
            },
            "matchConditions": [
                {"name": "labelled", "expression": f"'{GROUP_LABEL}' in object.metadata.?labels.orValue({{}})"}
            ],
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": f'[JSONPatch{{op: "remove", path: "/metadata/labels/{GROUP_LABEL}"}}]'},
                }
            ],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "strip"},
        "spec": {"policyName": "strip"},
    },
]


def _is_called(webhook: PlayedWebhook, ask: Callable[[], list[str]]) -> bool:
    ask()
    return webhook.calls > 0


def test_what_takes_a_pod_out_of_its_gang_after_rollcall_is_named(
    installation: Installation, namespace: str, tmp_path: Path
) -> None:
    installation.plane.apply(two_cliques("demo", namespace), check=True)
    where = f"the creation of a pod of PodCliqueSet {namespace}/demo (dry run)"

    def said() -> list[str]:
        diagnosis = installation.diagnosis()
        assert [one for one in diagnosis.not_known if one.check == "webhooks/pods-kept"] == []
        assert "webhooks/static" not in {one.check for one in diagnosis.problems}
        found = [one.symptom for one in diagnosis.problems if one.check == "webhooks/pods-kept"]
        assert {one.where for one in found} <= {where}
        return [one.observation for one in found]

    assert said() == []

    def strip(pod: Manifest) -> None:
        pod["metadata"].get("labels", {}).pop(GROUP_LABEL, None)

    # Rollcall is called again after another webhook, so only one that is called again, too, has the last word.
    for again, wanted in (("Never", []), ("IfNeeded", [f"metadata.labels[{GROUP_LABEL}] is missing"])):
        late = PlayedWebhook("z-strip", "strip.example.com", tmp_path / again, strip, reinvocationPolicy=again)
        try:
            installation.plane.apply(late.registration(), check=True)
            eventually(partial(_is_called, late, said), "the later webhook is called")
            assert said() == wanted
        finally:
            installation.plane.kubectl("delete", "mutatingwebhookconfiguration", "z-strip", check=True)
            late.close()
    if installation.plane.version in {"1.34", "1.35"}:
        return
    # A policy runs before all webhooks, so Rollcall restores what it takes in its second round.
    installation.plane.apply(*STRIPPING_POLICY, check=True)
    labels = {GROUP_LABEL: "mine", "app": "alone"}
    alone = {"metadata": {"name": "alone", "labels": labels}, "spec": {"containers": [CONTAINER]}}

    def active() -> bool:
        path = f"/api/v1/namespaces/{namespace}/pods"
        answer = installation.plane.http.post(path, params={"dryRun": "All"}, json=alone)
        assert answer.is_success, answer.text
        return bool(answer.json()["metadata"]["labels"] == {"app": "alone"})

    try:
        eventually(active, "the policy takes the label of another pod")
        assert said() == []
    finally:
        installation.plane.kubectl(
            "delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", "strip", check=True
        )


def test_a_profile_without_its_crd_is_reported(installation: Installation) -> None:
    name = "scheduler-plugins-scheduler"
    config = deepcopy(KOORDINATOR)
    config["scheduler"]["profiles"].append({"name": name})
    # The roles, and the hook for pods that name a scheduler, are those of the configuration without that profile.
    assert installation.told(config) == {"accounts/rights", "webhooks/as-printed"}
    installation.plane.kubectl("delete", "crd", "podgroups.scheduling.x-k8s.io", check=True)
    try:
        (found,) = (one.symptom for one in installation.diagnosis(config).problems if one.check == "kinds/served")
        assert (found.where, found.observation) == (
            f"profile {name}",
            "the cluster does not serve scheduling.x-k8s.io/v1alpha1 PodGroup",
        )
    finally:
        apply_crds(installation.plane, [path for path in crd_files() if path.name.startswith("scheduling.x-k8s.io")])


def test_a_workload_api_version_that_is_not_served_is_reported(installation: Installation) -> None:
    config = deepcopy(KOORDINATOR)
    older = {"gangScheduling": True, "apiGeneration": _ANOTHER[installation.plane.version]}
    config["scheduler"]["profiles"].append({"name": "default-scheduler", "config": older})
    found = [one.symptom for one in installation.diagnosis(config).problems if one.check == "kinds/workload-api"]
    assert [one.where for one in found] == [f"profile default-scheduler, apiGeneration {older['apiGeneration']}"]
    assert f"the API server v{installation.plane.version}." in found[0].observation


_ANOTHER = {"1.35": "v1beta1", "1.36": "v1alpha1", "1.37": "v1alpha2"}


@pytest.mark.every_version(since="1.35", soak=())
def test_the_doctor_tests_if_the_api_server_keeps_the_membership_of_a_pod(plane: ControlPlane) -> None:
    plane.kubectl("create", "namespace", ROLLCALL_NAMESPACE)
    config = deepcopy(KOORDINATOR)
    config["scheduler"]["profiles"].append({"name": "default-scheduler", "config": {"gangScheduling": True}})
    snapshot = asyncio.run(read_world(settings_from(config, "test"), find_access(plane.kubeconfig), ROLLCALL_NAMESPACE))
    assert isinstance(snapshot.grouped, DryRunAnswer)
    assert snapshot.grouped.stored is not None
    kept = {"schedulingGroup", "workloadRef"}.intersection(snapshot.grouped.stored["spec"])
    assert len(kept) == 1
    assert list(pod_field_kept.look(snapshot)) == []
    # As an API server with the gate off would answer.
    spec = {key: value for key, value in snapshot.grouped.stored["spec"].items() if key not in kept}
    assert list(pod_field_kept.look(replace(snapshot, grouped=DryRunAnswer({**snapshot.grouped.stored, "spec": spec}))))


def test_an_installation_behind_a_service_is_checked_by_its_objects(mended: Installation) -> None:
    """No server is reachable here, neither for the API server nor for the doctor: the stored objects tell the rest."""

    def by_service(hook: Manifest) -> None:
        path = f"/{hook['clientConfig']['url'].rpartition('/')[2]}"
        service = {"namespace": ROLLCALL_NAMESPACE, "name": "rollcall", "path": path}
        bundle = b64encode((mended.server.folder / CA_FILE).read_bytes()).decode()
        hook["clientConfig"] = {"service": service, "caBundle": bundle}

    mended.plane.apply(*_behind_a_service(mended.server.folder), check=True)
    mended.change(by_service)
    mended.until_told("webhooks/answered")
    mended.plane.kubectl("delete", "endpointslice,pdb,secret", "--all", "-n", ROLLCALL_NAMESPACE, check=True)
    found = mended.diagnosis()
    assert {one.check for one in found.problems} >= {
        "server/endpoints",
        "server/disruption-budget",
        "webhooks/answered",
    }
    (why,) = (one.why for one in found.not_known if one.check == "server/certificate")
    assert why.endswith("no server can be reached, and Secret rollcall-system/rollcall-tls is missing")
    mended.plane.kubectl("delete", "service", "rollcall", "-n", ROLLCALL_NAMESPACE, check=True)


def _behind_a_service(folder: Path) -> list[Manifest]:
    """A Service with two endpoints without servers, a budget, and the Secret of the serving certificate."""
    metadata: Manifest = {"name": "rollcall", "namespace": ROLLCALL_NAMESPACE}
    labels = {"app.kubernetes.io/name": "rollcall"}
    port = {"name": "https", "port": 443, "targetPort": 8443}
    files = {name: b64encode((folder / name).read_bytes()).decode() for name in (CERTIFICATE_FILE, KEY_FILE)}
    ready = [
        {"addresses": [f"10.244.0.{number}"], "nodeName": f"node-{number}", "conditions": {"ready": True}}
        for number in (1, 2)
    ]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [port]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "rollcall"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
            "endpoints": ready,
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**metadata, "name": "rollcall-tls"},
            "type": "kubernetes.io/tls",
            "data": files,
        },
    ]


def test_a_label_with_an_unknown_scheduler_is_reported(installation: Installation, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    labels = {"rollcall.dev/scheduler": "koord-schedular", "rollcall.dev/enforcement": "wran"}
    headers = {"Content-Type": "application/merge-patch+json"}
    installation.plane.http.patch(path, json={"metadata": {"labels": labels}}, headers=headers).raise_for_status()
    found = [one for one in installation.diagnosis().problems if one.symptom.where == f"Namespace {namespace}"]
    assert {one.check for one in found} == {"namespaces/scheduler", "namespaces/enforcement"}
    assert {one.level for one in found} == {Severity.ERROR}


def test_a_grove_version_with_podgangmaps_is_accepted(installation: Installation) -> None:
    files = further_crd_files("grove/next")
    apply_crds(installation.plane, files)
    try:
        assert installation.told() == set()
    finally:
        names = [yaml.safe_load(path.read_text())["metadata"]["name"] for path in files]
        installation.plane.kubectl("delete", "crd", *names, check=True)


def test_a_missing_reconciler_is_reported(installation: Installation) -> None:
    installation.reconciler.program.stop()
    try:
        (found,) = (one for one in installation.diagnosis().problems if one.check == "reconciler/leader")
        assert found.symptom.observation == "it has no holder"
    finally:
        installation.reconciler.program.start()
        installation.reconciler.until_leading()


def test_missing_read_rights_are_reported(installation: Installation) -> None:
    diagnosis = installation.diagnosis(token=LIMITED)
    unknown = {one.check: one.why for one in diagnosis.not_known}
    assert (
        "it takes the right to list mutatingwebhookconfigurations.admissionregistration.k8s.io"
        in (unknown["webhooks/registered"])
    )
    assert "get leases.coordination.k8s.io rollcall-reconciler in rollcall-system" in unknown["reconciler/leader"]
    assert "kinds/served" not in unknown
    kubeconfig = installation.plane.write_kubeconfig(LIMITED)
    ran = installation.command("--kubeconfig", str(kubeconfig))
    assert ran.returncode == 3, ran.stdout
    assert "not known webhooks/registered" in ran.stdout


def test_without_a_cluster_the_doctor_evaluates_nothing(installation: Installation, tmp_path: Path) -> None:
    config = yaml.safe_load(installation.plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    ran = installation.command("--kubeconfig", str(kubeconfig))
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("rollcall: cannot connect to the cluster: ConnectError: ")
