"""Features: the parts of a configuration on which rights and hooks depend. Each adds something, and none takes anything
away, so that any configuration comes to what its features come to together.
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
# What cannot be mistaken for anything else in the text of a template. The number is one that the API server takes.
NAMESPACE, EXCLUDED, FAILURE_POLICY, TIMEOUT_SECONDS = "thenamespaceofall", "theexcluded", "TheFailurePolicy", 29
_ESCAPES = frozenset({"unmutated", "stale", "foreign"})


class Feature(NamedTuple):
    """One of them: `settings` has it and nothing else. A profile's says which of its keys must be what."""

    name: str
    settings: Settings
    scheduler: str = ""
    when: Mapping[str, object] = {}


def features() -> list[Feature]:
    """All of them, for the backends that are installed."""
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
    """The net, which denies."""
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
    """A feature for each setting of a backend that makes a difference here: of the keys with few values, those by which
    what is asked for changes while all others stay.
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
    """The keys that are true or false, or one of some words, with what they may be."""
    found: dict[str, tuple[object, ...]] = {}
    for key, field in model.model_fields.items():
        if field.annotation is bool:
            found[key] = (False, True)
        elif get_origin(field.annotation) is Literal:
            found[key] = get_args(field.annotation)
    return found


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
