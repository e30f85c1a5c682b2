"""`rollcall explain`: the matrix, the edits and the tree, as text, JSON and Mermaid."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cli.checked_manifests import BINDING
from tests.unit.cli.conftest import Run, without_prose
from tests.unit.cli.test_commands import CHECKOUT
from webhook.model.capabilities import Disruption
from webhook.model.grove import GroveGeneration
from webhook.offline.gang_tree import TreeLevel, TreeNode, gang_tree
from webhook.offline.pictures import escaped, flowchart, gangs_box
from webhook.validators.examples import clique, pod_clique_set
from webhook.workloads.pod_clique_set import PodCliqueSet

CONFIG = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler:
  defaultProfileName: koord-scheduler
  profiles:
  - name: koord-scheduler
  - {name: default-scheduler, config: {gangScheduling: true, apiGeneration: v1beta1}}
  - name: lpx-scheduler
"""
SET = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo, namespace: team-a}
spec:
  replicas: 1
  template:
    cliques:
    - name: worker
      spec: {replicas: 4, minAvailable: 3, podSpec: {containers: [{name: main, image: example.com/main}]}}
    podCliqueScalingGroups:
    - name: ring
      cliqueNames: [worker]
      replicas: 2
      minAvailable: 1
      topologyConstraint: {topologyName: dc, pack: {required: rack}}
"""
FINE = SET[: SET.index("    podCliqueScalingGroups")]
QUOTA = FINE.replace("namespace: team-a", "annotations: {scheduling.grove.io/koordinator-quota: team-a}")
EXPLAINED = """\
<stdin>:1:1: PodCliqueSet team-a/demo
    scheduler koord-scheduler, by default

    asks for  gang, topology.scalingGroup, scaleGang, cliqueMinimum

    scheduler          as written  what it does not get
    koord-scheduler    refused     no: topology.scalingGroup
                                   in part: cliqueMinimum
    default-scheduler  runs
    lpx-scheduler      refused     no: topology.scalingGroup
                                   -: scaleGang, cliqueMinimum

    in part: admitted, with something missing, unknown or warned about
    -: not known whether the scheduler acts on it

    koord-scheduler, the one chosen: refused
        topology.scalingGroup: no
            at   spec.template.podCliqueScalingGroups[0].topologyConstraint: "rack"
            why  koord-scheduler applies one topology to a whole gang, never to a part of it
            do   move the constraint to spec.template.topologyConstraint, or choose another scheduler
        cliqueMinimum: in part
            at   spec.template.cliques[0].spec.minAvailable: 3
            why  with a required topology koord-scheduler waits for room for all replicas, not the minimum
            do   set minAvailable to replicas, or prefer the domain instead of requiring it
        smallest edit, after which it runs
            remove  spec.template.podCliqueScalingGroups[0].topologyConstraint \
(it is {"topologyName": "dc", "pack": {"required": "rack"}})

    default-scheduler: runs as written
        disruption mode single: preemption may take single pods of a running gang

    lpx-scheduler: refused
        topology.scalingGroup: no
            at   spec.template.podCliqueScalingGroups[0].topologyConstraint: "rack"
            why  lpx-scheduler does not support topology and would place the pods on any node
            do   choose another scheduler, or give up the topology: remove the topologyConstraint
        not known to act on scaleGang, cliqueMinimum
        smallest edit, after which it is admitted, but not as written
            remove  spec.template.podCliqueScalingGroups[0].topologyConstraint \
(it is {"topologyName": "dc", "pack": {"required": "rack"}})

    PodCliqueSet team-a/demo: 8 pods in all
    ├── PodGang demo-0-<epoch>: 4 pods, starts with 3
    │   └── replica ring-0: 4 pods, starts with 3, requires one rack
    │       └── worker: 4 pods, starts with 3
    └── PodGang demo-0-<epoch>-ring-1: 4 pods, starts with 3, waits for demo-0-<epoch>
        └── replica ring-1: 4 pods, starts with 3, requires one rack
            └── worker: 4 pods, starts with 3

"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "rollcall.yaml"
    path.write_text(CONFIG)
    return str(path)


# Without it a note says which release is assumed.
ON_1_37 = ("--kubernetes", "1.37")


@pytest.fixture
def facts(tmp_path: Path) -> str:
    path = tmp_path / "binding.yaml"
    path.write_text(BINDING)
    return str(path)


def test_an_explanation_shows_possible_schedulers_obstacles_and_edits(rollcall: Run, config: str, facts: str) -> None:
    assert rollcall("explain", "--config", config, *ON_1_37, "--facts", facts, "-", stdin=SET) == (1, EXPLAINED, "")


