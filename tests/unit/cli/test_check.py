"""`rollcall check`: exit codes, and the position of every finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.checked_manifests import BINDING, FINE, KOORD, NVLINK
from tests.unit.cli.conftest import Run, without_prose
from webhook import __version__

GROUP = FINE.replace(
    "cliqueNames: [worker]\n",
    "cliqueNames: [worker]\n      topologyConstraint: {topologyName: dc, pack: {required: rack}}\n",
)
DIVERGENT = FINE.replace(
    "    - name: worker\n",
    "    - name: worker\n      topologyConstraint: {topologyName: dc, pack: {required: rack}}\n",
    1,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "set.yaml"


def test_a_valid_set_exits_with_0(rollcall: Run, file: Path) -> None:
    file.write_text(FINE)
    assert rollcall("check", *KOORD, str(file)) == (
        0,
        "1 PodCliqueSet judged for koord-scheduler (--scheduler): 0 errors\n",
        "",
    )


def test_a_refused_set_exits_with_1_and_shows_place_value_reason_and_remedy(rollcall: Run, file: Path) -> None:
    file.write_text(NVLINK)
    assert rollcall("check", *KOORD, str(file)) == (
        1,
        f"""\
{file}:7:5: error koordinator/mnnvl
    object PodCliqueSet default/demo
    field  metadata.annotations[grove.io/mnnvl-group]
    found  "train"
    why    koord-scheduler cannot keep a multi-node NVLink group inside one NVLink domain
    do     set "grove.io/mnnvl-group": "none" on the clique, remove "grove.io/auto-mnnvl", or choose another scheduler
