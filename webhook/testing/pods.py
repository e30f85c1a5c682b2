"""Checks of the preparation of pods and of the net, and two answers to hold them against: what the API server makes of
a patch, and whether a pod may start.

A pod is prepared the same every time, in small steps, and never against another system. The patch is applied as the
API server does, but more strictly: operations that a mutating webhook must not use are errors. This is independent of
the builder in `webhook.mutators`, which it tests.

The marks that a backend declares are the ones that it writes, so the API server alone accepts every pod that Rollcall
prepared, and no other. It asks with CEL, which `webhook.installation.net_policy` compiles from these marks; `may_start`
answers the same question from the admission side, and tests compare the two. Both use only the pod: its workload may
be gone, or may never have been seen. So values that admission would compute from a record do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from webhook.backends.base import PodChanges
from webhook.model.admission_request import Kind, Operation, Request
from webhook.model.keys import Record
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest
from webhook.mutators.prepare_pod import GATE, stamp
from webhook.testing.start import may_start
from webhook.testing.strategies import FOREIGN_CLAIMS, claimed_pod, dns_labels, gang_pods, records
from webhook.testing.suite import GENERATED, Configuration, InstalledBackend, Suite, require
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER


class Unapplicable(AssertionError):
    """An operation cannot be applied, or removes more than one value."""


def apply_patch(original: Manifest, operations: Iterable[Operation]) -> Manifest:
    """Returns `original` after the operations. Raises `Unapplicable`."""
    result = deepcopy(original)
    for operation in operations:
        _apply(result, operation)
    return result


def pointer_keys(path: str) -> list[str]:
    """Returns the keys of a JSON pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _apply(target: Any, operation: Operation) -> None:
    kind, path, value = operation["op"], operation["path"], deepcopy(operation["value"])
    *parents, last = pointer_keys(path)
    holder = target
    for parent in parents:
        if not isinstance(holder, dict) or not isinstance(holder.get(parent), dict | list):
            raise Unapplicable(f"{path}: its parent {parent} does not exist; add the parent first")
        holder = holder[parent]
    if isinstance(holder, list):
        if (kind, last) != ("add", "-"):
            raise Unapplicable(f"{path}: {kind} at a place of a list; items may only be appended")
        holder.append(value)
        return
    if kind not in {"add", "replace"} or (kind == "replace" and last not in holder):
        raise Unapplicable(f"{path}: {kind} cannot be applied; single keys are added, and replaced where they are")
    if isinstance(holder.get(last), dict | list):
        raise Unapplicable(f"{path}: replaces a whole map or list; set single keys, and append")
    holder[last] = value


_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")
_KEY = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
# Grove and the pod's author decide these fields, and no backend does.
_OTHERS_FIELDS = {"hostname", "subdomain", "containers", "initContainers", "volumes", "nodeName"}

_NAMES = dns_labels | dns_labels.map(lambda name: name + "x" * (63 - len(name)))
# A record is drawn for any scheduler: the suite sets the scheduler's name in it.
_RECORDS = records("")


