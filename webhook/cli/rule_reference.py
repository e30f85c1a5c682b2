"""The pages in `docs/reference/rules`, made from the rules, and the parts of them that `rollcall rules` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.backends.registry import installed_backends
from webhook.cli.known_values import known_values
from webhook.cli.rule_messages import messages
from webhook.cli.yaml_text import as_compact_yaml_text, as_yaml_text
from webhook.model.capabilities import Support
from webhook.reports.rule_pages import GENERAL_PAGE, anchor, paragraphs, rules_by_page
from webhook.validators.registry import Example, Rule

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
    """Return the rules of every installed backend, after those that apply to all of them."""
    return [rule for rules in rules_by_page().values() for rule in rules]


def reference(rules: list[Rule]) -> str:
    """Return one page: the rules as a table and one by one, then the capabilities of each backend."""
    lines = [_HEAD.format(maker="`rollcall rules --output markdown`"), *_COLUMNS]
    lines += [_row(rule) for rule in rules]
    for rule in rules:
        lines += ["", *_section(rule)]
    lines += ["", "# Capabilities", ""]
    for name in installed_backends():
        lines += [f"## {name}", "", *_capabilities(name), ""]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return every rule on the page of its backend, by file name: `index.md` lists all of them."""
    found = {"index.md": _index()}
    for name, rules in rules_by_page().items():
        lines = [f"# Rules of {name}" if name != GENERAL_PAGE else "# Rules for every scheduler", "", *_COLUMNS]
        lines += [_row(rule) for rule in rules]
        if name in installed_backends():
            lines += ["", "## Capabilities", "", *_capabilities(name)]
        for rule in rules:
            lines += ["", *_section(rule)]
        found[f"{name}.md"] = "\n".join(lines) + "\n"
    return found


def as_yaml(example: Example) -> str:
    """Return an example as YAML, with its assumptions as comments above."""
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
    if known := known_values(example.facts):
        assumed += ["# known of the cluster:", *_comment(known, "  ")]
    return "\n".join([*assumed, as_yaml_text(example.object)]).rstrip()


def _comment(values: dict[str, Any], indent: str = "") -> list[str]:
    return [f"# {indent}{line}" for line in as_compact_yaml_text(values).splitlines()]


def _index() -> str:
    lines = [_HEAD.format(maker="`scripts/reference`"), "| page | rules |", "|---|---|"]
    lines += [f"| [{name}]({name}.md) | {len(rules)} |" for name, rules in rules_by_page().items()]
    lines += ["", *_COLUMNS]
    lines += [_row(rule, f"{name}.md") for name, rules in rules_by_page().items() for rule in rules]
    return "\n".join(lines) + "\n"


def _row(rule: Rule, page: str = "") -> str:
    return f"| [{rule.id}]({page}#{anchor(rule.id)}) | {rule.default} | {rule.judges} |"


def _section(rule: Rule) -> Iterator[str]:
    softened = " Fails closed." if rule.fails_closed else " Never excepted." if rule.never_excepted else ""
    used = " or ".join(f"*{capability}*" for capability in sorted(rule.capabilities))
    capability = f" Runs for workloads that use {used}." if used else ""
    yield f"## {rule.id}"
    yield ""
    yield f"Default: **{rule.default}**.{softened} Judges: {rule.judges}.{capability}"
    for paragraph in paragraphs(rule):
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
