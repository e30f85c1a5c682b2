"""`rollcall upgrade-plan`: what an upgrade means for the gangs that live in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.connection import connected, known_settings_there
from webhook.cli.options import Format, InstalledConfiguration, Kubeconfig, KubeContext, Output, console
from webhook.cli.output import as_json_text

if TYPE_CHECKING:
    from webhook.cluster.access import Access
    from webhook.config.settings import Settings
    from webhook.upgrades.present import PresentGang
    from webhook.upgrades.releases import Product, Release

Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="PRODUCT=VERSION",
        help="What is to be upgraded, and to which version: grove, kai, koordinator, kubernetes or volcano. "
        "Repeatable.",
        show_default=False,
    ),
]
Moves = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler",
        metavar="FROM=TO",
        help="A scheduler that is to be replaced, and the one that new workloads get. Repeatable.",
        show_default=False,
    ),
]


def upgrade_plan(
    *,
    to: Targets = None,
    scheduler: Moves = None,
    config: InstalledConfiguration = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
    output: Output = Format.TEXT,
) -> None:
    """Show what an upgrade of Grove, Kubernetes or a scheduler means for the living gangs of a cluster, and what to do
    before, in which order.

    Reads the cluster with your own rights and writes nothing. A gang continues or must be re-created, or it is unknown,
    with the reason. Without `--config` it uses the configuration that is installed in `rollcall-system`. A version
    without a patch number is the first of its series: `kai=0.17` is 0.17.0.

    Exit code 3 if the cluster cannot be read.

    **Examples**

    - `rollcall upgrade-plan --to grove=v0.1.0-alpha.13`
    - `rollcall upgrade-plan --to kubernetes=1.37 --to kai=0.17.1 -o json`
    - `rollcall upgrade-plan --scheduler koord-scheduler=kai-scheduler --config rollcall.yaml`
    """
    from webhook.upgrades.plan import Upgrade
    from webhook.upgrades.plan import upgrade_plan as planned

    upgrade = Upgrade(_targets(to or ()), _moves(scheduler or ()))
    if not upgrade.targets and not upgrade.moves:
        raise typer.BadParameter("say what is to be upgraded: --to PRODUCT=VERSION, or --scheduler FROM=TO")
    access = connected(kubeconfig, context)
    found = planned(upgrade, asyncio.run(_present(known_settings_there(config, access), access)))
    if output is Format.JSON:
        typer.echo(as_json_text(found.as_json()))
    else:
        from webhook.cli.upgrade_text import print_plan

        print_plan(found, console())


def _targets(written: Iterable[str]) -> dict[Product, Release]:
    from webhook.upgrades.releases import Product, Release

    found: dict[Product, Release] = {}
    for one in written:
        name, _, version = one.partition("=")
        if name not in list(Product):
            raise typer.BadParameter(f"--to {one}: {name!r} is not a product; allowed: {', '.join(sorted(Product))}")
        product = Product(name)
        try:
            release = Release(version)
        except ValueError:
            raise typer.BadParameter(
                f"--to {one}: {version!r} is not a version; write {product}={product.example}"
            ) from None
        if product in found:
            raise typer.BadParameter(f"--to {one}: {product} is given twice")
        found[product] = release
    return found


def _moves(written: Iterable[str]) -> dict[str, str]:
    from webhook.backends.registry import installed_backends

    found: dict[str, str] = {}
    known = installed_backends()
    for one in written:
        old, _, new = one.partition("=")
        for name in (old, new):
            if name not in known:
                allowed = ", ".join(sorted(known))
                raise typer.BadParameter(f"--scheduler {one}: {name!r} is not a scheduler; allowed: {allowed}")
        if old == new or old in found:
            raise typer.BadParameter(f"--scheduler {one}: give each scheduler one other scheduler")
        found[old] = new
    return found


async def _present(settings: Settings, access: Access) -> list[PresentGang]:
    """The living gangs of the cluster. Raises `FactsUnavailable`."""
    from webhook.gangs.gang_view import looking
    from webhook.telemetry.logs import configure
    from webhook.upgrades.present import present_gangs

    configure()
    async with looking(settings, access) as look:
        return list(present_gangs(look.following.gangs, look.following.observed))
