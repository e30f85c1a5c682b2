"""Users as the API server names them in an AdmissionReview (`userInfo.username`): who is trusted with what.

A label, an annotation and an ownerReference are written by whoever writes the object, so none of them says who made
it. Source: k8s.io/api/authentication/v1 `UserInfo`; Kubernetes documentation, "Authenticating" (service accounts).
"""

from __future__ import annotations

import re

# What a configuration may name: printable ASCII, which Python, JSON and CEL read in the same way.
USER_PATTERN = r"^[!-~]([ -~]{0,251}[!-~])?$"
# Of a longer name this much is kept: it is then none that a configuration may name.
MAX_USER_CHARACTERS = 512
# Groups, and everybody: no single user is called so.
NOT_A_USER = (
    "system:anonymous",
    "system:authenticated",
    "system:masters",
    "system:nodes",
    "system:serviceaccounts",
    "system:unauthenticated",
)
# And all service accounts of one namespace.
GROUPS = ("system:serviceaccounts:",)
# In the place of a service account's namespace: any.
ANY_NAMESPACE = "*"
_NAMESPACE_OF_ACCOUNT = re.compile(r"(?<=^system:serviceaccount:)[^:]+(?=:)")


def service_account(namespace: str, name: str) -> str:
    """The user that a service account is."""
    return f"system:serviceaccount:{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user is; None for another user, and for one in any namespace."""
    start, _, rest = user.partition("system:serviceaccount:")
    namespace, colon, name = rest.partition(":")
    return (namespace, name) if not start and colon and namespace != ANY_NAMESPACE else None


def in_any_namespace(user: str) -> str:
    """The user with its namespace left open, where it is a service account."""
    return _NAMESPACE_OF_ACCOUNT.sub(ANY_NAMESPACE, user)


# Grove's chart calls the account so (ai-dynamo/grove, operator/charts/values.yaml, `serviceAccount.name`) and leaves
# the namespace to the release: grove-system, default, or that of Dynamo where Dynamo's chart brings it.
GROVE_OPERATORS = (service_account(ANY_NAMESPACE, "grove-operator"),)
