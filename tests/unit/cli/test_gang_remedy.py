"""`rollcall gangs remedy`: the cause and the remedy of one gang, against a simulated cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from tests.configurations import configuration_of
from tests.unit.cli.conftest import Run, answer_for_the_cluster
from tests.unit.cli.gang_cluster import quiet
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.forgetful_scheduler import GROUP, ForgetfulScheduler
from tests.unit.reconciler.running_reconciler import GANGS, GROUPS
from tests.unit.worlds import koordinator
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE
from webhook.gangs.object_plan import GangPlan, add_digest, plan
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record

__all__ = ["quiet"]
FOUND = re.compile("PodGang team-a/demo-0: forgotten: koord-scheduler .* pods one, two, .*")
DONE = f"annotated the waiting .* minMember of PodGroup {GROUP} from 2 to 1002, and set it back"


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "rollcall.yaml"
    file.write_text(json.dumps(configuration_of({"name": "koord-scheduler", "gate": False})))
    return str(file)


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> ForgetfulScheduler:
    """A gang that has its objects, and whose scheduler has forgotten it."""
    found = ForgetfulScheduler()
    facts = ClusterFacts(pod_clique_sets={("team-a", "demo"): Record("koord-scheduler")}, topology_bindings={})
    planned = plan(PodGang(found.cluster.objects[GANGS][0]), facts, koordinator(standalone=False))
    assert isinstance(planned, GangPlan)
    for one in planned.objects:
        found.cluster.put(GROUPS, {**add_digest(one), "metadata": {**add_digest(one)["metadata"], "uid": "group"}})
    answer_for_the_cluster(found.cluster, monkeypatch)
    return found


def test_a_dry_run_only_says_what_would_be_done(rollcall: Run, scheduler: ForgetfulScheduler, config: str) -> None:
    ran = rollcall("gangs", "remedy", "demo-0", "-n", "team-a", "--dry-run", "--config", config)
    assert (ran.code, ran.err) == (CLEAN, "")
    cause, act = ran.out.splitlines()
    assert FOUND.fullmatch(cause)
    assert re.fullmatch(rf"the remedy \(wake\) would be: {DONE}", act)
    assert scheduler.cluster.writes == []


def test_the_remedy_of_one_gang_is_carried_out(rollcall: Run, scheduler: ForgetfulScheduler, config: str) -> None:
    ran = rollcall("gangs", "remedy", "demo-0", "-n", "team-a", "--config", config)
    assert (ran.code, ran.err) == (CLEAN, "")
    cause, done = ran.out.splitlines()
    assert FOUND.fullmatch(cause)
    assert re.fullmatch(DONE, done)
    assert (scheduler.minimums, scheduler.minimum) == ([1002, 2], 2)
    again = rollcall("gangs", "remedy", "demo-0", "-n", "team-a", "--config", config)
    assert again == (REFUSED, "PodGang team-a/demo-0: started: no remedy is known\n", "")


def test_a_gang_that_does_not_exist_is_a_usage_error(rollcall: Run, scheduler: ForgetfulScheduler, config: str) -> None:
    ran = rollcall("gangs", "remedy", "job/demo-0", "-n", "team-a", "--config", config)
    assert ran == (UNREADABLE, "", "rollcall: there is no gang job/demo-0 in namespace team-a\n")
    assert scheduler.patches == []


def test_a_write_that_is_refused_is_reported(rollcall: Run, scheduler: ForgetfulScheduler, config: str) -> None:
    scheduler.cluster.answering = lambda _: httpx.Response(403, json=failure(403, "may not"))
    ran = rollcall("gangs", "remedy", "demo-0", "-n", "team-a", "--config", config)
    assert ran.code == NOT_EVALUATED
    assert FOUND.fullmatch(ran.out.removesuffix("\n"))
    assert ran.err.startswith("rollcall: the remedy failed: HTTP 403: ")
