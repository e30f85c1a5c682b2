"""Grove's generation, its migration, and who writes the gangs."""

from __future__ import annotations

from typing import Any

from tests.texts import Text
from tests.unit.backends.test_kai_aggregate_pod_groups import aggregate
from tests.unit.operations.findings import remedies, reported
from webhook.model.keys import Api
from webhook.model.reading import Manifest
from webhook.operations.diagnosis import Severity, configured, example_object, installed, pod_clique_set, served

MAPS = served(Api("grove.io", "v1alpha1", "PodGangMap"))


def migrating(name: str, status: str) -> Manifest:
    condition = {"type": "PodGangMigrationInProgress", "status": status}
    return {**pod_clique_set(name), "status": {"conditions": [condition]}}


def test_sets_in_the_middle_of_grove_s_migration_are_reported() -> None:
    snapshot = installed(migrating("b", "True"), migrating("a", "True"), migrating("done", "False"), apis=MAPS)
    assert reported(snapshot, "grove/migration") == [(Severity.WARNING, "Namespace team-a", Text(": a, b"))]


def pod_group(name: str, *, gang: str = "demo-0") -> Manifest:
    labels = {"app.kubernetes.io/managed-by": "rollcall", "grove.io/podgang": gang}
    found = example_object("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", name, labels, "team-a")
    found["metadata"]["ownerReferences"] = [
        {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo-0", "uid": "1", "controller": True}
    ]
    return found


def pod_gang(name: str, scheduler: str) -> Manifest:
    return example_object(
        "scheduler.grove.io/v1alpha1", "PodGang", name, {"grove.io/scheduler-name": scheduler}, "team-a"
    )


def test_gangs_that_grove_writes_are_counted_by_their_scheduler() -> None:
    gangs: list[Any] = [pod_gang("a-0", "volcano"), pod_gang("b-0", "kai-scheduler"), pod_gang("b-1", "kai-scheduler")]
    assert reported(installed(*gangs, pod_gang("c-0", "default-scheduler")), "gangs/writer") == [
        (Severity.NOTE, "2 PodGangs for kai-scheduler", "their writer is Grove"),
        (Severity.NOTE, "1 PodGang for volcano", "their writer is Grove"),
    ]


def test_a_gang_that_got_another_writer_while_it_lives_is_reported() -> None:
    objects = (pod_group("demo-0-a"), pod_group("demo-1-a", gang="demo-1"))
    gangs = (pod_gang("demo-0", "volcano"), pod_gang("demo-1", "default-scheduler"))
    renamed = pod_gang("demo-0-1795344276589742021", "volcano")
    renamed["metadata"]["labels"]["app.kubernetes.io/part-of"] = "demo-0"
    assert reported(installed(*objects, *gangs), "gangs/two-writers") == [
        (Severity.ERROR, "Namespace team-a", Text(": demo-0"))
    ]
    assert reported(installed(objects[0], renamed), "gangs/two-writers") == [
        (Severity.ERROR, "Namespace team-a", Text(": demo-0"))
    ]


def test_a_set_that_grove_prepares_for_another_scheduler_than_its_record_is_reported() -> None:
    def stamped(name: str, scheduler: str, within: str = "team-a") -> Manifest:
        gang = pod_gang(f"{name}-0", scheduler)
        gang["metadata"]["namespace"] = within
        gang["metadata"]["labels"]["app.kubernetes.io/part-of"] = name
        return gang

    sets = [pod_clique_set(name, record) for name, record in RECORDS.items()]
    gangs = [stamped(name, name.rpartition("--")[2]) for name in RECORDS]
    # A set of the same name in another namespace is not known, and neither is its record.
    gangs.append(stamped("a--koord-scheduler", "koord-scheduler", "team-b"))
    settings = configured({"name": "koord-scheduler"}, {"name": "volcano"})
    assert reported(installed(*sets, *gangs, settings=settings), "gangs/scheduler") == [
        (Severity.ERROR, "Namespace team-a", Text("koord-scheduler", "volcano: a--koord-scheduler")),
        (Severity.NOTE, "Namespace team-a", Text("lpx-scheduler", "koord-scheduler: b--lpx-scheduler")),
        (Severity.ERROR, "Namespace team-a", Text("runai-scheduler", "koord-scheduler: f--runai-scheduler")),
    ]
    in_templates = "with koord-scheduler in every pod template, if Grove has a profile of that name"
    assert remedies(installed(*sets, *gangs, settings=settings), "gangs/scheduler") == [
        Text("with koord-scheduler in the label rollcall.dev/scheduler, or with volcano in every pod template"),
        f"recreate each set {in_templates}",
        f"recreate each set {in_templates}",
    ]


# The records of sets whose pods get the scheduler in their name.
RECORDS = {
    "a--koord-scheduler": "volcano",
    "b--lpx-scheduler": "koord-scheduler",
    "c--koord-scheduler": "koord-scheduler",
    "d--default-scheduler": "koord-scheduler",
    "e--kai-scheduler": "koord-scheduler",
    "f--runai-scheduler": "koord-scheduler",
}


def test_gangs_that_share_one_kai_pod_group_are_grove_s_and_have_no_second_writer() -> None:
    """As Grove makes them with pull request 735: a finalizer on each PodGang, and one PodGroup of Grove's."""
    gangs = [pod_gang(f"demo-0-1788{suffix}", "kai-scheduler") for suffix in ("", "-decode-1")]
    for gang in gangs:
        gang["metadata"]["finalizers"] = ["kai.scheduler/aggregate-podgroup"]
        gang["metadata"]["labels"]["app.kubernetes.io/part-of"] = "demo"
    snapshot = installed(
        pod_clique_set("demo", "kai-scheduler"), *gangs, aggregate(), settings=configured({"name": "kai-scheduler"})
    )
    (found,) = reported(snapshot, "gangs/writer")
    assert found[:2] == (Severity.NOTE, "2 PodGangs for kai-scheduler")
    assert reported(snapshot, "gangs/two-writers", "gangs/scheduler", "gangs/operator-group") == []