@pytest.mark.parametrize(
    ("scheduler", "content", "code"),
    [
        ("koord-scheduler", FINE, 0),
        ("koord-scheduler", SET, 1),
        ("default-scheduler", SET, 0),
        ("lpx-scheduler", FINE, 0),
        ("koord-scheduler", QUOTA, 3),
        ("koord-scheduler", f"{QUOTA}---\n{SET}", 1),
        ("koord-scheduler", "a: [", 2),
        ("koord-scheduler", '{"kind": "AdmissionReview"}', 2),
        ("slurm", FINE, 2),
    ],
    ids=[
        "runs",
        "refused",
        "runs elsewhere",
        "in part",
        "not known",
        "one of two",
        "no YAML",
        "no review",
        "no cluster",
    ],
)
def test_the_exit_code_is_the_verdict_of_the_chosen_scheduler(
    rollcall: Run, config: str, facts: str, scheduler: str, content: str, code: int
) -> None:
    ran = rollcall("explain", "--config", config, "--facts", facts, "--scheduler", scheduler, "-", stdin=content)
    assert ran.code == code
    assert (ran.out == "") is (code == 2)


@pytest.mark.parametrize("scheduler", ["koord-scheduler", "default-scheduler", "lpx-scheduler"])
@pytest.mark.parametrize("content", [FINE, SET, QUOTA])
def test_check_and_explain_agree_on_what_is_refused(rollcall: Run, config: str, scheduler: str, content: str) -> None:
    arguments = ("--config", config, "--scheduler", scheduler, "-")
    refused = rollcall("check", *arguments, stdin=content).code == 1
    assert (rollcall("explain", *arguments, stdin=content).code == 1) is refused


def test_facts_make_unknown_results_known(rollcall: Run, config: str, tmp_path: Path) -> None:
    quota = "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: team-a}\n"
    (tmp_path / "quota.yaml").write_text(quota)
    assert "quota: not judged" in rollcall("explain", "--config", config, "-", stdin=QUOTA).out
    ran = rollcall("explain", "--config", config, "--facts", str(tmp_path / "quota.yaml"), "-", stdin=QUOTA)
    assert ran.code == 0
    assert "    koord-scheduler    runs\n" in ran.out


def test_the_table_of_schedulers_fits_eighty_columns(rollcall: Run) -> None:
    lines = rollcall("explain", "-", stdin=SET).out.splitlines()
    table = lines[3 : next(index for index, line in enumerate(lines) if ", the one chosen: " in line)]
    assert len(table) > 8
    assert [line for line in table if len(line) > 80] == []


def test_json_contains_the_edit_as_changes_and_as_a_patch(rollcall: Run, config: str, facts: str) -> None:
    ran = rollcall("explain", "--config", config, "--facts", facts, "-o", "json", "-", stdin=SET)
    assert ran.code == 1
    document = json.loads(ran.out)
    assert document["assumed"] == []
    (found,) = document["workloads"]
    assert (found["name"], found["scheduler"], found["answer"], found["couldRun"], found["line"]) == (
        "demo", "koord-scheduler", "refused", ["default-scheduler"], 1,
    )  # fmt: skip
    assert found["uses"][0] == {"capability": "gang", "fields": [{"field": "spec.template.cliques", "value": 1}]}
    koord = found["schedulers"][0]
    for obstacle in koord["capabilities"][1]["stoppedBy"]:
        assert all(obstacle.pop(key) in EXPLAINED for key in ("why", "remedy"))
    assert koord["capabilities"][1] == {
        "capability": "topology.scalingGroup",
        "honoured": "no",
        "stoppedBy": [
            {
                "rule": "koordinator/scaling-group-topology",
                "field": "spec.template.podCliqueScalingGroups[0].topologyConstraint",
            }
        ],
    }
    assert koord["edit"] == {
        "then": "runs",
        "changes": [
            {
                "path": "spec.template.podCliqueScalingGroups[0].topologyConstraint",
                "from": {"topologyName": "dc", "pack": {"required": "rack"}},
                "to": None,
            }
        ],
        "patch": [{"op": "remove", "path": "/spec/template/podCliqueScalingGroups/0/topologyConstraint"}],
    }
    assert found["gangs"]["below"][1]["waitsFor"] == "demo-0-<epoch>"


def test_without_a_configuration_a_note_says_that_the_default_scheduler_makes_no_gangs(rollcall: Run) -> None:
    ran = rollcall("explain", "-", stdin=FINE)
    assert ran.code == 0
    assert "    scheduler default-scheduler, by default\n" in ran.out
    assert re.search(r"^    default-scheduler, the one .* not as written\n        gang: no$", ran.out, re.MULTILINE)
    assert ran.out.endswith(" without gangScheduling\n")
    assert json.loads(rollcall("explain", "-o", "json", "-", stdin=FINE).out)["assumed"] != []


