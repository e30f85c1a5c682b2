"""`rollcall doctor`: whether an installation is sound, and what to do where it is not."""

from __future__ import annotations

import asyncio
import json
from enum import StrEnum
from typing import Annotated

import typer

from webhook.cli import CLEAN, NOT_EVALUATED, REFUSED
from webhook.cli.options import Configuration, Kubeconfig, KubeContext, configured, console
from webhook.installation.names import NAMESPACE


class Format(StrEnum):
    """What `doctor` prints."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def doctor(
    *,
    config: Configuration = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace that Rollcall is installed in.")
    ] = NAMESPACE,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail, too.")] = False,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="What to print; `markdown` is the list of checks, of no cluster.")
    ] = Format.TEXT,
) -> None:
    """Look at a cluster, and say what is wrong with the installation there, why it matters and what to do.

    Reads with your own rights and stores nothing: two creations are tried as dry runs. `--config` is the file that
    Rollcall runs with there. A check that lacks a right says so, and is never taken as passed.

    Exit code 0 where all is well, 1 where something is wrong, 3 where nothing is wrong as far as could be seen, and
    something could not be.

    **Examples**

    - `rollcall doctor --config rollcall.yaml`
    - `rollcall doctor --config rollcall.yaml --context prod --strict -o json`
    - `rollcall doctor -o markdown > docs/doctor.md`
    """
    from webhook.doctor.checks import EVERY_CHECK

    if output is Format.MARKDOWN:
        from webhook.cli.doctor_reference import reference

        typer.echo(reference(EVERY_CHECK), nl=False)
        return
    from webhook.cluster.access import find
    from webhook.doctor.checking import examine
    from webhook.doctor.reading import read_world

    settings, access = configured(config), find(kubeconfig, context)
    diagnosis = examine(asyncio.run(read_world(settings, access, namespace)), EVERY_CHECK)
    if output is Format.JSON:
        typer.echo(json.dumps(diagnosis.as_json(strict=strict), indent=2, ensure_ascii=False))
    else:
        from webhook.cli.doctor_text import print_diagnosis

        print_diagnosis(diagnosis, console())
    if diagnosis.ill(strict=strict):
        raise typer.Exit(REFUSED)
    raise typer.Exit(NOT_EVALUATED if diagnosis.not_known else CLEAN)
