"""The effect of a configuration as text: each setting, and the rules whose action it changes; and the text of a
configuration to start from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from webhook.backends.registry import installed_backends
from webhook.config.sections import API_VERSION, KIND
from webhook.config.settings import Profile, Settings
from webhook.fit.packing import FitSettings
from webhook.model.findings import Action
from webhook.model.kueue import KueueSettings
from webhook.offline.yaml_and_json import as_yaml_text

# The word for a rule that does nothing.
OFF = "off"


def actions_in(profile: Profile) -> dict[str, Action | None]:
    """Returns the action of each rule that the profile's scheduler has; None if the configuration turned it off."""
    taken = {bound.rule.id: bound.action for bound in profile.rules[profile.ceiling]}
    return {declared.id: taken.get(declared.id) for declared in profile.every_rule}


def actions_of(settings: Settings) -> dict[str, dict[str, str]]:
    """Returns the actions of each rule by scheduler, in words. A rule about the choice of a scheduler belongs to none
    and is left out: no configuration changes it.
    """
    actions: dict[str, dict[str, str]] = {}
    for profile in settings.profiles.values():
        for rule_id, action in actions_in(profile).items():
            actions.setdefault(rule_id, {})[profile.name] = OFF if action is None else str(action)
    return actions


_TEXT = """\
# yaml-language-server: $schema={schema}
apiVersion: {version}
kind: {kind}
scheduler:
  # The scheduler of a workload that names none, in a namespace that names none.
  defaultProfileName: {default}
  # The enabled schedulers; default-scheduler is always enabled.
  profiles:
{profiles}enforcement:
  # The strictest action that any rule may take: deny, warn, audit or "off".
  mode: deny
  # Single rules by id, such as koordinator/mnnvl: warn.
  rules: {{}}
"""


def first_configuration(schedulers: Sequence[str], schema: str) -> str:
    """Returns a configuration with these schedulers; the first is the default one. `schema` is the file of its schema,
    relative to the configuration.
    """
    profiles = "".join(f"  {line}\n" for name in dict.fromkeys(schedulers) for line in _profile_lines(name))
    return _TEXT.format(schema=schema, version=API_VERSION, kind=KIND, default=schedulers[0], profiles=profiles)


def _profile_lines(name: str) -> Iterator[str]:
    """Yields a profile with the default of each of its keys; a key without a default is a comment."""
    yield f"- name: {name}"
    keys = installed_backends()[name].settings_model().model_dump()
    if keys:
        yield "  config:"
    for key, value in keys.items():
        if value is None:
            yield f"    # {key}:"
        else:
            yield from (f"    {line}" for line in as_yaml_text({key: value}).splitlines())


def settings_lines(settings: Settings, now: datetime) -> Iterator[str]:
    for profile in settings.profiles.values():
        yield f"profile {profile.name}{' (default)' if profile.name == settings.default else ''}"
        for key, value in profile.backend.settings.model_dump().items():
            yield f"  {key}: {_word(value)}"
        if profile.backend.scheduler_version is not None:
            yield f"  schedulerVersion: {profile.backend.scheduler_version}"
        yield f"  gate: {str(profile.gate).lower()}"
        yield f"  enforcement: {profile.ceiling}"
        taken = actions_in(profile)
        for declared in profile.every_rule:
            # Its action differs by its own setting, or by the ceiling.
            if (action := taken[declared.id]) is not declared.default:
                yield f"  rule {declared.id}: {action or OFF} (by default {declared.default})"
    for name, namespace in settings.namespaces.items():
        scheduler, enforcement = namespace.scheduler or "unset", namespace.enforcement or "unset"
        opt_out = {None: "", True: ", optOut true", False: ", optOut false"}[namespace.opt_out]
        yield f"namespace {name}: scheduler {scheduler}, enforcement {enforcement}{opt_out}"
    for exception in settings.exceptions.every:
        yield f"exception {exception.name}: {exception.time_left(now)}, at {exception.ends}"
        yield f"  rules: {', '.join(sorted(exception.rules))}"
        yield f"  namespaces: {', '.join(sorted(exception.namespaces))}"
        yield f"  workloads: {exception.workloads}"
        yield f"  grantedBy: {exception.granted_by}"
        yield f"  reason: {exception.reason}"
    yield "scheduler"
    yield f"  optOut: {_word(settings.opt_out)}"
    yield "grove"
    yield f"  generation: {settings.grove or 'auto'}"
    yield from _kueue_lines(settings.kueue)
    yield f"  admissionCheck: {settings.admission_check}"
    yield from _fit_lines(settings.fit)

    registration = settings.registration
    excluded = ", ".join(registration.excluded_namespaces) or "none"
    yield "registration"
    yield f"  failurePolicy: {registration.failure_policy}"
    yield f"  timeoutSeconds: {registration.timeout_seconds}"
    yield f"  excludedNamespaces: {excluded}"
    yield f"  net: {registration.net}"
    yield from _reconciler_lines(settings)
    yield "shadow"
    for shadow in settings.shadows:
        other = f"another configuration, with the default {shadow.settings.default}"
        yield f"  {shadow.name}: {other if shadow.is_file else 'every workload, as for this scheduler'}"
    if not settings.shadows:
        yield "  none"
    yield from _process_lines(settings)


