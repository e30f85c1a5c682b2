"""The users that are exempt from the rules about gang objects, in the form of a matchCondition.

They are the users that the settings name, and Rollcall's own service accounts, which depend on the namespace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from webhook.config.settings import Settings
from webhook.installation.names import RECONCILER, SERVER
from webhook.model.reading import Manifest
from webhook.model.users import service_account

# The name of the condition.
NOT_EXEMPT = "not-exempt"


def own_users(namespace: str) -> tuple[str, ...]:
    """The users that the reconciler may have: the server's service account in the server's Pods, another one in its own
    Pods.

    During an upgrade from one to the other both write, so both are always included.
    """
    return service_account(namespace, SERVER), service_account(namespace, RECONCILER)


def installed_in(settings: Settings, namespace: str) -> Settings:
    """The settings for an installation in that namespace: its service accounts are the reconcilers, unless the
    configuration names others.
    """
    reconcilers = settings.tenancy.reconcilers or own_users(namespace)
    return replace(settings, tenancy=replace(settings.tenancy, reconcilers=reconcilers))


def not_exempt(users: Iterable[str]) -> Manifest:
    """The matchCondition with which the API server does not call the webhook for writes by one of `users`."""
    named = json.dumps(sorted(users), separators=(",", ":"))
    return {"name": NOT_EXEMPT, "expression": f"!(request.userInfo.username in {named})"}
