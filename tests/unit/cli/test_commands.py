"""The other commands, and how every command handles a mistake."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.cli.conftest import Run, unframed
from tests.waiting import LIMIT_SECONDS
from webhook import __version__
from webhook.cli.rule_text import every_rule, print_rules
from webhook.offline.report_summary import summary

CHECKOUT = Path(__file__).parents[3]


def test_every_rule_is_listed_on_a_separate_line(rollcall: Run) -> None:
    lines = rollcall("rules").out.splitlines()
    assert lines == sorted(set(lines), key=lines.index)
    found = {line.split()[0]: line.split()[1] for line in lines}
    assert found["koordinator/mnnvl"] == "deny"
    assert found["grove/clique-name-suffix"] == "warn"


def test_the_facts_of_an_example_are_shown_as_yaml(rollcall: Run) -> None:
    out = rollcall("rules", "owner/train-job-alone").out
    assert "#   namespaces:\n#     default:\n#       labels: {rollcall.dev/scheduler: koord-scheduler}" in out
    assert "#             - name: node\n" in out
    assert "'" not in out.split("found in:")[1].split("message:")[0]


def test_one_rule_is_shown_with_source_and_examples(rollcall: Run) -> None:
    out = rollcall("rules", "koordinator/only-waiting").out
    assert out.startswith("koordinator/only-waiting (deny)\n")
    assert "Source: koordinator-sh/koordinator" in out
    assert "# profile: {matchPolicy: only-waiting}" in out
    assert "kind: PodCliqueSet" in out
    assert rollcall("rules", "koordinator/mnvl").code == 2


def test_a_rule_is_shown_with_the_message_about_its_failing_example(rollcall: Run) -> None:
    out = rollcall("rules", "koordinator/mnnvl").out
    place = 'koordinator/mnnvl at metadata.annotations[grove.io/mnnvl-group]: "train": '
    assert f"\nmessage:\n\n{place}" in out
    every = json.loads(rollcall("rules", "-o", "json").out)
    assert [
        rule["id"] for rule in every if not all(said.startswith(f"{rule['id']} at ") for said in rule["messages"])
    ] == []
    assert [rule["id"] for rule in every if not rule["messages"]] == []


def test_rules_as_json(rollcall: Run) -> None:
    (rule,) = json.loads(rollcall("rules", "-o", "json", "koordinator/divergent-topology").out)
    assert (rule["id"], rule["default"], rule["failsClosed"]) == ("koordinator/divergent-topology", "deny", True)


def test_the_rule_reference_in_the_documentation_is_up_to_date(rollcall: Run) -> None:
    """The pages, one for each backend, contain every section of the one page that the command prints."""
    made = rollcall("rules", "-o", "markdown").out.partition("\n# Capabilities\n")[0]
    folder = CHECKOUT / "docs" / "reference" / "rules"
    pages = [page.read_text() for page in folder.glob("*.md")]
    written = {section.strip() for page in pages for section in page.split("\n## ")[1:]}
    assert {section.strip() for section in made.split("\n## ")[1:]} <= written, "run: scripts/reference"


def test_a_configuration_is_shown_with_its_defaults(rollcall: Run, tmp_path: Path) -> None:
    file = tmp_path / "rollcall.yaml"
    file.write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
        "scheduler:\n  defaultProfileName: koord-scheduler\n  profiles:\n"
        "  - name: koord-scheduler\n    schedulerVersion: '1.8'\n    gate: true\n"
        "    enforcement: {rules: {koordinator/quota: 'off'}}\n"
        "namespaces: {team-a: {enforcement: warn}}\n"
        "registration: {failurePolicy: Ignore, timeoutSeconds: 3, excludedNamespaces: [monitoring, storage]}\n"
        "escapes: {delete: [unmutated, stale]}\n"
        "audit: {openReports: true, everyMinutes: 90}\n"
        "certificates: {mode: selfManaged, renewAtPercent: 58, overlapSeconds: 86400}\n"
        "tracing: {endpoint: 'http://otel:4318'}\n"
    )
    ran = rollcall("config", "check", str(file))
    assert ran == (
        0,
        """\
profile koord-scheduler (default)
  gangMode: Strict
  matchPolicy: waiting-and-running
  scheduleTimeoutSeconds: 600
  defaultQoSClass: unset
  topologyKeyMappings: {}
  awareNetworkTopology: true
  topologyBinding: unset
  topologyObjects: compare
  enableRuntimeQuota: unset
  enableCheckParentQuota: unset
  disableDefaultQuota: unset
  schedulerVersion: 1.8.0
  gate: true
  enforcement: deny
  rule koordinator/quota: off (by default deny)
profile default-scheduler
  gangScheduling: false
  flat: merge
  apiGeneration: auto
  hierarchical: auto
  schedulerGates: unset
  disruptionMode: auto
  gate: false
  enforcement: deny
namespace team-a: scheduler unset, enforcement warn
scheduler
  optOut: false
grove
  generation: auto
