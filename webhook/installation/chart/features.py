"""Features: the parts of a configuration that rights and hooks depend on.

Features only add objects and rules. So the result of a configuration is the union of the results of its features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Literal, NamedTuple, get_args, get_origin

from webhook.backends.base import BackendSettings
from webhook.backends.registry import BackendClass, installed_backends
from webhook.config.settings import Certificates, Enforcement, Profile, Registration, Settings
from webhook.installation.access import access_rules, reconciler_access_rules
from webhook.installation.net import net_policy
from webhook.installation.webhooks import Address, webhook_configurations
from webhook.model.reading import Manifest
from webhook.validators.selection import DEFAULT_SCHEDULER

ALWAYS, GATE, ESCAPES, SELF_MANAGED = "always", "gate", "escapes", "selfManaged"
# Placeholders that occur nowhere else in a template. The number is one that the API server accepts.
NAMESPACE, EXCLUDED, FAILURE_POLICY, TIMEOUT_SECONDS = "thenamespaceofall", "theexcluded", "TheFailurePolicy", 29
_ESCAPES = frozenset({"unmutated", "stale", "foreign"})


class Feature(NamedTuple):
    """One feature: `settings` has it and no other. A profile's feature says which keys must have which value."""

    name: str
    settings: Settings
    scheduler: str = ""
    when: Mapping[str, object] = {}


def features() -> list[Feature]:
    """All features, for the installed backends."""
    nobody: dict[str, Profile] = {}
    found = [Feature(ALWAYS, _settings(nobody))]
    for backend in installed_backends().values():
        found += _of_backend(backend)
    gated = {DEFAULT_SCHEDULER: _profile(installed_backends()[DEFAULT_SCHEDULER], {}, gate=True)}
    found.append(Feature(GATE, _settings(gated)))
    found.append(Feature(ESCAPES, _settings(nobody, deleted_escapes=_ESCAPES)))
    found.append(Feature(SELF_MANAGED, _settings(nobody, certificates=Certificates(self_managed=True))))
    return found


def roles(settings: Settings) -> list[Manifest]:
    """The roles of both processes, with their bindings."""
    return [*access_rules(settings, NAMESPACE, "rollcall"), *reconciler_access_rules(settings, NAMESPACE, "rollcall")]


def configurations(settings: Settings) -> list[Manifest]:
    """Both webhook configurations."""
    return webhook_configurations(settings, Address(NAMESPACE, "rollcall"), NAMESPACE, None)


def net(settings: Settings) -> list[Manifest]:
    """The net with the action deny."""
    return net_policy(settings, NAMESPACE)


def _settings(profiles: Mapping[str, Profile], **fields: Any) -> Settings:
    """The settings of a file with these profiles; default-scheduler is always among them."""
    backend = installed_backends()[DEFAULT_SCHEDULER]
    every = {DEFAULT_SCHEDULER: _profile(backend, {}), **profiles}
    registration = Registration(FAILURE_POLICY, TIMEOUT_SECONDS, (EXCLUDED,), "Deny")
    return Settings(every, DEFAULT_SCHEDULER, registration=registration, **fields)


def _profile(backend: BackendClass, config: Mapping[str, object], *, gate: bool = False) -> Profile:
    settings = backend.settings_model.model_validate(config)
    return Profile(backend(settings), Enforcement(), Enforcement(), gate=gate)


def _of_backend(backend: BackendClass) -> Iterator[Feature]:
    """The features of a backend: one for each combination of its relevant settings.

    A setting is relevant if it has few values and the objects change with it while all other settings stay.
    """
    few = _few_valued(backend.settings_model)
    asked = {
        values: repr(_asked(_settings({backend.name: _profile(backend, dict(zip(few, values, strict=True)))})))
        for values in product(*few.values())
    }
    matter = [key for place, key in enumerate(few) if _matters(asked, place, few[key])]
    for values in product(*(few[key] for key in matter)):
        when = dict(zip(matter, values, strict=True))
        name = " ".join([backend.name, *(f"{key}={_written(value)}" for key, value in when.items())])
        yield Feature(name, _settings({backend.name: _profile(backend, when)}), backend.name, when)


def _asked(settings: Settings) -> list[Manifest]:
    return [*roles(settings), *configurations(settings), *net(settings)]


def _matters(asked: Mapping[tuple[object, ...], str], place: int, values: tuple[object, ...]) -> bool:
    return any(
        asked[(*key[:place], other, *key[place + 1 :])] != found for key, found in asked.items() for other in values
    )


def _few_valued(model: type[BackendSettings]) -> dict[str, tuple[object, ...]]:
    """The keys with a boolean or enumerated type, and their values."""
    found: dict[str, tuple[object, ...]] = {}
    for key, field in model.model_fields.items():
        if field.annotation is bool:
            found[key] = (False, True)
        elif get_origin(field.annotation) is Literal:
            found[key] = get_args(field.annotation)
    return found


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
