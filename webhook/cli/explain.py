"""`rollcall explain`: which schedulers could run a workload, what refuses it, and what would help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from webhook.cli.judging_configuration import ConfigurationOrInstalled, judging_configuration
from webhook.cli.live import Live, known_facts
from webhook.cli.options import (
    Facts,
    Grove,
    Kubeconfig,
    KubeContext,
    Kubernetes,
    NamespaceOfNamed,
    Scheduler,
    SchemaFiles,
    assuming,
    settings_of,
)


class Picture(StrEnum):
    """The formats of `explain`."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    SVG = "svg"


PictureOutput = Annotated[Picture, typer.Option("--output", "-o", help="What to print.")]


def explain(  # noqa: PLR0913 - one parameter for each option
    command: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-|KIND/NAME",
            help="Manifests, `-` is standard input; or a podgang, pcs, job, jobset, lws or pod of a cluster.",
            show_default=False,
        ),
    ],
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    kubernetes: Kubernetes = None,
    schemas: SchemaFiles = None,
    live: Live = False,
    config: ConfigurationOrInstalled = None,
    grove: Grove = None,
    output: PictureOutput = Picture.TEXT,
    namespace: NamespaceOfNamed = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
) -> None:
    """Show which schedulers could run a workload, what stops each of the others, and the smallest edit that would help.
    For gang objects written by hand: whether their trees can ever start. For a PodGang, Job, JobSet or LeaderWorkerSet
    in a cluster: why it does not start.

    For each PodCliqueSet it prints what the set asks for, each scheduler's answer, the edits, and the gangs as a tree.
    For each TrainJob, JobSet, LeaderWorkerSet and Job it prints the same without edits. `-o mermaid` prints the tree as
    a flowchart, `-o svg` as a drawing. Without `--config` every installed scheduler is considered with its defaults, so
    default-scheduler makes no gangs. PodGroups, CompositePodGroups, Workloads and pods of all files are read together:
    each of their trees is shown with the minimum and the actual number at every level, and why it can never start.

    The PodGangs of a PodCliqueSet are named as by Grove v0.1.0-alpha.12 and later, with `<epoch>` for the number that
    Grove will choose, or by `--grove legacy` as by the releases before.

    Exit code 0: the chosen scheduler refuses nothing and the tree can start. 1: the scheduler refuses something or the
    tree cannot start. 2: something cannot be read. 3: more facts or pods are needed to decide, or the workload is not
    opted in. For KIND/NAME 0: the gang has started. 1: it is held. 2: it does not exist. 3: the cluster cannot be read.

    **Examples**

    - `rollcall explain set.yaml`
    - `rollcall explain --config rollcall.yaml --facts cluster/ -o json deploy/`
    - `kubectl get podcliqueset demo -o yaml | rollcall explain -o mermaid -`
    - `rollcall explain -o svg gang-objects/ > gangs.svg`
    - `rollcall explain --live --context prod set.yaml`
    - `rollcall explain pcs/demo -n team-a`
    - `rollcall explain pod/demo-0-worker-x7k2p -n team-a`
    - `rollcall explain jobset/train lws/serve -n team-a --config rollcall.yaml`
    """
    from webhook.cli.explain_gang import explain_gangs, gangs_named

    if (named := gangs_named(paths)) is not None:
        of_files = scheduler is not None or facts or live or grove is not None or kubernetes is not None
        if of_files or output in {Picture.MERMAID, Picture.SVG}:
            refused = (
                "--scheduler, --facts, --kubernetes, --live, --grove, -o mermaid and -o svg are for manifests, not for "
                "KIND/NAME"
            )
            raise typer.BadParameter(refused)
        as_json = output is Picture.JSON
        raise typer.Exit(explain_gangs(named, namespace, config, kubeconfig, context, as_json=as_json))
    if namespace is not None:
        raise typer.BadParameter("--namespace is for KIND/NAME, not for manifests")
    from webhook.cli.explanations import print_explanations
    from webhook.cli.inputs import documents_of
    from webhook.sources.facts import with_field_names

    config = judging_configuration(command, config)
    settings = settings_of(config, scheduler, grove)
    known = assuming(kubernetes, known_facts(facts, settings, kubeconfig, context, live=live), settings)
    documents = documents_of(paths)
    known = with_field_names(known, schemas or ())
    raise typer.Exit(print_explanations(documents, known, settings, output, config))
