"""Writes the pages of `docs/reference` that are made from the code: `python -m tools.reference_pages DIR`.

The facts that each rule asks for are observed while it judges its own examples: no list of them can be out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from types import CodeType
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from webhook.cli import metric_reference, operations_text, rule_text
from webhook.cli.commands import app
from webhook.cli.output import as_json_text
from webhook.cli.rule_text import every_rule, verdicts_on
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Needed
from webhook.model.kueue_objects import FOLLOWED, WORKLOADS
from webhook.model.nodes import GROWTH
from webhook.model.projections import POD_FIELDS
from webhook.offline.judgement import STOCK_RUNTIMES, VERSION
from webhook.offline.omissions import kubectl_of, projections_by_part, resources_of
from webhook.offline.report_schemas import fit_schema, report_schema
from webhook.offline.report_summary import rule_place
from webhook.operations.checks import EVERY_CHECK
from webhook.validators.registry import Example, Rule

_HEAD = """\
# Command line

Made by `scripts/reference`. `rollcall COMMAND --help` prints the same. Every command exits with one of these codes; its
section says more:

| code | meaning |
|---|---|
| 0 | clean |
| 1 | something is refused or wrong |
| 2 | a usage error, or something cannot be read |
| 3 | something could not be evaluated |
| 141 | the reader of the output closed the pipe |

Where more than one holds, the first of these counts: 141; 2; 1 for what is refused or wrong; 3; 1 for what only
`--strict` or `--fail-on` names. So strictness turns 0 into 1, and never 3.
"""


def command_line_page() -> str:
    """Return the page: a table of all commands, then each command with its arguments and options."""
    root = typer.main.get_command(app)
    commands = dict(_commands(root, "rollcall"))
    lines = [_HEAD, "| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#{name.replace(' ', '-')}) | {_first_line(one)} |" for name, one in commands.items()]
    for name, one in commands.items():
        lines += ["", *_section(name, one)]
    lines += ["", "## Options before the command", "", *_options(root.params)]
    return "\n".join(lines) + "\n"


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, one in sorted(group.commands.items()):
        if not isinstance(one, TyperGroup) or one.invoke_without_command:
            yield f"{path} {name}", one
        if isinstance(one, TyperGroup):
            yield from _commands(one, f"{path} {name}")


def _first_line(command: Any) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    usage = " ".join(_argument(one) for one in arguments)
    yield f"## {name}"
    yield ""
    yield f"`{name} [OPTIONS] {usage}`".replace(" `", "`")
    yield ""
    yield (command.help or "").replace("**Examples**", "Examples:")
    for one in arguments:
        if one.help:
            yield ""
            yield f"`{_argument(one)}`: {one.help}"
    if any(isinstance(one, TyperOption) for one in command.params):
        yield ""
        yield from _options(command.params)


def _argument(one: TyperArgument) -> str:
    """Return the name of an argument, with dots if there may be several, and in brackets if it may be left out."""
    word = (one.metavar or one.name.upper()) + ("..." if one.nargs == -1 else "")
    return word if one.required else f"[{word}]"


def _options(parameters: list[Any]) -> Iterator[str]:
    yield "| option | value | default | what it does |"
    yield "|---|---|---|---|"
    for one in parameters:
        if isinstance(one, TyperOption) and not one.hidden:
            names = ", ".join(f"`{name}`" for name in [*one.opts, *one.secondary_opts])
            cells = (names, _value(one), _default(one), " ".join((one.help or "").split()))
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(option: TyperOption) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.default, Enum):
        return ", ".join(f"`{one.value}`" for one in type(option.default))
    return f"`{option.metavar or 'VALUE'}`"


def _default(option: TyperOption) -> str:
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default
    if option.default in (None, False, [], ()) or not option.show_default or callable(option.default):
        return ""
    value = option.default.value if isinstance(option.default, Enum) else option.default
    return f"`{value}`"


_PARTS = frozenset(part.name for part in fields(ClusterFacts))


def parts_read_by(rule: Rule) -> frozenset[str]:
    """Return the parts of the facts that a rule reads of its examples, with their facts and without any."""
    found: set[str] = set()
    for example in (rule.passes, rule.fails):
        for known in (example.facts, NO_FACTS):
            found.update(_observed(rule, example, known))
    return frozenset(found)


def _observed(rule: Rule, example: Example, known: ClusterFacts) -> Iterator[str]:
    facts = _Observed(**{name: getattr(known, name) for name in _PARTS})
    code = rule.check.__code__
    read: set[str] = set()
    _Observed.observe = lambda part: read.add(part) if _runs(code) else None
    try:
        verdicts = verdicts_on(rule, example, facts)
    finally:
        _Observed.observe = None
    yield from read
    # A rule that only hands on what another function found.
    yield from (
        missing.part for verdict in verdicts for missing in verdict.unjudged if missing.rule == rule.id and missing.part
    )


class _Observed(ClusterFacts):
    """Facts that report each part that is read."""

    observe: Any = None

    def __getattribute__(self, name: str) -> Any:
        if name in _PARTS and (observe := _Observed.observe) is not None:
            observe(name)
        return super().__getattribute__(name)


def _runs(code: CodeType) -> bool:
    """Return whether the function with that code is among the callers."""
    frame = sys._getframe()
    found = frame.f_back
    while found is not None:
        if found.f_code is code:
            return True
        found = found.f_back
    return False


_FACT_REFERENCE_HEAD = """\
# Facts