1 PodCliqueSet judged for koord-scheduler (--scheduler): 1 error, 1 fixable; rollcall explain {file}
""",
        "",
    )


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (NVLINK, "7:5: error koordinator/mnnvl"),
        (GROUP, "28:7: error koordinator/scaling-group-topology"),
        (DIVERGENT, "18:53: error koordinator/divergent-topology"),
    ],
    ids=["multi-node NVLink", "scaling-group topology", "divergent cliques"],
)
def test_a_finding_names_file_line_and_column(rollcall: Run, file: Path, content: str, place: str) -> None:
    file.write_text(content)
    ran = rollcall("check", *KOORD, str(file))
    assert ran.code == 1
    assert ran.out.startswith(f"{file}:{place}\n")


def test_json_has_positions_too(rollcall: Run, tmp_path: Path) -> None:
    file = tmp_path / "review.json"
    manifest = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "demo", "annotations": {"grove.io/auto-mnnvl": "enabled"}},
        "spec": {"template": {"cliques": [{"name": "worker", "spec": {}}]}},
    }
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "operation": "CREATE",
            "kind": {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
            "object": manifest,
        },
    }
    file.write_text(json.dumps(review, indent="\t"))
    ran = rollcall("check", *KOORD, str(file))
    assert ran.code == 1
    assert ran.out.startswith(f"{file}:18:6: error koordinator/mnnvl\n")


def test_the_report_as_json_is_one_document(rollcall: Run, file: Path) -> None:
    file.write_text(f"{FINE}---\n{NVLINK}---\nkind: Service\napiVersion: v1\nmetadata: {{name: x}}\n")
    ran = rollcall("check", *KOORD, "-o", "json", str(file))
    assert ran.code == 1
    printed = json.loads(ran.out)
    why, remedy = (printed["findings"][0][key] for key in ("why", "remedy"))
    assert (bool(why), bool(remedy)) == (True, True)
    assert printed == {
        "reportVersion": 1,
        "tool": {"name": "rollcall", "version": __version__},
        "passed": False,
        "clean": False,
        "failOn": ["error"],
        "judgedByGroup": 0,
        "judged": 2,
        "ignored": 1,
        "counts": {
            "error": 1,
            "warning": 0,
            "audit": 0,
            "notJudged": 0,
            "objectsNotJudged": 0,
            "objectsJudgedInPart": 0,
            "suppressed": 0,
            "fixable": 1,
            "unreadable": 0,
        },
        "rules": {"koordinator/mnnvl": 1},
        "schedulers": [{"scheduler": "koord-scheduler", "chosenBy": "--scheduler", "objects": 2}],
        "findings": [
            {
                "rule": "koordinator/mnnvl",
                "action": "deny",
                "field": "metadata.annotations[grove.io/mnnvl-group]",
                "found": "train",
                "why": why,
                "remedy": remedy,
                "message": f'koordinator/mnnvl at metadata.annotations[grove.io/mnnvl-group]: "train": {why}; {remedy}',
                "exception": None,
                "level": "error",
                "ruleUrl": "docs/reference/rules/koord-scheduler.md#koordinatormnnvl",
                "fails": True,
                "suppression": None,
                "fix": {
                    "scheduler": "koord-scheduler",
                    "changes": [{"path": "metadata.annotations[grove.io/mnnvl-group]", "from": "train", "to": "none"}],
                    "patch": [
                        {"op": "replace", "path": "/metadata/annotations/grove.io~1mnnvl-group", "value": "none"}
                    ],
                    "edits": [{"line": 35, "column": 27, "endLine": 35, "endColumn": 32, "text": "none"}],
                },
                "file": str(file),
                "line": 35,
                "column": 5,
                "endLine": 35,
                "endColumn": 25,
                "object": {
                    "kind": "PodCliqueSet",
                    "namespace": "default",
                    "name": "demo",
                    "scheduler": "koord-scheduler",
                    "chosenBy": "--scheduler",
                },
            }
        ],
        "notJudged": [],
        "objectsNotJudged": [],
        "objectsJudgedInPart": [],
        "reasons": {},
        "notes": [],
        "couldRun": [],
        "unreadable": [],
    }


def test_standard_input_and_folders(rollcall: Run, tmp_path: Path) -> None:
    assert rollcall("check", *KOORD, "-", stdin=NVLINK).out.startswith("<stdin>:7:5: error koordinator/mnnvl\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.yml").write_text(NVLINK)
    (tmp_path / "a.yaml").write_text(FINE)
    (tmp_path / ".hidden.yaml").write_text("a: [")
    (tmp_path / "notes.txt").write_text("a: [")
    ran = rollcall("check", *KOORD, str(tmp_path))
    assert ran.code == 1
    assert ran.out.startswith(f"{tmp_path}/deep/b.yml:7:5: error")
    told = "2 PodCliqueSets judged for koord-scheduler (--scheduler): 1 error, 1 fixable"
    assert ran.out.endswith(f"{told}; rollcall explain {tmp_path}/deep/b.yml\n")


def test_invalid_yaml_exits_with_2_and_other_files_are_judged(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("metadata: [\n")
    (tmp_path / "b.yaml").write_text(NVLINK)
    ran = rollcall("check", *KOORD, str(tmp_path), str(tmp_path / "missing.yaml"))
    assert ran.code == 2
    assert f"{tmp_path}/b.yaml:7:5: error koordinator/mnnvl" in ran.out
    told = "1 PodCliqueSet judged for koord-scheduler (--scheduler): 1 error, 1 fixable, 2 unreadable"
    assert ran.out.endswith(f"{told}; rollcall explain {tmp_path}/b.yaml\n")
    assert ran.err == (
        f"rollcall: {tmp_path}/a.yaml:2:1: is not YAML: did not find expected node content\n"
        f"rollcall: {tmp_path}/missing.yaml: no such file\n"
    )


ITEM = """\
- metadata:
    name: x
    annotations:
      grove.io/auto-mnnvl: enabled
  spec: {template: {cliques: [{name: w}]}}
