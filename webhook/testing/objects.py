"""Checks of a PodGang's translation: whole or not at all, the same every time, with unique names and owners, and in an
order in which each object finds the objects that it refers to.
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
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.keys import Api, Record
from webhook.model.living_gang import living_gang
from webhook.model.reading import Manifest
from webhook.model.workloads.gang import GANG_LABEL
from webhook.model.workloads.podgang import PodGang
from webhook.testing.requirement import require
from webhook.testing.strategies import (
    SHORT_NAMES,
    demanding_gangs,
    gang_pairs,
    long_gangs,
    member,
    plain_gangs,
    podgang,
)
from webhook.testing.suite import GENERATED, Configuration, Installed, Suite
from webhook.testing.walking import Place, leaves, shown

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
        gang = PodGang(podgang("demo-0", member("demo-0-worker", 2, 2)))
        try:
            installed.backend.gang_objects(gang, Record(self.backend.name), installed.facts)
        except Inexpressible as error:
            wrong = f"a PodGang of two pods, without topology, cannot be expressed in the suite's cluster ({error})"
            raise AssertionError(f"{wrong}; set `facts` to those of a cluster in which it can") from error

    @GENERATED
    @given(gang=demanding_gangs())
    def test_a_gang_is_expressed_as_a_whole_or_refused_with_a_reason(
        self, configuration: Configuration, gang: Manifest
    ) -> None:
        installed = self.installed(configuration)
        try:
            installed.backend.gang_objects(PodGang(deepcopy(gang)), Record(self.backend.name), installed.facts)
        except Inexpressible as error:
            own = {declared.id for declared in self.backend.rules}
            named = {found.rule for found in error.findings} | {found.rule for found in error.unjudged}
            require(
                bool(named) and named <= own,
                f"Inexpressible names the rules {sorted(named)}",
                "give it a Finding (or Unjudged) with `rule=` one of the backend's own, which refuses it at admission",
            )
        except Exception as error:
            wrong = f"gang_objects raised {error!r}"
            raise AssertionError(f"{wrong}; raise Inexpressible for what the scheduler cannot express") from error

    @GENERATED
    @given(gang=plain_gangs() | demanding_gangs())
    def test_gang_objects_are_the_same_every_time_and_leave_the_podgang_as_it_is(
        self, configuration: Configuration, gang: Manifest
    ) -> None:
        found = PodGang(deepcopy(gang))
        made = []
        for installed in (self.installed(configuration), self.installed(configuration)):
            try:
                made.append(installed.backend.gang_objects(found, Record(self.backend.name), installed.facts))
            except Inexpressible:
                made.append([])
        require(found.raw == gang, "gang_objects changed its argument, the PodGang", "copy what is to be changed")
        require(
            made[0] == made[1],
            "the same PodGang gives other objects the second time",
            "translate from the arguments alone: no counter, clock, random number or state",
        )
        require(
            json.loads(json.dumps(made[0])) == made[0],
            "an object is not what it will be in JSON",
            "build it from dicts with string keys, lists, strings, numbers and booleans",
        )

    @GENERATED
    @given(gang=plain_gangs())
    def test_gang_objects_belong_to_their_podgang(self, configuration: Configuration, gang: Manifest) -> None:
        wanted = gang["metadata"]
        for found in self.installed(configuration).objects(gang) or []:
            metadata, title = found["metadata"], _title(found)
            require(
                metadata.get("namespace") == wanted["namespace"],
                f"{title} is in namespace {metadata.get('namespace')}",
                "put it into the PodGang's",
            )
            require(
                metadata.get("labels", {}).get(grove.LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL,
                f"{title} does not have {grove.LABEL_MANAGED_BY}: {MANAGED_BY_ROLLCALL}, so nothing would apply it",
                "make its metadata with webhook.model.gang_object.gang_metadata",
            )
            owners = [one for one in metadata.get("ownerReferences", []) if one.get("controller") is True]
            owner = PodGang(gang).owner
            require(
                [(one.get("kind"), one.get("name"), one.get("uid")) for one in owners] == [owner[1:]],
                f"{title} is not controlled by the {owner.kind} of its PodGang, so nothing would remove it",
                "make its metadata with webhook.model.gang_object.gang_metadata",
            )
            written = [field for field in _NOT_OURS if field in metadata]
            written += ["status"] if "status" in found else []
            require(not written, f"{title} sets {', '.join(written)}", "leave out fields that other writers set")

    @GENERATED
    @given(gang=plain_gangs())
    def test_a_pod_names_an_object_that_is_written_for_it(self, configuration: Configuration, gang: Manifest) -> None:
        installed = self.installed(configuration)
        names = {found["metadata"]["name"] for found in installed.objects(gang) or []}
        if not names:
            return
        for one in gang["spec"]["podgroups"]:
            place = installed.member(gang["metadata"]["name"], one["name"], Record(self.backend.name))
            changes = installed.backend.prepare_pod(place)
            holders = (changes.labels, changes.annotations, changes.default_fields)
            said = {value for _, value in leaves(holders)}
            require(
                not names.isdisjoint(said),
                f"the pods of {one['name']} name none of the objects written ({', '.join(sorted(names))})",
                "compute the names in pods and in objects with the same function",
            )

    @GENERATED
    @given(gang=plain_gangs(SHORT_NAMES))
    def test_a_renamed_podgang_keeps_its_objects(self, configuration: Configuration, gang: Manifest) -> None:
        """Grove renames PodGangs while their pods run, and in most pods the name of the group cannot be changed."""
        installed, first = self.installed(configuration), gang["metadata"]["name"]
        renamed = {**gang, "metadata": {**gang["metadata"], "name": _RENAMED, "uid": "another"}}
        before, after = installed.objects(gang) or [], installed.objects(renamed, gang=first) or []
        require(
            [_identity(found) for found in before] == [_identity(found) for found in after],
            f"the gang {first} has the objects {_names(before)}, and after Grove renamed its PodGang {_names(after)}",
            "make names from podgang.gang (in pods: member.podgang), and not from podgang.name",
        )
        for was, found in zip(before, after, strict=True):
            require(
                was.get("spec") == found.get("spec"),
                f"{_title(found)} has another spec after Grove renamed the PodGang of its gang",
                "refer to objects by podgang.gang, and not by podgang.name",
            )
            said = found["metadata"].get("labels", {})
            require(
                (said.get(grove.LABEL_PODGANG), said.get(GANG_LABEL)) == (_RENAMED, first),
                f"{_title(found)} does not name both the gang and its PodGang of today",
                "make its metadata with webhook.model.gang_object.gang_metadata",
            )

    @GENERATED
    @given(gang=plain_gangs(SHORT_NAMES))
    def test_the_gang_of_each_member_is_found_in_the_gang_heads(
        self, configuration: Configuration, gang: Manifest
    ) -> None:
        installed = self.installed(configuration)
        objects = installed.objects(gang) or []
        heads = {head.api for head in installed.backend.gang_heads}
        said = [living_gang(found) for found in objects if _api(found) in heads]
        found = {member for one in said if one is not None for member in one.members}
        missing = [one["name"] for one in gang["spec"]["podgroups"] if one["name"] not in found]
        require(
            not objects or not missing,
            f"no object of the kinds in gang_heads says that {', '.join(missing)} is in the gang, so after Grove "
            "renamed the PodGang a new pod would join another gang than its siblings",
            "list in gang_heads the kinds that together contain every member, and make their metadata with "
            "webhook.model.gang_object.gang_metadata",
        )

    @GENERATED
    @given(gang=plain_gangs())
    def test_an_object_comes_after_those_that_it_refers_to(self, configuration: Configuration, gang: Manifest) -> None:
        objects = self.installed(configuration).objects(gang) or []
        for index, found in enumerate(objects):
            for place, value in leaves(found.get("spec", {})):
                later = [other for other in _referred(place, value, objects) if other > index]
                require(
                    not later,
                    f"{_title(found)} refers by spec.{shown(place)} to an object that comes after it",
                    "list the objects in the order of creation",
                )

    @GENERATED
    @given(long=long_gangs(), demanding=demanding_gangs())
    def test_names_and_labels_are_legal_however_long_the_podgang_s_are(
        self, configuration: Configuration, long: Manifest, demanding: Manifest
    ) -> None:
        installed = self.installed(configuration)
        for found in [*(installed.objects(long) or []), *(installed.objects(demanding) or [])]:
            metadata = found["metadata"]
            name = metadata["name"]
            require(
                len(name) <= _MAX_NAME and _SUBDOMAIN.match(name) is not None,
                f"a {found['kind']} is named {name!r} ({len(name)} characters)",
                "cut names with webhook.model.naming.cut_name",
            )
            for key, value in metadata.get("labels", {}).items():
                require(
                    isinstance(value, str) and _LABEL_VALUE.match(value) is not None,
                    f"{_title(found)} has the label {key}={value!r}",
                    "cut the values of labels to 63 characters with webhook.model.naming.cut_name",
                )
            for key, value in metadata.get("annotations", {}).items():
                require(isinstance(value, str), f"{_title(found)} has the annotation {key}={value!r}", "write a string")

    @GENERATED
    @given(gang=plain_gangs(), random=st.randoms(use_true_random=False))
    def test_names_depend_neither_on_the_order_of_members_nor_on_uids(
        self, configuration: Configuration, gang: Manifest, random: Any
    ) -> None:
        other = deepcopy(gang)
        other["metadata"]["uid"] = "another"
        random.shuffle(other["spec"]["podgroups"])
        installed = self.installed(configuration)
        before, after = (_identities(installed, one) for one in (gang, other))
        require(
            before == after,
            f"the same PodGang has the objects {sorted(before)}, and with another uid and order {sorted(after)}",
            "make names only from the names of the PodGang and its members",
        )

    @GENERATED
    @given(pair=gang_pairs())
    def test_no_two_podgangs_share_an_object(
        self, configuration: Configuration, pair: tuple[Manifest, Manifest]
    ) -> None:
        installed = self.installed(configuration)
        first, second = pair
        shared = _identities(installed, first) & _identities(installed, second)
        require(
            not shared,
            f"the PodGangs {first['metadata']['name']} and {second['metadata']['name']} both have {sorted(shared)}",
            "make the PodGang's name, or a PodClique's, part of each name, and cut with webhook.model.naming.cut_name",
        )
        for gang in pair:
            made = installed.objects(gang) or []
            require(
                len({_identity(found) for found in made}) == len(made),
                f"two objects of the PodGang {gang['metadata']['name']} have the same kind and name",
                "give each object a unique name",
            )


def _api(found: Manifest) -> Api:
    group, _, version = str(found["apiVersion"]).rpartition("/")
    return Api(group, version, str(found["kind"]))


def _names(objects: list[Manifest]) -> str:
    return ", ".join(found["metadata"]["name"] for found in objects)


def _title(found: Manifest) -> str:
    return f"{found['kind']} {found['metadata']['name']}"


def _identity(found: Manifest) -> tuple[str, str, str]:
    return found["apiVersion"].partition("/")[0], found["kind"], found["metadata"]["name"]


def _identities(installed: Installed, gang: Manifest) -> set[tuple[str, str, str]]:
    return {_identity(found) for found in installed.objects(gang) or []}


def _referred(place: Place, value: object, objects: list[Manifest]) -> list[int]:
    """Return which objects the value at `place` refers to, if its field name shows that it is a reference.

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
    named = [index for index, found in enumerate(objects) if found["metadata"]["name"] == value]
    of_kind = [index for index in named if objects[index]["kind"].lower() == key.lower()]
    # Among several objects of one name, the first may be meant.
    return of_kind or named[:1]