Made by `scripts/reference`. A rule asks for facts about the cluster: whether a queue exists, which layers a topology
has. In a cluster Rollcall watches them. Elsewhere they are supplied in one of these ways:

* `rollcall facts -o DIR` writes everything in this list that you may read, and `--facts DIR` reads it. Repeat it when
  the cluster changes; the folder can be kept in Git.
* `--live` reads it from the cluster when the command runs, with your own rights.
* `--facts` also reads manifests that are written by hand or by `kubectl get KIND -A -o yaml`.
* Some objects in the checked files count, too: namespaces, runtimes, queues, gang objects, TrainJobs. The cluster may
  have more of them, so none is said to be missing, except for gang objects and workloads in a namespace of which the
  files have some.

A fact is *unknown* until there is an object of its kind or an empty list of it. A rule that needs an unknown fact
neither passes nor refuses: it is *not judged*, and the line says which command supplies the fact. In a cluster that was
read with `--live` the line names the missing right, or says that the cluster does not serve the kind.

`rollcall facts` writes only the fields that are listed here. Of annotations it writes those of Rollcall, Grove, the
schedulers and the workload controllers, and those whose name contains "queue". It reads no Secret, and of ConfigMaps
only whether the Cluster Autoscaler has written its status. Of pods and pod templates it writes no image, command,
environment or volume, but only: {pod}.
"""
# The parts that only a server or a reconciler fills, and those that say something about the others.
_NOT_SUPPLIED = frozenset(
    {"gang_objects", "unread_gang_kinds", "kubernetes", "partial", "whole_namespaces", "unread", "origins"}
)
# Who asks besides rules.
_ALSO = {
    "namespaces": "the choice of the scheduler, enforcement",
    "pod_clique_sets": "the preparation of pods",
    "pod_gangs": "the preparation of pods",
    "pod_gang_maps": "the preparation of pods",
    "bound_gangs": "the adoption of a set that predates Rollcall",
    "jobs": "the preparation of pods",
    "job_sets": "the preparation of pods",
    "leader_worker_sets": "the preparation of pods",
    "train_jobs": "the preparation of pods",
    "topology_bindings": "the gang objects, whether a gang can ever fit",
    **dict.fromkeys(
        (
            "nodes",
            *(projection.part for projection in GROWTH),
            "elastic_quotas",
            "volcano_queues",
            "kai_queues",
            "network_topologies",
            "hyper_nodes",
            "kai_topologies",
            "resource_quotas",
            "limit_ranges",
            "resource_slices",
            "device_classes",
            "resource_claim_templates",
            "resource_claims",
        ),
        "whether a gang can ever fit",
    ),
    "training_runtimes": "the same rules as ClusterTrainingRuntime",
    **dict.fromkeys((projection.part for projection in (*FOLLOWED, WORKLOADS)), "why a gang is held"),
    **dict.fromkeys(("node_pods", "node_reservations"), "the estimate of `rollcall fit`; never the webhook"),
    "spec_fields": "whether a scheduler's kinds have the fields that Rollcall writes",
}
_TITLES = {
    "bound_gangs": "PodGangs with a pod on a node",
    "group_sizes": "Pods of each group in the same files",
    "file_groups": "PodGroups in the same files",
    "pods_gangs": "Gangs that pods in the same files describe without a PodGroup",
    "gang_sizes": "Pods of workloads that own a PodGroup in the same files",
    "node_pods": "Pods on nodes",
    "node_reservations": "Reservations of Koordinator",
    "group_pods": "Pods that wait for a node in a group",
    "apis": "Served kinds",
    "spec_fields": "Field names of kinds",
}
_SAID = {
    "bound_gangs": "one pod for each PodGang: its name, `metadata.labels[grove.io/podgang]`, and that it has a node",
    **dict.fromkeys(("node_pods", "node_reservations"), "nothing"),
    **dict.fromkeys(("group_sizes", "file_groups", "pods_gangs", "gang_sizes"), "nothing"),
    "apis": "a list of APIGroupDiscovery: group, version, kind, plural and scope of the kinds of Grove, the schedulers "
    "and the workloads",
    "spec_fields": "CustomResourceDefinitions with the names of the fields and nothing else",
}


def facts_page() -> str:
    """Return the page: the facts one by one, and the runtimes that are known without a cluster."""
    asked = _rules_by_part()
    parts = [part.name for part in fields(ClusterFacts) if part.name not in _NOT_SUPPLIED]
    lines = [_FACT_REFERENCE_HEAD.format(pod=_listed(POD_FIELDS))]
    lines += [line for part in parts for line in (*_fact_reference_section(part, asked.get(part, [])), "")]
    return "\n".join((*lines, *_runtimes())) + "\n"


def _rules_by_part() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for rule in every_rule():
        for part in sorted(parts_read_by(rule)):
            found.setdefault(part, []).append(f"[{rule.id}](rules/{rule_place(rule.id)})")
    return found


def _fact_reference_section(part: str, rules: list[str]) -> Iterator[str]:
    """Yield the lines about one fact: its kind, who asks, how to supply it by hand, and what is written."""
    resources = resources_of(part)
    yield f"## {_TITLES.get(part) or Needed(part)}"
    yield ""
    if resources:
        yield f"* kind: {_listed(resource.qualified for resource in resources)}"
    asked = [*([_ALSO[part]] if part in _ALSO else []), *rules]
    yield f"* asked for by: {', '.join(asked)}"
    if (command := kubectl_of(part)) is not None:
        yield f"* by hand: `{command}`"
    yield f"* written: {', '.join(_written(part))}"


def _written(part: str) -> Iterator[str]:
    """Yield the fields that are written, with those of a pod template as one."""
    if part in _SAID:
        yield _SAID[part]
        return
    paths = [path for one in projections_by_part().get(part, ())[:1] for path in one.fields]
    mark = ".containers.resources"
    pods = tuple(path.removesuffix(mark) for path in paths if path.endswith(mark))
    for path in paths:
        if not path.startswith(tuple(f"{pod}." for pod in pods)):
            yield f"`{path}`"
    yield from (f"the fields of the pod in `{pod}`" for pod in pods)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def _runtimes() -> Iterator[str]:
    yield "## Runtimes that are known without a cluster"
    yield ""
    yield f"If nothing else tells the ClusterTrainingRuntimes, those that Trainer {VERSION} installs are assumed:"
    yield f"{_listed(STOCK_RUNTIMES)}."
    yield "A verdict that rests on one of them has a note. Any other runtime is unknown until it is supplied."


def reference_pages() -> dict[str, str]:
    """Return the text of each page by its path below `docs/reference`."""
    return {
        "command-line.md": command_line_page(),
        "doctor.md": operations_text.reference(EVERY_CHECK),
        "facts.md": facts_page(),
        "metrics.md": metric_reference.reference(metric_reference.metrics_of(metric_reference.reference_settings())),
        "fit.schema.json": f"{as_json_text(fit_schema())}\n",
        "report.schema.json": f"{as_json_text(report_schema())}\n",
    } | {f"rules/{name}": text for name, text in rule_text.pages().items()}


def write(pages: Mapping[str, str], folder: Path) -> None:
    """Writes the pages below `folder`, and deletes the rule pages of backends that no longer exist."""
    for old in (folder / "rules").glob("*.md"):
        if f"rules/{old.name}" not in pages:
            old.unlink()
    for path, text in pages.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(reference_pages(), Path(sys.argv[1]))
