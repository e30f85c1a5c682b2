"""The condition under which the API server calls `/validate` for a pod of Grove's operator.

It does not call for a pod that `/mutate` has sealed (`webhook.validators.seal`), if nothing has changed the labels that
the seal names and the pod has no trait that a rule looks for. Every other pod is judged.
"""

from __future__ import annotations

import json

from webhook.config.settings import Profile, Settings
from webhook.model import grove
from webhook.model.reading import Manifest
from webhook.model.users import ANY_NAMESPACE
from webhook.validators.seal import SEAL_ANNOTATION

_USER = "request.userInfo.username"
_ACCOUNT = f"system:serviceaccount:{ANY_NAMESPACE}:"
# The labels and annotations of a pod with a controller were judged in its template.
_CONTROLLED = "object.metadata.?ownerReferences[?0].?controller.orValue(false)"


def unsealed(settings: Settings) -> Manifest | None:
    """The matchCondition of the webhook that judges Grove's pods; None if it judges all of them.

    If a webhook may stay without an answer, `/mutate` may not have seen the pod, and its seal says nothing.
    """
    sealed = sorted(f"({found})" for profile in settings.profiles.values() if (found := sealed_by(profile)) is not None)
    if not sealed or not settings.registration.must_answer:
        return None
    users = _operators(settings.tenancy.grove_operators)
    return {"name": "unsealed", "expression": f"!({users} && {_CONTROLLED} && ({' || '.join(sealed)}))"}


def sealed_by(profile: Profile) -> str | None:
    """A CEL expression: whether a pod has the seal of that profile and no trait that its rules look for. None if the
    profile seals no pods.

    It does not depend on the settings of the profile: under settings that let no pod be sealed, `/mutate` seals none.
    """
    seal = profile.seal
    if seal is None:
        return None
    podgang, podclique = (_value("labels", key) for key in (grove.LABEL_PODGANG, grove.LABEL_PODCLIQUE))
    named = f'{podgang} + "/" + {podclique} + "/{seal.digest}"'
    scheduled = f"object.spec.schedulerName == {json.dumps(profile.name)}"
    found = f"{scheduled} && {_value('annotations', SEAL_ANNOTATION)} == {named}"
    return f"{found} && !({seal.traits})" if seal.traits else found


def _operators(users: tuple[str, ...]) -> str:
    """A CEL expression: whether the user is one of `users`, of which service accounts may be in any namespace."""
    named = sorted(user for user in users if not user.startswith(_ACCOUNT))
    anywhere = sorted(user.removeprefix(_ACCOUNT) for user in users if user.startswith(_ACCOUNT))
    parts = f'{_USER}.split(":")'
    account = f'({_USER}.startsWith("system:serviceaccount:") && {parts}.size() == 4 && {parts}[3] in '
    found = [f"{_USER} in {_compact(named)}"] if named else []
    found += [f"{account}{_compact(anywhere)})"] if anywhere else []
    return f"({' || '.join(found)})" if found else "false"


def _value(part: str, key: str) -> str:
    return f'object.metadata.?{part}[?{json.dumps(key)}].orValue("")'


def _compact(values: list[str]) -> str:
    return json.dumps(values, separators=(",", ":"))
