"""Checks of what a backend declares: its name, settings, capabilities and kinds, what it needs of a cluster, and its
rules.

Each rule is documented by examples that hold, refuses what the capability table refuses, has short messages, and does
not blame an update for old faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from pydantic import ValidationError

from webhook.backends.base import Backend, BackendSettings
from webhook.errors import Inexpressible
from webhook.model.admission_request import Verdict
from webhook.model.capabilities import Capability, Support, capabilities_used
from webhook.model.facts import ClusterFacts
from webhook.model.findings import MAX_MESSAGE_CHARACTERS, Action, Finding
from webhook.model.grove import GroveGeneration
from webhook.model.keys import Api
from webhook.model.pod_template import Pod, PodTemplate
from webhook.model.projections import Projection
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.model.workload_record import SCHEDULER_LABEL, record_of
from webhook.offline.translation import expected_gangs
from webhook.server.admission_review import MAX_MESSAGE_BYTES, MAX_WARNING_BYTES
from webhook.testing.strategies import LONG, SERVED_EVERYWHERE, USES, member, podgang, workloads
from webhook.testing.suite import GENERATED, Configuration, Suite, faults, require
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.validators.registry import Rule, Subject
from webhook.workloads.pod_clique_set import PodCliqueSet

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
                parts = [part for part in _PARTS if getattr(facts, part) is not None]
                wrong = f"init or dialect raised {error!r} when {', '.join(sorted(parts)) or 'nothing'} is known"
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
            (manifest["apiVersion"], manifest["kind"])
            for manifest in installed.written(podgang("demo-0", member("demo-0-worker", 2, 2)))
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
    return isinstance(value, tuple) and all(isinstance(line, str) and "\n" not in line for line in value)


# The subjects of rules about a PodCliqueSet.
_ABOUT_SETS = (Subject.WORKLOAD, Subject.ANY_WORKLOAD, Subject.POD)
_ID = re.compile(r"([a-z][a-z0-9-]*)/[a-z][a-z0-9-]*\Z")
_EVERYWHERE = (*SHAPE_RULES, *CHOICE_RULES, *GENERAL_RULES)
_GENERAL = {declared.id for declared in _EVERYWHERE}
# Rules about one scheduler beside Kueue have Kueue's prefix, as those for every scheduler.
_KUEUE = "kueue"
# A rule about one kind has the prefix of the system whose kind it is.
_GENERAL_PREFIXES = {declared.id.partition("/")[0] for declared in _EVERYWHERE if declared.of_kind is None} - {_KUEUE}


class RuleChecks(Suite):
    """Checks of the backend's rules."""

    def test_each_rule_has_an_id_of_its_own_under_one_prefix(self) -> None:
        rules: object = self.backend.rules
        require(
            isinstance(rules, tuple) and all(isinstance(declared, Rule) for declared in rules),
            "rules is not a tuple of Rule",
            "use `collect(module)` of webhook.validators.registry",
        )
        ids = [declared.id for declared in self.backend.rules]
        for name in ids:
            require(_ID.match(name) is not None, f"a rule is called {name!r}", "name it PREFIX/what-is-wrong")
            require(ids.count(name) == 1, f"two rules are called {name}", "give each rule a unique id")
        prefixes = {name.partition("/")[0] for name in ids} - {_KUEUE}
        require(
            len(prefixes) <= 1 and prefixes.isdisjoint(_GENERAL_PREFIXES),
            f"the rules' prefixes are {', '.join(sorted(prefixes))}",
            f"use one prefix for the backend's rules, and none of {', '.join(sorted(_GENERAL_PREFIXES))}",
        )

    def test_each_rule_says_why_it_exists_and_how_that_is_known(self) -> None:
        for declared in self.backend.rules:
            text, _, source = declared.documentation.partition("Source:")
            require(
                bool(text.strip()) and bool(source.strip()),
                f"{declared.id} does not say what it protects against, or names no source",
                'begin the docstring with what the scheduler would do; end it with "Source: project, file, version"',
            )

    def test_each_rule_passes_the_example_that_is_right(self) -> None:
        for declared in self.backend.rules:
            example = declared.passes
            verdict = self.installed(example.config, version=example.version).validate(
                example.object, example.old, example.facts
            )
            require(
                declared.id not in {*_ids(verdict), *(missing.rule for missing in verdict.unjudged)},
                f"{declared.id} refuses its passing example, or cannot judge it",
                "correct the rule, or give the example the facts and the config that it needs",
            )

    def test_each_rule_finds_the_example_that_is_wrong(self) -> None:
        for declared in self.backend.rules:
            findings = [finding for finding in self._failing(declared).findings if finding.rule == declared.id]
            require(
                bool(findings) and {finding.action for finding in findings} == {declared.default},
                f"{declared.id} finds nothing in its failing example",
                "correct the rule, or show an example that it refuses",
            )

    def test_each_rule_about_pods_sees_the_pods_that_it_judges(self) -> None:
        about = [declared for declared in self.backend.rules if declared.subject is Subject.POD]
        pods = [
            pod for declared in about for example in (declared.passes, declared.fails) for pod in _pods(example.object)
        ]
        pods += [pod for workloads in USES.values() for workload in workloads for pod in _pods(workload)]
        for declared in about:
            installed = self.installed(declared.fails.config, version=declared.fails.version)
            guard, context = declared.guard, installed.context(declared.fails.facts)
            if guard is None or guard.by_facts or not guard.suffices(installed.backend.settings):
                continue
            for pod in pods:
                require(
                    any(trait.matches(pod) for trait in guard.traits) or not list(declared.check(pod, context)),
                    f"{declared.id} finds something in a pod that has no trait of its guard",
                    "add what the rule looks for to the guard, or declare no guard",
                )

    def test_each_rule_looks_at_what_it_judges(self) -> None:
        examples = [example for declared in self.backend.rules for example in (declared.passes, declared.fails)]
        manifests = [example.object for example in examples if example.object.get("kind") == PodCliqueSet.kind]
        sets = [
            PodCliqueSet(deepcopy(manifest))
            for manifest in (*manifests, *(sample for use in USES.values() for sample in use))
        ]
        for declared in self.backend.rules:
            if not declared.looks_at or declared.subject not in _ABOUT_SETS:
                continue
            installed = self.installed(declared.fails.config, version=declared.fails.version)
            for workload in sets:
                context = replace(
                    installed.context(declared.fails.facts), workload=workload, uses=capabilities_used(workload)
                )
                judged = workload.pod_templates() if declared.subject is Subject.POD else (workload,)
                require(
                    not declared.looks_at.isdisjoint(workload.mentions)
                    or not any(list(declared.check(subject, context)) for subject in judged),
                    f"{declared.id} finds something in a set that mentions nothing of its `looks_at`",
                    "add the field, key or resource that the rule judges, or declare no `looks_at`",
                )

    def test_what_the_capability_table_refuses_is_refused_by_a_rule(self, configuration: Configuration) -> None:
        installed = self.installed(configuration)
        rules = {declared.id: declared for declared in installed.backend.rules}
        for capability, support in installed.backend.capabilities.items():
            # Every workload is a gang: the table has already told the user that such a scheduler has no gangs.
            if support.supported or capability is Capability.GANG:
                continue
            for workload in USES[capability]:
                uses = capabilities_used(PodCliqueSet(deepcopy(workload)))
                paths = {use.path for use in uses[capability]}
                require(
                    any(
                        finding.rule in rules
                        and (finding.at in paths or capability in rules[finding.rule].capabilities)
                        for finding in installed.validate(workload).denials
                    ),
                    f"the table says that {capability} is not supported, and no rule refuses it "
                    f"at {', '.join(sorted(map(str, paths)))}",
                    f"add a rule with `capability=Capability.{capability.name}` that denies, or mark it as supported",
                )

    def test_each_finding_is_short_and_says_what_to_do(self, configuration: Configuration) -> None:
        names = {self.backend.name, *(declared.id.partition("/")[0] for declared in self.backend.rules)}
        for finding in self._findings(configuration, (workload for use in USES.values() for workload in use)):
            for part, text in (("why", finding.why), ("remedy", finding.remedy)):
                for fault in faults(text, names):
                    wrong = f"the {part} of {finding.rule} is {text!r}, and that {fault}"
                    raise AssertionError(f"{wrong}; write a lower-case sentence without a full stop")
            size = len(str(finding).encode())
            require(
                finding.action is Action.DENY or size <= MAX_WARNING_BYTES,
                f"{finding.rule} takes {size} bytes, and the API server cuts a warning at {MAX_WARNING_BYTES}",
                "shorten `why` and `remedy`",
            )

    def test_each_denial_is_told_whole_however_long_the_names_in_it(self, configuration: Configuration) -> None:
        for finding in self._findings(configuration, LONG):
            size = len(str(finding).encode())
            # A finding cuts a text that is too long.
            whole = max(len(finding.why), len(finding.remedy)) < MAX_MESSAGE_CHARACTERS
            require(
                size <= MAX_MESSAGE_BYTES and whole,
                f"{finding.rule} takes {size} bytes{'' if whole else ' and more'}, and a denial is cut at "
                f"{MAX_MESSAGE_BYTES}",
                "put no list and no object into `why` or `remedy`, and cut what may be long",
            )

    def test_an_update_is_not_blamed_for_what_was_there_before(self) -> None:
        for declared in self.backend.rules:
            example = declared.fails
            recorded = declared.subject is Subject.OPTED_IN or example.object.get("kind") == "PodCliqueSet"
            if example.old is not None or not (declared.kinds or recorded):
                continue
            installed = self.installed(example.config, version=example.version)
            older = example.object if declared.kinds else _recorded(example.object, self.backend.name)
            for newer in (older, _reordered(older)) if declared.subject is Subject.WORKLOAD else (older,):
                verdict = installed.validate(newer, older, example.facts)
                blamed = [finding for finding in verdict.denials if finding.rule == declared.id]
                # Some of these rules can only judge a creation: an edit of one object cannot agree with all others.
                is_reported = bool(declared.kinds) or declared.id in _ids(verdict)
                if not is_reported:
                    created = installed.validate(newer, None, example.facts).findings
                    is_reported = any(finding.once for finding in created if finding.rule == declared.id)
                require(
                    not blamed and is_reported,
                    f"{declared.id} refuses an update of an object that had the same fault before"
                    if blamed
                    else f"{declared.id} does not find in an update what it finds at creation",
                    "find the same value at the same place in both: no random or counted text, "
                    "and list items by name, whatever their order",
                )

    @GENERATED
    @given(workload=workloads())
    def test_what_no_rule_refuses_can_be_translated(self, configuration: Configuration, workload: Manifest) -> None:
        installed = self.installed(configuration)
        verdict = installed.validate(workload)
        if not verdict.allowed or verdict.unjudged:
            return
        pod_clique_set = PodCliqueSet(deepcopy(workload))
        gangs = (
            gang
            for generation in GroveGeneration
            for gang in expected_gangs(pod_clique_set, installed.facts, generation)
        )
        for gang in gangs:
            try:
                installed.backend.gang_objects(gang, record_of(pod_clique_set, self.backend.name), installed.facts)
            except Inexpressible as error:
                wrong = f"the rules admit a workload, and gang_objects refuses its PodGang {gang.name} ({error})"
                raise AssertionError(f"{wrong}; add a rule that refuses it when it is applied") from error

    def _failing(self, declared: Rule) -> Verdict:
        example = declared.fails
        return self.installed(example.config, version=example.version).validate(
            example.object, example.old, example.facts
        )

    def _findings(self, configuration: Configuration, workloads: Iterable[Manifest]) -> Iterator[Finding]:
        """Yields the findings of the rules on their own failing examples and on `workloads`."""
        installed = self.installed(configuration)
        ids = {declared.id for declared in self.backend.rules}
        verdicts = [self._failing(declared) for declared in self.backend.rules]
        verdicts += [installed.validate(workload) for workload in workloads]
        for verdict in verdicts:
            yield from (finding for finding in verdict.findings if finding.rule in ids)


def _pods(manifest: Manifest) -> list[PodTemplate]:
    copied = deepcopy(manifest)
    return [Pod(copied).template] if copied.get("kind") == "Pod" else list(PodCliqueSet(copied).pod_templates())


def _ids(verdict: Verdict) -> set[str]:
    return {finding.rule for finding in verdict.findings}


def _recorded(manifest: Manifest, scheduler: str) -> Manifest:
    recorded = deepcopy(manifest)
    labels = recorded["metadata"].get("labels") or {}
    recorded["metadata"]["labels"] = {**labels, SCHEDULER_LABEL: scheduler}
    return recorded


def _reordered(manifest: Manifest) -> Manifest:
    reordered = deepcopy(manifest)
    reordered["spec"]["template"]["cliques"].reverse()
    return reordered
