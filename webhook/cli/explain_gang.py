"""`rollcall explain podgang/NAME`, `pcs/NAME`, `pod/NAME` and the like: the gangs of one object of a cluster, their
pods, and why they do not start.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import typer

from webhook.cli.connection import connected, settings_there
from webhook.cli.gang_text import print_gang, tell_strangers_unknown
from webhook.cli.options import console
from webhook.cli.output import CLEAN, REFUSED, UNREADABLE, as_json_text, tell

POD_CLIQUE_SET = "PodCliqueSet"
POD = "Pod"
# The kinds that lead to gangs, by their kubectl names.
_KINDS = {
    "podgang": "PodGang",
    "podcliqueset": POD_CLIQUE_SET,
    "pcs": POD_CLIQUE_SET,
    "pod": POD,
    "po": POD,
    "job": "Job",
    "jobset": "JobSet",
    "leaderworkerset": "LeaderWorkerSet",
    "lws": "LeaderWorkerSet",
}
# An object as kubectl names it, with or without its namespace.
_NAMED = re.compile(
    r"(?P<kind>podgang|podcliqueset|pod|jobset|job|leaderworkerset|(?:pcs|po|lws)(?=/))s?/(?:(?P<namespace>[^/]+)/)?(?P<name>[^/]+)"
)
# What is written like one, with a kind that leads to no gang.
_LIKE_NAMED = re.compile(r"[A-Za-z.]+/[a-z0-9.-]*(?<!\.yaml)(?<!\.yml)(?<!\.json)")
# Why an object may have no gang.
_WITHOUT_ANY = ", or Rollcall makes no gang of it"
_WITHOUT = {
    "PodGang": "",
    POD_CLIQUE_SET: ", or Grove has made no PodGang of it",
    POD: ", or it belongs to no gang",
}


def gangs_named(arguments: Sequence[str]) -> list[re.Match[str]] | None:
    """Return the arguments as names of objects that have gangs; None if they are files. Raises
    `typer.BadParameter`.
    """
    found = [_NAMED.fullmatch(one) for one in arguments]
    for one, matched in zip(arguments, found, strict=True):
        if matched is None and _LIKE_NAMED.fullmatch(one) and not Path(one.rpartition("/")[0]).exists():
            raise typer.BadParameter(
                f"{one}: there is no such file, and the KIND of KIND/NAME must be one of {', '.join(_KINDS)}"
            )
    if not any(found) or any(Path(one).exists() for one in arguments):
        return None
    if not all(found):
        raise typer.BadParameter("KIND/NAME is in a cluster, and a file is not: explain them one after another")
    return [one for one in found if one is not None]


def explain_gangs(
    named: Sequence[re.Match[str]],
    namespace: str | None,
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    as_json: bool,
) -> int:
    """Print what is known of each object and return the exit code. Raises `AccessError`, `FactsUnavailable`."""
    from webhook.gangs.gang_view import looking
    from webhook.telemetry.logs import configure

    configure()
    access, out = connected(kubeconfig, context), console()
    settings = settings_there(config, access)

    async def told() -> int:
        code, found = CLEAN, []
        async with looking(settings, access) as look:
            for one in named:
                kind, space = _KINDS[one["kind"]], one["namespace"] or namespace or access.namespace or "default"
                gangs = list(look.named(kind, space, one["name"]))
                room = await look.read_room()
                waiting = [health.key for health, _ in gangs if health.may_have_strangers]
                if await look.read_strangers(waiting) or room:
                    gangs = list(look.named(kind, space, one["name"]))
                tell_strangers_unknown(look)
                if not gangs:
                    tell(f"there is no {kind} {space}/{one['name']}{_WITHOUT.get(kind, _WITHOUT_ANY)}")
                    code = UNREADABLE
                for health, pods in gangs:
                    if health.in_trouble and code == CLEAN:
                        code = REFUSED
                    found.append(health)
                    if not as_json:
                        print_gang(health, pods, out)
        if as_json:
            typer.echo(as_json_text({"gangs": [one.as_json() for one in found]}))
        return code

    return asyncio.run(told())
