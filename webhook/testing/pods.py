"""Checks of the preparation of pods: the same every time, in small steps, and never against another system."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from webhook.backends.base import PodChanges
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.mutators.prepare_pod import GATE, stamp
from webhook.testing.json_patch import Unapplicable, applied, steps
from webhook.testing.requirement import require
from webhook.testing.samples import CLAIMS, claimed_pod
from webhook.testing.strategies import dns_labels, gang_pods, records
from webhook.testing.suite import GENERATED, Configuration, Suite

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
            one.backend.prepare_pod(one.member(podgang, podclique, self._own(record)))
            for one in (self.installed(configuration), self.installed(configuration))
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
        member = installed.member(podgang, podclique, self._own(record))
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
        changes = installed.backend.prepare_pod(installed.member(podgang, podclique, self._own(record)))
        require(
            changes.scheduler_name == self.backend.name,
            f"a pod is given the schedulerName {changes.scheduler_name!r}",
            f"give it the backend's own name, {self.backend.name}",
        )
        require(
            all(isinstance(one, str) for one in changes.inputs),
            f"inputs has {changes.inputs!r}",
            "list what the changes depend on, as strings",
        )
        labels: dict[str, object] = {**changes.labels, **changes.default_labels}
        for key, value in labels.items():
            require(
                _KEY.match(key) is not None and isinstance(value, str) and _LABEL_VALUE.match(value) is not None,
                f"a pod is given the label {key}={value!r}, which no pod can have",
                "cut names to 63 characters with webhook.model.naming.cut_name",
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
        made = []
        for configuration in self.configurations:
            installed = self.installed(configuration)
            for podgang, podclique, record in places:
                member = installed.member(podgang, podclique, self._own(record))
                made.append(installed.backend.prepare_pod(member))
        by_stamp: dict[str, PodChanges] = {}
        for changes in made:
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
        verdict, prepared = installed.mutate(pod, self._own(record))
        require(bool(verdict.patch), f"a pod of a gang is not changed: {verdict.notes}", "prepare it")
        again, _ = self.installed(configuration, gate=gate).mutate(prepared, self._own(record))
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
        verdict, prepared = self.installed(configuration, gate=gate).mutate(pod, self._own(record))
        try:
            patched = applied(pod, verdict.patch)
        except Unapplicable as error:
            raise AssertionError(f"the patch cannot be applied: {error}") from error
        require(patched == prepared, "the patch does not give the mutated pod", "make all changes through PodChanges")
        for operation in verdict.patch:
            way = steps(operation["path"])
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
        for holder, key, value in CLAIMS:
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

    def _own(self, record: Record) -> Record:
        return replace(record, scheduler=self.backend.name)


def _given(changes: PodChanges) -> dict[str, Any]:
    """Return what the pod gets, without the input of the stamp."""
    return {
        "labels": {**changes.labels, **changes.default_labels},
        "annotations": dict(changes.annotations),
        "fields": dict(changes.default_fields),
        "priority": changes.priority,
    }


def _content(changes: PodChanges) -> Mapping[str, Any]:
    return {**_given(changes), "schedulerName": changes.scheduler_name, "inputs": changes.inputs}