class PodChecks(Suite):
    """Checks of `prepare_pod`, alone and through the whole mutation."""

    @GENERATED
    @given(podgang=_NAMES, podclique=_NAMES, record=_RECORDS)
    def test_preparing_a_pod_gives_the_same_answer_every_time(
        self, configuration: Configuration, podgang: str, podclique: str, record: Record
    ) -> None:
        first, second = (
            installed.backend.prepare_pod(installed.member(podgang, podclique, self._backend_record(record)))
            for installed in (self.installed(configuration), self.installed(configuration))
        )
        require(
            _content(first) == _content(second),
            f"two pods of the same PodClique are prepared differently: {first} and {second}",
            "prepare from the member and the settings alone: no counter, clock, random number or state",
        )

    @GENERATED
    @given(podgang=st.text(max_size=300), podclique=st.text(max_size=300), record=_RECORDS)
    def test_preparing_a_pod_works_for_any_names(
        self, configuration: Configuration, podgang: str, podclique: str, record: Record
    ) -> None:
        installed = self.installed(configuration)
        member = installed.member(podgang, podclique, self._backend_record(record))
        try:
            installed.backend.prepare_pod(member)
        except Exception as error:
            wrong = f"prepare_pod raised {error!r} for {member}"
            raise AssertionError(
                f"{wrong}; it must work for every input: rules report what is wrong with a workload"
            ) from error

    @GENERATED
    @given(podgang=_NAMES, podclique=_NAMES, record=_RECORDS)
    def test_what_a_pod_is_given_is_legal(
        self, configuration: Configuration, podgang: str, podclique: str, record: Record
    ) -> None:
        installed = self.installed(configuration)
        changes = installed.backend.prepare_pod(installed.member(podgang, podclique, self._backend_record(record)))
        require(
            changes.scheduler_name == self.backend.name,
            f"a pod is given the schedulerName {changes.scheduler_name!r}",
            f"give it the backend's own name, {self.backend.name}",
        )
        require(
            all(isinstance(text, str) for text in changes.inputs),
            f"inputs has {changes.inputs!r}",
            "list what the changes depend on, as strings",
        )
        labels: dict[str, object] = {**changes.labels, **changes.default_labels}
        for key, value in labels.items():
            require(
                _KEY.match(key) is not None and isinstance(value, str) and _LABEL_VALUE.match(value) is not None,
                f"a pod is given the label {key}={value!r}, which no pod can have",
                "cut names to 63 characters with webhook.model.keys.cut_name",
            )
        annotations: dict[str, object] = dict(changes.annotations)
        for key, value in annotations.items():
            require(
                _KEY.match(key) is not None and isinstance(value, str),
                f"a pod is given the annotation {key}={value!r}, which no pod can have",
                "annotations are strings under a legal key",
            )

    @GENERATED
    @given(names=st.tuples(_NAMES, _NAMES, _NAMES, _NAMES), first=_RECORDS, second=_RECORDS)
    def test_the_stamp_changes_with_what_a_pod_is_given(
        self, names: tuple[str, str, str, str], first: Record, second: Record
    ) -> None:
        places = [(names[0], names[1], first), (names[0], names[2], first), (names[3], names[1], second)]
        prepared = []
        for configuration in self.configurations:
            installed = self.installed(configuration)
            for podgang, podclique, record in places:
                member = installed.member(podgang, podclique, self._backend_record(record))
                prepared.append(installed.backend.prepare_pod(member))
        by_stamp: dict[str, PodChanges] = {}
        for changes in prepared:
            other = by_stamp.setdefault(stamp(changes, gated=False), changes)
            require(
                _given(changes) == _given(other),
                f"the stamp is the same for {_given(other)} and for {_given(changes)}",
                "put everything that the changes depend on into `inputs`, settings included",
            )

    @GENERATED
    @given(pod=gang_pods(), record=_RECORDS, gate=st.booleans())
    def test_a_prepared_pod_needs_nothing_more(
        self, configuration: Configuration, pod: Manifest, record: Record, gate: bool
    ) -> None:
        installed = self.installed(configuration, gate=gate)
        verdict, prepared = installed.mutate(pod, self._backend_record(record))
        require(bool(verdict.patch), f"a pod of a gang is not changed: {verdict.notes}", "prepare it")
        again, _ = self.installed(configuration, gate=gate).mutate(prepared, self._backend_record(record))
        require(
            again.patch == () and again.notes == (),
            f"a prepared pod is changed again, or counts as claimed by another system: {again.patch or again.notes}",
            "give the same answer twice, and use no key in `default_*` that another part of the changes sets",
        )

    @GENERATED
    @given(pod=gang_pods(), record=_RECORDS, gate=st.booleans())
    def test_a_patch_sets_single_keys_and_leaves_alone_what_is_others(
        self, configuration: Configuration, pod: Manifest, record: Record, gate: bool
    ) -> None:
        verdict, prepared = self.installed(configuration, gate=gate).mutate(pod, self._backend_record(record))
        try:
            patched = apply_patch(pod, verdict.patch)
        except Unapplicable as error:
            raise AssertionError(f"the patch cannot be applied: {error}") from error
        require(patched == prepared, "the patch does not give the mutated pod", "make all changes through PodChanges")
        for operation in verdict.patch:
            way = pointer_keys(operation["path"])
            grove_s = way[0] == "metadata" and any(step.partition("/")[0].endswith("grove.io") for step in way[2:3])
            own_gate = way[:2] == ["spec", "schedulingGates"] and operation["value"] in ([], {"name": GATE})
            require(
                not grove_s
                and (way[0] == "metadata" or way[1] not in _OTHERS_FIELDS)
                and (way[:2] != ["spec", "schedulingGates"] or own_gate),
                f"the patch touches {operation['path']}",
                "do not change grove.io labels, hostname, subdomain, containers and gates: other systems own them",
            )
        for holder in ("labels", "annotations"):
            before, after = pod["metadata"].get(holder) or {}, patched["metadata"].get(holder) or {}
            require(
                before.keys() <= after.keys(), f"{holder} that the pod's author wrote are removed", "only add entries"
            )

    def test_a_pod_of_another_system_is_left_alone_with_a_note(self, configuration: Configuration) -> None:
        installed = self.installed(configuration)
        record = Record(self.backend.name)
        kept = installed.backend.prepare_pod(installed.member("demo-0", "demo-0-worker", record)).default_fields
        for holder, key, value in FOREIGN_CLAIMS:
            pod = claimed_pod(holder, key, value)
            verdict, prepared = installed.mutate(deepcopy(pod), record)
            # A field that the backend itself would set stays as it is. Its owner also makes the objects.
            own_field = holder == "spec" and key in kept
            mark = (prepared["spec"] if holder == "spec" else prepared["metadata"][holder]).get(key)
            require(
                mark == value and (own_field or (verdict.patch == () and bool(verdict.notes))),
                f"a pod with {key} of another system is changed: {list(verdict.patch)}",
                "set memberships as labels and annotations in PodChanges, and only pod spec fields in default_fields",
            )

    def _backend_record(self, record: Record) -> Record:
        return replace(record, scheduler=self.backend.name)


