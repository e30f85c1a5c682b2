"""Every command of the documentation is run, or listed with the reason why it cannot run here."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.programs import eventually, free_port
from tests.unit.cli.conftest import share_what_is_built
from tests.unit.documentation.command_line import unknown_words
from tests.unit.documentation.pages import ROOT, Command, blocks, inline_commands, is_complete, pages, sessions
from webhook.certificates.files import make_development_certificates
from webhook.cli import run
from webhook.cli.options import FILE_NAME

# Commands that begin with these are only parsed here: the reason, and the test that runs them if there is one.
NOT_RUN = {
    "gcloud ": "needs an account with a cloud provider",
    "helm ": "needs a cluster; tests/e2e/test_chart.py installs the chart",
    "kubectl ": "needs a cluster; tests/e2e/test_installation.py and test_tutorial.py run these",
    "for one in ": "needs a cluster; tests/e2e/test_blast_radius.py runs it",
    "pip install ": "needs the network",
    "pipx ": "needs the network",
    "pytest": "runs the tests of another package; tests/conformance has the same kit",
    "python -m benchmarks": "takes minutes, or a control plane",
    ".ci/run": "takes half an hour, this test among all others",
    "scripts/": "`.ci/smoke` starts `scripts/run`; the others run tests and checks, this test among them",
    "export PATH=": "the test has its own PATH",
    "rollcall check --live": "needs a cluster; tests/e2e/test_written_facts.py runs it",
    "rollcall facts ": "needs a cluster; tests/e2e/test_written_facts.py runs it",
    "rollcall check --facts cluster/": "needs a cluster's facts; the same test runs it",
    "uv ": "needs the network",
    "rollcall audit": "needs a cluster; tests/e2e/test_audit.py runs it",
    "rollcall doctor": "needs a cluster; tests/e2e/test_doctor.py runs it",
    "rollcall gangs": "needs a cluster; tests/e2e/test_gang_health.py runs it",
    "rollcall upgrade-plan ": "needs a cluster; tests/e2e/test_upgrade_plan.py runs it",
    "rollcall explain podgang/": "needs a cluster; tests/e2e/test_gang_health.py runs it",
    "rollcall reconcile ": "needs a cluster; tests/e2e/test_reconciler.py runs it",
    "rollcall serve ": "needs a cluster; tests/e2e/rollcall_server.py starts it",
}
# Under this name no command finds it.
CONFIGURATION = "kept.yaml"
# A call of `rollcall`, of words that a shell would not change, and where its output goes.
_CALL = re.compile(r"(rollcall [\w ./:=@,\"'+-]+)([|>].*)?")
_TO_THE_CLUSTER = re.compile(r"\s*\| kubectl apply -f -$")


@cache
def commands() -> tuple[Command, ...]:
    """Return the commands of all pages: those after a `$`, and whole blocks of commands."""
    found: list[Command] = []
    for page in pages():
        for block in blocks(page):
            if block.language in ("", "sh") and "$ " not in block.text:
                found += [Command(block.page, block.line, line, ()) for line in whole_lines(block.text)]
            elif block.language in ("", "sh"):
                found += sessions(block)
    return tuple(found)


def whole_lines(text: str) -> list[str]:
    """Return the commands of a script, with their continuation lines."""
    found, waiting = [], ""
    for line in text.splitlines():
        waiting = f"{waiting}\n{line}" if waiting else line
        if is_complete(waiting):
            found.append(waiting)
            waiting = ""
    assert not waiting, f"bash does not read this as a command: {waiting}"
    return found


def reason(command: Command) -> str | None:
    """Return the beginning in the table of commands that are not run, or None."""
    return next((start for start in NOT_RUN if command.text.startswith(start)), None)


def runnable() -> list[object]:
    """Return the commands that run here, as parameters of a test."""
    found = [one for one in commands() if reason(one) is None and not one.text.startswith("echo $?")]
    return [pytest.param(one, id=f"{one.page}:{one.line}") for one in found]


def exit_codes() -> dict[tuple[str, str], int]:
    """Return the exit codes that pages show by `echo $?`, by page and command."""
    found, every = {}, commands()
    for command, after in pairwise(every):
        if after.text == "echo $?":
            found[command.page, command.text] = int(after.shown[0])
    return found


@pytest.fixture(scope="module")
def first_desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder: the manifests of the checkout, a `ca.crt`, and a configuration."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(ROOT / "manifests", folder / "manifests")
    config = yaml.safe_load((ROOT / "manifests" / "configuration.yaml").read_text())
    config["registration"] = {**config.get("registration", {}), "net": "Audit"}
    (folder / CONFIGURATION).write_text(yaml.safe_dump(config))
    make_development_certificates(folder)
    return folder


@pytest.fixture
def desk(tmp_path: Path, first_desk: Path) -> Path:
    """A copy of that folder, because some commands write there."""
    return shutil.copytree(first_desk, tmp_path, dirs_exist_ok=True)


def ran(command: str, desk: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the reader's folder: calls of `rollcall` in this process, because each start of Python takes a
    second. tests/unit/cli/test_commands.py has the process. What their output goes to is run in a shell.
    """
    calls = [_CALL.fullmatch(part) for part in command.split("; ")]
    assert all(calls), f"this test cannot run {command}: name the reason in NOT_RUN, or the test that runs it"
    printed, complained = "", ""
    with pytest.MonkeyPatch.context() as patch:
        share_what_is_built(patch)
        patch.setenv("COLUMNS", "200")
        patch.chdir(desk)
        for call in filter(None, calls):
            done = called(shlex.split(call[1])[1:])
            if call[2]:
                done = passed_on(done, call[2])
            printed, complained = printed + done.stdout, complained + done.stderr
    return subprocess.CompletedProcess(command, done.returncode, printed, complained)


