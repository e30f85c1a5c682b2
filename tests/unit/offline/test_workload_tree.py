"""The tree of a workload that is not Grove's: the gangs that are made, pods in no gang, and what is not known."""

from __future__ import annotations

import pytest

from tests.unit.admission.opted_in.worlds import EVERY
from tests.unit.workloads.workloads import mpi_job, ray_job, spark_application, view, volcano_job
from webhook.model.facts import ClusterFacts
from webhook.model.reading import Manifest
from webhook.offline.explanation import explain_document
from webhook.offline.gang_tree import TreeNode
from webhook.offline.pictures import gangs_box, tree_lines


def tree_of(manifest: Manifest) -> TreeNode:
    ((_, explanation),) = explain_document(manifest, ClusterFacts(), EVERY)
    assert explanation.tree is not None
    return explanation.tree


def lines_of(manifest: Manifest) -> list[str]:
    return list(tree_lines(gangs_box(tree_of(manifest))))


def test_a_launcher_counts_for_kai_and_is_in_no_gang_for_others() -> None:
    assert lines_of(mpi_job(scheduler="kai-scheduler")) == [
        "MPIJob default/demo: 3 pods in all",
        "└── gang demo: 3 pods",
        "    ├── launcher: 1 pod",
        "    └── worker: 2 pods",
    ]
    assert lines_of(mpi_job(scheduler="koord-scheduler")) == [
        "MPIJob default/demo: 3 pods in all",
        "├── gang demo: 2 pods",
        "│   └── worker: 2 pods",
        "└── launcher: 1 pod, in no gang",
    ]


def test_the_submitter_of_a_rayjob_is_in_no_gang() -> None:
    *_, submitter = tree_of(ray_job(scheduler="koord-scheduler")).below
    assert (submitter.name, submitter.note, submitter.waits_for) == ("submitter", "in no gang", "headgroup")


@pytest.mark.parametrize(
    ("manifest", "note"),
    [
        (spark_application(scheduler="volcano", batchScheduler="volcano"), "its gang is not known: Spark's operator "),
        (spark_application(scheduler="koord-scheduler", batchScheduler="volcano"), "no gang: Spark's operator makes "),
        (mpi_job(scheduler="lpx-scheduler"), 'its gang is not known: "lpx-scheduler" has no profile here'),
        (mpi_job(scheduler=None), "if it were opted in"),
        (volcano_job(scheduler="koord-scheduler"), "no gang: Volcano's controller makes its PodGroup, and koord-"),
    ],
)
def test_a_tree_says_what_is_not_made_or_not_known(manifest: Manifest, note: str) -> None:
    tree = tree_of(manifest)
    assert tree.note.startswith(note)
    assert tree.pods == sum(node.pods * (1 + node.more) for node in tree.below)
    parts = (*view(manifest).parts, *view(manifest).outside_parts)
    assert tree.pods == sum(part.pods for part in parts)


def test_the_pod_group_of_a_volcano_job_is_shown_where_volcano_reads_it() -> None:
    (gang,) = tree_of(volcano_job(scheduler="volcano")).below
    assert str(gang.level) == "gang"
    assert gang.pods == sum(task.pods for task in gang.below)