def _reconciler_lines(settings: Settings) -> Iterator[str]:
    yield "escapes"
    yield f"  delete: {', '.join(sorted(settings.deleted_escapes)) or 'none'}"
    yield "audit"
    yield f"  openReports: {_word(settings.auditing.open_reports)}"
    yield f"  everyMinutes: {settings.auditing.every.total_seconds() / 60:g}"
    remedies = settings.remedies
    yield "remedies"
    yield f"  causes: {', '.join(sorted(remedies.causes)) or 'none'}"
    if remedies.causes:
        yield f"  settleSeconds: {remedies.settle_seconds:g}"
        yield f"  pauseSeconds: {remedies.pause_seconds:g}"
        yield f"  perMinute: {remedies.per_minute}"


def _kueue_lines(kueue: KueueSettings) -> Iterator[str]:
    yield "kueue"
    yield f"  version: {'as served' if kueue.release is None else f'{kueue.release.major}.{kueue.release.minor}'}"
    yield f"  waitForPodsReady: {_seconds(kueue.pods_ready_seconds)}"
    if kueue.pods_ready_seconds is not None:
        yield f"  recoveryTimeout: {_seconds(kueue.recovery_seconds)}"
        yield f"  unscheduledTimeout: {_seconds(kueue.unscheduled_seconds)}"
        yield f"  blockAdmission: {_word(kueue.block_admission)}"
        yield f"  backoffLimitCount: {_word(kueue.backoff_limit)}"
    yield f"  manageJobsWithoutQueueName: {_word(kueue.manage_without_queue_name)}"
    yield f"  managedJobsNamespaceSelector: {json.dumps(kueue.managed_namespaces)}"
    yield f"  frameworks: {', '.join(sorted(kueue.frameworks))}"
    yield f"  SchedulerLibraryIntegration: {_word(kueue.scheduler_library)}"
    yield f"  TopologyAwareScheduling: {_word(kueue.topology_aware)}"
    yield f"  WorkloadLevelWaitForPodsReady: {_word(kueue.workload_timeouts)}"
    yield f"  WaitForPodsReadyMaxNotReady: {_word(kueue.max_not_ready)}"
    yield f"  BringYourOwnPodGroup: {_word(kueue.counts_minimums)}"
    yield f"  afterDeactivatedByKueue: {'deletes workloads' if kueue.deletes_deactivated else 'unset'}"


def _fit_lines(fit: FitSettings) -> Iterator[str]:
    yield "fit"
    yield f"  nodes: {fit.nodes}"
    yield f"  templates: {', '.join(template.name for template in fit.templates) or 'none'}"
    yield f"  ignoredResources: {', '.join(sorted(fit.ignored_resources)) or 'none'}"
    yield f"  ignoredResourceGroups: {', '.join(sorted(fit.ignored_groups)) or 'none'}"
    yield f"  disabledFilters: {', '.join(sorted(fit.disabled_filters)) or 'none'}"


def _seconds(number: int | None) -> str:
    return "off" if number is None else f"{number}s"


def _process_lines(settings: Settings) -> Iterator[str]:
    serving, certificates, tracing = settings.serving, settings.certificates, settings.tracing
    yield "serving"
    yield f"  maxInFlight: {serving.max_in_flight}"
    yield f"  maxConnections: {serving.max_connections}"
    yield f"  bodyMemoryPercent: {serving.body_memory_percent}"
    yield f"  connectionSeconds: {serving.connection_seconds}"
    yield f"  drainSeconds: {serving.drain_seconds}"
    check = "off in a cluster" if serving.check is None else "on" if serving.check else "off"
    yield f"  check: {check}"
    yield "certificates"
    yield f"  mode: {'selfManaged' if certificates.self_managed else 'files'}"
    if certificates.self_managed:
        yield f"  caValidityDays: {certificates.ca_validity.days}"
        yield f"  leafValidityDays: {certificates.leaf_validity.days}"
        yield f"  renewAtPercent: {certificates.renew_at:.0%}".removesuffix("%")
        yield f"  overlapSeconds: {certificates.overlap.total_seconds():.0f}"
    yield "tracing"
    yield f"  endpoint: {tracing.endpoint or 'none'}"
    if tracing.endpoint:
        yield f"  sampleRatio: {tracing.sample_ratio:g}"
    tenancy = settings.tenancy
    yield "tenancy"
    yield f"  reconcilers: {', '.join(tenancy.reconcilers) or 'the service accounts that Rollcall is installed with'}"
    yield f"  exemptUsers: {', '.join(tenancy.exempt_users) or 'none'}"
    yield f"  groveOperators: {', '.join(tenancy.grove_operators) or 'none'}"
    for profile in settings.profiles.values():
        if profile.controllers:
            yield f"  controllers of {profile.name}: {', '.join(profile.controllers)}"


def _word(value: object) -> str:
    """Returns a value as the file would write it."""
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)