"""


def test_findings_of_list_items_have_the_position_of_the_item(rollcall: Run) -> None:
    typed = f"apiVersion: grove.io/v1alpha1\nkind: PodCliqueSetList\nitems:\n{ITEM}"
    plain = f"apiVersion: v1\nkind: List\nitems:\n{ITEM}  apiVersion: grove.io/v1alpha1\n  kind: PodCliqueSet\n"
    for listed in (typed, plain):
        ran = rollcall("check", *KOORD, "-", stdin=listed)
        assert ran.out.startswith("<stdin>:7:7: error koordinator/mnnvl\n")


def test_a_deletion_timestamp_in_a_file_hides_nothing(rollcall: Run, file: Path) -> None:
    file.write_text(NVLINK.replace("  name: demo\n", "  name: demo\n  deletionTimestamp: 2026-11-21T00:00:00Z\n"))
    ran = rollcall("check", *KOORD, str(file))
    assert ran.code == 1
    assert ran.out.startswith(f"{file}:8:5: error koordinator/mnnvl\n")


def test_an_empty_file_name_is_refused(rollcall: Run) -> None:
    assert rollcall("check", "").err == "rollcall: '': no such file\n"


def test_an_invalid_review_exits_with_2(rollcall: Run, file: Path) -> None:
    file.write_text("apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\n")
    assert rollcall("check", str(file)).err == f"rollcall: {file}:1:1: request is missing\n"


def test_without_facts_a_rule_is_not_judged_and_strict_makes_that_a_failure(rollcall: Run, file: Path) -> None:
    file.write_text(
        FINE.replace("  name: demo\n", "  name: demo\n  annotations: {scheduling.grove.io/koordinator-quota: a}\n")
    )
    ran = rollcall("check", *KOORD, str(file))
    assert (ran.code, ran.err) == (0, "")
    assert without_prose(ran.out) == [
        f"{file}:6:17: not judged koordinator/quota: the ElasticQuotas unknown",
        "    field  metadata.annotations[scheduling.grove.io/koordinator-quota]",
        "1 PodCliqueSet judged for koord-scheduler (--scheduler): 0 errors, 1 check not judged",
    ]
    assert "`kubectl get elasticquotas.scheduling.sigs.k8s.io -A -o yaml`; or use --live\n" in ran.out
    assert rollcall("check", *KOORD, "--strict", str(file)).code == 1


def test_with_facts_the_rule_is_judged(rollcall: Run, tmp_path: Path, file: Path) -> None:
    file.write_text(
        FINE.replace("  name: demo\n", "  name: demo\n  annotations: {scheduling.grove.io/koordinator-quota: a}\n")
    )
    facts = tmp_path / "facts.yaml"
    facts.write_text("apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: a}\n")
    assert rollcall("check", *KOORD, "--facts", str(facts), "--strict", str(file)).code == 0
    facts.write_text("apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuotaList\nitems: []\n")
    ran = rollcall("check", *KOORD, "--facts", str(facts), str(file))
    assert ran.code == 1
    assert "error koordinator/quota\n" in ran.out
    assert "no ElasticQuota has" in ran.out


def test_a_namespace_in_the_same_input_chooses_the_scheduler(rollcall: Run) -> None:
    labels = "{rollcall.dev/scheduler: koord-scheduler}"
    namespace = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: default, labels: {labels}}}\n"
    assert rollcall("check", "-", stdin=NVLINK).code == 0
    assert rollcall("check", "-", stdin=f"{NVLINK}---\n{namespace}").code == 1


def test_a_namespace_label_that_is_not_a_string_is_an_input_error(rollcall: Run) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {rollcall.dev/enforcement: off}}\n"
    ran = rollcall("check", *KOORD, "-", stdin=f"{NVLINK}---\n{namespace}")
    assert ran.code == 2
    assert "Namespace: expected a string, found true or false" in ran.err
    assert rollcall("check", *KOORD, "-", stdin=f"{NVLINK}---\n{namespace}".replace("off", "'off'")).code == 0


def test_a_warning_exits_with_0(rollcall: Run) -> None:
    ran = rollcall("check", *KOORD, "-", stdin=FINE.replace("name: leader", "name: er"))
    assert ran.code == 0
    assert ran.out.startswith("<stdin>:10:7: warning grove/clique-name-suffix\n")
    assert ran.out.endswith("1 PodCliqueSet judged for koord-scheduler (--scheduler): 0 errors, 1 warning\n")


def test_a_configuration_decides_what_is_refused(rollcall: Run, tmp_path: Path, file: Path) -> None:
    file.write_text(NVLINK)
    configuration = tmp_path / "rollcall.yaml"
    configuration.write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
        "scheduler: {defaultProfileName: koord-scheduler, profiles: [{name: koord-scheduler}]}\n"
        "enforcement: {rules: {koordinator/mnnvl: warn}}\n"
    )
    ran = rollcall("check", "--config", str(configuration), str(file))
    assert (ran.code, "warning koordinator/mnnvl" in ran.out) == (0, True)


def test_a_pod_gang_that_cannot_be_expressed_is_refused(rollcall: Run) -> None:
    gang = """\
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: demo-0}
spec:
  podgroups:
  - {name: demo-0-worker, minReplicas: 1, podReferences: []}
  topologyConstraintGroupConfigs:
  - name: demo-0-pool-0
    podGroupNames: [demo-0-worker]
    topologyConstraint: {packConstraint: {required: rack}}