def called(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Call `rollcall` in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    printed, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(arguments, code, printed, complained)


def passed_on(call: subprocess.CompletedProcess[str], where: str) -> subprocess.CompletedProcess[str]:
    """Pass the output of a call on to a file, or to other programs, whose exit code then counts."""
    shell = ["/bin/sh", "-c", f"cat {where}"]
    done = subprocess.run(shell, input=call.stdout, stdout=subprocess.PIPE, text=True, check=False)
    code = done.returncode if where.startswith("|") else call.returncode
    return subprocess.CompletedProcess(call.args, code, done.stdout, call.stderr)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """What `scripts/run` starts, on a free port."""
    certs, port = tmp_path_factory.mktemp("certs"), free_port()
    command = [sys.executable, "-m", "webhook", "serve", "--standalone", f"--port={port}", f"--certs={certs}"]
    facts = [f"--config={ROOT}/manifests/configuration.yaml", f"--facts={ROOT}/manifests/facts"]
    process = subprocess.Popen([*command, *facts], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually((certs / "ca.crt").exists, "the server has written its certificates")
        trust = ssl.create_default_context(cafile=str(certs / "ca.crt"))
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trust, trust_env=False) as client:
            eventually(lambda: _is_ready(client), "the server is ready")
            yield client
    finally:
        process.terminate()
        process.wait(120)


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("command", runnable())
def test_a_command_prints_what_its_page_shows(command: Command, desk: Path, request: pytest.FixtureRequest) -> None:
    if FILE_NAME in command.text:
        # The checkout has none: where a page does not name it, commands must not find it either.
        (desk / CONFIGURATION).rename(desk / FILE_NAME)
    for block in blocks(ROOT / command.page):
        if named := re.match(r"# (\S+\.yaml)\n", block.text):
            # The first line is not a part of the file, so that the lines that errors name are those of the page.
            (desk / named[1]).write_text(block.text.partition("\n")[2])
    if command.text.startswith("curl "):
        printed = answered(command.text, request.getfixturevalue("server"))
    else:
        text = _TO_THE_CLUSTER.sub("", command.text).replace(" ...", "")
        done = ran(text, desk)
        expected = exit_codes().get((command.page, command.text))
        # 1 is a refusal, which the page shows.
        assert done.returncode in ((0, 1) if expected is None else (expected,)), done.stderr
        assert text == command.text.replace(" ...", "") or list(yaml.safe_load_all(done.stdout))
        printed = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    remaining = iter(printed)
    # In this order; a page may leave lines out.
    assert [line for line in command.shown if line and line not in remaining] == []


def answered(command: str, client: httpx.Client) -> list[str]:
    """Return the answer to a `curl` of a page, from the server of this test."""
    words = shlex.split(command)
    path = next(word for word in words if "://" in word).removeprefix("https://localhost:8443")
    if "--data-binary" not in words:
        return client.get(path).text.splitlines()
    body = ROOT / words[words.index("--data-binary") + 1].removeprefix("@")
    answer = client.post(path, content=body.read_bytes())
    return (json.dumps(answer.json(), indent=4) if words[-1] == "json.tool" else answer.text).splitlines()


def test_every_command_is_valid_shell() -> None:
    assert [one for one in commands() if not is_complete(one.text)] == []


def test_every_command_in_the_documentation_exists() -> None:
    shown = [(one.page, one.text) for one in commands()]
    inline = [(page.relative_to(ROOT).as_posix(), text) for page in pages() for text in inline_commands(page)]
    wrong = {(page, text): unknown_words(text) for page, text in [*shown, *inline]}
    assert {where: words for where, words in wrong.items() if words} == {}


def test_the_list_of_skipped_commands_has_no_stale_entry() -> None:
    assert set(NOT_RUN) == {reason(one) for one in commands()} - {None}


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("rollcall check --config rollcall.yaml -", []),
        ("rollcall chek .", ["chek"]),
        ("cat x | rollcall check --confg rollcall.yaml -", ["--confg"]),
        ("rollcall certs status|rotat", ["status|rotat"]),
        ("rollcall certs status && rollcall rules --all", ["--all"]),
    ],
)
def test_an_unknown_command_is_detected(command: str, wrong: list[str]) -> None:
    assert unknown_words(command) == wrong
