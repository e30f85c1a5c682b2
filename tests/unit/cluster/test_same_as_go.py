"""The expectations of the neighbouring tests are verified with Go itself, if it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.trust_cases import ADDRESS, HOST, REFUSED, STRICTER, TRUSTED, TrustCase
from tests.unit.cluster.proxy_cases import PROXIES, ProxyCase
from tests.waiting import LIMIT_SECONDS
from webhook.cluster.sockets import proxy_for

SOURCE = Path(__file__).with_name("go") / "verdicts.go"
GO = shutil.which("go")

needs_go = pytest.mark.skipif(GO is None, reason="there is no Go")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("go") / "verdicts"
    subprocess.run([str(GO), "build", "-o", built, SOURCE], check=True, timeout=300)
    return built


def verdicts(program: Path, questions: list[dict[str, str]], environment: Mapping[str, str] | None = None) -> list[str]:
    answer = subprocess.run(
        [program],
        input=json.dumps(questions),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_SECONDS,
    )
    found: list[str] = json.loads(answer.stdout)
    assert len(found) == len(questions)
    return found


def question(case: TrustCase, host: str) -> dict[str, str]:
    return {"Chain": case.pair.chain.decode(), "Bundle": case.bundle.decode(), "Host": host}


@pytest.mark.exhaustive
@needs_go
@pytest.mark.parametrize("host", [HOST, ADDRESS])
def test_go_and_rollcall_trust_the_same_servers(program: Path, host: str) -> None:
    accepted = TRUSTED | STRICTER
    trusted = verdicts(program, [question(case, host) for case in accepted.values()])
    assert dict(zip(accepted, trusted, strict=True)) == dict.fromkeys(accepted, "")
    refused = verdicts(program, [question(case, host) for case in REFUSED.values()])
    assert [name for name, why in zip(REFUSED, refused, strict=True) if not why] == []


@pytest.mark.exhaustive
@needs_go
def test_go_and_rollcall_use_the_same_proxies(program: Path) -> None:
    # Go reads the variables once in a process.
    found = {name: verdicts(program, [{"URL": case.url}], case.environment)[0] for name, case in PROXIES.items()}
    assert found == {name: case.expected or "" for name, case in PROXIES.items()}


@pytest.mark.parametrize("case", PROXIES.values(), ids=PROXIES)
def test_the_environment_selects_the_proxy(case: ProxyCase) -> None:
    assert proxy_for(case.url, case.environment) == case.expected
