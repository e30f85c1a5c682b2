"""The rules as `rollcall rules` and the pages in `docs/reference/rules` show them, with what each rule says of its
failing example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook import admission
from webhook.backends.koordinator.keys import NAME as KOORDINATOR
from webhook.backends.registry import installed_backends
from webhook.cli.options import ReferenceFormat, configured, console, judging_configuration
from webhook.cli.output import as_json_text
from webhook.cli.settings_text import actions_of
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Request, Verdict
from webhook.model.bounds import Packed
from webhook.model.capabilities import Support
from webhook.model.facts import ClusterFacts
from webhook.model.fields import meant
from webhook.model.reading import mapping, text
from webhook.offline.judgement import judge, kind_of
from webhook.offline.report_summary import GENERAL_PAGE, anchor, paragraphs, rules_by_page, summary
from webhook.offline.yaml_and_json import as_compact_yaml_text, as_yaml_text
from webhook.validators.registry import Example, Rule, Subject


def known_values(facts: ClusterFacts) -> dict[str, Any]:
    parts = {part.name.replace("_", " "): getattr(facts, part.name) for part in fields(facts)}
    return {name: _plain(value) for name, value in parts.items() if value is not None}


def _plain(value: Any) -> Any:
    """Returns a value in a form that is the same on every run."""
    if isinstance(value, Packed):
        return value.manifest()
    if isinstance(value, Mapping):
        return {_key(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, frozenset):
        return sorted(_key(member) for member in value)
    if is_dataclass(value):
        attributes = {part.name: getattr(value, part.name) for part in fields(value) if part.compare}
    elif hasattr(value, "_asdict"):
        attributes = value._asdict()
    elif isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    else:
        return value if value is None or type(value) in {str, int, float, bool} else str(value)
    return {
        name.replace("_", " "): _plain(attribute)
        for name, attribute in attributes.items()
        if attribute is not None and attribute is not False and attribute not in ((), {}, frozenset())
    }


def _key(key: Any) -> str:
    """Returns a key in words: namespace and name of an object, or a kind."""
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)


def messages(rule: Rule) -> list[str]:
    verdicts = verdicts_on(rule, rule.fails, rule.fails.facts)
    return [str(finding) for verdict in verdicts for finding in verdict.findings if finding.rule == rule.id]


def verdicts_on(rule: Rule, example: Example, facts: ClusterFacts) -> list[Verdict]:
    settings = settings_of_example(rule, example)
    if rule.subject is Subject.MANIFEST:
        return [judgement.verdict for judgement in judge(deepcopy(example.object), facts, settings)]
    request = _request(example)
    admission.mutate(request, facts, settings)
    return [admission.validate(request, facts, settings)]


def _request(example: Example) -> Request:
    metadata = mapping(example.object.get("metadata"))
    return Request(
        "",
        "CREATE" if example.old is None else "UPDATE",
        kind_of(example.object),
        text(metadata.get("namespace")) or "default",
        text(metadata.get("name")) or "",
        # Mutation changes the object.
        deepcopy(example.object),
        deepcopy(example.old),
        user=example.user,
    )


def settings_of_example(rule: Rule, example: Example) -> Settings:
    """Returns the settings of the rule's scheduler. A rule for every scheduler is shown with koord-scheduler."""
    shown_with = example.scheduler or KOORDINATOR
    name = next((name for name, backend in installed_backends().items() if rule in backend.rules), shown_with)
    profile: dict[str, Any] = {"name": name, "config": dict(example.config)}
    if example.version is not None:
        profile["schedulerVersion"] = example.version
    return _settings_from(json.dumps(profile), json.dumps(dict(example.kueue)))


@cache
def _settings_from(profile: str, kueue: str) -> Settings:
    """Returns the settings of a profile and a section `kueue`, both as JSON. Few examples have some of their own."""
    name = json.loads(profile)["name"]
    document = {
        "apiVersion": "rollcall.dev/v1alpha1",
        "kind": "RollcallConfiguration",
        "scheduler": {"defaultProfileName": name, "profiles": [json.loads(profile)]},
        "kueue": json.loads(kueue),
    }
    return replace(settings_from(document, name), standalone=True)


