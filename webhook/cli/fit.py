"""`rollcall fit`: whether a gang can ever start, with the proof if it cannot, and whether there is room now."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook.cli.explain import Picture, PictureOutput
from webhook.cli.judging_configuration import ConfigurationOrInstalled, judging_configuration
from webhook.cli.live import Live, facts_there, known_facts
from webhook.cli.options import (
    Facts,
    Kubeconfig,
    KubeContext,
    Kubernetes,
    NamespaceOfNamed,
    Scheduler,
    assuming,
    judging_files,
    settings_of,
)


def fit(  # noqa: PLR0913 - one parameter for each option
    command: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-|KIND/NAME",
            help="Manifests, `-` is standard input; or a podgang, pcs, job, jobset, lws or trainjob of a cluster.",
            show_default=False,
        ),
    ],
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    kubernetes: Kubernetes = None,
    live: Live = False,
    config: ConfigurationOrInstalled = None,
    effort: Annotated[
        int,
        typer.Option(min=1, max=10_000, metavar="N", help="Spend N times the work of admission on each gang."),
    ] = 1,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit 1 also if anything about a gang is not known or not judged; 3 if nothing was judged."
        ),
    ] = False,
    output: PictureOutput = Picture.TEXT,
    namespace: NamespaceOfNamed = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
) -> None:
    """Say whether the gangs of a workload can ever start, and whether there is room for them now.

    *Never* is a proof: with these nodes, quotas and queues the scheduler cannot start the gang, whatever other pods
    come or go. The proof and a remedy are printed. It reaches as far as these nodes, or further: no node cures a quota.
    *Fits an empty cluster* has a placement. In all other cases the answer is *not known*, with the reason. A verdict on
    a template names what it assumes about other webhooks.

    Whether there is room *now* is an estimate: it needs the pods on nodes, which `--live` reads, or
    `kubectl get pods -A -o yaml` in `--facts`. If it is short, the running gangs are named that would have to go. Of
    gangs in other namespaces only the number is shown.

    `--effort` may only turn *not known* into one of the others. In a cluster that may grow, nothing is said about its
    nodes unless the configuration has its node groups (`fit.templates`).

    Exit code, the first that holds: 2: something cannot be read, or there is no workload. 3: the cluster cannot be
    read. 1: a gang never fits. 3: no gang was judged, also with `--strict`. 1: with `--strict`, something about a gang
    is not known or not judged. 0: no gang is known to never fit.

    **Examples**

    - `rollcall fit --facts cluster/ train.yaml`
    - `kubectl get nodes -o yaml > facts/nodes.yaml; rollcall fit --facts facts/ deploy/`
    - `rollcall fit --live --context prod --scheduler volcano train.yaml`
    - `rollcall fit jobset/train -n team-a --effort 100`
    - `rollcall fit --facts cluster/ -o svg train.yaml > train.svg`
    """
    from webhook.cli.connection import connected, settings_there
    from webhook.cli.fit_objects import documents_there, objects_named, with_occupied
    from webhook.cli.fit_report import print_fits
    from webhook.cli.inputs import documents_of

    if (named := objects_named(paths)) is not None:
        if facts or live or kubernetes is not None:
            refused = "--facts, --live and --kubernetes are for manifests: KIND/NAME reads the cluster"
            raise typer.BadParameter(refused)
        access = connected(kubeconfig, context)
        settings = judging_files(settings_there(config, access), scheduler)
        documents = documents_there(named, namespace, access)
        known = with_occupied(facts_there(settings, access), access)
    else:
        if namespace is not None:
            raise typer.BadParameter("--namespace is for KIND/NAME, not for manifests")
        settings = settings_of(judging_configuration(command, config), scheduler)
        known = assuming(kubernetes, known_facts(facts, settings, kubeconfig, context, live=live), settings)
        documents = documents_of(paths)
        if live:
            known = with_occupied(known, connected(kubeconfig, context))
    raise typer.Exit(print_fits(documents, known, settings, effort, output, strict=strict))