def _given(changes: PodChanges) -> dict[str, Any]:
    """Returns what the pod gets, without the input of the stamp."""
    return {
        "labels": {**changes.labels, **changes.default_labels},
        "annotations": dict(changes.annotations),
        "fields": dict(changes.default_fields),
        "priority": changes.priority,
    }


def _content(changes: PodChanges) -> Mapping[str, Any]:
    return {**_given(changes), "schedulerName": changes.scheduler_name, "inputs": changes.inputs}


_POD = Kind("", "v1", "Pod")
_REMEDY = "list in `membership` the labels, annotations and fields of PodChanges by which the scheduler finds the gang"


class NetChecks(Suite):
    """Checks of `membership`, from which the net is compiled, against `prepare_pod`."""

    @GENERATED
    @given(pod=gang_pods(), record=records(""))
    def test_the_net_lets_a_prepared_pod_through(
        self, configuration: Configuration, pod: Manifest, record: Record
    ) -> None:
        installed = self.installed(configuration)
        _, prepared = installed.mutate(pod, replace(record, scheduler=self.backend.name))
        prepared["spec"].pop("schedulingGates", None)
        ways = installed.backend.membership
        require(
            _has_one(installed, prepared) and _may_start(installed, prepared),
            f"a prepared pod has none of {ways} completely, so the net would refuse it",
            _REMEDY,
        )

    @GENERATED
    @given(pod=gang_pods())
    def test_the_net_stops_a_pod_that_was_not_prepared(self, configuration: Configuration, pod: Manifest) -> None:
        installed = self.installed(configuration)
        pod["spec"] |= {"schedulerName": self.backend.name, "schedulingGates": None}
        ways = installed.backend.membership
        if () in ways and self.backend.name == DEFAULT_SCHEDULER:
            # Every pod has that scheduler name, so the net uses the stamp.
            return
        passes, needs_nothing = _has_one(installed, pod), _may_start(installed, pod)
        require(
            passes == needs_nothing,
            f"a pod that has only the schedulerName is {'admitted' if passes else 'refused'} by {ways}, and "
            f"prepare_pod would {'write nothing' if needs_nothing else 'still write'} to identify its gang",
            _REMEDY,
        )


def _has_one(installed: InstalledBackend, pod: Manifest) -> bool:
    template = Pod(pod).template
    return any(all(mark.is_on(template) for mark in marks) for marks in installed.backend.membership)


def _may_start(installed: InstalledBackend, pod: Manifest) -> bool:
    namespace = str(pod["metadata"]["namespace"])
    return may_start(Request("uid", "CREATE", _POD, namespace, "", pod), installed.facts, installed.settings)
