"""The servers that get the bodies, in this process and without sockets: their configurations and their facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from starlette.types import ASGIApp

from tests.configurations import configuration_of
from tests.unit.worlds import koordinator
from webhook.backends.registry import installed_backends
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.errors import InputError
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Api, Needed
from webhook.offline.fact_files import facts_from, load_facts
from webhook.offline.manifests import Document, read_text
from webhook.server.routes import create_app
from webhook.server.state import ServerState
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.validators.registry import Example, Rule
from webhook.workloads.known_workloads import EVERY_GENERAL

ROOT = Path(__file__).parents[2]
NAMESPACES = b"""
apiVersion: v1
kind: NamespaceList
items:
  - metadata: {name: default}
  - metadata: {name: volcanic, labels: {rollcall.dev/scheduler: volcano}}
  - metadata: {name: warned, labels: {rollcall.dev/scheduler: kai-scheduler, rollcall.dev/enforcement: warn}}
  - metadata: {name: nowhere, labels: {rollcall.dev/scheduler: nobody, rollcall.dev/enforcement: loud}}
"""


class Unfollowed:
    """A cluster without further objects: every live read finds nothing."""

    def doubted(self) -> frozenset[str]:
        """The part of the facts whose watch is reported as interrupted."""
        return frozenset({"pod_gangs"})

    async def learn(self, needed: Iterable[Needed], facts: ClusterFacts, _: float) -> ClusterFacts:
        """As `LiveFacts.learn` does where there is no such object."""
        return facts.learned({one: _nothing_of(one) for one in needed})


def _nothing_of(needed: Needed) -> Any:
    if needed.part in {"apis", "bound_gangs"}:
        return frozenset()
    return {} if needed.key is None else None


class World(NamedTuple):
    """One server. Where `owners_are_known` it may not fail for want of facts."""

    name: str
    state: ServerState
    app: ASGIApp


def worlds() -> dict[str, World]:
    """The servers by name. The first has no facts and one scheduler; in the others all schedulers are enabled."""
    known = everything_known()
    states = {
        "default": ServerState(koordinator(), NO_FACTS, None),
        "every": ServerState(every_scheduler("koord-scheduler", standalone=True), known, None),
        "cluster": ServerState(every_scheduler("kai-scheduler", gate=True, standalone=False), known, None),
        "asked": ServerState(every_scheduler("default-scheduler", standalone=False), known, None),
    }
    # It replaces the reads from sockets; the code before and after them is under test.
    states["asked"].cluster = Unfollowed()  # type: ignore[assignment]
    return {name: World(name, state, create_app(state)) for name, state in states.items()}


def every_scheduler(default: str, *, standalone: bool, gate: bool = False) -> Settings:
    """Settings with all built-in schedulers, each with most of what it can be configured to do."""
    configurations: dict[str, dict[str, Any]] = {
        "koord-scheduler": {"defaultQoSClass": "LSR", "topologyKeyMappings": {"example.com/rack": "RackLayer"}},
        "default-scheduler": {"gangScheduling": True, "apiGeneration": "v1beta1"},
        "volcano": {"topology": "hypernode"},
        "kai-scheduler": {"defaultQueue": "default-queue", "nodePoolLabelKey": "kai.scheduler/node-pool"},
        "scheduler-plugins-scheduler": {},
        "lpx-scheduler": {},
    }
    profiles = [{"name": name, "config": config, "gate": gate} for name, config in configurations.items()]
    settings = settings_from(configuration_of(*profiles, default=default), "fuzz")
    # In a cluster manifests are judged only where that is turned on.
    return replace(settings, standalone=standalone, serving=replace(settings.serving, check=True))


def every_example() -> list[tuple[Rule, Example]]:
    """What stands beside the rules: an object that passes and one that fails of each, and the facts of both."""
    own = (rule for backend in installed_backends().values() for rule in backend.rules)
    rules = [*SHAPE_RULES, *CHOICE_RULES, *GENERAL_RULES, *own]
    return [(rule, example) for rule in rules for example in (rule.passes, rule.fails)]


@cache
def everything_known() -> ClusterFacts:
    """A cluster that serves every kind and holds what the examples of all rules rest on, and these objects as well."""
    found = load_facts([ROOT / "manifests" / "facts"])
    found = facts_from(read_text(NAMESPACES, "namespaces"), found)
    for _, example in every_example():
        found = _merged(found, example.facts)
        if example.object.get("kind") != "Pod":
            try:
                found = facts_from([_document(example.object)], found)
            except InputError:
                # An example of what cannot be read.
                continue
    apis = {projection.resource.api for projection in _projections()} | (found.apis or set())
    for version in ("v1alpha1", "v1alpha2", "v1beta1"):
        apis |= {Api("scheduling.k8s.io", version, kind) for kind in ("Workload", "PodGroup")}
    return replace(found, apis=frozenset(apis), spec_fields=None, bound_gangs=frozenset({("default", "demo-0")}))


def _projections() -> list[Any]:
    return [*EVERY_GENERAL, *(found for backend in installed_backends().values() for found in backend.projections)]


def _document(manifest: dict[str, Any]) -> Document:
    import orjson

    return read_text(orjson.dumps(manifest), "example")[0]


def _merged(facts: ClusterFacts, more: ClusterFacts) -> ClusterFacts:
    """`facts` with what `more` knows and they do not."""
    changed: dict[str, Any] = {}
    for part in fields(more):
        value, known = getattr(more, part.name), getattr(facts, part.name)
        if isinstance(value, frozenset):
            changed[part.name] = value | (known or frozenset())
        elif value is not None:
            # A part of some kinds is found by more than its keys, and knows how to take entries in.
            both = type(value)(known or {}) if isinstance(value, dict) else dict(known or {})
            both.update(value)
            changed[part.name] = both
    return replace(facts, **changed)
