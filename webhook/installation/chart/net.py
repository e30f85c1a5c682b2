"""The net as a template: one validation for each enabled profile, and the action from the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from webhook.installation.chart.features import EXCLUDED, Feature, net
from webhook.installation.chart.template import conditional, item, literal, resolved
from webhook.installation.kustomize import Dump
from webhook.model.reading import Manifest

# The values of `registration.net` besides off.
_ACTIONS = ("Audit", "Warn", "Deny")
_EXCLUDED = f"        - {EXCLUDED}\n"
_EACH_EXCLUDED = "{{- range $excluded }}\n        - {{ . }}\n{{- end }}\n"


def net_template(features: Sequence[Feature], dump: Dump) -> str:
    """The policy and its bindings."""
    policy, *_ = net(features[0].settings)
    head = {**policy, "spec": {key: value for key, value in policy["spec"].items() if key != "validations"}}
    text = f"---\n{dump(head)}".replace(_EXCLUDED, _EACH_EXCLUDED) + "  validations:\n"
    for feature in features:
        if feature.scheduler:
            condition = f"has {literal(feature.name)} $features"
            text += conditional(condition, item(_validation(feature), dump, "  "))
    for action in _ACTIONS:
        bindings = "".join(f"---\n{dump(binding)}" for binding in _bindings(features[0], action))
        text += conditional(f"eq $net {literal(action)}", bindings)
    return resolved(conditional('ne $net "off"', text))


def _validation(feature: Feature) -> Manifest:
    """The validation of a feature's own profile."""
    validations: list[Manifest] = net(feature.settings)[0]["spec"]["validations"]
    return validations[list(feature.settings.profiles).index(feature.scheduler)]


def _bindings(feature: Feature, action: str) -> Iterator[Manifest]:
    registration = replace(feature.settings.registration, net=action)
    _, *bindings = net(replace(feature.settings, registration=registration))
    yield from bindings
