"""The configuration file: `kind: RollcallConfiguration`, apiVersion `rollcall.dev/v1alpha1`.

Its `scheduler` block has the shape of the one in Grove's OperatorConfiguration, so that an administrator can use the
same text for both. All mistakes are reported together, each with its path, the value and the allowed values. An entry
of the section `shadow` is the name of a scheduler, or another configuration file beside this one.

Source of the shape: ai-dynamo/grove, operator/api/config/v1alpha1/types.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from webhook.backends.base import Backend
from webhook.backends.registry import BackendClass, installed_backends
from webhook.config import sections
from webhook.config.defaults import built_in_kinds, built_in_shapes
from webhook.config.exceptions_section import exceptions_from
from webhook.config.kueue_section import KueueSection, kueue_settings
from webhook.config.settings import (
    Auditing,
    Certificates,
    Enforcement,
    NamespaceDefaults,
    Profile,
    Registration,
    RemedySettings,
    Serving,
    Settings,
    Shadow,
    Tenancy,
    Tracing,
)
from webhook.config.shape_document import form_problems, read_shape
from webhook.errors import ConfigurationError, Problem
from webhook.model.admission_request import ANY_NAMESPACE, GROUPS, NOT_A_USER, service_account
from webhook.model.fields import meant
from webhook.model.findings import Action
from webhook.model.grove import GroveGeneration
from webhook.model.quantity import Version
from webhook.model.reading import EMPTY
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import Rule
from webhook.workloads.kueue_integration import CheckMode
from webhook.workloads.workload_kinds import WorkloadKinds

S = TypeVar("S", bound=sections.Section)
MOST_SHAPES = 64


class WorkloadsSection(sections.Section):
    """The kinds of workloads. `disabled` are names of built-in shapes whose kinds are not used. `shapes` are
    WorkloadShapes; those of the kind of a built-in shape replace all built-in shapes of that kind.
    """

    disabled: list[str] = Field(default_factory=list)
    shapes: Annotated[list[Any], Field(max_length=MOST_SHAPES)] = Field(default_factory=list)


def workload_kinds(raw: object, problems: list[Problem], documents: Iterable[object] = ()) -> WorkloadKinds:
    """Returns the kinds that a section asks for, with the shapes in `documents` beside the configuration. Mistakes go
    to `problems`.
    """
    section = _read(WorkloadsSection, raw, "workloads", problems)
    built_in = built_in_shapes()
    for index, name in enumerate(section.disabled):
        if name not in built_in:
            why = f"is not a built-in shape{meant(name, built_in)}"
            problems.append(Problem(sections.path_of(("disabled", index), "workloads"), name, why, tuple(built_in)))
    written = [
        (sections.path_of(("shapes", index), "workloads"), document) for index, document in enumerate(section.shapes)
    ]
    written += [(f"documents[{index}]", document) for index, document in enumerate(documents)]
    read = [(path, shape) for path, document in written if (shape := read_shape(document, path, problems)) is not None]
    shapes = [shape for _, shape in read]
    problems += (replace(problem, path=f"{read[index][0]}.{problem.path}") for index, problem in form_problems(shapes))
    if not (shapes or section.disabled):
        return built_in_kinds()
    disabled = {shape.group_kind for name, shape in built_in.items() if name in section.disabled}
    return WorkloadKinds(tuple(shape for shape in built_in.values() if shape.group_kind not in disabled)).add_declared(
        shapes
    )


class AuditSection(sections.Section):
    """With `openReports` the reconciler judges everything that is stored every `everyMinutes`, by the rules of today,
    and keeps a Report of openreports.io in each namespace with findings.
    """

    openReports: bool = False
    # More often would mean that it always reads the cluster.
    everyMinutes: Annotated[int, Field(ge=5, le=10_080)] = 60


class RemediesSection(sections.Section):
    """Which causes the reconciler remedies, none by default: gangs that their scheduler has `forgotten`, an
    `objectLeft` by an earlier gang, pods that have an `oldMembership`, and pods that keep the `groveGate` because Grove
    has not noticed them. A cause must last for `settleSeconds`. After a remedy the gang is left alone for
    `pauseSeconds`, twice as long after each further one. In the whole cluster there are at most `perMinute` remedies a
    minute, in which each deleted pod counts.
    """

    causes: list[Literal["forgotten", "objectLeft", "oldMembership", "groveGate"]] = Field(default_factory=list)
    settleSeconds: Annotated[int, Field(ge=5, le=3600)] = 30
    pauseSeconds: Annotated[int, Field(ge=10, le=1800)] = 60
    perMinute: Annotated[int, Field(ge=1, le=600)] = 10


# Each costs one to one and a half times the review itself (python -m benchmarks.shadows).
MOST_SHADOWS = 4


class ShadowFileSection(sections.Section):
    """Another configuration file by its name. It is a file in the folder of this one, as the files of a ConfigMap
    are.
    """

    config: Annotated[str, Field(pattern=sections.FILE_PATTERN)]


class ShadowEntry(NamedTuple):
    """A valid entry. `settings` are those of the file; None for a scheduler."""

    name: str
    settings: Settings | None = None


def shadow_file_names(document: object) -> Iterator[str]:
    """Yields the names of the files that the section of a configuration refers to, if they can be names of files."""
    entries = document.get("shadow") if isinstance(document, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        section = sections.read_section(ShadowFileSection, entry, "", []) if isinstance(entry, dict) else None
        if section is not None:
            yield section.config


def read_shadows(
    entries: Sequence[object], files: Mapping[str, Settings] | None, problems: list[Problem]
) -> list[ShadowEntry]:
    """Returns the valid entries of the section. `files` are the settings of the files beside the configuration by their
    names; None if the configuration is a shadow itself. Mistakes go to `problems`.
    """
    if entries and files is None:
        problems.append(Problem("shadow", list(entries), "a shadow has no shadows of its own; remove the key"))
        return []
    if len(entries) > MOST_SHADOWS:
        why = f"has {len(entries)} entries; at most {MOST_SHADOWS} are allowed"
        problems.append(Problem("shadow", list(entries), why))
        return []
    shadows: dict[str, ShadowEntry] = {}
    for index, raw in enumerate(entries):
        entry = _read_entry(raw, f"shadow[{index}]", files or {}, problems)
        if entry is not None and entry.name in shadows:
            problems.append(Problem(f"shadow[{index}]", entry.name, "appears twice"))
        elif entry is not None:
            shadows[entry.name] = entry
    return list(shadows.values())


def _read_entry(raw: object, path: str, files: Mapping[str, Settings], problems: list[Problem]) -> ShadowEntry | None:
    if isinstance(raw, dict):
        section = sections.read_section(ShadowFileSection, raw, path, problems)
        if section is None:
            return None
        if section.config not in files:
            why = "there is no such file beside this configuration"
            problems.append(Problem(f"{path}.config", section.config, why))
            return None
        return ShadowEntry(section.config, files[section.config])
    backends = tuple(installed_backends())
    if not isinstance(raw, str):
        problems.append(Problem(path, raw, "must be the name of a scheduler, or {config: FILE}", backends))
        return None
    if raw not in backends:
        problems.append(Problem(path, raw, f"is not a scheduler with a backend{meant(raw, backends)}", backends))
        return None
    if not re.fullmatch(sections.FILE_PATTERN, raw):
        problems.append(Problem(path, raw, "is too long for the name of an audit annotation"))
        return None
    return ShadowEntry(raw)


def shadow_of(entry: ShadowEntry, settings: Settings, general: Enforcement) -> Shadow:
    """Returns the shadow of an entry. A scheduler is judged by its profile in `settings`; if it has none, by its
    backend's defaults, with the actions that `general` sets.
    """
    if entry.settings is not None:
        return Shadow(entry.name, replace(entry.settings, compares=False), is_file=True)
    profile = settings.profiles.get(entry.name)
    if profile is None:
        backend = installed_backends()[entry.name]
        profile = Profile(backend(backend.settings_model()), general, Enforcement())
    only: dict[str, Any] = {"profiles": {entry.name: profile}, "default": entry.name}
    return Shadow(
        entry.name, replace(settings, **only, forced=entry.name, forced_by="shadow", overrides=True, compares=False)
    )


def settings_from(
    document: object, source: str, shapes: Iterable[object] = (), shadow_files: Mapping[str, Settings] | None = EMPTY
) -> Settings:
    """Returns the settings of a parsed configuration file. `source` is its name in messages. `shapes` are the
    WorkloadShapes beside it. `shadow_files` are the settings of the files beside it by their names; None if this file
    is a shadow itself.

    Raises `ConfigurationError` with every mistake in it.
    """
    problems: list[Problem] = []
    configuration = _configuration(document, source, problems)
    scheduler = _read(sections.SchedulerSection, configuration.scheduler, "scheduler", problems)
    general = _enforcement(configuration.enforcement, "enforcement", _every_rule(), problems)
    profiles = _profiles(scheduler, general, problems)
    namespaces = _namespaces(configuration, tuple(profiles), problems)
    webhooks = _read(sections.RegistrationSection, configuration.registration, "registration", problems)
    escapes = _read(sections.EscapesSection, configuration.escapes, "escapes", problems)
    audit = _read(AuditSection, configuration.audit, "audit", problems)
    serving = _read(sections.ServingSection, configuration.serving, "serving", problems)
    certificates = _certificates(configuration.certificates, problems)
    tracing = _read(sections.TracingSection, configuration.tracing, "tracing", problems)
    tenancy = _tenancy(configuration.tenancy, problems)
    grove = _read(sections.GroveSection, configuration.grove, "grove", problems)
    kueue = _read(KueueSection, configuration.kueue, "kueue", problems)
    fit = _read(sections.FitSection, configuration.fit, "fit", problems)
    remedies = _read(RemediesSection, configuration.remedies, "remedies", problems)
    kinds = workload_kinds(configuration.workloads, problems, shapes)
    of_objects = (judged.kind for rule in _every_rule().values() for judged in rule.kinds)
    judged_kinds = {"PodCliqueSet", "Pod", *(kind for _, kind in kinds.views), *of_objects}
    exceptions = exceptions_from(configuration.exceptions, _every_rule(), judged_kinds, problems)
    shadows = read_shadows(configuration.shadow, shadow_files, problems)
    if problems:
        raise ConfigurationError(source, problems)
    settings = Settings(
        profiles,
        scheduler.defaultProfileName or DEFAULT_SCHEDULER,
        namespaces,
        Registration(webhooks.failurePolicy, webhooks.timeoutSeconds, tuple(webhooks.excludedNamespaces), webhooks.net),
        frozenset(escapes.delete),
        _serving(serving),
        certificates,
        Tracing(tracing.endpoint, tracing.sampleRatio),
        tenancy,
        grove=None if grove.generation == "auto" else GroveGeneration(grove.generation),
        opt_out=scheduler.optOut,
        kueue=kueue_settings(kueue),
        admission_check=CheckMode(kueue.admissionCheck),
        auditing=Auditing(audit.openReports, timedelta(minutes=audit.everyMinutes)),
        fit=sections.fit_settings(fit),
        kinds=kinds,
        exceptions=exceptions,
        remedies=RemedySettings(
            frozenset(remedies.causes), float(remedies.settleSeconds), float(remedies.pauseSeconds), remedies.perMinute
        ),
    )
    return replace(settings, shadows=tuple(shadow_of(shadow, settings, general) for shadow in shadows))


def _configuration(document: object, source: str, problems: list[Problem]) -> sections.RollcallConfiguration:
    if not isinstance(document, dict):
        raise ConfigurationError(source, [Problem("", document, f"is not a {sections.KIND}")])
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind not in {None, sections.KIND} and version != sections.API_VERSION:
        # Another object: its fields have no place in a configuration, so only its kind is reported.
        raise ConfigurationError(
            source, [Problem("kind", kind, "is not a configuration of Rollcall", (sections.KIND,))]
        )
    if (configuration := sections.read_section(sections.RollcallConfiguration, document, "", problems)) is not None:
        return configuration
    # apiVersion or kind is wrong: this is reported, and the rest is still checked.
    corrected = {**document, "apiVersion": sections.API_VERSION, "kind": sections.KIND}
    return sections.read_section(sections.RollcallConfiguration, corrected, "", []) or sections.RollcallConfiguration(
        apiVersion="rollcall.dev/v1alpha1", kind="RollcallConfiguration"
    )


def _read(model: type[S], raw: object, path: str, problems: list[Problem]) -> S:
    """Returns a section, with its defaults where nothing in it is valid."""
    return sections.read_section(model, raw, path, problems) or model()


def choosing_settings(configs: Mapping[str, Mapping[str, Any]] = EMPTY) -> Settings:
    """Returns the settings without a file for choosing a scheduler: `default_settings` with kube-scheduler's gangs on.
    A scheduler that places pods one by one is not a choice for a gang, and no file shows which API it would use.
    `configs` are the `config` of other schedulers.
    """
    kube = {"name": DEFAULT_SCHEDULER, "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}}
    names = (name for name in installed_backends() if name != DEFAULT_SCHEDULER)
    others = [{"name": name, "config": dict(configs.get(name, EMPTY))} for name in names]
    scheduler = {"profiles": [kube, *others], "defaultProfileName": DEFAULT_SCHEDULER}
    return settings_from(
        {"apiVersion": sections.API_VERSION, "kind": sections.KIND, "scheduler": scheduler}, "built in"
    )


def _general_rules() -> dict[str, Rule]:
    return {rule.id: rule for rule in (*SHAPE_RULES, *CHOICE_RULES, *GENERAL_RULES)}


def _every_rule() -> dict[str, Rule]:
    """Returns the rules of all installed backends, and those for every scheduler, by id."""
    return _general_rules() | {rule.id: rule for backend in installed_backends().values() for rule in backend.rules}


def _namespaces(
    configuration: sections.RollcallConfiguration, profiles: tuple[str, ...], problems: list[Problem]
) -> dict[str, NamespaceDefaults]:
    namespaces = {}
    for name, raw in configuration.namespaces.items():
        path = sections.path_of((name,), "namespaces")
        section = _read(sections.NamespaceSection, raw, path, problems)
        if section.scheduler is not None and section.scheduler not in profiles:
            why = f"is not one of the profiles{meant(section.scheduler, profiles)}"
            problems.append(Problem(f"{path}.scheduler", section.scheduler, why, profiles))
        namespaces[name] = NamespaceDefaults(section.scheduler, _action(section.enforcement), section.optOut)
    return namespaces


def _profiles(
    scheduler: sections.SchedulerSection, general: Enforcement, problems: list[Problem]
) -> dict[str, Profile]:
    backends = installed_backends()
    profiles: dict[str, Profile] = {}
    for index, raw in enumerate(scheduler.profiles):
        path = f"scheduler.profiles[{index}]"
        section = sections.read_section(sections.ProfileSection, raw, path, problems)
        if section is None:
            continue
        backend = backends.get(section.name)
        if backend is None:
            why = f"is not a scheduler with a backend{meant(section.name, backends)}"
            problems.append(Problem(f"{path}.name", section.name, why, tuple(backends)))
            continue
        if section.name in profiles:
            problems.append(Problem(f"{path}.name", section.name, "appears twice"))
        rules = _general_rules() | {rule.id: rule for rule in backend.rules}
        enforcement = _enforcement(section.enforcement, f"{path}.enforcement", rules, problems)
        controllers = None if section.controllers is None else tuple(section.controllers)
        problems.extend(_no_users(controllers or (), f"{path}.controllers"))
        judging = _backend(section, backend, path, problems)
        profiles[section.name] = Profile(judging, general, enforcement, gate=section.gate, controllers=controllers)
    if DEFAULT_SCHEDULER not in profiles:
        backend = backends[DEFAULT_SCHEDULER]
        profiles[DEFAULT_SCHEDULER] = Profile(backend(backend.settings_model()), general, Enforcement())
    default, names = scheduler.defaultProfileName or DEFAULT_SCHEDULER, tuple(profiles)
    if default not in profiles:
        why = f"is not one of the profiles{meant(default, names)}"
        problems.append(Problem("scheduler.defaultProfileName", default, why, names))
    return profiles


def _backend(
    section: sections.ProfileSection, backend: BackendClass, path: str, problems: list[Problem]
) -> Backend[Any]:
    """Returns the backend with its settings; with its defaults if they are wrong, so that the rest can be judged."""
    version = None
    if section.schedulerVersion is not None:
        version = Version.parse(section.schedulerVersion)
        why = "is not a version, such as 1.8.0" if version is None else backend.version_problem(version)
        if why is not None:
            problems.append(Problem(f"{path}.schedulerVersion", section.schedulerVersion, why))
    settings = sections.read_section(backend.settings_model, section.config or {}, f"{path}.config", problems)
    return backend(settings or backend.settings_model(), version)


def _enforcement(raw: object, path: str, rules: dict[str, Rule], problems: list[Problem]) -> Enforcement:
    section = _read(sections.EnforcementSection, raw, path, problems)
    actions: dict[str, Action] = {}
    for rule_id, mode in section.rules.items():
        place = f"{path}.rules[{rule_id}]"
        action = Action[mode.upper()]
        if rule_id not in rules:
            why = f"is a mode for a rule that does not exist; `rollcall rules` lists them{meant(rule_id, rules)}"
            problems.append(Problem(place, mode, why))
        elif rules[rule_id].fails_closed and action is not Action.DENY:
            why = "cannot be set: what the rule refuses cannot be translated, so the gang would never start"
            problems.append(Problem(place, mode, why, ("deny",)))
        actions[rule_id] = action
    return Enforcement(_action(section.mode), actions)


def _serving(section: sections.ServingSection) -> Serving:
    return Serving(
        max_in_flight=section.maxInFlight,
        max_connections=section.maxConnections,
        body_memory_percent=section.bodyMemoryPercent,
        connection_seconds=section.connectionSeconds,
        drain_seconds=section.drainSeconds,
        check=None if section.check is None else section.check == "on",
    )


def _tenancy(raw: object, problems: list[Problem]) -> Tenancy:
    section = _read(sections.TenancySection, raw, "tenancy", problems)
    problems.extend(_no_users(section.reconcilers, "tenancy.reconcilers"))
    problems.extend(_no_users(section.exemptUsers, "tenancy.exemptUsers"))
    anywhere = service_account(ANY_NAMESPACE, "")
    problems.extend(_no_users(section.groveOperators, "tenancy.groveOperators", anywhere))
    return Tenancy(tuple(section.reconcilers), tuple(section.exemptUsers), tuple(section.groveOperators))


def _no_users(names: Iterable[str], path: str, prefix: str = "") -> Iterator[Problem]:
    """Yields a problem for each name that stands for more than one user. A * is allowed only in `prefix`, with which a
    name may begin.
    """
    for index, name in enumerate(names):
        place = f"{path}[{index}]"
        if name in NOT_A_USER or name.startswith(GROUPS):
            yield Problem(place, name, "stands for many users; name one, such as system:serviceaccount:NAMESPACE:NAME")
        elif ANY_NAMESPACE in name.removeprefix(prefix):
            yield Problem(place, name, "has a *, which no user name contains; name each user")


def _certificates(raw: object, problems: list[Problem]) -> Certificates:
    section = _read(sections.CertificatesSection, raw, "certificates", problems)
    ca, leaf = timedelta(days=section.caValidityDays), timedelta(days=section.leafValidityDays)
    overlap = timedelta(seconds=section.overlapSeconds)
    # Every certificate that a CA signs must end before the CA does, including those signed on the day of the CA's
    # renewal.
    rest = ca * (100 - section.renewAtPercent) / 100 - overlap
    if section.mode == "selfManaged" and leaf > rest:
        why = (
            f"is longer than the {max(rest.days, 0)} days that an authority has left when it is renewed; raise "
            "caValidityDays, or lower renewAtPercent"
        )
        problems.append(Problem("certificates.leafValidityDays", section.leafValidityDays, why))
    # The next certificate is shown for the whole overlap before it is served. If it is renewed during that time, the
    # overlap starts again. Kubelets need some time to deliver each.
    renewed = leaf * section.renewAtPercent / 100
    if section.mode == "selfManaged" and 2 * overlap > renewed:
        why = (
            f"is more than half of the {renewed.total_seconds():.0f} s after which a certificate is "
            f"renewed, so no rotation of the authority would end; raise leafValidityDays or renewAtPercent, or lower it"
        )
        problems.append(Problem("certificates.overlapSeconds", section.overlapSeconds, why))
    return Certificates(section.mode == "selfManaged", ca, leaf, section.renewAtPercent / 100, overlap)


def _action(mode: str | None) -> Action | None:
    return None if mode is None else Action[mode.upper()]
