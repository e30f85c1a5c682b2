"""Checks and their diagnosis: how checks are declared and run on a snapshot of a cluster, and the example snapshots
that show each of them: an installation made from Rollcall's own manifests, and its possible faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from webhook.backends.koordinator.keys import POD_GROUP
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.installation.names import LEASE_NAME, NAMESPACE, SERVER, SERVICE_PORT
from webhook.installation.webhooks import Address, webhook_configurations
from webhook.model.keys import Api
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS
from webhook.model.reading import Malformed, Manifest
from webhook.operations.snapshot import (
    PARTS,
    Snapshot,
    gang_objects,
    operator_objects,
    recorded_workloads,
    topology_objects,
)


class Severity(StrEnum):
    """The severity: gangs are refused, do not start, or start in part now; this may happen later; or it is just worth
    knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Symptom(NamedTuple):
    """A problem: where it is, what was found, why it matters, and what to do. `level` is set if it differs from the
    check's level.
    """

    where: str
    observation: str
    why: str
    remedy: str
    level: Severity | None = None


Symptoms = Iterator[Symptom]


@dataclass(frozen=True, slots=True)
class Check:
    """A declared check. It raises `FactsUnavailable` if a part of the snapshot that it needs could not be read."""

    id: str
    look: Callable[[Snapshot], Symptoms]
    level: Severity
    # One snapshot that passes this check and one that fails: the first tests of the check.
    passes: Callable[[], Snapshot]
    fails: Callable[[], Snapshot]

    @property
    def documentation(self) -> str:
        """The docstring: what is checked and why, with its source."""
        return self.look.__doc__ or ""


def check(
    id: str, *, passes: Callable[[], Snapshot], fails: Callable[[], Snapshot], level: Severity = Severity.ERROR
) -> Callable[[Callable[[Snapshot], Symptoms]], Check]:
    """Declares a check of the form `(snapshot) -> Iterator[Symptom]`."""

    def declared(look: Callable[[Snapshot], Symptoms]) -> Check:
        return Check(id, look, level, passes, fails)

    return declared


def collect(*modules: ModuleType) -> tuple[Check, ...]:
    """Returns the checks that these modules declare, in the order of their declaration."""
    return tuple(member for module in modules for member in vars(module).values() if isinstance(member, Check))


def first_of(names: Sequence[str], many: int = 1) -> str:
    """Returns the first few names, and the number of the others."""
    more = f" and {len(names) - many} more" if len(names) > many else ""
    return ", ".join(names[:many]) + more


class DiagnosedProblem(NamedTuple):
    """A problem, with its check and its level."""

    check: str
    level: Severity
    symptom: Symptom

    def as_json(self) -> dict[str, Any]:
        """Returns the problem as plain JSON values."""
        symptom = self.symptom
        return {
            "check": self.check,
            "level": self.level.value,
            "where": symptom.where,
            "found": symptom.observation,
            "why": symptom.why,
            "remedy": symptom.remedy,
        }


