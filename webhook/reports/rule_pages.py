"""Every rule with its documentation, and the page of the documentation that describes it."""

from __future__ import annotations

from functools import cache
from inspect import cleandoc

from webhook.backends.registry import installed_backends
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.validators.registry import Rule

# The page of the rules that belong to no backend.
GENERAL_PAGE = "every-scheduler"
_FOLDER = "reference/rules"


def rules_by_page() -> dict[str, list[Rule]]:
    """Return the rules that apply to every scheduler, then those of each installed backend, by page."""
    own = {name: list(backend.rules) for name, backend in installed_backends().items()}
    return {GENERAL_PAGE: [*SHAPE_RULES, *CHOICE_RULES, *GENERAL_RULES]} | own


def paragraphs(rule: Rule) -> list[str]:
    """Return the rule's documentation as paragraphs of one line each; the last one is its source."""
    return [" ".join(paragraph.split()) for paragraph in cleandoc(rule.documentation).split("\n\n")]


def summary(rule: Rule) -> str:
    """Return the first sentence of the rule's documentation."""
    first = paragraphs(rule)[0]
    return first[: first.find(". ") + 1] or first


def anchor(rule_id: str) -> str:
    """Return the anchor of a rule on its page."""
    return rule_id.replace("/", "")


@cache
def rules_by_id() -> dict[str, tuple[Rule, str]]:
    """Return each rule and its page."""
    return {rule.id: (rule, page) for page, rules in rules_by_page().items() for rule in rules}


def rule_place(rule_id: str) -> str:
    """Return the section of an installed rule, relative to the folder of the rules' pages."""
    _, page = rules_by_id()[rule_id]
    return f"{page}.md#{anchor(rule_id)}"


def rule_url(rule_id: str, documentation: str) -> str | None:
    """Return the address of a rule's section: below `documentation`, or relative to the project if that is empty.
    Return None for a rule that is not installed.
    """
    if rule_id not in rules_by_id():
        return None
    return f"{documentation.rstrip('/') or 'docs'}/{_FOLDER}/{rule_place(rule_id)}"
