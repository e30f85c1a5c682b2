"""`rollcall render`: the gang objects and stamped pods that a workload would get, without a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from webhook.cli.judging_configuration import JudgingConfiguration
from webhook.cli.options import Facts, Grove, Inputs, Kubernetes, Scheduler, settings_of


class Syntax(StrEnum):
    """The formats of `render`."""

    YAML = "yaml"
    JSON = "json"


def render(  # noqa: PLR0913 - one parameter for each option
    paths: Inputs,
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    kubernetes: Kubernetes = None,
    config: JudgingConfiguration = None,
    grove: Grove = None,
    output: Annotated[Syntax, typer.Option("--output", "-o", help="What to print.")] = Syntax.YAML,
) -> None:
    """Print what a workload would get: its gang objects and one stamped pod for each gang.

    For a PodCliqueSet: for each of its PodGangs the scheduler's gang objects, in the order of creation, and one pod as
    the webhook would change it. For a PodGang: only its gang objects. For a Pod: the pod as the webhook would change
    it. For a ClusterTopologyBinding: the topology objects of the enabled schedulers that have such objects. Koordinator
    and Volcano have some if the profile names the binding (`topologyBinding`); Volcano's are made from the nodes among
    the facts.

    For a TrainJob, JobSet, LeaderWorkerSet or Job that is opted in, or with `--scheduler`: its gang objects and one pod
    for each of its parts. For a LeaderWorkerSet these are those of its first group. For a TrainJob these are those of
    its JobSet, and its runtime must be among the files.

    Since v0.1.0-alpha.12 Grove's operator puts a number into the names of PodGangs, which is shown as `<epoch>`. What
    contains it cannot be applied; render the PodGang of a cluster for that.

    Exit code 1 if the scheduler cannot express a gang: then nothing of that gang is printed. 3 if that is not known, or
    if nothing is printed because no workload is opted in.

    **Examples**

    - `rollcall render --scheduler koord-scheduler set.yaml`
    - `kubectl get podgang demo-0 -o yaml | rollcall render --facts cluster/ - | kubectl apply -f -`
    """
    from webhook.cli.rendering import print_rendered

    raise typer.Exit(print_rendered(paths, facts, kubernetes, settings_of(config, scheduler, grove), output))
