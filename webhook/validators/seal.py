"""The seal of a pod: an annotation of `/mutate`. It says that the rules about pods find nothing in this pod, unless the
pod has a trait that the API server checks itself (`webhook.validators.pod_guard`).

It contains the PodGang, the PodClique and a digest of the profile's rules and guards. So it is void after a change of
these labels, and for webhooks that were made for other rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from webhook.validators.pod_guard import PodGuard, any_of
from webhook.validators.registry import BoundRule, Rule, Subject

SEAL_ANNOTATION = "rollcall.dev/seal"
_DIGEST_CHARACTERS = 12


class ProfileSeal(NamedTuple):
    """How the pods of a profile are sealed: a digest of its rules about pods and of their guards, the expression for a
    pod that has such a trait (empty if there are no traits), and the rules that are asked before a pod is sealed, with
    the parts of the facts that these are about. With `given` False the settings of the profile let no pod be sealed.
    """

    digest: str
    traits: str
    asked: tuple[BoundRule, ...]
    parts: tuple[str, ...]
    given: bool


def seal_of(rules: Iterable[Rule], settings: Any) -> ProfileSeal | None:
    """Return the seal of a profile with these rules and settings; None if a rule must see every pod."""
    about = [declared for declared in rules if declared.subject is Subject.POD]
    guards: list[PodGuard] = []
    for declared in about:
        if declared.guard is None:
            return None
        guards.append(declared.guard)
    stated = "\n".join(f"{one.id} {_stated(guard)}" for one, guard in zip(about, guards, strict=True))
    digest = hashlib.sha256(stated.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    asked = tuple(BoundRule(one, one.default) for one, guard in zip(about, guards, strict=True) if guard.by_facts)
    parts = tuple(dict.fromkeys(part for guard in guards for part in guard.by_facts))
    return ProfileSeal(digest, any_of(guards), asked, parts, all(guard.suffices(settings) for guard in guards))


def _stated(guard: PodGuard) -> str:
    return f"{any_of((guard,))}{' by facts' if guard.by_facts else ''}"