"""
    ran = rollcall("check", *KOORD, "-", stdin=gang)
    assert ran.code == 1
    assert ran.out.startswith("<stdin>:8:5: error koordinator/scaling-group-topology\n")
    assert rollcall("check", "-", stdin=gang).code == 0
    malformed = rollcall(
        "check", *KOORD, "-", stdin=gang.replace("podGroupNames", "x").replace("name: demo-0}", "name: 5}")
    )
    assert malformed.out.startswith("<stdin>:3:12: error grove/shape\n")


def test_an_unknown_scheduler_is_a_usage_error(rollcall: Run) -> None:
    ran = rollcall("check", "--scheduler", "slurm", "-", stdin=FINE)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith('rollcall: command line: --scheduler: "slurm": ')
    assert ran.err.endswith(
        " (allowed: default-scheduler, koord-scheduler, volcano, kai-scheduler, lpx-scheduler, "
        "scheduler-plugins-scheduler)\n"
    )


def test_the_labels_of_a_namespace_in_the_same_list_count(rollcall: Run, file: Path) -> None:
    file.write_text(
        "apiVersion: v1\nkind: List\nitems:\n"
        "- apiVersion: v1\n  kind: Namespace\n"
        "  metadata: {name: default, labels: {rollcall.dev/scheduler: koord-scheduler}}\n"
        "- " + NVLINK.replace("\n", "\n  ").rstrip() + "\n"
    )
    ran = rollcall("check", str(file))
    assert ran.code == 1
    assert ": error koordinator/mnnvl\n" in ran.out


def test_control_characters_of_a_manifest_do_not_reach_the_terminal(rollcall: Run, file: Path) -> None:
    file.write_text('apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {name: "a\\e[31m\\n0 errors"}\n')
    ran = rollcall("check", *KOORD, str(file))
    assert "    object PodCliqueSet default/a\\x1b[31m\\n0 errors\n" in ran.out
    file.write_text('{"a\\u001b[31m": 1, "a\\u001b[31m": 2}')
    assert rollcall("check", str(file)).err == f"rollcall: {file}:1:20: the key a\\x1b[31m appears twice\n"


def test_a_number_that_json_cannot_represent_is_an_input_error(rollcall: Run, file: Path) -> None:
    file.write_text('{"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "spec": {"replicas": 1e999}}')
    assert rollcall("check", "-o", "json", str(file)).code == 2


def test_a_refusal_names_other_schedulers_that_could_run_it(rollcall: Run, file: Path, tmp_path: Path) -> None:
    file.write_text(GROUP)
    config = tmp_path / "rollcall.yaml"
    config.write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
        "scheduler:\n  defaultProfileName: koord-scheduler\n  profiles:\n  - name: koord-scheduler\n"
        "  - {name: default-scheduler, config: {gangScheduling: true, apiGeneration: v1beta1}}\n"
    )
    facts = tmp_path / "binding.yaml"
    facts.write_text(BINDING)
    ran = rollcall("check", "--config", str(config), "--facts", str(facts), str(file))
    assert ran.code == 1
    note = f"{file}:2:1: note: PodCliqueSet default/demo: default-scheduler could run it as written\n"
    told = f"1 PodCliqueSet judged for koord-scheduler (default): 1 error, 1 fixable; rollcall explain {file}"
    assert ran.out.endswith(f"{note}{told}\n")


def test_unknown_fields_are_found_against_the_schemas_that_are_given(rollcall: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "demo.yaml"
    manifest.write_text(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: demo}\n"
        "spec: {replicatedJobs: [], newer: 1}\n"
    )
    schemas = tmp_path / "crd.yaml"
    schema = "{openAPIV3Schema: {properties: {spec: {properties: {replicatedJobs: {}, newer: {}}}}}}"
    schemas.write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: jobsets}\n"
        "spec:\n  group: jobset.x-k8s.io\n  names: {kind: JobSet}\n"
        f"  versions: [{{name: v1alpha2, served: true, schema: {schema}}}]\n"
    )
    assert "warning fields/unknown" in rollcall("check", str(manifest)).out
    assert "fields/unknown" not in rollcall("check", "--schemas", str(schemas), str(manifest)).out
    ran = rollcall("check", "--schemas", str(manifest), str(manifest))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"rollcall: {manifest}: has no ")
    assert ran.err.endswith("Definition with a schema\n")
