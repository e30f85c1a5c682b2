"""The parameters of a suite, how its checks run, and the form of a failed check: what is wrong with the backend, and
what its author can do about it.

Checks run once for each configuration, in a cluster with the given facts. The parts of the contract are in separate
files; each is a class over `Suite`, and `BackendConformance` joins them. Messages of backends are lower-case sentences
without a full stop, so that they can be joined to one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from pydantic import ValidationError

from webhook import admission
from webhook.admission.opinion import gang_context
from webhook.backends.base import Backend, GangMember
from webhook.config.defaults import built_in_kinds
from webhook.config.settings import Enforcement, Profile, Settings
from webhook.errors import Inexpressible
from webhook.model.admission_request import Kind, Request, Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.offline.judgement import kind_of
from webhook.testing.strategies import NAMESPACE, PRIORITY_CLASSES, SERVED_EVERYWHERE, TOPOLOGY_BINDINGS
from webhook.validators.gang_scheduler import Choice
from webhook.validators.registry import Context

_MARKS = re.compile(r"!|\bplease\b", re.IGNORECASE)
_FIRST_WORD = re.compile(r"[A-Z][a-z]+(?![A-Za-z0-9])")
# Names that may begin a sentence of any backend.
_NAMES = frozenset({"grove", "kubernetes"})


def require(holds: bool, wrong: str, remedy: str) -> None:
    """Fails the test with both sentences unless `holds`. No `assert`: `python -O` would make every check pass."""
    # The author needs to see what the backend did, not the code of the kit.
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(f"{wrong}; {remedy}")


def faults(text: object, names: Iterable[str] = ()) -> Iterator[str]:
    """Yields what is wrong with a part of a message. `names` are those of the backend, which may be capitalised."""
    if not isinstance(text, str) or not text.strip():
        yield "is empty"
        return
    if text != text.strip() or "\n" in text:
        yield "is not a single line"
    if text.endswith((".", ";", ",")):
        yield f"ends in {text[-1]!r}"
    if _MARKS.search(text):
        yield "has an exclamation mark or the word please"
    first = _FIRST_WORD.match(text)
    allowed = _NAMES | {part for name in names for part in name.split("-")}
    if first is not None and first.group().lower() not in allowed:
        yield f"starts with the capitalised word {first.group()}"


Configuration = Mapping[str, Any]

# How generated tests run. No deadline: a slow machine is not a fault of a backend. No database: its entries are stored
# by method, and every suite inherits the same methods. The first health check would warn of that. Several faults are
# reported one at a time, and without the kit's own lines.
GENERATED = settings(
    deadline=None,
    database=None,
    max_examples=min(20, settings().max_examples),
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)

_POD = Kind("", "v1", "Pod")
_WORKLOAD = Kind("grove.io", "v1alpha1", "PodCliqueSet")


class InstalledBackend:
    """A backend as a configuration enables it, in a cluster with the known `facts`."""

    def __init__(self, backend: Backend[Any], facts: ClusterFacts, *, gate: bool = False) -> None:
        none = Enforcement()
        self.backend = backend
        self.facts = facts
        self.profile = Profile(backend, none, none, gate=gate)
        profiles = {self.profile.name: self.profile}
        self.settings = Settings(profiles, self.profile.name, standalone=True, kinds=built_in_kinds())

    def member(self, podgang: str, podclique: str, record: Record) -> GangMember:
        """Returns a pod's member in a gang. Fails if no pod can be prepared with the facts."""
        require(
            self.backend.dialect(self.facts) is not None,
            f"{self.profile.name} can prepare no pod in the suite's cluster: `dialect` is None",
            "set `facts` to those of a cluster that serves what this configuration needs",
        )
        return self.profile.member(NAMESPACE, podgang, podclique, record, self.facts)

    def context(self, facts: ClusterFacts) -> Context[Any]:
        """Returns what its rules get beside a pod that is judged without its workload."""
        choice = Choice(self.profile.name, SPEC / "schedulerName", self.settings.available)
        return gang_context(self.profile, facts, choice, {}, self.settings, namespace=NAMESPACE)

    def mutate(self, pod: Manifest, record: Record) -> tuple[Verdict, Manifest]:
        """Returns the verdict on a pod of a workload with that record, and the pod after mutation."""
        facts = replace(self.facts, pod_clique_sets={(NAMESPACE, "demo"): record})
        request = Request("uid", "CREATE", _POD, NAMESPACE, "", deepcopy(pod))
        return admission.mutate(request, facts, self.settings), request.object or {}

    def validate(self, manifest: Manifest, old: Manifest | None = None, facts: ClusterFacts | None = None) -> Verdict:
        """Returns the verdict on an object as it would be stored: mutated first, as in a cluster."""
        cluster_facts = self.facts if facts is None else facts
        kind = _WORKLOAD if manifest.get("kind") in {None, _WORKLOAD.kind} else kind_of(manifest)
        operation = "CREATE" if old is None else "UPDATE"
        request = Request("uid", operation, kind, "default", "demo", deepcopy(manifest), deepcopy(old))
        admission.mutate(request, cluster_facts, self.settings)
        return admission.validate(request, cluster_facts, self.settings)

    def objects(
        self, podgang: Manifest, record: Record | None = None, gang: str | None = None
    ) -> list[Manifest] | None:
        """Returns the gang objects of a PodGang whose gang may be called `gang`; None if they cannot be expressed."""
        pod_gang = PodGang(deepcopy(podgang), gang=gang)
        try:
            return self.backend.gang_objects(pod_gang, record or Record(self.profile.name), self.facts)
        except Inexpressible:
            return None

    def written(self, podgang: Manifest) -> list[Manifest]:
        """Returns the objects as they are first written; none for a PodGang that cannot be expressed."""
        return [self.backend.adopt(desired, None) for desired in self.objects(podgang) or []]