_HEAD = """\
# Rules

Made by {maker}. Each rule finds one thing in a workload that a scheduler cannot honour.
*deny* refuses the object, *warn* warns its author;
[configuration](../configuration.md#enforcement) says how to change that. A rule that *fails closed* cannot be weakened:
what it refuses cannot be translated for the scheduler. No [exception](../../how-to/exceptions.md) covers it, and none
covers a rule that is *never excepted*. A *workload of another kind* is a
[TrainJob, JobSet, LeaderWorkerSet or Job](../../how-to/other-workloads.md).
"""
_COLUMNS = ("| rule | default | judges |", "|---|---|---|")


def every_rule() -> list[Rule]:
    """Returns the rules of every installed backend, after those that apply to all of them."""
    return [rule for rules in rules_by_page().values() for rule in rules]


def reference(rules: list[Rule]) -> str:
    """Returns one page: the rules as a table and one by one, then the capabilities of each backend."""
    lines = [_HEAD.format(maker="`rollcall rules --output markdown`"), *_COLUMNS]
    lines += [_row(rule) for rule in rules]
    for rule in rules:
        lines += ["", *_section(rule)]
    lines += ["", "# Capabilities", ""]
    for name in installed_backends():
        lines += [f"## {name}", "", *_capabilities(name), ""]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    lines = [_HEAD.format(maker="`scripts/reference`"), "| page | rules |", "|---|---|"]
    lines += [f"| [{name}]({name}.md) | {len(rules)} |" for name, rules in rules_by_page().items()]
    lines += ["", *_COLUMNS]
    lines += [_row(rule, f"{name}.md") for name, rules in rules_by_page().items() for rule in rules]
    texts = {"index.md": "\n".join(lines) + "\n"}
    for name, rules in rules_by_page().items():
        lines = [f"# Rules of {name}" if name != GENERAL_PAGE else "# Rules for every scheduler", "", *_COLUMNS]
        lines += [_row(rule) for rule in rules]
        if name in installed_backends():
            lines += ["", "## Capabilities", "", *_capabilities(name)]
        for rule in rules:
            lines += ["", *_section(rule)]
        texts[f"{name}.md"] = "\n".join(lines) + "\n"
    return texts


def as_yaml(example: Example) -> str:
    assumed = _comment({"profile": dict(example.config)}) if example.config else []
    if example.kueue:
        assumed += _comment({"kueue": dict(example.kueue)})
    if example.scheduler:
        assumed.append(f"# scheduler: {example.scheduler}")
    if example.version is not None:
        assumed.append(f"# profile: schedulerVersion {example.version}")
    if example.user:
        assumed.append(f"# written by the user {example.user}")
    if example.old is not None:
        assumed.append("# an update of:")
        assumed += [f"#   {line}" for line in as_yaml_text(example.old).splitlines()]
    if cluster_values := known_values(example.facts):
        assumed += ["# known of the cluster:", *_comment(cluster_values, "  ")]
    return "\n".join([*assumed, as_yaml_text(example.object)]).rstrip()


def _comment(values: dict[str, Any], indent: str = "") -> list[str]:
    return [f"# {indent}{line}" for line in as_compact_yaml_text(values).splitlines()]


def _row(rule: Rule, page: str = "") -> str:
    return f"| [{rule.id}]({page}#{anchor(rule.id)}) | {rule.default} | {rule.judges} |"


def _section(rule: Rule) -> Iterator[str]:
    softened = " Fails closed." if rule.fails_closed else " Never excepted." if rule.never_excepted else ""
    used = " or ".join(f"*{capability}*" for capability in sorted(rule.capabilities))
    capability = f" Runs for workloads that use {used}." if used else ""
    yield f"## {rule.id}"
    yield ""
    yield f"Default: **{rule.default}**.{softened} Judges: {rule.judges}.{capability}"
    for paragraph in paragraphs(rule.documentation):
        yield ""
        yield paragraph
    yield from ("", "Found in:", "", "```yaml", as_yaml(rule.fails), "```")
    yield from ("", "Message:", "", "```text", *messages(rule), "```")
    yield from ("", "Fine:", "", "```yaml", as_yaml(rule.passes), "```")


def _capabilities(name: str) -> Iterator[str]:
    backend = installed_backends()[name]
    yield "| capability | |"
    yield "|---|---|"
    for capability, support in backend(backend.settings_model()).capabilities.items():
        yield f"| {capability} | {_support(support)} |"


def _support(support: Support) -> str:
    if not support.supported:
        return f"no: {support.why}; {support.remedy}"
    return f"depends on {support.depends}" if support.depends else "yes"


