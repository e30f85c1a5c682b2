"""`rollcall doctor`: check whether an installation works, and say how to repair it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from webhook.cli.connection import connected, installed_in, no_installed_settings
from webhook.cli.options import (
    InstalledConfiguration,
    Kubeconfig,
    KubeContext,
    OwnNamespace,
    ReferenceFormat,
    configured,
    console,
)
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, as_json_text, tell
from webhook.installation.names import NAMESPACE


def doctor(
    *,
    config: InstalledConfiguration = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
    namespace: OwnNamespace = NAMESPACE,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings, too.")] = False,
    output: Annotated[
        ReferenceFormat,
        typer.Option("--output", "-o", help="What to print; `markdown` is the list of checks, of no cluster."),
    ] = ReferenceFormat.TEXT,
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
    from webhook.doctor.checks import EVERY_CHECK

    if output is ReferenceFormat.MARKDOWN:
        from webhook.cli.doctor_reference import reference

        typer.echo(reference(EVERY_CHECK), nl=False)
        return
    from webhook.doctor.checking import examine
    from webhook.doctor.reading import read_world

    given = None if config is None else configured(config)
    access = connected(kubeconfig, context)
    settings, unknown = (given, "") if given else installed_in(access, namespace)
    diagnosis = examine(asyncio.run(read_world(settings, access, namespace)), EVERY_CHECK)
    if unknown:
        tell(no_installed_settings(unknown))
    if output is ReferenceFormat.JSON:
        typer.echo(as_json_text(diagnosis.as_json(strict=strict)))
    else:
        from webhook.cli.doctor_text import print_diagnosis

        print_diagnosis(diagnosis, console())
    if diagnosis.fails(strict=False):
        raise typer.Exit(REFUSED)
    if diagnosis.not_known:
        raise typer.Exit(NOT_EVALUATED)
    raise typer.Exit(REFUSED if diagnosis.fails(strict=strict) else CLEAN)
