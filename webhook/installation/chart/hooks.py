"""The webhook configurations as templates.

Each hook is included if one of its features is enabled. It lists the kinds that the enabled schedulers have rules for,
and the pods that match one of their conditions. The rest of a hook does not depend on the features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

from webhook.installation.chart.features import (
    EXCLUDED,
    FAILURE_POLICY,
    TIMEOUT_SECONDS,
    Feature,
    configurations,
)
from webhook.installation.chart.template import Words, conditional, item, literal
from webhook.installation.exempt import NOT_EXEMPT
from webhook.installation.kustomize import Dump
from webhook.model.reading import Manifest

_EXCLUDED = f"      - {EXCLUDED}\n"
_EACH_EXCLUDED = "{{- range $excluded }}\n      - {{ . }}\n{{- end }}\n"


def configuration_template(kind: str, features: Sequence[Feature], dump: Dump) -> str:
    """One of the two configurations."""
    hooks: dict[str, dict[str, Manifest]] = {}
    head: Manifest = {}
    for feature in features:
        (found,) = (one for one in configurations(feature.settings) if one["kind"] == kind)
        head = {key: value for key, value in found.items() if key != "webhooks"}
        for hook in found["webhooks"]:
            hooks.setdefault(hook["name"], {})[feature.name] = hook
    words = Words()
    head["metadata"] = {**head["metadata"], "annotations": words.optional("$annotations")}
    text = words.resolved(dump(head)) + "webhooks:\n"
    return text + "".join(_hook(name, by_feature, len(features), dump) for name, by_feature in hooks.items())


def _hook(name: str, by_feature: Mapping[str, Manifest], features: int, dump: Dump) -> str:
    words = Words()
    hook = deepcopy(next(iter(by_feature.values())))
    if len(by_feature) == features:
        return _text(hook, words, dump)
    gathered = ""
    if name.startswith("group-pods."):
        named = {feature: [one["matchConditions"][-1]["expression"]] for feature, one in by_feature.items()}
        gathered = _gathered(named)
        hook["matchConditions"][-1]["expression"] = words.inline('join " || " $found | toJson')
    elif name.endswith(".validate.rollcall.dev") and "." in str(hook["rules"][0]["apiGroups"][0]):
        gathered = _gathered({feature: one["rules"][0]["resources"] for feature, one in by_feature.items()})
        hook["rules"][0]["resources"] = words.inline("sortAlpha $found | toJson")
    if not gathered:
        condition = f'include "rollcall.any" (dict "features" $features "of" {literal(list(by_feature))})'
        return conditional(condition, _text(hook, words, dump))
    return gathered + conditional("$found", _text(hook, words, dump))


def _gathered(by_feature: Mapping[str, list[str]]) -> str:
    """The parts of the enabled features, in their order."""
    arguments = f'"features" $features "of" {literal(by_feature)}'
    return f'{{{{- $found := include "rollcall.gathered" (dict {arguments}) | fromJsonArray }}}}\n'


def _text(hook: Manifest, words: Words, dump: Dump) -> str:
    """One item of the list `webhooks`, as text."""
    if hook["failurePolicy"] == FAILURE_POLICY:
        hook["failurePolicy"] = words.inline("$failurePolicy")
    for condition in hook.get("matchConditions", ()):
        if condition["name"] == NOT_EXEMPT:
            condition["expression"] = words.inline("$notExempt | toJson")
    if hook["timeoutSeconds"] == TIMEOUT_SECONDS:
        hook["timeoutSeconds"] = words.inline("$timeoutSeconds")
    hook["clientConfig"] = {**hook["clientConfig"], "caBundle": words.optional("$.Values.certificates.caBundle")}
    return words.resolved(item(hook, dump)).replace(_EXCLUDED, _EACH_EXCLUDED)