# The actions of each rule by scheduler, by the rule's id.
Actions = Mapping[str, Mapping[str, str]]
# On a narrower terminal the last column of the table would have a word a line.
_TABLE_WIDTH = 120
_INDENT = 4


def print_chosen(command: typer.Context, rule: str | None, config: Path | None, output: ReferenceFormat) -> None:
    rules = every_rule() if rule is None else [_declared(rule)]
    if output is ReferenceFormat.MARKDOWN:
        typer.echo(reference(rules), nl=False)
        return
    config = judging_configuration(command, config)
    settings = configured(config)
    actions = None if config is None else actions_of(settings)
    if rule is None and actions is not None:
        disabled = [backend for name, backend in installed_backends().items() if name not in settings.profiles]
        rules = [declared for declared in rules if not any(declared in backend.rules for backend in disabled)]
    if output is ReferenceFormat.JSON:
        typer.echo(as_json_text([_as_json(declared, actions) for declared in rules]))
    elif rule is not None:
        _show(rules[0], actions)
    else:
        print_rules(rules, actions, console())


def _declared(rule_id: str) -> Rule:
    rules = {declared.id: declared for declared in every_rule()}
    if rule_id not in rules:
        raise typer.BadParameter(f"there is no rule {rule_id}; `rollcall rules` lists them{meant(rule_id, rules)}")
    return rules[rule_id]


def _action(declared: Rule, actions: Actions | None) -> str:
    """Returns what the rule does: its default, or its action in the configuration. Schedulers may differ."""
    if actions is None or declared.id not in actions:
        return str(declared.default)
    return "/".join(sorted(set(actions[declared.id].values())))


def print_rules(rules: list[Rule], actions: Actions | None, out: Console) -> None:
    """Prints a line for each rule; on a terminal as a table, or as two lines each if that is too narrow for a table."""
    rows = []
    for declared in rules:
        # In a few words: a column is as wide as its longest cell.
        judges = declared.subject.value if len(declared.kinds) > 1 else declared.judges
        rows.append((declared.id, _action(declared, actions), judges, summary(declared)))
    if not out.is_terminal:
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            print(*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3], sep="  ")
        return
    if out.width < _TABLE_WIDTH:
        for name, action, judges, why in rows:
            out.print(f"[bold]{name}[/] {action}, {judges}")
            out.print(Padding(Text(why), (0, 0, 0, _INDENT)))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("rule", "default" if actions is None else "action", "judges"):
        table.add_column(column, no_wrap=True)
    table.add_column("why")
    for name, action, judges, why in rows:
        table.add_row(f"[bold]{name}[/]", action, judges, why)
    out.print(table)


def _show(declared: Rule, actions: Actions | None) -> None:
    out = console()
    limits = ", cannot be softened" if declared.fails_closed else ", never excepted" if declared.never_excepted else ""
    out.print(f"[bold]{declared.id}[/] ({declared.default}{limits})")
    if actions is not None:
        out.print(f"in the configuration: {_action_words(declared, actions)}")
    for paragraph in paragraphs(declared.documentation):
        out.print()
        out.print(paragraph, markup=False)
    found_in, fine = as_yaml(declared.fails), as_yaml(declared.passes)
    for title, lines in (("found in", found_in), ("message", "\n".join(messages(declared))), ("fine", fine)):
        out.print(f"\n[bold]{title}:[/]\n")
        out.print(lines, markup=False, soft_wrap=True)


def _action_words(declared: Rule, actions: Actions) -> str:
    taken = actions.get(declared.id)
    if taken is None:
        # Rules about an object's shape or the choice of a scheduler are in no profile.
        general = not any(declared in backend.rules for backend in installed_backends().values())
        return str(declared.default) if general else "its scheduler is not enabled"
    return ", ".join(f"{action} for {scheduler}" for scheduler, action in taken.items())


def _as_json(declared: Rule, actions: Actions | None) -> dict[str, Any]:
    return {
        "id": declared.id,
        "default": str(declared.default),
        "judges": declared.judges,
        **({} if actions is None else {"actions": dict(actions.get(declared.id, {}))}),
        "failsClosed": declared.fails_closed,
        "neverExcepted": bool(declared.never_excepted),
        "capabilities": sorted(declared.capabilities),
        "documentation": "\n\n".join(paragraphs(declared.documentation)),
        "passes": declared.passes.object,
        "fails": declared.fails.object,
        "messages": messages(declared),
    }
