"""The commands of operators: `rollcall doctor`, `rollcall audit` and `rollcall upgrade-plan`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli import options
from webhook.cli.check_command import FailOns, Ignore, Select, Strict, failure_conditions, selection_of
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, as_json_text, tell
from webhook.installation.names import NAMESPACE

if TYPE_CHECKING:
    from webhook.cluster.access import Access
    from webhook.config.settings import Settings
    from webhook.offline.finding_details import FailOn
    from webhook.offline.report import Selection
    from webhook.operations.audit import Audit
    from webhook.operations.releases import PresentGang, Product, Release


def doctor(
    *,
    config: options.InstalledConfiguration = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: options.OwnNamespace = NAMESPACE,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings, too.")] = False,
    output: Annotated[
        options.ReferenceFormat,
        typer.Option("--output", "-o", help="What to print; `markdown` is the list of checks, of no cluster."),
    ] = options.ReferenceFormat.TEXT,
) -> None:
    """Check the installation in a cluster: what is wrong, why it matters and what to do.

    Reads with your own rights and stores nothing: some objects are created as dry runs. It uses the configuration that
    Rollcall runs with there, or the file of `--config`, to see the effect of that file. A check that lacks a right says
    so, and never counts as passed.

    Exit code 0 if no problem was found, 1 if there is a problem, 3 if no problem was found but something could not be
    checked.

    **Examples**

    - `rollcall doctor`
    - `rollcall doctor --config rollcall.yaml --context prod --strict -o json`
    - `rollcall doctor -o markdown > docs/reference/doctor.md`
    """
    from webhook.operations.checks import EVERY_CHECK

    if output is options.ReferenceFormat.MARKDOWN:
        from webhook.cli.operations_text import reference

        typer.echo(reference(EVERY_CHECK), nl=False)
        return
    from webhook.operations.diagnosis import examine
    from webhook.operations.snapshot_reader import read_world

    given = None if config is None else options.configured(config)
    access = options.connected(kubeconfig, context)
    settings, unknown = (given, "") if given else options.installed_in(access, namespace)
    diagnosis = examine(asyncio.run(read_world(settings, access, namespace)), EVERY_CHECK)
    if unknown:
        tell(options.no_installed_settings(unknown))
    if output is options.ReferenceFormat.JSON:
        typer.echo(as_json_text(diagnosis.as_json(strict=strict)))
    else:
        from webhook.cli.operations_text import print_diagnosis

        print_diagnosis(diagnosis, options.console())
    if diagnosis.fails(strict=False):
        raise typer.Exit(REFUSED)
    if diagnosis.not_known:
        raise typer.Exit(NOT_EVALUATED)
    raise typer.Exit(REFUSED if diagnosis.fails(strict=strict) else CLEAN)


class AuditFormat(StrEnum):
    """The formats of `rollcall audit`."""

    TABLE = "table"
    JSON = "json"
    SARIF = "sarif"


def audit(  # noqa: PLR0913 - one parameter for each option
    *,
    today: Annotated[
        Path | None,
        typer.Option(
            "--today",
            metavar="FILE",
            help="The RollcallConfiguration of today.",
            show_default="the one that is installed",
        ),
    ] = None,
    as_scheduler: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="SCHEDULER",
            help="Show what changes if every gang chose this scheduler.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="NEW", help="Show what changes with this RollcallConfiguration.", show_default=False
        ),
    ] = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: Annotated[
        str | None, options.namespace_option("Only objects of this namespace.", options.CONTEXT_OR_ALL)
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="The objects of all namespaces.")] = False,
    fail_on: FailOns = None,
    strict: Strict = False,
    select: Select = None,
    ignore: Ignore = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show what is read.", show_default="on a terminal")
    ] = None,
    output: Annotated[AuditFormat, typer.Option("--output", "-o", help="What to print.")] = AuditFormat.TABLE,
) -> None:
    """Judge what a cluster stores, by today's rules and configuration, as if it were created now.

    Judges PodCliqueSets, opted-in workloads, gang objects and pods of gangs. What was stored before a rule
    existed, or past Rollcall, shows here. Reads the cluster with your own rights and writes nothing.

    With `--as` or `--config` it shows the difference to today: what is new, and what is gone. Then only what is new
    decides the exit code.

    Findings are counted completely. Of each namespace 500 that refuse an object are listed with `-o json` and
    `-o sarif`, and 500 others.

    Exit code, the first that holds: 2: usage or configuration. 1: something would be refused. 3: a kind could not be
    listed, or the cluster could not be read. 1: something else that --fail-on or --strict names. 0: nothing would be
    refused.

    **Examples**

    - `rollcall audit -A`
    - `rollcall audit -n team-a --fail-on warning -o json`
    - `rollcall audit -A --as kai-scheduler`
    - `rollcall audit -A --config next.yaml -o sarif > switch.sarif`
    """
    from webhook.config.defaults import force_scheduler
    from webhook.operations.audit_forms import fails

    fails_on, selection = failure_conditions(fail_on, strict=strict), selection_of(select, ignore)
    new = None if config is None else options.configured(config)
    access = options.connected(kubeconfig, context)
    space = options.namespace_there(namespace, access, everywhere=everywhere)
    settings = [options.settings_there(today, access)]
    if as_scheduler is not None:
        new = force_scheduler(new or settings[0], as_scheduler, "--as", overrides=True)
    if new is not None:
        settings.append(new)
    shows = sys.stderr.isatty() if progress is None else progress
    audited = asyncio.run(_audited(access, settings, space, selection, shows=shows))
    compared_with = [] if as_scheduler is None else [f"as {as_scheduler}"]
    compared_with += [] if config is None else [f"with {config}"]
    _print_audit(audited, fails_on, output, " ".join(compared_with))
    if fails(audited, failure_conditions(None, strict=False)):
        raise typer.Exit(REFUSED)
    if not audited.complete:
        raise typer.Exit(NOT_EVALUATED)
    if fails(audited, fails_on):
        raise typer.Exit(REFUSED)


async def _audited(
    access: Access, settings: list[Settings], namespace: str | None, selection: Selection, *, shows: bool
) -> Audit:
    from webhook.cli.operations_text import Progress
    from webhook.cluster.logs import configure
    from webhook.operations.auditor import Auditor, PrefetchingClient, read_facts

    configure()
    client, progress = PrefetchingClient(access), Progress()
    try:
        if shows:
            progress.show("the facts of the cluster")
        auditor = Auditor(client, await read_facts(client, *settings), selection, namespace)
        if shows:
            auditor.progress = progress.show
        return await auditor.audit()
    finally:
        progress.end()
        await client.close()


def _print_audit(audit: Audit, fail_on: frozenset[FailOn], output: AuditFormat, compared_with: str) -> None:
    from webhook.cli.operations_text import print_audit
    from webhook.operations.audit_forms import audit_as_json, audit_as_sarif

    match output:
        case AuditFormat.TABLE:
            print_audit(audit, options.console(), compared_with)
        case AuditFormat.JSON:
            typer.echo(as_json_text(audit_as_json(audit, fail_on, compared_with)))
        case AuditFormat.SARIF:
            typer.echo(as_json_text(audit_as_sarif(audit)))
    for kind, why in audit.unread.items():
        tell(f"{kind} could not be read, so rules that need them are not judged: {why}")
    for kind, why in audit.unlisted.items():
        tell(f"{kind} could not be listed, so they are not judged: {why}")
    for key in audit.faulty:
        tell(f"{key} was not judged: an internal error; see the log")


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
    config: options.InstalledConfiguration = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    output: options.Output = options.Format.TEXT,
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
    from webhook.operations.upgrade_plan import Upgrade
    from webhook.operations.upgrade_plan import upgrade_plan as planned

    upgrade = Upgrade(_targets(to or ()), _moves(scheduler or ()))
    if not upgrade.targets and not upgrade.moves:
        raise typer.BadParameter("say what is to be upgraded: --to PRODUCT=VERSION, or --scheduler FROM=TO")
    access = options.connected(kubeconfig, context)
    plan = planned(upgrade, asyncio.run(_present(options.known_settings_there(config, access), access)))
    if output is options.Format.JSON:
        typer.echo(as_json_text(plan.as_json()))
    else:
        from webhook.cli.operations_text import print_plan

        print_plan(plan, options.console())


def _targets(written: Iterable[str]) -> dict[Product, Release]:
    from webhook.operations.releases import Product, Release

    releases: dict[Product, Release] = {}
    for target in written:
        name, _, version = target.partition("=")
        if name not in list(Product):
            raise typer.BadParameter(f"--to {target}: {name!r} is not a product; allowed: {', '.join(sorted(Product))}")
        product = Product(name)
        try:
            release = Release(version)
        except ValueError:
            raise typer.BadParameter(
                f"--to {target}: {version!r} is not a version; write {product}={product.example}"
            ) from None
        if product in releases:
            raise typer.BadParameter(f"--to {target}: {product} is given twice")
        releases[product] = release
    return releases


def _moves(written: Iterable[str]) -> dict[str, str]:
    from webhook.backends.registry import installed_backends

    moves: dict[str, str] = {}
    backends = installed_backends()
    for move in written:
        old, _, new = move.partition("=")
        for name in (old, new):
            if name not in backends:
                allowed = ", ".join(sorted(backends))
                raise typer.BadParameter(f"--scheduler {move}: {name!r} is not a scheduler; allowed: {allowed}")
        if old == new or old in moves:
            raise typer.BadParameter(f"--scheduler {move}: give each scheduler one other scheduler")
        moves[old] = new
    return moves


async def _present(settings: Settings, access: Access) -> list[PresentGang]:
    from webhook.cluster.logs import configure
    from webhook.gangs.gang_view import looking
    from webhook.operations.releases import present_gangs

    configure()
    async with looking(settings, access) as look:
        return list(present_gangs(look.following.gangs, look.following.observed))
