"""What a rule says that lacks a fact: which command or right supplies it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields

import pytest

from tools.reference_pages import parts_read_by
from webhook.cli.rule_text import every_rule, settings_of_example
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Unjudged
from webhook.offline.judgement import judge
from webhook.offline.manifests import read_text
from webhook.offline.omissions import add_remedies, supply_of
from webhook.offline.worlds import one_world
from webhook.server.admission_review import MAX_MESSAGE_BYTES
from webhook.validators.registry import Rule


def unjudged_without_facts(rule: Rule) -> Iterator[Unjudged]:
    for example in (rule.passes, rule.fails):
        if example.old is None:
            for found in judge(deepcopy(example.object), NO_FACTS, settings_of_example(rule, example)):
                yield from found.verdict.unjudged


def test_every_rule_that_lacks_a_fact_says_how_to_supply_it() -> None:
    parts = {part.name for part in fields(ClusterFacts)}
    seen: set[str] = set()
    for rule in every_rule():
        for missing in unjudged_without_facts(rule):
            assert missing.part in parts, missing
            assert missing.remedy, missing
            assert len(str(missing).encode()) <= MAX_MESSAGE_BYTES, missing
            seen.add(missing.part)
    assert {"kai_queues", "volcano_queues", "elastic_quotas", "priority_classes", "topology_bindings", "apis"} <= seen


@pytest.mark.parametrize(
    ("part", "command"),
    [
        ("kai_queues", "kubectl get queues.scheduling.run.ai -o yaml"),
        ("elastic_quotas", "kubectl get elasticquotas.scheduling.sigs.k8s.io -A -o yaml"),
        ("apis", None),
    ],
)
def test_the_command_names_the_kind(part: str, command: str | None) -> None:
    assert re.findall("`(kubectl [^`]+)`", supply_of(part)) == ([] if command is None else [command])
    assert "--facts" in supply_of(part)
    assert "--live" in supply_of(part)


def test_in_a_cluster_that_was_read_the_missing_right_is_named_instead() -> None:
    missing = Unjudged(SPEC, "the labels of Namespace a", "owner/train-job-alone", "add it", part="namespaces")
    (told,) = add_remedies([missing], ClusterFacts(unread={"namespaces": "get the right"}))
    assert told.remedy == "get the right"
    assert add_remedies([missing], NO_FACTS) == (missing,), "a rule that names the object knows better"


def test_what_no_cluster_can_tell_has_no_remedy() -> None:
    missing = Unjudged(SPEC, "the members of PodGang a", "grove/pod-outside-gang")
    assert add_remedies([missing], NO_FACTS) == (missing,)


def test_a_part_of_which_the_files_have_only_some_objects_is_supplied_in_the_same_way() -> None:
    rule = next(rule for rule in every_rule() if rule.id == "kai/queue")
    documents = read_text("apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: other}\n", "queue.yaml")
    known = one_world(NO_FACTS, documents)
    settings = settings_of_example(rule, rule.passes)
    (found,) = judge(deepcopy(rule.passes.object), known, settings)
    told = [missing for missing in found.verdict.unjudged if missing.part == "kai_queues"]
    assert {missing.remedy for missing in told} == {supply_of("kai_queues")}


def test_the_facts_that_a_rule_reads_are_observed() -> None:
    rules = {rule.id: parts_read_by(rule) for rule in every_rule() if rule.id in {"kai/queue", "kai/queue-in-use"}}
    assert rules == {
        "kai/queue": frozenset({"kai_queues"}),
        "kai/queue-in-use": frozenset({"kai_pod_groups", "kai_queues", "partial"}),
    }