kueue
  version: as served
  waitForPodsReady: 1800s
  recoveryTimeout: 1800s
  unscheduledTimeout: off
  blockAdmission: false
  backoffLimitCount: unset
  manageJobsWithoutQueueName: false
  managedJobsNamespaceSelector: {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", \
"values": ["kube-system", "kueue-system"]}]}
  frameworks: batch/job, deployment, jobset.x-k8s.io/jobset, kubeflow.org/mpijob, \
leaderworkerset.x-k8s.io/leaderworkerset, pod, ray.io/raycluster, ray.io/rayjob, ray.io/rayservice, statefulset, \
trainer.kubeflow.org/trainjob, workload.codeflare.dev/appwrapper
  SchedulerLibraryIntegration: false
  TopologyAwareScheduling: true
  WorkloadLevelWaitForPodsReady: false
  WaitForPodsReadyMaxNotReady: false
  BringYourOwnPodGroup: false
  afterDeactivatedByKueue: unset
  admissionCheck: off
fit
  nodes: auto
  templates: none
  ignoredResources: none
  ignoredResourceGroups: none
  disabledFilters: none
registration
  failurePolicy: Ignore
  timeoutSeconds: 3
  excludedNamespaces: monitoring, storage
  net: off
escapes
  delete: stale, unmutated
audit
  openReports: true
  everyMinutes: 90
remedies
  causes: none
shadow
  none
serving
  maxInFlight: 256
  maxConnections: 512
  bodyMemoryPercent: 25
  connectionSeconds: 600
  drainSeconds: 15
  check: off in a cluster
certificates
  mode: selfManaged
  caValidityDays: 365
  leafValidityDays: 30
  renewAtPercent: 58
  overlapSeconds: 86400
tracing
  endpoint: http://otel:4318
  sampleRatio: 0.1
tenancy
  reconcilers: the service accounts that Rollcall is installed with
  exemptUsers: none
  groveOperators: system:serviceaccount:*:grove-operator
  controllers of koord-scheduler: system:serviceaccount:koordinator-system:koord-scheduler
  controllers of default-scheduler: system:serviceaccount:kube-system:job-controller, system:kube-controller-manager
""",
        "",
    )


def test_every_mistake_in_a_configuration_is_reported_with_its_line(rollcall: Run, tmp_path: Path) -> None:
    file = tmp_path / "rollcall.yaml"
    file.write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
        "scheduler:\n  defaultProfileName: volcano\n  profiles:\n"
        "  - name: koord-scheduler\n    config: {gangMode: strict}\n  - name: default-scheduler\n    colour: red\n"
    )
    ran = rollcall("config", "check", str(file))
    assert (ran.code, ran.out) == (2, "")
    allowed = [line.split(" (allowed: ")[1].rstrip(")") for line in ran.err.splitlines()]
    assert allowed == [
        "Strict, NonStrict",
        "name, config, gate, schedulerVersion, controllers, enforcement",
        "koord-scheduler, default-scheduler",
    ]
    places = [
        '7:14: scheduler.profiles[0].config.gangMode: "strict": ',
        '9:5: scheduler.profiles[1].colour: "red": ',
        '4:3: scheduler.defaultProfileName: "volcano": ',
    ]
    reasons = ["; did you mean Strict or NonStrict? ", "is an unknown key ", "not one of the profiles "]
    for line, place, reason in zip(ran.err.splitlines(), places, reasons, strict=True):
        assert line.startswith(f"rollcall: {file}:{place}")
        assert f"{reason}(allowed: " in line


def test_the_shipped_configuration_is_valid(rollcall: Run) -> None:
    assert rollcall("config", "check", str(CHECKOUT / "manifests" / "configuration.yaml")).code == 0


@pytest.mark.parametrize(("content", "why"), [("", "there are 0"), ("a: 1\n---\nb: 1\n", "there are 2")])
def test_a_configuration_must_be_one_document(rollcall: Run, tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "c.yaml").write_text(content)
    ran = rollcall("config", "check", str(tmp_path / "c.yaml"))
    assert (ran.code, ran.err) == (2, f"rollcall: {tmp_path}/c.yaml: exactly one document is needed, but {why}\n")


def test_development_certificates_are_written_to_the_given_folder(rollcall: Run, tmp_path: Path) -> None:
    ran = rollcall("certs", "dev", "--out", str(tmp_path / "c"), "--host", "webhook.test")
    assert ran == (0, f"{tmp_path}/c/ca.crt\n{tmp_path}/c/tls.crt\n{tmp_path}/c/tls.key\n", "")
    (tmp_path / "file").write_text("")
    ran = rollcall("certs", "dev", "--out", str(tmp_path / "file"))
    assert ran.code == 2
    assert ran.err.startswith(f"rollcall: {tmp_path}/file: cannot write ")


@pytest.mark.parametrize("host", ["*.example.test", "host_1", "10.0.0.1", "fd00::1"])
def test_a_development_certificate_can_be_issued_for_any_host(rollcall: Run, tmp_path: Path, host: str) -> None:
    assert rollcall("certs", "dev", "--out", str(tmp_path), "--host", host).code == 0


@pytest.mark.parametrize("host", ["", "a b", "https://a", "a..b", "-a", "a:8443", "*"])
def test_an_invalid_host_gets_no_certificate(rollcall: Run, tmp_path: Path, host: str) -> None:
    ran = rollcall("certs", "dev", "--out", str(tmp_path / "c"), "--host", host)
    assert (ran.code, ran.out) == (2, "")
    assert f" {host!r} is neither " in unframed(ran.err)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "or --standalone"),
        (["--cert", "tls.crt"], "and --key go together"),
        (["--cert", "a", "--key", "b", "--standalone", "--certs", "c"], "--certs is for "),
        (["--standalone", "--port", "70000"], "65535"),
        (["--standalone", "--next-cert", "next.crt"], "--next-cert and --next-key go "),
        (["--standalone", "--health-port", "8443"], "--port and --health-port are both 8443"),
        (
            ["--standalone", "--host", "::1", "--health-host", "::", "--health-port", "8443"],
            "--port and --health-port are both 8443",
        ),
        (["--standalone", "--next-cert", "a", "--next-key", "b", "--next-port", "8443"], "--port and --next-port"),
        (
            ["--standalone", "--client-name", "kube-apiserver"],
            "needs --client-ca",
        ),
    ],
)
def test_serve_reports_missing_options(rollcall: Run, arguments: list[str], why: str) -> None:
    ran = rollcall("serve", *arguments)
    assert ran.code == 2
    assert why in unframed(ran.err)


@pytest.mark.parametrize(
    "command", [[], ["check"], ["render"], ["rules"], ["serve"], ["certs", "dev"], ["config", "check"]]
)
def test_help_shows_examples(rollcall: Run, command: list[str]) -> None:
    ran = rollcall(*command, "--help")
    assert ran.code == 0
    assert not command or f"rollcall {' '.join(command)}" in ran.out


def test_version_prints_the_version(rollcall: Run) -> None:
    assert rollcall("--version").out == f"rollcall {__version__}\n"


def test_an_internal_error_gives_no_verdict(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("webhook.cli.check_command.settings_of", broken)
    ran = rollcall("check", "-")
    assert (ran.code, ran.err.count("\n")) == (3, 1)
    assert ran.err.startswith("rollcall: internal error: RuntimeError: boom (rollcall --debug ")
    assert "Traceback" in rollcall("--debug", "check", "-").err


@pytest.mark.parametrize(
    "arguments",
    [
        ["rules", "grove/shape"],
        pytest.param(["rules", "-o", "json"], marks=pytest.mark.exhaustive),
        pytest.param(["check", "manifests"], marks=pytest.mark.exhaustive),
    ],
)
def test_a_closed_pipe_gives_no_message_and_no_verdict(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "webhook", *arguments]
    ran = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=LIMIT_SECONDS, cwd=CHECKOUT
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_check_does_not_import_the_server() -> None:
    """The command line is used file by file in CI: what only the server needs would cost each run half a second."""
    script = (
        "import sys; from webhook.cli import run; run(['rules']); "
        "print(sorted({'fastapi', 'uvicorn', 'cryptography', 'kubernetes', 'prometheus_client'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=LIMIT_SECONDS)
    assert ran.stdout.splitlines()[-1] == b"[]"


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.exhaustive)])
def test_piped_output_has_no_colours_and_in_a_limited_encoding_still_the_verdict(tmp_path: Path, encoding: str) -> None:
    manifest = (CHECKOUT / "manifests" / "samples" / "refused.yaml").read_bytes()
    path = os.fsencode(tmp_path) + b"/caf\xe9.yaml"
    with open(path, "wb") as file:  # noqa: PTH123 - a Path would have to be text
        file.write(manifest)
    command = [os.fsencode(sys.executable), b"-m", b"webhook", b"explain", b"--scheduler", b"koord-scheduler", path]
    environment = os.environ | {"PYTHONIOENCODING": f"{encoding}:strict"}
    ran = subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS, check=False, env=environment)
    assert (ran.returncode, ran.stderr) == (1, b"")
    assert b"\x1b" not in ran.stdout
    assert b"caf\\ufffd.yaml" in ran.stdout


@pytest.mark.parametrize(
    ("width", "first"),
    [
        (80, ["koordinator/mnnvl deny, PodCliqueSet"]),
        (200, ["rule               default  judges        why", "koordinator/mnnvl  deny     PodCliqueSet  {why}"]),
    ],
)
def test_the_list_of_rules_fits_narrow_and_wide_terminals(width: int, first: list[str]) -> None:
    out = Console(width=width, force_terminal=True, record=True, file=io.StringIO())
    (rule,) = (rule for rule in every_rule() if rule.id == "koordinator/mnnvl")
    print_rules([rule], None, out)
    lines = [line.rstrip() for line in out.export_text().splitlines()]
    why = summary(rule)
    assert lines[: len(first)] == [line.format(why=why) for line in first]
    rest = lines[len(first) :]
    assert all(line.startswith("    ") and len(line) <= width for line in rest)
    assert " ".join(line.strip() for line in rest) == ("" if why in lines[-1] else why)
