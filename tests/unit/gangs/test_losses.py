"""The records of gangs that lost pods: what they say, and how they are stored."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import judged, pod, podgang, whole
from webhook.gangs import losses as losses_module
from webhook.gangs.health import GangState
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import GangKey
from webhook.gangs.losses import (
    MOST_BYTES,
    MOST_PODS,
    BoundMembers,
    Line,
    Loss,
    LostMembers,
    LostPod,
    bound_members,
    content_of,
    content_with,
    line_of,
    losses_in,
    shard,
)
from webhook.gangs.members import GangPod, LossCause
from webhook.installation.names import LOSS_RECORDS
from webhook.model.grove import PodGang

SINCE, LATER = "2026-09-01T12:00:00Z", "2026-09-01T12:05:00Z"
NOW = datetime(2026, 9, 1, 14, 30, tzinfo=UTC)
PREEMPTED = LostPod("demo-0-worker-0", LossCause.PREEMPTION, SINCE, "node-1")
LOSS = Loss("g", SINCE, (PREEMPTED,))
KEY = GangKey("team-a", "demo-0")


def test_a_gang_with_gpus_says_what_is_idle() -> None:
    reason = LostMembers(LOSS, 2, 16, NOW).reason
    pods = ("2 pods with 16 GPUs, 40.0 GPU hours", "idle; ")
    remedy = ("priority", "disruption mode all")
    assert str(reason) == Text(f"{SINCE}: demo-0-worker-0 (preemption, node-1); ", *pods, *remedy)
    assert LostMembers(LOSS, 2, 16, NOW).as_json() == {
        "since": SINCE,
        "causes": ["preemption"],
        "pods": [{"pod": "demo-0-worker-0", "cause": "preemption", "at": SINCE, "node": "node-1"}],
        "idle": {"pods": 2, "gpus": 16, "gpuHours": 40.0},
    }


def test_pods_without_a_name_are_counted() -> None:
    assert LostMembers(Loss("g", SINCE, (), 1), 1, 0, NOW).reason.why == Text(
        SINCE, LossCause.UNKNOWN.words, "1 pod is idle"
    )
    many = LOSS.add_pods(LostPod(f"p{index}", LossCause.DELETION, LATER) for index in range(6))
    assert "p3 (deletion) and 2 more" in LostMembers(many._replace(more=0), 0, 0, NOW).reason.why
    assert "idle" not in LostMembers(many, 0, 0, NOW).reason.why


def test_a_record_grows_by_pods_that_it_does_not_have_up_to_a_limit() -> None:
    assert LOSS.add_pods([PREEMPTED._replace(cause=LossCause.DELETION, at=LATER)]) is LOSS
    more = LOSS.add_pods(LostPod(f"p{index}", LossCause.DELETION, LATER) for index in range(MOST_PODS + 1))
    assert (more.since, len(more.pods), more.more) == (SINCE, MOST_PODS, 2)
    assert more.causes == (LossCause.PREEMPTION, LossCause.DELETION)
    assert Loss("g", LATER, ()).add_pods([PREEMPTED]).since == SINCE


def test_the_loss_is_the_first_reason_while_pods_are_idle_and_else_the_last() -> None:
    part = judged([pod("leader", 0, node="n"), pod("worker", 0, node="n"), pod("worker", 1)])
    assert part.state is GangState.IN_PART
    found = part.add_loss(LostMembers(LOSS, 2, 0, NOW))
    assert [one.reason for one in found.obstacles][:2] == [GangReason.LOST_MEMBERS, GangReason.IN_PART]
    assert found.word == "GangLostMembers"
    assert found.as_json()["lost"]["idle"]["pods"] == 2
    held = judged(whole()).add_loss(LostMembers(LOSS, 0, 0, NOW))
    assert [one.reason for one in held.obstacles] == [GangReason.SILENT, GangReason.LOST_MEMBERS]


# What is left of a gang.


def left(*pods: GangPod) -> BoundMembers:
    return bound_members(PodGang(podgang()), pods, lambda node: node != "gone")


def on(clique: str, index: int, node: str | None, **changes: Any) -> GangPod:
    return pod(
        clique, index, node=node, placed="2026-09-01T12:00:00Z" if node else "", gpus=8 if node else 0, **changes
    )


def test_pods_on_nodes_that_are_gone_are_lost() -> None:
    found = left(on("leader", 0, "n"), on("worker", 0, "n"), on("worker", 1, "gone"))
    assert (found.bound, found.gpus, found.lacking) == (2, 16, 1)
    assert [one.name for one in found.orphans] == ["demo-0-worker-1"]
    assert not found.is_whole
    assert left(on("leader", 0, "n"), on("worker", 0, "n"), on("worker", 1, "n")).is_whole


EVIDENCE = {
    "a pod ended": ([on("worker", 1, "n", failed=True)], True),
    "a pod that the PodGang names is gone": ([], True),
    "a pod was replaced after the others were bound": ([on("worker", 1, None, created="2026-09-01T12:01:00Z")], True),
    "a pod is older than the binding of the others": ([on("worker", 1, None, created="2026-09-01T11:59:00Z")], False),
}


@pytest.mark.parametrize(("third", "expected"), EVIDENCE.values(), ids=EVIDENCE.keys())
def test_a_gang_in_part_shows_whether_it_had_started(third: list[GangPod], expected: bool) -> None:
    assert left(on("leader", 0, "n"), on("worker", 0, "n"), *third).had_started is expected


def test_a_gang_without_a_pod_on_a_node_does_not_show_that_it_had_started() -> None:
    assert not left(on("leader", 0, None), on("worker", 0, None)).had_started


# How records are stored.


def stored(losses: dict[GangKey, Loss]) -> dict[str, str]:
    lines = {key: line_of(key, loss) for key, loss in losses.items()}
    return {
        name: content_with({key: line for key, line in lines.items() if line.name == name}).text
        for name in LOSS_RECORDS
    }


def test_records_are_read_as_they_were_written() -> None:
    job = GangKey("team-b", "train", "Job", "train")
    kept = {KEY: LOSS, job: Loss("u", LATER, (PREEMPTED, LostPod("x", LossCause.UNKNOWN, LATER)), 3)}
    texts = stored(kept)
    assert len(texts) == 4
    read = dict(pair for text in texts.values() for pair in losses_in(text))
    assert read == kept
    config_map = shard("rollcall-losses-0", "rollcall-system", "text")
    assert content_of(config_map) == "text"
    assert config_map["metadata"]["namespace"] == "rollcall-system"


def test_a_line_that_was_tampered_with_is_left_out() -> None:
    (good,) = filter(None, stored({KEY: LOSS}).values())
    long = "n" * 254
    tampered = [
        "",
        "nonsense",
        "{}",
        "[1]",
        "[" * 100_000,
        good.replace("preemption", "aliens"),
        good.replace(SINCE, "yesterday"),
        good.replace(SINCE, SINCE.replace("T", " ")),
        good.replace(SINCE, SINCE.removesuffix("Z")),
        good.replace("demo-0-worker-0", long),
        good.replace('"team-a"', "[]"),
        good.replace('"team-a",', ""),
    ]
    assert list(losses_in("\n".join([*tampered, good]))) == [(KEY, LOSS)]


def test_a_record_never_has_more_pods_than_the_limit() -> None:
    (text,) = filter(None, stored({KEY: LOSS}).values())
    line = text.replace('[["demo', "[" + '["x","deletion","2026-09-01T12:00:00Z",""],' * 1000 + '["demo')
    ((_, loss),) = losses_in(line)
    assert len(loss.pods) == MOST_PODS


@pytest.fixture
def most_bytes(monkeypatch: pytest.MonkeyPatch) -> int:
    """A tenth of what a shard may contain."""
    monkeypatch.setattr(losses_module, "MOST_BYTES", MOST_BYTES // 10)
    return MOST_BYTES // 10


def test_what_is_stored_is_bounded_and_a_namespace_with_many_gangs_gives_way_first(most_bytes: int) -> None:
    pods = tuple(
        LostPod(f"pod-{index}-{'x' * 200}", LossCause.DELETION, SINCE, "n" * 200) for index in range(MOST_PODS)
    )
    kept = {GangKey("crowd", f"gang-{index}"): Loss("u", SINCE, pods) for index in range(40)}
    kept[GangKey("quiet", "gang")] = Loss("u", SINCE, pods)
    texts = stored(kept)
    assert max(map(len, texts.values())) <= most_bytes
    read = dict(pair for text in texts.values() for pair in losses_in(text))
    assert read.keys() == kept.keys()
    assert read[GangKey("quiet", "gang")].pods == pods
    short = [loss for loss in read.values() if not loss.pods]
    assert short
    assert {loss.more for loss in short} == {MOST_PODS}


def test_gangs_are_left_out_if_even_their_names_do_not_fit(most_bytes: int) -> None:
    kept = {GangKey("crowd", f"{index}-{'x' * 240}", "Job", "y" * 240): Loss("u", SINCE, ()) for index in range(800)}
    kept[GangKey("quiet", "gang")] = LOSS
    texts = stored(kept)
    assert max(map(len, texts.values())) <= most_bytes
    read = dict(pair for text in texts.values() for pair in losses_in(text))
    assert GangKey("quiet", "gang") in read
    assert 400 < len(read) < len(kept)


def lines_of(namespace: str, count: int, pods: int, name: str = "gang") -> dict[GangKey, Line]:
    kept = Loss("u", SINCE, tuple(LostPod("p" * 200, LossCause.DELETION, SINCE, "n" * 200) for _ in range(pods)))
    return {(key := GangKey(namespace, f"{name}-{index}")): line_of(key, kept) for index in range(count)}


def test_a_namespace_with_few_large_records_leaves_room_for_many_small_ones_of_another(most_bytes: int) -> None:
    large, small = lines_of("large", 200, MOST_PODS, "x" * 240), lines_of("small", 400, 0)
    content = content_with({**large, **small})
    assert len(content.text) <= most_bytes
    assert dict(losses_in(content.text)).keys() >= small.keys()
    assert content.cut == {"large"}


def test_each_of_two_namespaces_that_need_too_much_has_half(most_bytes: int) -> None:
    kept = {**lines_of("a", 2000, 0), **lines_of("b", 1999, 0)}
    found = Counter(key.namespace for key in dict(losses_in(content_with(kept).text)))
    assert abs(found["a"] - found["b"]) < 5
    assert sum(found.values()) * len(next(iter(kept.values())).text) > 0.9 * most_bytes


@pytest.mark.parametrize(
    "line",
    [
        '[["team-\\ud800","demo-0","PodGang",""],"g","2026-09-01T12:00:00Z",[],0]',
        '[["team-a","d\u00e9mo","PodGang",""],"g","2026-09-01T12:00:00Z",[],0]',
        '[["team-a","demo-0","PodGang"],"g","2026-09-01T12:00:00Z",[],0]',
        '[["team-a","demo-0","PodGang",{}],"g","2026-09-01T12:00:00Z",[],0]',
        '[["team-a","demo-0","PodGang",""],"g","2026-09-01T12:00:00+00:00",[],0]',
        '[["team-a","demo-0","PodGang",""],"g","2026-09-01T12:00:00Z",[["p","stolen","2026-09-01T12:00:00Z",""]],0]',
        "[" * 100_000,
        "1" * 5_000,
        "null",
    ],
)
def test_a_stored_line_that_is_not_ours_is_left_out(line: str) -> None:
    good = stored({KEY: LOSS})
    (content,) = filter(None, good.values())
    assert list(losses_in(f"{line}\n{content}\n{line}")) == [(KEY, LOSS)]
