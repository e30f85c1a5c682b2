"""The data of the Helm chart: what rights, webhooks and the net need, for each feature of a configuration.

The templates of the folder `chart` are written by hand and read these data. A feature is a part of a configuration on
which they depend: a profile with its settings that matter here, each of these with the audit and as a shadow, the pod
gate, deleted escapes, a remedy, answers to Kueue, or self-managed certificates. Features only add objects and rules,
so a configuration needs what its features need together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Literal, NamedTuple, get_args, get_origin

from webhook.backends.base import BackendSettings
from webhook.backends.registry import BackendClass, installed_backends
from webhook.config.settings import (
    Auditing,
    Certificates,
    Enforcement,
    Profile,
    Registration,
    RemedySettings,
    Settings,
    Shadow,
)
from webhook.installation.net_policy import net_policy
from webhook.installation.rbac import access_rules, reconciler_access_rules
from webhook.installation.webhooks import Address, names_a_group, refuses_pods, seal_condition, webhook_configurations
from webhook.model.gang_objects import JUDGED_PODS
from webhook.model.known_kinds import NO_GANGS
from webhook.model.reading import Manifest
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.workloads.kueue_integration import CheckMode
from webhook.workloads.workload_kinds import WorkloadKinds

# The templates replace it.
_NAMESPACE = "{{ .Release.Namespace }}"
_ALWAYS = "always"
_ESCAPES = frozenset({"unmutated", "stale", "foreign"})
# The remedies that need rights of their own.
_REMEDIES = ("forgotten", "oldMembership", "groveGate")
_PARTS = ("apiGroups", "resources", "resourceNames")


class _Feature(NamedTuple):
    """A feature, and settings that have only this one. `scheduler` is its profile, if it is one."""

    name: str
    settings: Settings
    scheduler: str = ""


def chart_data(kinds: WorkloadKinds) -> dict[str, Manifest]:
    """Returns the content of each data file of the chart by its name, for the built-in `kinds`."""
    settings = {name: _defaults_that_matter(backend) for name, backend in installed_backends().items()}
    features = list(_features(settings, kinds))
    profiles = {
        name: {"gate": backend.gate, "controllers": list(backend.controllers), "settings": settings[name]}
        for name, backend in installed_backends().items()
    }
    return {"profiles": profiles, "rights": _rights(features), "webhooks": _webhooks(features), "net": _net(features)}


def _features(settings: Mapping[str, Mapping[str, object]], kinds: WorkloadKinds) -> Iterator[_Feature]:
    yield _Feature(_ALWAYS, _settings(kinds=kinds))
    for name, backend in installed_backends().items():
        values = {key: _values(backend.settings_model)[key] for key in settings[name]}
        for chosen in product(*values.values()):
            config = dict(zip(values, chosen, strict=True))
            words = (str(value).lower() if isinstance(value, bool) else str(value) for value in chosen)
            feature = " ".join([name, *(f"{key}={word}" for key, word in zip(values, words, strict=True))])
            profile = _profile(backend, config)
            judging = _settings(profile, kinds=kinds)
            yield _Feature(feature, judging, name)
            auditing = Auditing(open_reports=True)
            yield _Feature(f"audit {feature}", _settings(profile, kinds=kinds, auditing=auditing))
            yield _Feature(f"shadow {feature}", _settings(shadows=(Shadow(name, judging),), kinds=kinds))
    gated = _profile(installed_backends()[DEFAULT_SCHEDULER], {}, gate=True)
    yield _Feature("gate", _settings(gated, kinds=kinds))
    yield _Feature("escapes", _settings(deleted_escapes=_ESCAPES, kinds=kinds))
    for cause in _REMEDIES:
        yield _Feature(f"remedies {cause}", _settings(remedies=RemedySettings(frozenset({cause})), kinds=kinds))
    yield _Feature("admissionCheck", _settings(admission_check=CheckMode.AUDIT, kinds=kinds))
    yield _Feature("selfManaged", _settings(certificates=Certificates(self_managed=True), kinds=kinds))


def _rights(features: list[_Feature]) -> dict[str, list[Manifest]]:
    """Returns the rules of each role, with the verbs that each feature needs beside those that are always needed."""
    rules_by_role: dict[str, dict[str, Manifest]] = {}
    for feature in features:
        for role in _roles(feature.settings):
            rules = rules_by_role.setdefault(f"{role['kind']}/{role['metadata']['name']}", {})
            for rule in role["rules"]:
                what = {part: rule[part] for part in _PARTS if part in rule}
                verbs = rules.setdefault(json.dumps(what), {**what, "verbs": {}})["verbs"]
                granted = (*verbs.get(_ALWAYS, ()), *verbs.get(feature.name, ()))
                new = [verb for verb in rule["verbs"] if verb not in granted]
                if new:
                    verbs[feature.name] = [*verbs.get(feature.name, ()), *new]
    return {role: list(rules.values()) for role, rules in rules_by_role.items()}


def _webhooks(features: list[_Feature]) -> Manifest:
    """Returns what the webhooks are called for: opted-in workloads, and for each feature gang objects and pods."""
    mutating, _ = _configurations(features[0].settings)
    rules = {hook["name"]: hook["rules"] for hook in mutating["webhooks"]}
    objects: dict[str, dict[str, list[str]]] = {}
    pods: dict[str, list[str]] = {}
    warned: dict[str, list[str]] = {}
    for feature in features:
        if not feature.scheduler:
            continue
        profile = feature.settings.profiles[feature.scheduler]
        for kind in profile.judged:
            if kind != JUDGED_PODS:
                objects.setdefault(kind.group, {}).setdefault(feature.name, []).append(kind.plural)
        if profile.backend.judged_marks:
            (pods if refuses_pods(profile) else warned)[feature.name] = [names_a_group(profile)]
    sealed = {
        feature.scheduler: condition
        for feature in features
        if feature.scheduler and (condition := seal_condition(feature.settings.profiles[feature.scheduler])) is not None
    }
    kinds = features[0].settings.kinds
    # What the templates leave out if a built-in shape is disabled.
    shapes = {}
    for shape in kinds.declared:
        api = shape.resource.api
        controller = "" if (api.group, api.kind) in NO_GANGS else f"{api.kind}.{api.group}"
        shapes[shape.name] = {"group": api.group, "plural": shape.resource.plural, "controller": controller}
    return {
        "workloads": rules["workloads.mutate.rollcall.dev"],
        "workloadsOfNamespaces": rules["workloads-of-namespaces.mutate.rollcall.dev"],
        "knownControllers": sorted(f"{kind}.{group}".rstrip(".") for group, kind in kinds.judged_controllers),
        "shapes": shapes,
        "gangObjects": objects,
        "groupPods": pods,
        "warnedPods": warned,
        "sealedPods": sealed,
    }


def _net(features: list[_Feature]) -> Manifest:
    specs = {feature.name: net_policy(feature.settings, _NAMESPACE)[0]["spec"] for feature in features}
    validations = {
        feature.name: [specs[feature.name]["validations"][list(feature.settings.profiles).index(feature.scheduler)]]
        for feature in features
        if feature.scheduler
    }
    return {"variables": specs[_ALWAYS]["variables"], "validations": validations}


def _defaults_that_matter(backend: BackendClass) -> dict[str, object]:
    """Returns the defaults of the settings that the data depend on: one changes them while all others stay."""
    values = _values(backend.settings_model)
    needed = {
        chosen: repr([*_roles(settings), *_configurations(settings), *net_policy(settings, _NAMESPACE)])
        for chosen in product(*values.values())
        for settings in (_settings(_profile(backend, dict(zip(values, chosen, strict=True)))),)
    }
    return {
        key: backend.settings_model.model_fields[key].default
        for place, key in enumerate(values)
        if any(
            needed[(*chosen[:place], other, *chosen[place + 1 :])] != objects
            for chosen, objects in needed.items()
            for other in values[key]
        )
    }


def _values(model: type[BackendSettings]) -> dict[str, tuple[object, ...]]:
    """Returns the values of the settings that have few, by key, sorted as templates go through maps."""
    choices: dict[str, tuple[object, ...]] = {}
    for key, field in sorted(model.model_fields.items()):
        if field.annotation is bool:
            choices[key] = (False, True)
        elif get_origin(field.annotation) is Literal:
            choices[key] = get_args(field.annotation)
    return choices


def _configurations(settings: Settings) -> list[Manifest]:
    return webhook_configurations(settings, Address(), _NAMESPACE, None)


def _roles(settings: Settings) -> list[Manifest]:
    manifests = [*access_rules(settings, _NAMESPACE, ""), *reconciler_access_rules(settings, _NAMESPACE, "")]
    return [manifest for manifest in manifests if "rules" in manifest]


def _settings(*profiles: Profile, **fields: Any) -> Settings:
    """Returns settings with these profiles. default-scheduler is always one of them."""
    always = _profile(installed_backends()[DEFAULT_SCHEDULER], {})
    every = {profile.name: profile for profile in (always, *profiles)}
    registration = Registration(net="Deny")
    return Settings(every, DEFAULT_SCHEDULER, registration=registration, **fields)


def _profile(backend: BackendClass, config: Mapping[str, object], *, gate: bool = False) -> Profile:
    settings = backend.settings_model.model_validate(config)
    return Profile(backend(settings), Enforcement(), Enforcement(), gate=gate)