class UnansweredCheck(NamedTuple):
    """A check that could not run, or not completely, and why."""

    check: str
    why: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, in the order of the checks."""

    checks: tuple[str, ...] = ()
    problems: list[DiagnosedProblem] = field(default_factory=list)
    not_known: list[UnansweredCheck] = field(default_factory=list)

    def problems_of(self, level: Severity) -> list[DiagnosedProblem]:
        """Returns the findings of one level."""
        return [problem for problem in self.problems if problem.level is level]

    def fails(self, *, strict: bool) -> bool:
        """Returns whether there is an error; with `strict`, an error or a warning."""
        return bool(self.problems_of(Severity.ERROR)) or (strict and bool(self.problems_of(Severity.WARNING)))

    def as_json(self, *, strict: bool) -> dict[str, Any]:
        """Returns the diagnosis as plain JSON values."""
        return {
            "well": not self.fails(strict=strict) and not self.not_known,
            "checks": list(self.checks),
            "findings": [problem.as_json() for problem in self.problems],
            "notKnown": [{"check": unknown.check, "why": unknown.why} for unknown in self.not_known],
        }


def examine(snapshot: Snapshot, checks: Iterable[Check]) -> Diagnosis:
    """Runs the checks. Findings made before a check stopped for missing data are kept."""
    every = tuple(checks)
    diagnosis = Diagnosis(tuple(check.id for check in every))
    for check in every:
        try:
            for symptom in check.look(snapshot):
                diagnosis.problems.append(DiagnosedProblem(check.id, symptom.level or check.level, symptom))
        except FactsUnavailable as error:
            diagnosis.not_known.append(UnansweredCheck(check.id, str(error)))
        except Malformed as error:
            # The API server has validated what it stores, but a string field may contain anything.
            diagnosis.not_known.append(UnansweredCheck(check.id, f"an object cannot be read: {error}"))
    return diagnosis


NOW = datetime(2026, 9, 1, 12, 0, 0, tzinfo=UTC)
_APIS = frozenset({POD_CLIQUE_SETS.resource.api, POD_GANGS.resource.api, POD_GROUP})
_NODES = ("node-a", "node-b")


def configured(*profiles: Mapping[str, Any], **sections: Any) -> Settings:
    """Returns settings with these profiles, the first being the default; without any, with koord-scheduler."""
    every = profiles or ({"name": "koord-scheduler"},)
    document = {
        "apiVersion": "rollcall.dev/v1alpha1",
        "kind": "RollcallConfiguration",
        "scheduler": {"profiles": list(every), "defaultProfileName": every[0]["name"]},
        **sections,
    }
    return settings_from(document, "example")


@cache
def _koordinator() -> Settings:
    return configured()


def snapshot(*objects: Manifest, settings: Settings | None = None, **fields: Any) -> Snapshot:
    """Returns a snapshot with only these objects; keywords set further fields of `Snapshot`."""
    settings = settings or _koordinator()
    every = (
        *PARTS,
        *recorded_workloads(settings),
        *gang_objects(settings),
        *operator_objects(settings),
        *topology_objects(settings),
    )
    parts = {part: tuple(raw for raw in objects if part.has(raw, NAMESPACE)) for part in every}
    example = Snapshot(settings, NOW, parts=parts, apis=_APIS)
    return replace(example, **fields)


def installed(
    *more: Manifest,
    settings: Settings | None = None,
    without: tuple[str, ...] = (),
    changed: Callable[[Manifest], None] = lambda _: None,
    **fields: Any,
) -> Snapshot:
    """Returns a working installation with these additional objects.

    `changed` may change each of the installation's own objects; kinds in `without` are left out.
    """
    settings = settings or _koordinator()
    objects = deepcopy([*webhook_configurations(settings, _ADDRESS, NAMESPACE, None), *_running(), *_namespaces()])
    for raw in objects:
        changed(raw)
    return snapshot(*(raw for raw in objects if raw["kind"] not in without), *more, settings=settings, **fields)


_ADDRESS = Address(NAMESPACE, SERVER, SERVICE_PORT)


def _running() -> list[Manifest]:
    """Returns the running part: Service, endpoints on two nodes, PodDisruptionBudget, and a leader."""
    labels = {"app.kubernetes.io/name": "rollcall"}
    slices = example_object("discovery.k8s.io/v1", "EndpointSlice", SERVER, {"kubernetes.io/service-name": SERVER})
    slices["ports"] = [{"name": "https", "port": 8443}]
    slices["endpoints"] = [
        {"addresses": [f"10.0.0.{number}"], "nodeName": node, "conditions": {"ready": True}}
        for number, node in enumerate(_NODES)
    ]
    port = {"name": "https", "port": SERVICE_PORT, "targetPort": "https"}
    service = example_object("v1", "Service", SERVER, spec={"selector": labels, "ports": [port]})
    budget = example_object(
        "policy/v1", "PodDisruptionBudget", SERVER, spec={"selector": {"matchLabels": dict(labels)}}
    )
    return [service, slices, budget, lease()]


def excepting(until: datetime, namespace: str = "team-a") -> Snapshot:
    """Returns a working installation whose configuration has an exception for a namespace that ends at that time."""
    exception = {
        "name": "mnnvl-pool-b",
        "rules": ["koordinator/mnnvl"],
        "namespaces": [namespace],
        "reason": "every node of pool B is in one NVLink domain",
        "grantedBy": "platform@example.com",
        "until": until.isoformat(),
    }
    return installed(settings=configured(exceptions=[exception]))


def lease(**spec: Any) -> Manifest:
    """Returns the reconciler's Lease, renewed a second ago; keywords override fields."""
    held = {"holderIdentity": "rollcall-reconciler-1", "leaseDurationSeconds": 15}
    return example_object(
        "coordination.k8s.io/v1", "Lease", LEASE_NAME, spec={**held, "renewTime": "2026-09-01T11:59:59.000000Z", **spec}
    )


def _namespaces() -> list[Manifest]:
    return [namespace(name) for name in (NAMESPACE, "kube-system", "default", "team-a")]


def namespace(name: str, **labels: str) -> Manifest:
    """Returns a namespace; keywords are labels with Rollcall's prefix."""
    prefixed = {f"rollcall.dev/{key}": value for key, value in labels.items()}
    manifest = example_object("v1", "Namespace", name, {"kubernetes.io/metadata.name": name, **prefixed})
    del manifest["metadata"]["namespace"]
    return manifest


def example_object(
    api_version: str,
    kind: str,
    name: str,
    labels: Mapping[str, str] | None = None,
    within: str = NAMESPACE,
    **fields: Any,
) -> Manifest:
    """Returns an object with that name; the default namespace is Rollcall's."""
    metadata = {"name": name, "namespace": within, "labels": dict(labels or {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def pod_clique_set(name: str, scheduler: str | None = "koord-scheduler", within: str = "team-a") -> Manifest:
    """Returns a PodCliqueSet, with a record of `scheduler` unless that is None."""
    labels = {} if scheduler is None else {"rollcall.dev/scheduler": scheduler}
    return example_object("grove.io/v1alpha1", "PodCliqueSet", name, labels, within)


def deployment(name: str, image: str, within: str = "kube-system", available: int = 1, **fields: Any) -> Manifest:
    """Returns a Deployment of one container."""
    template = {"spec": {"containers": [{"name": name, "image": image}], **fields}}
    status = {"availableReplicas": available}
    return example_object("apps/v1", "Deployment", name, within=within, spec={"template": template}, status=status)


def served(*apis: Api) -> frozenset[Api]:
    """Returns the kinds that the example cluster serves, and these."""
    return _APIS | set(apis)


def webhook_of(kind: str, name: str, hook: str, **fields: Any) -> Manifest:
    """Returns another system's configuration with one webhook, by default for the creation of pods."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]
    webhook = {"name": hook, "rules": rules, **fields}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
