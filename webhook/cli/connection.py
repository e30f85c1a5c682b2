"""The cluster that a command reads, and the configuration that is installed there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from webhook.cli.options import configured
from webhook.cli.output import tell
from webhook.errors import FactsUnavailable
from webhook.installation.names import NAMESPACE

if TYPE_CHECKING:
    from webhook.cluster.access import Access
    from webhook.config.settings import Settings
    from webhook.doctor.installed import Installed


def connected(kubeconfig: Path | None, context: str | None) -> Access:
    """Return the access to a cluster that answers. Raises `AccessError`, `FactsUnavailable`."""
    from webhook.cluster.access import find
    from webhook.cluster.reach import reach

    access = find(kubeconfig, context)
    asyncio.run(reach(access))
    return access


def namespace_there(given: str | None, access: Access, *, everywhere: bool) -> str | None:
    """Return the namespace that a command reads, None for all: that of its options, else of the kubeconfig's context.
    Standard error says where it comes from.
    """
    if everywhere and given is not None:
        raise typer.BadParameter("--namespace and --all-namespaces exclude each other")
    if given is not None or everywhere or access.namespace is None:
        return given
    tell(f"namespace {access.namespace}, from the context; -A shows all")
    return access.namespace


def settings_there(config: Path | None, access: Access) -> Settings:
    """Return the settings of the file, or those that Rollcall runs with in the cluster. If these are not known, every
    scheduler counts as enabled, and standard error says so.
    """
    if config is not None:
        return configured(config)
    settings, unknown = installed_in(access, NAMESPACE)
    if unknown:
        tell(no_installed_settings(unknown))
    return settings


def known_settings_there(config: Path | None, access: Access) -> Settings:
    """Return the settings of the file, or those that Rollcall runs with in the cluster. Raises `FactsUnavailable` if
    these are not known.
    """
    if config is not None:
        return configured(config)
    settings, unknown = installed_in(access, NAMESPACE)
    if unknown:
        # With other profiles the objects of a gang would not be looked for.
        raise FactsUnavailable(f"the installed configuration is not known ({unknown}); name a file with --config")
    return settings


def no_installed_settings(unknown: str) -> str:
    """Return the note for a cluster whose configuration is not known."""
    return (
        f"the installed configuration is not known ({unknown}) and there is no --config: every scheduler counts as "
        "enabled"
    )


def installed_in(access: Access, namespace: str) -> Installed:
    """Return the settings of the installation in that namespace, or why they are not known."""
    from webhook.doctor.installed import installed_settings

    return asyncio.run(installed_settings(access, namespace))
