"""Request and Verdict: the input and the output of a decision, with the user who asks and the changes of fields that a
verdict makes.

None of them depends on HTTP or JSON. The author of an object writes its labels, annotations and ownerReferences, so
only the user name that the API server states (`userInfo.username`) shows who made it. Source:
k8s.io/api/authentication/v1 `UserInfo`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from webhook.model.fields import FieldPath, Item, Part
from webhook.model.findings import Action, Finding, Omission, Unjudged
from webhook.model.reading import Manifest

# The user names that a configuration may contain: printable ASCII, which Python, JSON and CEL read in the same way.
USER_PATTERN = r"^[!-~]([ -~]{0,251}[!-~])?$"
# This much is kept of a longer name, so that it cannot equal a name in a configuration.
MAX_USER_CHARACTERS = 512
# Groups, and all users: no single user has such a name.
NOT_A_USER = (
    "system:anonymous",
    "system:authenticated",
    "system:masters",
    "system:nodes",
    "system:serviceaccounts",
    "system:unauthenticated",
)
# Also all service accounts of one namespace.
GROUPS = ("system:serviceaccounts:",)
# Stands for any namespace of a service account.
ANY_NAMESPACE = "*"
_NAMESPACE_OF_ACCOUNT = re.compile(r"(?<=^system:serviceaccount:)[^:]+(?=:)")


def service_account(namespace: str, name: str) -> str:
    """Returns the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Returns the namespace and name of a user's service account; None for any other user or in any namespace."""
    start, _, rest = user.partition("system:serviceaccount:")
    namespace, colon, name = rest.partition(":")
    return (namespace, name) if not start and colon and namespace != ANY_NAMESPACE else None


@lru_cache(maxsize=256)
def user_pattern(user: str) -> str:
    """Returns a service account in any namespace; another user as it is. Cached: few users create all pods."""
    return _NAMESPACE_OF_ACCOUNT.sub(ANY_NAMESPACE, user)


# The controllers of kube-controller-manager that create pods, by their accounts (--use-service-account-credentials, as
# kubeadm sets it), and by its one user.
JOB_CONTROLLER = service_account("kube-system", "job-controller")
STATEFUL_SET_CONTROLLER = service_account("kube-system", "statefulset-controller")
CONTROLLER_MANAGER = "system:kube-controller-manager"

# The account's name in Grove's chart (ai-dynamo/grove, operator/charts/values.yaml, `serviceAccount.name`). The release
# chooses the namespace: grove-system, default, or Dynamo's namespace if Dynamo's chart installs Grove.
GROVE_OPERATORS = (service_account(ANY_NAMESPACE, "grove-operator"),)
# Kueue's account in its manifests, its chart and Red Hat's operator. Updates by Kueue are never refused. In any other
# namespace a tenant could make an account with that name.
KUEUE_CONTROLLERS = tuple(
    service_account(namespace, "kueue-controller-manager") for namespace in ("kueue-system", "openshift-kueue-operator")
)


OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
# The possible values of `Verdict.decision`.
DECISIONS = ("allowed", "denied", "patched")


class Kind(NamedTuple):
    """A group, version and kind; the core group is the empty string."""

    group: str
    version: str
    kind: str


# Not frozen, as `Context`: each call makes one, and a frozen one takes three times as long.
@dataclass(slots=True)
class Request:
    """One object to be admitted to the cluster. `object` is None on DELETE, `old` is None on CREATE. `user` is empty
    without a user, as for a manifest in a file. `at` is when the request was received, in UTC; without it no exception
    applies.
    """

    uid: str
    operation: str
    kind: Kind
    namespace: str
    name: str
    object: Manifest | None
    old: Manifest | None = None
    subresource: str = ""
    # The plural of the kind; empty if it is not known.
    resource: str = ""
    user: str = ""
    at: datetime | None = None


# A JSON Patch operation (RFC 6902).
Operation = dict[str, Any]


# Nothing changes one. It is not frozen, because that would make each decision slower.
@dataclass(slots=True)
class Verdict:
    """The decision. `findings` holds every finding with its action, the denying ones first."""

    allowed: bool = True
    scheduler: str | None = None
    findings: tuple[Finding, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    patch: tuple[Operation, ...] = ()
    # Advice that comes from no rule: why a pod was left unchanged.
    notes: tuple[str, ...] = ()
    # What chose the scheduler of a workload, in words.
    chosen_by: str = ""
    # The other enabled schedulers that would run a refused workload as it is written.
    could_run: tuple[str, ...] = ()
    # Why the object was not judged, or only by the rules that hold whoever makes its gang. In files only.
    omission: Omission | None = None

    @property
    def alternatives(self) -> str | None:
        """A sentence that names the other schedulers that could run the refused workload."""
        if not self.could_run:
            return None
        *others, last = self.could_run
        return f"{', '.join(others)} or {last} could run it as written" if others else f"{last} could run it as written"

    @property
    def denials(self) -> tuple[Finding, ...]:
        """The findings that refuse the object."""
        return tuple(finding for finding in self.findings if finding.action is Action.DENY)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that are shown to the user as warnings."""
        return tuple(finding for finding in self.findings if finding.action is Action.WARN)

    @property
    def decision(self) -> str:
        """One word for logs, metrics and audit annotations."""
        if not self.allowed:
            return "denied"
        return "patched" if self.patch else "allowed"


ALLOWED = Verdict()


class Change(NamedTuple):
    """One field added, replaced or removed. `was` is None for a new field, `value` is None for a removed one."""

    op: str
    path: FieldPath
    was: Any
    value: Any

    def as_json(self) -> dict[str, Any]:
        """Returns the change in the form that a person reads."""
        return {"path": str(self.path), "from": self.was, "to": self.value}

    def as_patch(self) -> Operation:
        """Returns the change as an operation of JSON Patch (RFC 6902)."""
        pointer = "".join(f"/{_token(part)}" for part in self.path.parts)
        return {"op": self.op, "path": pointer, **({} if self.op == "remove" else {"value": self.value})}

    @property
    def key(self) -> str:
        """The same text for equal changes."""
        return f"{self.op} {self.path} {json.dumps(self.value, sort_keys=True)}"


Changes = tuple[Change, ...]


def applied(raw: Manifest, changes: Changes) -> Manifest:
    """Returns `raw` with the changes. Copies only the changed parts and shares the rest."""
    for change in changes:
        raw = _changed(raw, change.path.parts, change)
    return raw


def value_at(raw: Any, at: FieldPath) -> tuple[bool, Any]:
    """Returns whether the field exists, and its value."""
    for part in at.parts:
        if isinstance(part, Item):
            if not isinstance(raw, list) or part.index >= len(raw):
                return False, None
            raw = raw[part.index]
        elif not isinstance(raw, dict) or part not in raw:
            return False, None
        else:
            raw = raw[part]
    return True, raw


def _changed(holder: Any, parts: tuple[Part, ...], change: Change) -> Any:
    first, *rest = parts
    if isinstance(first, Item):
        copied: Any = list(holder)
        copied[first.index] = _changed(holder[first.index], tuple(rest), change)
        return copied
    copied = dict(holder)
    if rest:
        copied[first] = _changed(holder[first], tuple(rest), change)
    elif change.op == "remove":
        del copied[first]
    else:
        copied[first] = change.value
    return copied


def _token(part: Part) -> str:
    return str(part.index) if isinstance(part, Item) else part.replace("~", "~0").replace("/", "~1")