def test_the_disruption_mode_of_the_gangs_is_shown(rollcall: Run, config: str) -> None:
    ran = rollcall("explain", "--config", config, "-", stdin=FINE)
    heading = "    default-scheduler: runs as written\n"
    assert f"{heading}        disruption mode single: {Disruption.SINGLE.meaning}\n" in ran.out
    labelled = FINE.replace("namespace: team-a", "namespace: team-a, labels: {rollcall.dev/disruption-mode: all}")
    ran = rollcall("explain", "--config", config, "-", stdin=labelled)
    assert f"{heading}        disruption mode all: {Disruption.ALL.meaning}\n" in ran.out
    (found,) = json.loads(rollcall("explain", "--config", config, "-o", "json", "-", stdin=labelled).out)["workloads"]
    assert [(one["scheduler"], one["disruptionModes"]) for one in found["schedulers"]] == [
        ("koord-scheduler", []),
        ("default-scheduler", ["all"]),
        ("lpx-scheduler", []),
    ]


def test_where_only_a_value_is_missing_the_author_is_asked_for_it(rollcall: Run) -> None:
    ran = rollcall("explain", "--scheduler", "kai-scheduler", "-", stdin=SET)
    assert "the edit needs a value" in ran.out
    assert "profile's defaultQueue" in ran.out


def test_an_object_without_a_gang_cannot_be_explained(rollcall: Run) -> None:
    ran = rollcall("explain", "-", stdin="apiVersion: v1\nkind: Service\nmetadata: {name: x}\n")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("rollcall: nothing to explain: ")


def test_wrong_names_are_shown_for_workloads_and_for_other_objects(rollcall: Run, config: str) -> None:
    misspelt = FINE.replace("kind: PodCliqueSet", "kind: PodcliqueSet")
    ran = rollcall("explain", "--config", config, *ON_1_37, "-", stdin=misspelt)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith("rollcall: nothing to explain: ")
    assert without_prose(ran.out) == [
        "<stdin>:1:1: PodcliqueSet team-a/demo",
        "    warning kinds/unknown",
        '        at   kind: "PodcliqueSet"',
        "",
    ]
    assert "        do   did you mean kind PodCliqueSet? " in ran.out
    both = f"{misspelt}---\n{FINE.replace('replicas: 1', 'replcas: 1', 1)}"
    found = json.loads(rollcall("explain", "--config", config, "-o", "json", "-", stdin=both).out)
    assert [one["rule"] for one in found["otherObjects"]] == ["kinds/unknown"]
    assert [(one["rule"], one["field"]) for one in found["workloads"][0]["findings"]] == [
        ("fields/unknown", "spec.replcas")
    ]


def test_a_field_of_the_wrong_type_is_reported_instead_of_everything_else(rollcall: Run, config: str) -> None:
    ran = rollcall("explain", "--config", config, *ON_1_37, "-", stdin=FINE.replace("replicas: 1", "replicas: one"))
    assert (ran.code, ran.err) == (1, "")
    assert without_prose(ran.out) == [
        "<stdin>:1:1: PodCliqueSet team-a/demo",
        "    error grove/shape",
        '        at   spec.replicas: "one"',
        "",
    ]
    assert "        do   write a whole number\n" in ran.out


def test_ten_thousand_replicas_are_counted_and_not_listed(rollcall: Run, config: str, facts: str) -> None:
    many = SET.replace("replicas: 1\n", "replicas: 10000\n").replace("replicas: 2\n", "replicas: 500\n")
    for output in ("text", "json", "mermaid"):
        ran = rollcall("explain", "--config", config, "--facts", facts, "-o", output, "-", stdin=many)
        assert len(ran.out.splitlines()) < 320
    text = rollcall("explain", "--config", config, "-", stdin=many).out
    more = "and 9,999 more like it, up to demo-9999-<epoch>"
    assert f"    ├── PodGang demo-0-<epoch>: 4 pods, starts with 3, {more}\n" in text
    assert ", waits for demo-0-<epoch>, and 498 more like it, up to demo-0-<epoch>-ring-499\n" in text
    text = rollcall("explain", "--config", config, "--grove", "legacy", "-", stdin=many).out
    assert "    ├── PodGang demo-0: 4 pods, starts with 3, and 9,999 more like it, up to demo-9999\n" in text
    assert ", waits for demo-0, and 498 more like it, up to demo-0-ring-498\n" in text


def test_gangs_of_an_earlier_grove_have_no_epoch_and_the_topology_of_their_group(rollcall: Run, config: str) -> None:
    text = rollcall("explain", "--config", config, "--grove", "legacy", "-", stdin=SET).out
    assert text.endswith(
        """\
    PodCliqueSet team-a/demo: 8 pods in all
    ├── PodGang demo-0: 4 pods, starts with 3
    │   └── replica ring-0: 4 pods, starts with 3, requires one rack
    │       └── worker: 4 pods, starts with 3
    └── PodGang demo-0-ring-0: 4 pods, starts with 3, requires one rack, waits for demo-0
        └── worker: 4 pods, starts with 3

"""
    )


