"""`rollcall audit`: what of the stored objects would be refused today, and what a switch would change."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.check_options import FailOns, Ignore, Select, Strict, failing, selection_of
from webhook.cli.connection import connected, namespace_there, settings_there
from webhook.cli.options import CONTEXT_OR_ALL, Kubeconfig, KubeContext, configured, console, namespace_option
from webhook.cli.output import NOT_EVALUATED, REFUSED, as_json_text, tell

if TYPE_CHECKING:
    from webhook.audit.results import Audit
    from webhook.cluster.access import Access
    from webhook.config.settings import Settings
    from webhook.offline.levels import FailOn
    from webhook.offline.report import Selection


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
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
    namespace: Annotated[str | None, namespace_option("Only objects of this namespace.", CONTEXT_OR_ALL)] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="The objects of all namespaces.")] = False,
    fail_on: FailOns = None,
    strict: Strict = False,
    select: Select = None,
    ignore: Ignore = None,
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="Show what is read.", show_default="on a terminal"),
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
    from webhook.audit.json_form import fails
    from webhook.config.defaults import force_scheduler

    fails_on, selection = failing(fail_on, strict=strict), selection_of(select, ignore)
    new = None if config is None else configured(config)
    access = connected(kubeconfig, context)
    space = namespace_there(namespace, access, everywhere=everywhere)
    settings = [settings_there(today, access)]
    if as_scheduler is not None:
        new = force_scheduler(new or settings[0], as_scheduler, "--as", overrides=True)
    if new is not None:
        settings.append(new)
    shows = sys.stderr.isatty() if progress is None else progress
    found = asyncio.run(_audited(access, settings, space, selection, shows=shows))
    _print(found, fails_on, output, _with(as_scheduler, config))
    if fails(found, failing(None, strict=False)):
        raise typer.Exit(REFUSED)
    if not found.complete:
        raise typer.Exit(NOT_EVALUATED)
    if fails(found, fails_on):
        raise typer.Exit(REFUSED)


def _with(scheduler: str | None, config: Path | None) -> str:
    """Return in words what today is compared with."""
    said = [] if scheduler is None else [f"as {scheduler}"]
    if config is not None:
        said.append(f"with {config}")
    return " ".join(said)


async def _audited(
    access: Access, settings: list[Settings], namespace: str | None, selection: Selection, *, shows: bool
) -> Audit:
    from webhook.audit.auditor import Auditor
    from webhook.audit.clients import PrefetchingClient
    from webhook.audit.facts import read_facts
    from webhook.cli.audit_text import Progress
    from webhook.telemetry.logs import configure

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


def _print(found: Audit, fail_on: frozenset[FailOn], output: AuditFormat, compared_with: str) -> None:
    from webhook.audit.json_form import audit_as_json
    from webhook.audit.sarif_form import audit_as_sarif
    from webhook.cli.audit_text import print_audit

    match output:
        case AuditFormat.TABLE:
            print_audit(found, console(), compared_with)
        case AuditFormat.JSON:
            typer.echo(as_json_text(audit_as_json(found, fail_on, compared_with)))
        case AuditFormat.SARIF:
            typer.echo(as_json_text(audit_as_sarif(found)))
    for kind, why in found.unread.items():
        tell(f"{kind} could not be read, so rules that need them are not judged: {why}")
    for kind, why in found.unlisted.items():
        tell(f"{kind} could not be listed, so they are not judged: {why}")
    for key in found.faulty:
        tell(f"{key} was not judged: an internal error; see the log")
