"""Checks of what a backend declares: its name, settings, capabilities and kinds, and what it needs of a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import ValidationError

from webhook.backends.base import Backend, BackendSettings
from webhook.model.capabilities import Capability, Support
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.projections import Projection
from webhook.model.version import Version
from webhook.testing.requirement import faults, require
from webhook.testing.samples import SERVED_EVERYWHERE
from webhook.testing.strategies import member, podgang
from webhook.testing.suite import Configuration, Suite

# A scheduler's name is also the value of the label rollcall.dev/scheduler, and the name of an entry point.
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_PARTS = {part.name for part in fields(ClusterFacts)}


class ContractChecks(Suite):
    """Checks of the backend's own description."""

    def test_its_name_can_be_a_scheduler_name(self) -> None:
        require(issubclass(self.backend, Backend), "the class is not a Backend", "derive it from webhook.backends.base")
        name = getattr(self.backend, "name", None)
        require(
            isinstance(name, str) and _DNS_LABEL.match(name) is not None,
            f"the backend's name is {name!r}",
            "set `name` to the scheduler's schedulerName: at most 63 lower-case letters, digits and dashes",
        )

    def test_its_settings_have_defaults_and_refuse_unknown_keys(self) -> None:
        model = self.backend.settings_model
        require(
            issubclass(model, BackendSettings),
            f"settings_model is {model.__name__}",
            "derive it from webhook.backends.base.BackendSettings",
        )
        try:
            model()
        except ValidationError as error:
            wrong = f"{model.__name__} cannot be made without configuration ({error.error_count()} fields)"
            raise AssertionError(f"{wrong}; give every field a default") from None
        unknown = {"noSuchKeyOfThisBackend": 1}
        try:
            model.model_validate(unknown)
        except ValidationError:
            return
        raise AssertionError(f'{model.__name__} takes the unknown key {next(iter(unknown))}; keep extra="forbid"')

    def test_it_takes_the_configurations_of_its_suite(self, configuration: Configuration) -> None:
        self.configured(configuration)

    def test_its_capability_table_says_why_and_what_to_do(self, configuration: Configuration) -> None:
        backend = self.configured(configuration)
        names = {backend.name, *(declared.id.partition("/")[0] for declared in backend.rules)}
        table: Mapping[Any, Any] = backend.capabilities
        for capability, support in table.items():
            require(
                isinstance(capability, Capability) and isinstance(support, Support),
                f"capabilities has the entry {capability!r}: {support!r}",
                "use the keys of Capability, and SUPPORTED, depends(...) or unsupported(...) as values",
            )
            texts = {"depends": support.depends} if support.supported else {"why": support.why}
            if not support.supported:
                texts["remedy"] = support.remedy
            for part, text in texts.items():
                if part == "depends" and not text:
                    continue
                for fault in faults(text, names):
                    wrong = f"{part} of {capability} is {text!r}, and {fault}"
                    raise AssertionError(f"{wrong}; write it as a lower-case sentence without a full stop")
        for capability in backend.implied:
            require(
                isinstance(capability, Capability),
                f"implied has the entry {capability!r}",
                "use the keys of Capability",
            )

    def test_its_apis_and_projections_are_of_the_declared_types(self, configuration: Configuration) -> None:
        backend = self.configured(configuration)
        for api in backend.required_apis:
            require(isinstance(api, Api), f"required_apis has {api!r}", "list webhook.model.keys.Api values")
        projections: tuple[Any, ...] = backend.projections
        for projection in projections:
            require(
                isinstance(projection, Projection) and projection.part in _PARTS and callable(projection.read),
                f"projections has {projection!r}",
                "list Projection values whose part is a field of ClusterFacts; a backend cannot add a field. "
                f"The fields are {', '.join(sorted(_PARTS))}",
            )

    def test_it_starts_whatever_is_known_of_the_cluster(self, configuration: Configuration) -> None:
        backend = self.configured(configuration)
        for facts in self.clusters(configuration):
            reasons: object
            try:
                reasons = backend.init(facts)
                dialect = backend.dialect(facts)
            except Exception as error:
                known = [part for part in _PARTS if getattr(facts, part) is not None]
                wrong = f"init or dialect raised {error!r} when {', '.join(sorted(known)) or 'nothing'} is known"
                raise AssertionError(f"{wrong}; return a reason (init) or None (dialect) instead") from error
            require(
                _is_lines(reasons),
                f"init returned {reasons!r}",
                "return a tuple of reasons, one line each, empty if there is no problem",
            )
            require(
                dialect is None or isinstance(dialect, str), f"dialect returned {dialect!r}", "return a word or None"
            )
        for version in (Version(0, 0), Version(1, 2, 3), Version(9999, 9999, 9999)):
            problem = self.backend.version_problem(version)
            require(
                problem is None or bool(problem),
                f"version_problem({version}) returned {problem!r}",
                "return why Rollcall cannot work with the version, or None",
            )

    def test_it_says_at_start_that_the_kinds_it_writes_are_not_served(self, configuration: Configuration) -> None:
        installed = self.installed(configuration)
        kinds = {
            (found["apiVersion"], found["kind"])
            for found in installed.written(podgang("demo-0", member("demo-0-worker", 2, 2)))
        }
        declared = {(f"{api.group}/{api.version}", api.kind) for api in installed.backend.required_apis}
        require(
            not declared or kinds <= declared,
            f"it writes {sorted(kinds - declared)}, which required_apis does not list",
            "list every kind of its gang objects; or list none, and check in a rule which kinds are served",
        )
        if kinds:
            require(
                bool(installed.backend.init(ClusterFacts(apis=SERVED_EVERYWHERE))),
                "init reports nothing for a cluster that serves none of the kinds that it writes",
                "list them in required_apis, or return the reason from init",
            )


def _is_lines(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, str) and "\n" not in one for one in value)