def test_the_generation_of_grove_is_for_manifests(rollcall: Run) -> None:
    ran = rollcall("explain", "--grove", "legacy", "podgang/demo-0")
    assert ran.code == 2
    assert "--grove" in ran.err


def test_control_characters_are_not_printed(rollcall: Run, config: str) -> None:
    hostile = json.dumps(pod_clique_set(clique("work\x1b[31mer\nx", labels={"koordinator.sh/qosClass": "\x1b]0;x"})))
    for output in ("text", "mermaid"):
        out = rollcall("explain", "--config", config, "-o", output, "-", stdin=hostile).out
        assert "\x1b" not in out
        assert "er\nx" not in out


# Mermaid


def test_the_flowchart_shows_every_gang_and_its_dependencies(rollcall: Run, config: str) -> None:
    ran = rollcall("explain", "--config", config, *ON_1_37, "-o", "mermaid", "-", stdin=SET)
    assert ran == (
        1,
        """\
flowchart TD
    n0[["PodCliqueSet team-a/demo<br/>8 pods in all"]]
    n1["PodGang demo-0-#60;epoch#62;<br/>4 pods<br/>starts with 3"]
    n0 --> n1
    n2("replica ring-0<br/>4 pods<br/>starts with 3<br/>requires one rack")
    n1 --> n2
    n3(["worker<br/>4 pods<br/>starts with 3"])
    n2 --> n3
    n4["PodGang demo-0-#60;epoch#62;-ring-1<br/>4 pods<br/>starts with 3<br/>waits for demo-0-#60;epoch#62;"]
    n0 --> n4
    n5("replica ring-1<br/>4 pods<br/>starts with 3<br/>requires one rack")
    n4 --> n5
    n6(["worker<br/>4 pods<br/>starts with 3"])
    n5 --> n6
    n1 -. "starts first" .-> n4
""",
        "",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("worker-0", "worker-0"),
        ('a"]; end', "a#34;#93;#59; end"),
        ("<script>", "#60;script#62;"),
        ("#quot;", "#35;quot#59;"),
        ("`*x*`", "#96;#42;x#42;#96;"),
        ("a\nb", "a#10;b"),
        ("größe", "gr#246;#223;e"),
    ],
)
def test_labels_of_the_flowchart_are_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected


@given(st.text(max_size=40))
def test_no_name_can_end_its_flowchart_label(name: str) -> None:
    drawn = flowchart([gangs_box(TreeNode(TreeLevel.CLIQUE, name, 1, 1))])
    assert re.fullmatch(r'flowchart TD\n    n0\(\["[^"\n<>]*<br/>1 pod"\]\)\n', drawn)


def test_several_workloads_are_drawn_side_by_side() -> None:
    tree = gangs_box(gang_tree(PodCliqueSet(pod_clique_set()), GroveGeneration.LEGACY))
    drawn = flowchart([tree, tree]).splitlines()
    assert drawn.count("flowchart TD") == 1
    boxes = [line.split("[")[0].split("(")[0].strip() for line in drawn[1:] if "-->" not in line]
    assert boxes == [f"n{index}" for index in range(6)]


PUBLISHED = sorted((Path(os.environ.get("ROLLCALL_SAMPLES", "none")) / "grove").glob("*.yaml"))


@pytest.mark.skipif(not PUBLISHED, reason="ROLLCALL_SAMPLES does not say where Grove's samples are")
@pytest.mark.parametrize("sample", PUBLISHED, ids=lambda path: path.stem)
def test_with_a_kai_queue_grove_s_samples_run_on_every_gang_scheduler(rollcall: Run, config: str, sample: Path) -> None:
    facts = ("--facts", str(CHECKOUT / "manifests" / "facts"))
    (found,) = json.loads(rollcall("explain", "-o", "json", *facts, str(sample)).out)["workloads"]
    answers = {view["scheduler"]: view for view in found["schedulers"]}
    assert [answers[name]["answer"] for name in ("koord-scheduler", "volcano")] == ["runs"] * 2
    arguments = ("--config", config, *facts, str(sample))
    (configured,) = json.loads(rollcall("explain", "-o", "json", *arguments).out)["workloads"]
    with_gangs = {view["scheduler"]: view["answer"] for view in configured["schedulers"]}
    assert (answers["default-scheduler"]["answer"], with_gangs["default-scheduler"]) == ("partly", "runs")
    kai = answers["kai-scheduler"]
    assert kai["answer"] == "refused"
    assert [change["path"].partition("[")[0] for change in kai["edit"]["changes"]] == ["metadata.labels"]
    assert kai["edit"]["then"] == "runs"
