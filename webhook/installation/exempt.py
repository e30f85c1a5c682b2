"""Who is exempt from the rules about gang objects, as the API server sees it before it asks: the users that the
settings name, and the service accounts of Rollcall itself, which depend on where it is installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from webhook.config.settings import Settings
from webhook.installation.names import RECONCILER, SERVER
from webhook.model.reading import Manifest
from webhook.model.users import service_account

# What the condition is called.
NOT_EXEMPT = "not-exempt"


def own_users(namespace: str) -> tuple[str, ...]:
    """The users that the reconciler may be: in the server's Pods it has their service account, in Pods of its own
    another. During an upgrade from one to the other both write, so both are always among them.
    """
    return service_account(namespace, SERVER), service_account(namespace, RECONCILER)


def installed_in(settings: Settings, namespace: str) -> Settings:
    """The settings of a Rollcall that is installed there: its own service accounts are the reconcilers, unless the
    configuration names others.
    """
    reconcilers = settings.tenancy.reconcilers or own_users(namespace)
    return replace(settings, tenancy=replace(settings.tenancy, reconcilers=reconcilers))


def not_exempt(users: Iterable[str]) -> Manifest:
    """The matchCondition by which the API server asks about nothing that one of `users` writes."""
    named = json.dumps(sorted(users), separators=(",", ":"))
    return {"name": NOT_EXEMPT, "expression": f"!(request.userInfo.username in {named})"}
