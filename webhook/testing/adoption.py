"""Checks of `adopt`, the last step before a write, and of `frozen`, which may stop that write.

For any object in the cluster, the adopted object stays ours, does not change again, and never has a lower minimum than
before.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from webhook.model import grove
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.reading import Malformed, Manifest
from webhook.testing.requirement import require
from webhook.testing.strategies import damaged, plain_gangs
from webhook.testing.suite import GENERATED, Configuration, Suite
from webhook.testing.walking import leaves, shown


class AdoptionChecks(Suite):
    """`adopt`."""

    @GENERATED
    @given(gang=plain_gangs(), data=st.data())
    def test_adoption_survives_any_live_object(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        for desired in installed.objects(gang) or []:
            for live in (None, {}, {"spec": None}, {"metadata": None}, data.draw(damaged(desired))):
                asked, found = deepcopy(desired), deepcopy(live)
                try:
                    installed.backend.adopt(asked, found)
                except Malformed:
                    # A field of the wrong type, reported as such: nothing is written.
                    pass
                except Exception as error:
                    wrong = f"adopt raised {error!r} for the live object {live}"
                    raise AssertionError(f"{wrong}; read it with webhook.model.reading") from error
                require(
                    asked == desired and found == live,
                    "adopt changed one of its arguments",
                    "return a copy with the changes",
                )

    @GENERATED
    @given(gang=plain_gangs(), data=st.data())
    def test_adoption_keeps_whose_an_object_is_and_writes_no_status(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        for desired in installed.objects(gang) or []:
            live = data.draw(st.none() | damaged(desired))
            adopted = _adopted(installed.backend, desired, live)
            if adopted is None:
                continue
            metadata, wanted = adopted["metadata"], desired["metadata"]
            owners = metadata.get("ownerReferences") or []
            require(
                all(owner in owners for owner in wanted.get("ownerReferences", []))
                and metadata.get("labels", {}).get(grove.LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
                and all(adopted[key] == desired[key] for key in ("apiVersion", "kind"))
                and all(metadata.get(key) == wanted.get(key) for key in ("name", "namespace")),
                "adopt lost the desired object's name, owner or app.kubernetes.io/managed-by",
                "start from `desired`, and take single fields from `live`",
            )
            require(
                "status" not in adopted and "resourceVersion" not in metadata,
                "adopt copies fields that other writers own (status, resourceVersion)",
                "start from `desired`, and take single fields from `live`",
            )

    @GENERATED
    @given(gang=plain_gangs(), data=st.data())
    def test_adoption_has_settled_after_one_step(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        backend = self.installed(configuration).backend
        for desired in self.installed(configuration).objects(gang) or []:
            live = data.draw(st.none() | damaged(desired))
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
    @given(gang=plain_gangs(), data=st.data())
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
            _seen(found, data.draw(damaged(found))) for found in installed.written(gang) if data.draw(st.booleans())
        ]
        asked = deepcopy(live)
        try:
            settled = backend.settle(deepcopy(desired), asked)
        except Malformed:
            return
        except Exception as error:
            wrong = f"settle raised {error!r} for the live objects {live}"
            raise AssertionError(f"{wrong}; read them with webhook.model.reading") from error
        require(live == asked, "settle changed the live objects", "do not change them")
        require(
            [_specless(one) for one in settled] == [_specless(one) for one in desired],
            "settle changed which kinds of objects the gang has, or their metadata",
            "return the desired objects in their order, with other values in their spec",
        )

    @GENERATED
    @given(gang=plain_gangs(), data=st.data())
    def test_a_released_minimum_keeps_what_it_was(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        before = installed.written(gang)
        released = deepcopy(gang)
        members = released["spec"]["podgroups"]
        # Grove releases the members that a rolling update is about: one of them, or all.
        for one in data.draw(st.sampled_from([members, members[:1], members[-1:]])):
            one["minReplicas"] = 0
        desired = installed.objects(released)
        require(
            desired is not None or not before,
            "a gang cannot be expressed any more after Grove has set its minimum to 0",
            "translate a minReplicas of 0, and let adopt keep the minimum that is recorded",
        )
        after = [installed.backend.adopt(one, live) for one, live in zip(desired or [], before, strict=False)]
        for old, new in zip(before, after, strict=False):
            now = dict(leaves(new.get("spec", {})))
            for place, value in leaves(old.get("spec", {})):
                if isinstance(value, int) and not isinstance(value, bool):
                    require(
                        now.get(place, 0) >= value,
                        f"spec.{shown(place)} of a {old['kind']} goes from {value} to {now.get(place)} when Grove "
                        "releases a member's minReplicas to 0",
                        "let adopt keep the last positive minimum",
                    )

    @GENERATED
    @given(gang=plain_gangs(), data=st.data())
    def test_a_gang_that_does_not_change_is_never_frozen(
        self, configuration: Configuration, gang: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        desired = installed.written(gang)
        # The last attempt may have stopped at any point.
        live = [found for found in desired if data.draw(st.booleans())]
        require(
            installed.backend.frozen(desired, live) is None,
            "a gang that was written in part could not be completed: frozen reports a change of it",
            "compare only with the objects in `live`; a missing object is not yet written",
        )

    @GENERATED
    @given(gang=plain_gangs(), other=plain_gangs(), data=st.data())
    def test_what_is_frozen_can_be_recreated(
        self, configuration: Configuration, gang: Manifest, other: Manifest, data: st.DataObject
    ) -> None:
        installed = self.installed(configuration)
        live = [_seen(found, data.draw(damaged(found))) for found in installed.written(other)]
        desired, asked = installed.written(gang), deepcopy(live)
        try:
            found = installed.backend.frozen(desired, live)
        except Malformed:
            return
        except Exception as error:
            wrong = f"frozen raised {error!r} for the live objects {live}"
            raise AssertionError(f"{wrong}; read them with webhook.model.reading") from error
        require(live == asked, "frozen changed one of its arguments", "do not change them")
        if found is None or not found.recreated:
            return
        require(
            all(going in live for going in found.recreated),
            "frozen asks to recreate an object that is not one of the live objects",
            "take `recreated` from `live`",
        )
        rest = [one for one in live if one not in found.recreated]
        require(
            installed.backend.frozen(desired, rest) is None,
            "when the objects to recreate are gone, frozen still reports a change of the gang, in an endless loop",
            "list in `recreated` every object that blocks the change",
        )


def _seen(sound: Manifest, harmed: Manifest) -> Manifest:
    """Return `harmed` with the name and namespace by which a cluster still identifies the object."""
    metadata = harmed["metadata"] if isinstance(harmed["metadata"], dict) else {}
    return {**harmed, "metadata": metadata | {key: sound["metadata"][key] for key in ("name", "namespace")}}


def _specless(manifest: Manifest) -> Manifest:
    """Return what identifies an object."""
    return {key: value for key, value in manifest.items() if key != "spec"}


def _adopted(backend: Any, desired: Manifest, live: Manifest | None) -> Manifest | None:
    """Return the adopted object; None if `adopt` reports that `live` is malformed."""
    try:
        found: Manifest = backend.adopt(deepcopy(desired), deepcopy(live))
    except Malformed:
        return None
    return found