class Suite:
    """The attributes that a subclass sets, and helpers for the checks."""

    # The backend to test.
    backend: ClassVar[type[Backend[Any]]]
    # The `config` of the profiles to test it under. Every check runs for each.
    configurations: ClassVar[Sequence[Configuration]] = ({},)
    # A cluster in which its objects can be made. Without it: one that serves the backend's `required_apis`.
    facts: ClassVar[ClusterFacts | None] = None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Pytest's hook: each check with a `configuration` parameter runs once for each configuration."""
        if not hasattr(self, "backend"):
            raise pytest.UsageError(f"{type(self).__name__}: set `backend` to the class of the backend to test")
        if "configuration" in metafunc.fixturenames:
            metafunc.parametrize("configuration", self.configurations, ids=_title)

    def configured(self, configuration: Configuration, version: str | None = None) -> Backend[Any]:
        """Returns the backend with that profile `config`, for a scheduler with a stated version or none."""
        stated = None if version is None else Version.parse(version)
        try:
            return self.backend(self.backend.settings_model.model_validate(dict(configuration)), stated)
        except ValidationError as error:
            first = str(error).replace("\n", " ")
            wrong = f"{self.backend.__name__} does not take the configuration {dict(configuration)}: {first}"
            raise AssertionError(f"{wrong}; give the suite configurations that a profile may have") from None

    def installed(
        self, configuration: Configuration, *, gate: bool = False, version: str | None = None
    ) -> InstalledBackend:
        """Returns the backend as that configuration enables it, in the suite's cluster."""
        backend = self.configured(configuration, version)
        facts = ClusterFacts(apis=frozenset(backend.required_apis)) if self.facts is None else self.facts
        if facts.priority_classes is None:
            facts = replace(facts, priority_classes=PRIORITY_CLASSES)
        if facts.topology_bindings is None:
            facts = replace(facts, topology_bindings=TOPOLOGY_BINDINGS)
        return InstalledBackend(backend, facts, gate=gate)

    def clusters(self, configuration: Configuration) -> Iterator[ClusterFacts]:
        """Yields three clusters: an unknown one, one that serves nothing, and one that serves everything."""
        installed = self.installed(configuration)
        yield NO_FACTS
        yield ClusterFacts(apis=SERVED_EVERYWHERE)
        yield ClusterFacts(apis=frozenset(installed.backend.required_apis))
        yield replace(installed.facts, apis=None)
        yield installed.facts


def _title(configuration: Configuration) -> str:
    return ",".join(f"{key}={value}" for key, value in configuration.items()) or "defaults"
