"""Checks of a PodGang's translation, of `adopt`, the last step before a write, and of `frozen`, which may stop that
write.

A translation is whole or not at all, the same every time, with unique names and owners, and in an order in which each
object finds the objects that it refers to. For any object in the cluster, the adopted object stays ours, does not
change again, and never has a lower minimum than before.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from webhook.errors import Inexpressible
from webhook.model import grove
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL, living_gang
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.reading import Malformed, Manifest
from webhook.testing import strategies
from webhook.testing.suite import GENERATED, Configuration, InstalledBackend, Suite, require
from webhook.workloads.opted_in_gang import GANG_LABEL

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")
_MAX_NAME = 253
# The name of a PodGang in Grove v0.1.0-alpha.12 and later: its replica and an epoch.
_RENAMED = "renamed-0-1795344276589742021"
# Fields that the API server writes.
_NOT_OURS = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp")


class ObjectChecks(Suite):
    """Checks of `gang_objects`."""

    def test_a_gang_that_asks_for_nothing_special_is_expressed(self, configuration: Configuration) -> None:
        installed = self.installed(configuration)
        gang = PodGang(strategies.podgang("demo-0", strategies.member("demo-0-worker", 2, 2)))
        try:
            installed.backend.gang_objects(gang, Record(self.backend.name), installed.facts)
        except Inexpressible as error:
            wrong = f"a PodGang of two pods, without topology, cannot be expressed in the suite's cluster ({error})"
            raise AssertionError(f"{wrong}; set `facts` to those of a cluster in which it can") from error

    @GENERATED
    @given(gang=strategies.demanding_gangs())
    def test_a_gang_is_expressed_as_a_whole_or_refused_with_a_reason(
        self, configuration: Configuration, gang: Manifest
    ) -> None:
        installed = self.installed(configuration)
        try:
            installed.backend.gang_objects(PodGang(deepcopy(gang)), Record(self.backend.name), installed.facts)
        except Inexpressible as error:
            ids = {declared.id for declared in self.backend.rules}
            rules = {finding.rule for finding in error.findings} | {unjudged.rule for unjudged in error.unjudged}
            require(
                bool(rules) and rules <= ids,
                f"Inexpressible names the rules {sorted(rules)}",
                "give it a Finding (or Unjudged) with `rule=` one of the backend's own, which refuses it at admission",
            )
        except Exception as error:
            wrong = f"gang_objects raised {error!r}"
            raise AssertionError(f"{wrong}; raise Inexpressible for what the scheduler cannot express") from error

    @GENERATED
    @given(gang=strategies.plain_gangs() | strategies.demanding_gangs())
    def test_gang_objects_are_the_same_every_time_and_leave_the_podgang_as_it_is(
        self, configuration: Configuration, gang: Manifest
    ) -> None:
        pod_gang = PodGang(deepcopy(gang))
        translations = []
        for installed in (self.installed(configuration), self.installed(configuration)):
            try:
                translations.append(
                    installed.backend.gang_objects(pod_gang, Record(self.backend.name), installed.facts)
                )
            except Inexpressible:
                translations.append([])
        require(pod_gang.raw == gang, "gang_objects changed its argument, the PodGang", "copy what is to be changed")
        require(
            translations[0] == translations[1],
            "the same PodGang gives other objects the second time",
            "translate from the arguments alone: no counter, clock, random number or state",
        )
        require(
            json.loads(json.dumps(translations[0])) == translations[0],
            "an object is not what it will be in JSON",
            "build it from dicts with string keys, lists, strings, numbers and booleans",
        )

    @GENERATED
    @given(gang=strategies.plain_gangs())
    def test_gang_objects_belong_to_their_podgang(self, configuration: Configuration, gang: Manifest) -> None:
        expected = gang["metadata"]
        for manifest in self.installed(configuration).objects(gang) or []:
            metadata, title = manifest["metadata"], _title(manifest)
            require(
                metadata.get("namespace") == expected["namespace"],
                f"{title} is in namespace {metadata.get('namespace')}",
                "put it into the PodGang's",
            )
            require(
                metadata.get("labels", {}).get(grove.LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL,
                f"{title} does not have {grove.LABEL_MANAGED_BY}: {MANAGED_BY_ROLLCALL}, so nothing would apply it",
                "make its metadata with webhook.model.gang_objects.gang_metadata",
            )
            owners = [
                reference for reference in metadata.get("ownerReferences", []) if reference.get("controller") is True
            ]
            owner = PodGang(gang).owner
            require(
                [(reference.get("kind"), reference.get("name"), reference.get("uid")) for reference in owners]
                == [owner[1:]],
                f"{title} is not controlled by the {owner.kind} of its PodGang, so nothing would remove it",
                "make its metadata with webhook.model.gang_objects.gang_metadata",
            )
            written = [field for field in _NOT_OURS if field in metadata]
            written += ["status"] if "status" in manifest else []
            require(not written, f"{title} sets {', '.join(written)}", "leave out fields that other writers set")

    @GENERATED
    @given(gang=strategies.plain_gangs())
    def test_a_pod_names_an_object_that_is_written_for_it(self, configuration: Configuration, gang: Manifest) -> None:
        installed = self.installed(configuration)
        names = {manifest["metadata"]["name"] for manifest in installed.objects(gang) or []}
        if not names:
            return
        for podgroup in gang["spec"]["podgroups"]:
            place = installed.member(gang["metadata"]["name"], podgroup["name"], Record(self.backend.name))
            changes = installed.backend.prepare_pod(place)
            holders = (changes.labels, changes.annotations, changes.default_fields)
            values = {value for _, value in strategies.leaves(holders)}
            require(
                not names.isdisjoint(values),
                f"the pods of {podgroup['name']} name none of the objects written ({', '.join(sorted(names))})",
                "compute the names in pods and in objects with the same function",
            )

    @GENERATED
    @given(gang=strategies.plain_gangs(strategies.SHORT_NAMES))
    def test_a_renamed_podgang_keeps_its_objects(self, configuration: Configuration, gang: Manifest) -> None:
        """Grove renames PodGangs while their pods run, and in most pods the name of the group cannot be changed."""
        installed, first = self.installed(configuration), gang["metadata"]["name"]
        renamed = {**gang, "metadata": {**gang["metadata"], "name": _RENAMED, "uid": "another"}}
        before, after = installed.objects(gang) or [], installed.objects(renamed, gang=first) or []
        require(
            [_identity(manifest) for manifest in before] == [_identity(manifest) for manifest in after],
            f"the gang {first} has the objects {_names(before)}, and after Grove renamed its PodGang {_names(after)}",
            "make names from podgang.gang (in pods: member.podgang), and not from podgang.name",
        )
        for was, manifest in zip(before, after, strict=True):
            require(
                was.get("spec") == manifest.get("spec"),
                f"{_title(manifest)} has another spec after Grove renamed the PodGang of its gang",
                "refer to objects by podgang.gang, and not by podgang.name",
            )
            labels = manifest["metadata"].get("labels", {})
            require(
                (labels.get(grove.LABEL_PODGANG), labels.get(GANG_LABEL)) == (_RENAMED, first),
                f"{_title(manifest)} does not name both the gang and its PodGang of today",
                "make its metadata with webhook.model.gang_objects.gang_metadata",
            )

    @GENERATED
    @given(gang=strategies.plain_gangs(strategies.SHORT_NAMES))
    def test_the_gang_of_each_member_is_found_in_the_gang_heads(
        self, configuration: Configuration, gang: Manifest
    ) -> None:
        installed = self.installed(configuration)
        objects = installed.objects(gang) or []
        heads = {head.api for head in installed.backend.gang_heads}
        living_gangs = [living_gang(manifest) for manifest in objects if _api(manifest) in heads]
        members = {member for living_gang in living_gangs if living_gang is not None for member in living_gang.members}
        missing = [podgroup["name"] for podgroup in gang["spec"]["podgroups"] if podgroup["name"] not in members]
        require(
            not objects or not missing,
            f"no object of the kinds in gang_heads says that {', '.join(missing)} is in the gang, so after Grove "
            "renamed the PodGang a new pod would join another gang than its siblings",
            "list in gang_heads the kinds that together contain every member, and make their metadata with "
            "webhook.model.gang_objects.gang_metadata",
        )

    @GENERATED
    @given(gang=strategies.plain_gangs())
    def test_an_object_comes_after_those_that_it_refers_to(self, configuration: Configuration, gang: Manifest) -> None:
        objects = self.installed(configuration).objects(gang) or []
        for index, manifest in enumerate(objects):
            for place, value in strategies.leaves(manifest.get("spec", {})):
                later = [other for other in _referred(place, value, objects) if other > index]
                require(
                    not later,
                    f"{_title(manifest)} refers by spec.{strategies.shown(place)} to an object that comes after it",
                    "list the objects in the order of creation",
                )

    @GENERATED
    @given(long=strategies.long_gangs(), demanding=strategies.demanding_gangs())
    def test_names_and_labels_are_legal_however_long_the_podgang_s_are(
        self, configuration: Configuration, long: Manifest, demanding: Manifest
    ) -> None:
        installed = self.installed(configuration)
        for manifest in [*(installed.objects(long) or []), *(installed.objects(demanding) or [])]:
            metadata = manifest["metadata"]
            name = metadata["name"]
            require(
                len(name) <= _MAX_NAME and _SUBDOMAIN.match(name) is not None,
                f"a {manifest['kind']} is named {name!r} ({len(name)} characters)",
                "cut names with webhook.model.keys.cut_name",
            )
            for key, value in metadata.get("labels", {}).items():
                require(
                    isinstance(value, str) and _LABEL_VALUE.match(value) is not None,
                    f"{_title(manifest)} has the label {key}={value!r}",
                    "cut the values of labels to 63 characters with webhook.model.keys.cut_name",
                )
            for key, value in metadata.get("annotations", {}).items():
                require(
                    isinstance(value, str), f"{_title(manifest)} has the annotation {key}={value!r}", "write a string"
                )

    @GENERATED
    @given(gang=strategies.plain_gangs(), random=st.randoms(use_true_random=False))
    def test_names_depend_neither_on_the_order_of_members_nor_on_uids(
        self, configuration: Configuration, gang: Manifest, random: Any
    ) -> None:
        other = deepcopy(gang)
        other["metadata"]["uid"] = "another"
        random.shuffle(other["spec"]["podgroups"])
        installed = self.installed(configuration)
        before, after = (_identities(installed, manifest) for manifest in (gang, other))
        require(
            before == after,
            f"the same PodGang has the objects {sorted(before)}, and with another uid and order {sorted(after)}",
            "make names only from the names of the PodGang and its members",
        )

    @GENERATED
    @given(pair=strategies.gang_pairs())
    def test_no_two_podgangs_share_an_object(
        self, configuration: Configuration, pair: tuple[Manifest, Manifest]
    ) -> None:
        installed = self.installed(configuration)
        first, second = pair
        shared = _identities(installed, first) & _identities(installed, second)
        require(
            not shared,
            f"the PodGangs {first['metadata']['name']} and {second['metadata']['name']} both have {sorted(shared)}",
            "make the PodGang's name, or a PodClique's, part of each name, and cut with webhook.model.keys.cut_name",
        )
        for gang in pair:
            objects = installed.objects(gang) or []
            require(
                len({_identity(manifest) for manifest in objects}) == len(objects),
                f"two objects of the PodGang {gang['metadata']['name']} have the same kind and name",
                "give each object a unique name",
            )


def _api(manifest: Manifest) -> Api:
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    return Api(group, version, str(manifest["kind"]))


def _names(objects: list[Manifest]) -> str:
    return ", ".join(manifest["metadata"]["name"] for manifest in objects)


def _title(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _identity(manifest: Manifest) -> tuple[str, str, str]:
    return manifest["apiVersion"].partition("/")[0], manifest["kind"], manifest["metadata"]["name"]


def _identities(installed: InstalledBackend, gang: Manifest) -> set[tuple[str, str, str]]:
    return {_identity(manifest) for manifest in installed.objects(gang) or []}


def _referred(place: strategies.Place, value: object, objects: list[Manifest]) -> list[int]:
    """Returns which objects the value at `place` refers to, if its field name shows that it is a reference.

    `fooName` refers to a Foo if there are any, else to any object with that name. The name of a template is the name of
    an entry in an object, not of an object.
    """
    keys = [step for step in place if isinstance(step, str)]
    key = keys[-1] if keys else ""
    if key == "name" and len(keys) > 1 and keys[-2].endswith(("Ref", "Reference")):
        key = keys[-2].removesuffix("Reference").removesuffix("Ref")
    elif key.endswith("Name") and not key.lower().endswith("templatename"):
        key = key.removesuffix("Name").removeprefix("parent")
    else:
        return []
    indices = [index for index, manifest in enumerate(objects) if manifest["metadata"]["name"] == value]
    of_kind = [index for index in indices if objects[index]["kind"].lower() == key.lower()]
    # Among several objects of one name, the first may be meant.
    return of_kind or indices[:1]


class AdoptionChecks(Suite):
    """`adopt`."""

    @GENERATED
    @given(gang=strategies.plain_gangs(), data=st.data())
    def test_adoption_survives_any_live_object(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        for desired in installed.objects(gang) or []:
            for live in (None, {}, {"spec": None}, {"metadata": None}, data.draw(strategies.damaged(desired))):
                desired_copy, live_copy = deepcopy(desired), deepcopy(live)
                try:
                    installed.backend.adopt(desired_copy, live_copy)
                except Malformed:
                    # A field of the wrong type, reported as such: nothing is written.
                    pass
                except Exception as error:
                    wrong = f"adopt raised {error!r} for the live object {live}"
                    raise AssertionError(f"{wrong}; read it with webhook.model.reading") from error
                require(
                    desired_copy == desired and live_copy == live,
                    "adopt changed one of its arguments",
                    "return a copy with the changes",
                )

    @GENERATED
    @given(gang=strategies.plain_gangs(), data=st.data())
    def test_adoption_keeps_whose_an_object_is_and_writes_no_status(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        for desired in installed.objects(gang) or []:
            live = data.draw(st.none() | strategies.damaged(desired))
            adopted = _adopted(installed.backend, desired, live)
            if adopted is None:
                continue
            metadata, expected = adopted["metadata"], desired["metadata"]
            owners = metadata.get("ownerReferences") or []
            require(
                all(owner in owners for owner in expected.get("ownerReferences", []))
                and metadata.get("labels", {}).get(grove.LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
                and all(adopted[key] == desired[key] for key in ("apiVersion", "kind"))
                and all(metadata.get(key) == expected.get(key) for key in ("name", "namespace")),
                "adopt lost the desired object's name, owner or app.kubernetes.io/managed-by",
                "start from `desired`, and take single fields from `live`",
            )
            require(
                "status" not in adopted and "resourceVersion" not in metadata,
                "adopt copies fields that other writers own (status, resourceVersion)",
                "start from `desired`, and take single fields from `live`",
            )

    @GENERATED
    @given(gang=strategies.plain_gangs(), data=st.data())
    def test_adoption_has_settled_after_one_step(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        backend = self.installed(configuration).backend
        for desired in self.installed(configuration).objects(gang) or []:
            live = data.draw(st.none() | strategies.damaged(desired))
            once = _adopted(backend, desired, live)
            if once is None:
                continue
            require(
                _adopted(backend, once, live) == once,
                "adopting its own result gives a different object",
                "make adopt idempotent: it must not change its own result",
            )
            require(
                _adopted(backend, desired, once) == once,
                "an object that was just written would be written again, in an endless loop",
                "adopt only fields of `live` that stay the same after the write",
            )

    @GENERATED
    @given(gang=strategies.plain_gangs(), data=st.data())
    def test_settling_keeps_the_kinds_of_a_gang_and_changes_nothing_of_a_new_one(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        backend, desired = installed.backend, installed.objects(gang) or []
        require(
            backend.settle(deepcopy(desired), []) == desired,
            "settle changes a gang that has no objects yet",
            "change only what existing objects have decided",
        )
        live = [
            _seen(manifest, data.draw(strategies.damaged(manifest)))
            for manifest in installed.written(gang)
            if data.draw(st.booleans())
        ]
        live_copy = deepcopy(live)
        try:
            settled = backend.settle(deepcopy(desired), live_copy)
        except Malformed:
            return
        except Exception as error:
            wrong = f"settle raised {error!r} for the live objects {live}"
            raise AssertionError(f"{wrong}; read them with webhook.model.reading") from error
        require(live == live_copy, "settle changed the live objects", "do not change them")
        require(
            [_specless(manifest) for manifest in settled] == [_specless(manifest) for manifest in desired],
            "settle changed which kinds of objects the gang has, or their metadata",
            "return the desired objects in their order, with other values in their spec",
        )

    @GENERATED
    @given(gang=strategies.plain_gangs(), data=st.data())
    def test_a_released_minimum_keeps_what_it_was(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        before = installed.written(gang)
        released = deepcopy(gang)
        members = released["spec"]["podgroups"]
        # Grove releases the members that a rolling update is about: one of them, or all.
        for podgroup in data.draw(st.sampled_from([members, members[:1], members[-1:]])):
            podgroup["minReplicas"] = 0
        desired = installed.objects(released)
        require(
            desired is not None or not before,
            "a gang cannot be expressed any more after Grove has set its minimum to 0",
            "translate a minReplicas of 0, and let adopt keep the minimum that is recorded",
        )
        after = [installed.backend.adopt(manifest, live) for manifest, live in zip(desired or [], before, strict=False)]
        for old, new in zip(before, after, strict=False):
            now = dict(strategies.leaves(new.get("spec", {})))
            for place, value in strategies.leaves(old.get("spec", {})):
                if isinstance(value, int) and not isinstance(value, bool):
                    require(
                        now.get(place, 0) >= value,
                        f"spec.{strategies.shown(place)} of a {old['kind']} goes from {value} to {now.get(place)} when "
                        "Grove releases a member's minReplicas to 0",
                        "let adopt keep the last positive minimum",
                    )

    @GENERATED
    @given(gang=strategies.plain_gangs(), data=st.data())
    def test_a_gang_that_does_not_change_is_never_frozen(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        desired = installed.written(gang)
        # The last attempt may have stopped at any point.
        live = [manifest for manifest in desired if data.draw(st.booleans())]
        require(
            installed.backend.frozen(desired, live) is None,
            "a gang that was written in part could not be completed: frozen reports a change of it",
            "compare only with the objects in `live`; a missing object is not yet written",
        )

    @GENERATED
    @given(gang=strategies.plain_gangs(), other=strategies.plain_gangs(), data=st.data())
    def test_what_is_frozen_can_be_recreated(
        self, configuration: Configuration, gang: Manifest, other: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        live = [_seen(manifest, data.draw(strategies.damaged(manifest))) for manifest in installed.written(other)]
        desired, live_copy = installed.written(gang), deepcopy(live)
        try:
            frozen = installed.backend.frozen(desired, live)
        except Malformed:
            return
        except Exception as error:
            wrong = f"frozen raised {error!r} for the live objects {live}"
            raise AssertionError(f"{wrong}; read them with webhook.model.reading") from error
        require(live == live_copy, "frozen changed one of its arguments", "do not change them")
        if frozen is None or not frozen.recreated:
            return
        require(
            all(going in live for going in frozen.recreated),
            "frozen asks to recreate an object that is not one of the live objects",
            "take `recreated` from `live`",
        )
        rest = [manifest for manifest in live if manifest not in frozen.recreated]
        require(
            installed.backend.frozen(desired, rest) is None,
            "when the objects to recreate are gone, frozen still reports a change of the gang, in an endless loop",
            "list in `recreated` every object that blocks the change",
        )


def _seen(sound: Manifest, harmed: Manifest) -> Manifest:
    """Returns `harmed` with the name and namespace by which a cluster still identifies the object."""
    metadata = harmed["metadata"] if isinstance(harmed["metadata"], dict) else {}
    return {**harmed, "metadata": metadata | {key: sound["metadata"][key] for key in ("name", "namespace")}}


def _specless(manifest: Manifest) -> Manifest:
    return {key: value for key, value in manifest.items() if key != "spec"}


def _adopted(backend: Any, desired: Manifest, live: Manifest | None) -> Manifest | None:
    """Returns the adopted object; None if `adopt` reports that `live` is malformed."""
    try:
        adopted: Manifest = backend.adopt(deepcopy(desired), deepcopy(live))
    except Malformed:
        return None
    return adopted
