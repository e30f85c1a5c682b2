"""`rollcall gangs`: which gangs of a cluster have started, and why the others have not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from webhook.cli import options
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, as_json_text, tell

if TYPE_CHECKING:
    from webhook.cluster.access import Access
    from webhook.config.settings import Settings
    from webhook.gangs.gang_view import GangView
    from webhook.gangs.health import GangHealth

gangs_app = typer.Typer()


@gangs_app.callback(invoke_without_command=True)
def gangs(  # noqa: PLR0913 - one parameter for each option
    command: typer.Context,
    *,
    config: options.InstalledConfiguration = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: Annotated[
        str | None, options.namespace_option("Only gangs of this namespace.", options.CONTEXT_OR_ALL)
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="The gangs of all namespaces.")] = False,
    held: Annotated[bool, typer.Option("--held", help="Only gangs that have not started.")] = False,
    lost: Annotated[
        bool,
        typer.Option("--lost", help="Only gangs that had started and lost pods: since when, why, and what is idle."),
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Then print each gang that changes.")] = False,
    output: options.Output = options.Format.TEXT,
) -> None:
    """Show the gangs of a cluster: how many of the pods that a gang needs to start are on nodes, and why it does not
    start.

    Reads the cluster and writes nothing. `rollcall explain KIND/NAME` shows more about one gang. With `-o json` and
    `--watch` each line is one gang. Without `--config` it uses the configuration that is installed in
    `rollcall-system`.

    `--lost` shows what the reconciler has recorded in `rollcall-system`, and counts what is idle from the pods.

    Exit code 3 if the cluster, or with `--lost` these records, cannot be read.

    **Examples**

    - `rollcall gangs`
    - `rollcall gangs -n team-a --held --watch`
    - `rollcall gangs -A --lost`
    - `rollcall gangs -A --config rollcall.yaml -o json`
    """
    if command.invoked_subcommand is not None:
        return
    if lost and (held or watch):
        raise typer.BadParameter("--lost goes with neither --held nor --watch")
    access = options.connected(kubeconfig, context)
    settings = options.settings_there(config, access)
    space = options.namespace_there(namespace, access, everywhere=everywhere)
    try:
        asyncio.run(_show(settings, access, _Choice(space, held, lost, watch), output))
    except KeyboardInterrupt:
        # The usual way to end a watch.
        return


class _Choice(NamedTuple):
    """Which gangs are shown, and whether those that change are shown after them."""

    namespace: str | None
    held: bool
    lost: bool
    watch: bool

    @property
    def where(self) -> str:
        return "" if self.namespace is None else f" in {self.namespace}"


async def _show(settings: Settings, access: Access, choice: _Choice, output: options.Format) -> None:
    from webhook.cli.gang_text import GangTable, print_losses
    from webhook.cluster.logs import configure
    from webhook.gangs.gang_view import looking

    configure()
    async with looking(settings, access) as look:
        gangs = await _chosen_gangs(look, choice)
        if output is options.Format.JSON and not choice.watch:
            typer.echo(as_json_text({"gangs": [gang.as_json() for gang in gangs]}))
            return
        if choice.lost:
            print_losses(gangs, options.console(), choice.where)
            return
        table = GangTable(gangs, options.console())
        if output is options.Format.TEXT:
            if not gangs and not choice.watch:
                tell(f"no gangs{choice.where}")
            table.print(gangs)
        else:
            for gang in gangs:
                typer.echo(as_json_text(gang.as_json(), indent=None))
        if not choice.watch:
            return
        async for gang in look.changes(choice.namespace):
            # This includes a gang that has just started, because it was held before.
            if output is options.Format.JSON:
                typer.echo(as_json_text(gang.as_json(), indent=None))
            else:
                table.add(gang)


async def _chosen_gangs(look: GangView, choice: _Choice) -> list[GangHealth]:
    """Returns the gangs of the choice. Raises `FactsUnavailable` if lost ones are chosen and not known."""
    from webhook.cli.gang_text import tell_strangers_unknown
    from webhook.errors import FactsUnavailable

    every = look.gangs(choice.namespace)
    room = await look.read_room()
    if await look.read_strangers() or room:
        every = look.gangs(choice.namespace)
    tell_strangers_unknown(look)
    if look.losses_unknown:
        message = f"it is not known which gangs lost pods: {look.losses_unknown}"
        if choice.lost:
            raise FactsUnavailable(message)
        tell(message)
    return [
        gang for gang in every if (gang.obstacles or not choice.held) and (gang.lost is not None or not choice.lost)
    ]


@gangs_app.command()
def ungate(
    names: Annotated[list[str] | None, typer.Argument(metavar="GANG", show_default=False)] = None,
    *,
    namespace: Annotated[
        str | None, options.namespace_option("The namespace of the gangs.", "the context's; with --all every one")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every gang of the namespace; without -n, of the cluster.")
    ] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which pods have the gate.")] = False,
) -> None:
    """Remove Rollcall's gate (rollcall.dev/gang-sync) from the pods of gangs, whether or not their gang objects exist.

    Use it if Rollcall was removed, or a profile's `gate` was turned off, while pods had the gate. It selects pods by
    label, so it also ungates pods that do not belong to the gang that they name; `rollcall explain` shows which pods
    these are.

    Exit code 3 if a pod could not be changed.

    **Examples**

    - `rollcall gangs ungate demo-0 -n team-a`
    - `rollcall gangs ungate --all --dry-run`
    """
    if every == bool(names):
        raise typer.BadParameter("name the gangs, or give --all")
    access = options.connected(kubeconfig, context)
    space = namespace if every else namespace or access.namespace or "default"
    if asyncio.run(_ungate(access, space, names, dry_run=dry_run)):
        raise typer.Exit(NOT_EVALUATED)


@gangs_app.command()
def remedy(
    name: Annotated[str, typer.Argument(metavar="GANG", show_default=False)],
    *,
    config: options.InstalledConfiguration = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
    namespace: Annotated[str | None, options.namespace_option("The namespace of the gang.", "the context's")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the cause and the remedy.")] = False,
) -> None:
    """Do for one gang what `remedies:` of the configuration would have the reconciler do, whatever it says there.

    It wakes a scheduler that forgot the gang, frees the place of an object that an earlier gang left, or deletes pods
    on no node that name a group that is not theirs, if Grove recreates them. A gang that waits for room, quota or Kueue
    gets no remedy. GANG is the name of a PodGang, or KIND/NAME of a gang as `rollcall gangs` shows it.

    Exit code 0 if a remedy was carried out, or with `--dry-run`, if there is one. 1 if none is known for the gang, 2 if
    there is no such gang, 3 if the cluster could not be read or changed.

    **Examples**

    - `rollcall gangs remedy demo-0 -n team-a --dry-run`
    - `rollcall gangs remedy jobset/train -n team-a`
    """
    access = options.connected(kubeconfig, context)
    space = namespace or access.namespace or "default"
    settings = options.settings_there(config, access)
    raise typer.Exit(asyncio.run(_remedy(settings, access, space, name, dry_run=dry_run)))


async def _ungate(access: Access, namespace: str | None, names: list[str] | None, *, dry_run: bool) -> int:
    """Removes the gate from the pods and prints each. Returns how many could not be changed."""
    from webhook.cluster.client import Client
    from webhook.errors import FactsUnavailable, RequestFailed
    from webhook.mutators.prepare_pod import GATE
    from webhook.reconciler.writer import gated, lift

    client, failed, count = Client(access), 0, 0
    try:
        async for pod, index in gated(client, namespace, names):
            count += 1
            try:
                done = dry_run or await lift(client.write, pod.key, index)
            except RequestFailed as error:
                failed += 1
                tell(f"pod {pod.namespace}/{pod.name}: {error}")
            else:
                outcome = "has the gate" if dry_run else "ungated" if done else "it changed in the meantime; try again"
                failed += 0 if done else 1
                typer.echo(f"pod {pod.namespace}/{pod.name} of {pod.podgang}: {outcome}")
    except RequestFailed as error:
        raise FactsUnavailable(f"the pods cannot be read: {error}") from None
    finally:
        await client.close()
    if not count:
        tell(f"no pod has the gate {GATE}")
    return failed


async def _remedy(settings: Settings, access: Access, namespace: str, name: str, *, dry_run: bool) -> int:
    """Carries out the remedy of one gang, and prints it. Returns the exit code."""
    from webhook.cluster.clock import MACHINE_CLOCK
    from webhook.cluster.logs import configure
    from webhook.errors import InputError, RequestFailed
    from webhook.gangs.gang_view import looking
    from webhook.gangs.remedies import needed_remedy
    from webhook.reconciler.metrics import ReconcilerMetrics
    from webhook.reconciler.remedies import carry_out
    from webhook.reconciler.writer import Writer

    configure()
    async with looking(settings, access) as look:
        gang = _gang_named(look.gangs(namespace), name)
        if gang is not None and await look.read_room():
            gang = _gang_named(look.gangs(namespace), name)
        seen = None if gang is None else look.following.observed(gang.key)
        if gang is None or seen is None:
            raise InputError("", f"there is no gang {name} in namespace {namespace}")
        of_gang = f"{gang.kind} {namespace}/{gang.name}"
        now = MACHINE_CLOCK.now()
        excepted = settings.exceptions.may_except_pods
        chosen = needed_remedy(gang, seen, excepted=lambda pod: excepted(pod.namespace, pod.workload_name, now))
        if chosen is None:
            typer.echo(f"{of_gang}: {gang.word}: no remedy is known" + (f": {gang.why}" if gang.why else ""))
            return REFUSED
        typer.echo(f"{of_gang}: {chosen.cause}: {chosen.problem}")
        if dry_run:
            typer.echo(f"the remedy ({chosen.act}) would be: {chosen.done}")
            return CLEAN
        writer = Writer(look.following.client, lambda: True, ReconcilerMetrics(settings.profiles))
        try:
            done = await carry_out(chosen, writer, now.isoformat(timespec="microseconds"))
        except RequestFailed as error:
            tell(f"the remedy failed: {error}")
            return NOT_EVALUATED
        typer.echo(f"{chosen.done}" if done else "nothing was changed: the gang changed in the meantime; try again")
        return CLEAN if done else NOT_EVALUATED


def _gang_named(gangs: list[GangHealth], name: str) -> GangHealth | None:
    kind, _, plain = name.rpartition("/")
    gang_kind = (kind or "PodGang").lower()
    return next((gang for gang in gangs if gang.name == plain and gang.kind.lower() == gang_kind), None)
