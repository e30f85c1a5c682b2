"""The check of the ClusterRoles: they have every right that this version needs under its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.doctor.checking import Level, Symptom, Symptoms, check, first_of
from webhook.doctor.examples import configured, installed
from webhook.doctor.parts import RECONCILER_RIGHTS, SERVER_RIGHTS, Part
from webhook.doctor.snapshot import Snapshot
from webhook.installation.access import access_rules, reconciler_access_rules
from webhook.model.reading import Manifest, mapping, sequence

# How many kinds a message names.
_NAMED = 5
_EVERY = "*"


def _roles(without: str = "") -> list[Manifest]:
    """The generated roles, without the rights to a resource."""
    found = [access_rules(configured(), "rollcall-system", "rollcall")[0]]
    found.append(reconciler_access_rules(configured(), "rollcall-system", "rollcall-reconciler")[0])
    return [{**role, "rules": [rule for rule in role["rules"] if without not in rule["resources"]]} for role in found]


@check(
    "accounts/rights",
    level=Level.WARNING,
    passes=lambda: installed(*_roles()),
    fails=lambda: installed(*_roles(without="nodes")),
)
def rights(snapshot: Snapshot) -> Symptoms:
    """The ClusterRoles of the server and the reconciler have the rights to read what this version reads under this
    configuration. Roles of an earlier version lack those to newer kinds. What cannot be read stays unknown: without
    nodes, for example, no gang is told that it never fits.

    Source: webhook/installation/access.py, which makes the roles from the kinds that are read.
    """
    account = snapshot.namespace
    for part, wanted in (
        (SERVER_RIGHTS, access_rules(snapshot.settings, account, "")),
        (RECONCILER_RIGHTS, reconciler_access_rules(snapshot.settings, account)),
    ):
        yield from _lacking(snapshot, part, sequence(wanted[0]["rules"]))


def _lacking(snapshot: Snapshot, part: Part, wanted: Iterable[Manifest]) -> Symptoms:
    role = snapshot.one(part)
    if role is None:
        # The account may have its rights from another role.
        return
    granted = [mapping(rule) for rule in sequence(role.get("rules"))]
    lacking = sorted({name for rule in wanted for name in _missing(rule, granted)})
    if lacking:
        yield Symptom(
            f"ClusterRole {part.name}",
            f"it has no right to list and watch {first_of(lacking, _NAMED)}",
            "what cannot be read stays unknown, and the rules that need it do not judge",
            "apply the roles of this version again: rollcall manifests rbac, or helm upgrade",
        )


def _missing(rule: Manifest, granted: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The resources of a rule that may not be read."""
    verbs = {"list", "watch"} & set(rule["verbs"])
    every = list(granted)
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            if any(not any(_grants(one, group, resource, verb) for one in every) for verb in verbs):
                yield f"{resource}.{group}" if group else resource


def _grants(rule: Mapping[str, Any], group: str, resource: str, verb: str) -> bool:
    return all(
        wanted in (held := sequence(rule.get(field))) or _EVERY in held
        for field, wanted in (("apiGroups", group), ("resources", resource), ("verbs", verb))
    )
