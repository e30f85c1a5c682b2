"""Users as the API server names them in an AdmissionReview (`userInfo.username`), and which of them are trusted.

The author of an object writes its labels, annotations and ownerReferences, so none of them proves who made it. Source:
k8s.io/api/authentication/v1 `UserInfo`; Kubernetes documentation, "Authenticating" (service accounts).
"""

from __future__ import annotations

import re
from functools import lru_cache

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
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of a user's service account; None for any other user, and for an account in any namespace."""
    start, _, rest = user.partition("system:serviceaccount:")
    namespace, colon, name = rest.partition(":")
    return (namespace, name) if not start and colon and namespace != ANY_NAMESPACE else None


@lru_cache(maxsize=256)
def in_any_namespace(user: str) -> str:
    """The user with any namespace, if it is a service account; else the user. Cached: few users create all pods."""
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
