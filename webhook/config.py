"""The configuration file: `kind: RollcallConfiguration`, apiVersion `rollcall.dev/v1alpha1`.

Its `scheduler` block has the shape of the one in Grove's OperatorConfiguration, so that an administrator can use the
same text for both. Every mistake is reported, all of them at once, each with its path, the value found and what is
allowed. Source of the shape: ai-dynamo/grove, operator/api/config/v1alpha1/types.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from webhook.backends.base import Backend
from webhook.backends.registry import BackendClass, installed_backends
from webhook.errors import ConfigurationError, Problem
from webhook.model.findings import Action
from webhook.model.users import ANY_NAMESPACE, GROUPS, GROVE_OPERATORS, NOT_A_USER, USER_PATTERN, service_account
from webhook.model.version import Version
from webhook.settings import (
    Certificates,
    Enforcement,
    NamespaceDefaults,
    Profile,
    Registration,
    Serving,
    Settings,
    Tenancy,
    Tracing,
)
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.validators.registry import Rule
from webhook.validators.selection import DEFAULT_SCHEDULER

API_VERSION = "rollcall.dev/v1alpha1"
KIND = "RollcallConfiguration"


# RFC 1123 label.
NAMESPACE_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
# Also what the chart's schema judges it by, so it is all in the pattern: a host, and a port that there is.
_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ENDPOINT = rf"^(https?://([^\s/?#@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s\[\]/?#@:]+)(:{_PORT})?([/?#]\S*)?)?$"
_OF_PATTERN = {
    NAMESPACE_PATTERN: "is no name of a namespace",
    _ENDPOINT: "is no http:// or https:// URL, such as http://collector.monitoring.svc:4318",
    USER_PATTERN: "is no name of a user, such as system:serviceaccount:NAMESPACE:NAME",
}

User = Annotated[str, Field(pattern=USER_PATTERN)]
# Each name is part of an expression that the API server evaluates for every gang object.
Users = Annotated[list[User], Field(max_length=64)]


def _off(value: object) -> object:
    # YAML 1.1 reads a plain `off` as false, and tools that rewrite files do.
    return "off" if value is False else value


def _on_or_off(value: object) -> object:
    return "on" if value is True else _off(value)


Mode = Annotated[Literal["deny", "warn", "audit", "off"], BeforeValidator(_off)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class EnforcementSection(_Section):
    """`mode` is the most that any rule may do; `rules` sets single rules by id."""

    mode: Mode | None = None
    rules: dict[str, Mode] = Field(default_factory=dict)


class ProfileSection(_Section):
    """One enabled scheduler. `config` is the backend's own; the other keys every profile knows. Without `gate` its pods
    are gated where the scheduler needs that.
    """

    name: str
    config: dict[str, Any] | None = None
    gate: bool | None = None
    schedulerVersion: str | None = None
    # The users that the scheduler's own controllers are, in the place of the backend's.
    controllers: Users | None = None
    enforcement: dict[str, Any] = Field(default_factory=dict)


class SchedulerSection(_Section):
    """The enabled schedulers and the default one; `default-scheduler` is always among them."""

    profiles: list[Any] = Field(default_factory=list)
    defaultProfileName: str = ""


class NamespaceSection(_Section):
    """What holds in a namespace whose labels (rollcall.dev/scheduler, rollcall.dev/enforcement) say nothing."""

    scheduler: str | None = None
    enforcement: Mode | None = None


class RegistrationSection(_Section):
    """What `rollcall manifests webhooks` writes: who decides when no answer comes, and where nobody is asked."""

    failurePolicy: Literal["Fail", "Ignore"] = "Fail"
    # The API server takes 1 to 30.
    timeoutSeconds: Annotated[int, Field(ge=1, le=30)] = 5
    excludedNamespaces: list[Annotated[str, Field(pattern=NAMESPACE_PATTERN)]] = Field(default_factory=list)
    # What the ValidatingAdmissionPolicy does about a gang's pod that came past the webhook.
    net: Annotated[Literal["off", "Audit", "Warn", "Deny"], BeforeValidator(_off)] = "off"


class ServingSection(_Section):
    """The server's own life: how many calls read live at once, how many connections it keeps and how old they grow,
    how much of its memory bodies may take, how it ends.
    """

    maxInFlight: Annotated[int, Field(ge=1, le=100_000)] = 256
    maxConnections: Annotated[int, Field(ge=16, le=65_536)] = 512
    bodyMemoryPercent: Annotated[int, Field(ge=5, le=80)] = 25
    connectionSeconds: Annotated[int, Field(ge=0, le=86_400)] = 600
    drainSeconds: Annotated[int, Field(ge=0, le=600)] = 15
    # Whether POST /check and /capabilities are answered; without it, only where there is no cluster.
    check: Annotated[Literal["on", "off"], BeforeValidator(_on_or_off)] | None = None


class CertificatesSection(_Section):
    """Whose the serving certificate is: `files` that somebody else keeps, or the reconciler's own (`selfManaged`), and
    then how long each certificate holds, when it is renewed, and how long old and new authority overlap.
    """

    mode: Literal["files", "selfManaged"] = "files"
    caValidityDays: Annotated[int, Field(ge=1, le=3650)] = 365
    leafValidityDays: Annotated[int, Field(ge=1, le=825)] = 30
    renewAtPercent: Annotated[int, Field(ge=1, le=95)] = 67
    overlapSeconds: Annotated[int, Field(ge=0, le=86_400)] = 600


class TracingSection(_Section):
    """Where OpenTelemetry traces go (OTLP over HTTP), and how many of those that nobody else has decided about."""

    endpoint: Annotated[str, Field(pattern=_ENDPOINT)] = ""
    sampleRatio: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.1


class TenancySection(_Section):
    """Which users are trusted, by the names that the API server gives them. Without `reconcilers` Rollcall's own
    service accounts are.
    """

    reconcilers: Users = Field(default_factory=list)
    exemptUsers: Users = Field(default_factory=list)
    groveOperators: Users = Field(default_factory=lambda: list(GROVE_OPERATORS))


class EscapesSection(_Section):
    """What the reconciler does about pods that do not carry what their gang needs: it deletes those of the kinds that
    are named, while they are on no node, and Grove creates them anew.
    """

    delete: list[Literal["unmutated", "stale", "foreign"]] = Field(default_factory=list)


class RollcallConfiguration(_Section):
    """The whole file. Sections are validated one by one, so that a mistake in one does not hide those in another."""

    apiVersion: Literal["rollcall.dev/v1alpha1"]
    kind: Literal["RollcallConfiguration"]
    scheduler: dict[str, Any] = Field(default_factory=dict)
    enforcement: dict[str, Any] = Field(default_factory=dict)
    namespaces: dict[str, Any] = Field(default_factory=dict)
    registration: dict[str, Any] = Field(default_factory=dict)
    escapes: dict[str, Any] = Field(default_factory=dict)
    serving: dict[str, Any] = Field(default_factory=dict)
    certificates: dict[str, Any] = Field(default_factory=dict)
    tracing: dict[str, Any] = Field(default_factory=dict)
    tenancy: dict[str, Any] = Field(default_factory=dict)


def settings_from(document: object, source: str) -> Settings:
    """The settings that a parsed configuration file comes to. `source` names it in messages.

    Raises `ConfigurationError` with every mistake in it.
    """
    if not isinstance(document, dict):
        raise ConfigurationError(source, [Problem("", document, f"is no {KIND}")])
    problems: list[Problem] = []
    configuration = _section(RollcallConfiguration, document, "", problems)
    if configuration is None:
        # Not named as ours: said, and the rest is judged all the same.
        named = {**document, "apiVersion": API_VERSION, "kind": KIND}
        configuration = _section(RollcallConfiguration, named, "", []) or RollcallConfiguration(
            apiVersion="rollcall.dev/v1alpha1", kind="RollcallConfiguration"
        )
    scheduler = _section(SchedulerSection, configuration.scheduler, "scheduler", problems) or SchedulerSection()
    profiles = _profiles(configuration, scheduler, problems)
    default = scheduler.defaultProfileName or DEFAULT_SCHEDULER
    known = tuple(profiles)
    if default not in profiles:
        problems.append(Problem("scheduler.defaultProfileName", default, "is none of the profiles", known))
    namespaces = {}
    for name, raw in configuration.namespaces.items():
        path = _path((name,), "namespaces")
        section = _section(NamespaceSection, raw, path, problems) or NamespaceSection()
        if section.scheduler is not None and section.scheduler not in profiles:
            problems.append(Problem(f"{path}.scheduler", section.scheduler, "is none of the profiles", known))
        namespaces[name] = NamespaceDefaults(section.scheduler, _action(section.enforcement))
    registered = _section(RegistrationSection, configuration.registration, "registration", problems)
    escapes = _section(EscapesSection, configuration.escapes, "escapes", problems) or EscapesSection()
    serving = _section(ServingSection, configuration.serving, "serving", problems) or ServingSection()
    certificates = _certificates(configuration.certificates, problems)
    tracing = _section(TracingSection, configuration.tracing, "tracing", problems) or TracingSection()
    tenancy = _tenancy(configuration.tenancy, problems)
    if problems:
        raise ConfigurationError(source, problems)
    return Settings(
        profiles,
        default,
        namespaces,
        _registration(registered or RegistrationSection()),
        frozenset(escapes.delete),
        _serving(serving),
        certificates,
        Tracing(tracing.endpoint, tracing.sampleRatio),
        tenancy,
    )


def default_settings() -> Settings:
    """The settings without a file: every installed backend with its defaults, `default-scheduler` by default."""
    none = Enforcement()
    profiles = {
        name: Profile(backend(backend.settings_model()), none, none) for name, backend in installed_backends().items()
    }
    return Settings(profiles, DEFAULT_SCHEDULER)


def choosing_settings() -> Settings:
    """The settings without a file for choosing a scheduler: `default_settings`, with kube-scheduler's gangs on. One
    that places pods one by one is no choice for a gang, and which API it would speak no file can show.
    """
    kube = {"name": DEFAULT_SCHEDULER, "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}}
    others = [{"name": name} for name in installed_backends() if name != DEFAULT_SCHEDULER]
    scheduler = {"profiles": [kube, *others], "defaultProfileName": DEFAULT_SCHEDULER}
    return settings_from({"apiVersion": API_VERSION, "kind": KIND, "scheduler": scheduler}, "built in")


def force_scheduler(settings: Settings, scheduler: str) -> Settings:
    """The settings that judge everything as if `scheduler` were chosen. A backend that the configuration does not
    enable is added with its defaults. Raises `ConfigurationError` where there is no such backend.
    """
    profiles = dict(settings.profiles)
    if scheduler not in profiles:
        backends = installed_backends()
        if scheduler not in backends:
            problem = Problem("--scheduler", scheduler, "is no scheduler with a backend", tuple(backends))
            raise ConfigurationError("command line", [problem])
        backend = backends[scheduler]
        profiles[scheduler] = Profile(backend(backend.settings_model()), Enforcement(), Enforcement())
    return replace(settings, profiles=profiles, forced=scheduler)


def _profiles(
    configuration: RollcallConfiguration, scheduler: SchedulerSection, problems: list[Problem]
) -> dict[str, Profile]:
    backends = installed_backends()
    general_rules = {rule.id: rule for rule in (*SHAPE_RULES, *CHOICE_RULES, *GENERAL_RULES)}
    every_rule = general_rules | {rule.id: rule for backend in backends.values() for rule in backend.rules}
    general = _enforcement(configuration.enforcement, "enforcement", every_rule, problems)
    found: dict[str, Profile] = {}
    for index, raw in enumerate(scheduler.profiles):
        path = f"scheduler.profiles[{index}]"
        section = _section(ProfileSection, raw, path, problems)
        if section is None:
            continue
        backend = backends.get(section.name)
        if backend is None:
            problems.append(Problem(f"{path}.name", section.name, "is no scheduler with a backend", tuple(backends)))
            continue
        if section.name in found:
            problems.append(Problem(f"{path}.name", section.name, "is there twice"))
        rules = general_rules | {rule.id: rule for rule in backend.rules}
        own = _enforcement(section.enforcement, f"{path}.enforcement", rules, problems)
        controllers = None if section.controllers is None else tuple(section.controllers)
        problems.extend(_no_users(controllers or (), f"{path}.controllers"))
        judging = _backend(section, backend, path, problems)
        found[section.name] = Profile(judging, general, own, gate=section.gate, controllers=controllers)
    if DEFAULT_SCHEDULER not in found:
        backend = backends[DEFAULT_SCHEDULER]
        found[DEFAULT_SCHEDULER] = Profile(backend(backend.settings_model()), general, Enforcement())
    return found


def _backend(section: ProfileSection, backend: BackendClass, path: str, problems: list[Problem]) -> Backend[Any]:
    """The backend with its settings; with its defaults where these are wrong, so that the rest can be judged too."""
    version = None
    if section.schedulerVersion is not None:
        version = Version.parse(section.schedulerVersion)
        why = "is no version, such as 1.8.0" if version is None else backend.version_problem(version)
        if why is not None:
            problems.append(Problem(f"{path}.schedulerVersion", section.schedulerVersion, why))
    settings = _section(backend.settings_model, section.config or {}, f"{path}.config", problems)
    return backend(settings or backend.settings_model(), version)


def _enforcement(raw: object, path: str, rules: dict[str, Rule], problems: list[Problem]) -> Enforcement:
    section = _section(EnforcementSection, raw, path, problems) or EnforcementSection()
    actions: dict[str, Action] = {}
    for rule_id, mode in section.rules.items():
        place = f"{path}.rules[{rule_id}]"
        action = Action[mode.upper()]
        if rule_id not in rules:
            problems.append(Problem(place, mode, "is a mode for a rule that there is not", tuple(sorted(rules))))
        elif rules[rule_id].fails_closed and action is not Action.DENY:
            why = "cannot be set: what the rule refuses cannot be translated, so the gang would never start"
            problems.append(Problem(place, mode, why, ("deny",)))
        actions[rule_id] = action
    return Enforcement(_action(section.mode), actions)


def _registration(section: RegistrationSection) -> Registration:
    return Registration(section.failurePolicy, section.timeoutSeconds, tuple(section.excludedNamespaces), section.net)


def _serving(section: ServingSection) -> Serving:
    return Serving(
        max_in_flight=section.maxInFlight,
        max_connections=section.maxConnections,
        body_memory_percent=section.bodyMemoryPercent,
        connection_seconds=section.connectionSeconds,
        drain_seconds=section.drainSeconds,
        check=None if section.check is None else section.check == "on",
    )


def _tenancy(raw: object, problems: list[Problem]) -> Tenancy:
    section = _section(TenancySection, raw, "tenancy", problems) or TenancySection()
    problems.extend(_no_users(section.reconcilers, "tenancy.reconcilers"))
    problems.extend(_no_users(section.exemptUsers, "tenancy.exemptUsers"))
    anywhere = service_account(ANY_NAMESPACE, "")
    problems.extend(_no_users(section.groveOperators, "tenancy.groveOperators", anywhere))
    return Tenancy(tuple(section.reconcilers), tuple(section.exemptUsers), tuple(section.groveOperators))


def _no_users(names: Iterable[str], path: str, prefix: str = "") -> Iterator[Problem]:
    """A problem for each name that stands for more than one user; a * may be in a `prefix` of it."""
    for index, name in enumerate(names):
        place = f"{path}[{index}]"
        if name in NOT_A_USER or name.startswith(GROUPS):
            yield Problem(place, name, "stands for many users; name one, such as system:serviceaccount:NAMESPACE:NAME")
        elif ANY_NAMESPACE in name.removeprefix(prefix):
            yield Problem(place, name, "has a *, which no user has in its name; name each user")


def _certificates(raw: object, problems: list[Problem]) -> Certificates:
    section = _section(CertificatesSection, raw, "certificates", problems) or CertificatesSection()
    ca, leaf = timedelta(days=section.caValidityDays), timedelta(days=section.leafValidityDays)
    overlap = timedelta(seconds=section.overlapSeconds)
    # What an authority has signed must end before it does, also what it signs on the day of its own renewal.
    rest = ca * (100 - section.renewAtPercent) / 100 - overlap
    if section.mode == "selfManaged" and leaf > rest:
        why = (
            f"is longer than the {max(rest.days, 0)} days that an authority has left when it is renewed; raise "
            "caValidityDays, or lower renewAtPercent"
        )
        problems.append(Problem("certificates.leafValidityDays", section.leafValidityDays, why))
    # The next certificate is seen for the whole overlap before it is served; one that is renewed meanwhile is another,
    # and is seen from the start again. Kubelets take a while to bring each.
    renewed = leaf * section.renewAtPercent / 100
    if section.mode == "selfManaged" and 2 * overlap > renewed:
        why = (
            f"is more than half of the {renewed.total_seconds():.0f} s after which a certificate is renewed, so that "
            "no rotation of the authority would end; raise leafValidityDays or renewAtPercent, or lower it"
        )
        problems.append(Problem("certificates.overlapSeconds", section.overlapSeconds, why))
    return Certificates(section.mode == "selfManaged", ca, leaf, section.renewAtPercent / 100, overlap)


def _action(mode: str | None) -> Action | None:
    return None if mode is None else Action[mode.upper()]


M = TypeVar("M", bound=BaseModel)


def _section(model: type[M], raw: object, path: str, problems: list[Problem]) -> M | None:
    """One section of the file. Its mistakes go to `problems`, and what is right of it is kept, so that it can be judged
    further; None where nothing of it can be. A key without a value is as good as none, as everywhere in Kubernetes.
    """
    if raw is None:
        raw = {}
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if value is not None}
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems.extend(_translate(error, model, path))
        if not isinstance(raw, dict):
            return None
        wrong = {str(found["loc"][0]) for found in error.errors() if found["loc"]}
    try:
        return model.model_validate({key: value for key, value in raw.items() if key not in wrong})
    except ValidationError:
        return None


def _translate(error: ValidationError, model: type[BaseModel], prefix: str) -> Iterator[Problem]:
    """Pydantic's errors as problems: our words, the field's path, and the allowed set."""
    for found in error.errors(include_url=False):
        place, kind = _path(found["loc"], prefix), found["type"]
        if kind == "extra_forbidden":
            yield Problem(place, found["input"], "is an unknown key", tuple(model.model_fields))
        elif kind == "missing":
            field = model.model_fields[str(found["loc"][-1])]
            allowed = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            yield Problem(place, None, "is required", allowed)
        elif kind == "literal_error":
            allowed = tuple(re.findall(r"'([^']*)'", found["ctx"]["expected"])) or (found["ctx"]["expected"],)
            yield Problem(place, found["input"], "is not allowed", allowed)
        elif kind == "string_type":
            yield Problem(place, found["input"], "is no string; quote it")
        elif kind == "string_pattern_mismatch":
            yield Problem(place, found["input"], _OF_PATTERN[found["ctx"]["pattern"]])
        elif kind in {"model_type", "dict_type"}:
            yield Problem(place, found["input"], "is no mapping")
        else:
            yield Problem(place, found["input"], found["msg"][:1].lower() + found["msg"][1:])


def _path(loc: tuple[int | str, ...], prefix: str) -> str:
    path = prefix
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", part):
            path += f".{part}" if path else part
        else:
            path += f"[{part}]"
    return path
