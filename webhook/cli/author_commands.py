"""The commands of authors beside `check`: `rollcall explain`, `fit`, `render`, `rules`, `facts` and `shapes`.

Only options are declared here; the work of each command is imported when it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook.cli import options
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, tell
from webhook.errors import Inexpressible, InputError
from webhook.model.fields import meant
from webhook.model.findings import printable

if TYPE_CHECKING:
    from webhook.config.settings import Settings
    from webhook.model.facts import ClusterFacts
    from webhook.offline.judgement import Judgement
    from webhook.offline.manifests import Document
    from webhook.workloads.workload_shape import WorkloadShape


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
    scheduler: options.Scheduler = None,
    facts: options.Facts = None,
    kubernetes: options.Kubernetes = None,
    schemas: options.SchemaFiles = None,
    live: options.Live = False,
    config: options.ConfigurationOrInstalled = None,
    grove: options.Grove = None,
    output: PictureOutput = Picture.TEXT,
    namespace: options.NamespaceOfNamed = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
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
    from webhook.cli.gang_text import explain_gangs, gangs_named

    if (matches := gangs_named(paths)) is not None:
        of_files = scheduler is not None or facts or live or grove is not None or kubernetes is not None
        if of_files or output in {Picture.MERMAID, Picture.SVG}:
            raise typer.BadParameter(
                "--scheduler, --facts, --kubernetes, --live, --grove, -o mermaid and -o svg are for manifests, not for "
                "KIND/NAME"
            )
        as_json = output is Picture.JSON
        raise typer.Exit(explain_gangs(matches, namespace, config, kubeconfig, context, as_json=as_json))
    if namespace is not None:
        raise typer.BadParameter("--namespace is for KIND/NAME, not for manifests")
    from webhook.cli.explanation_text import print_explanations
    from webhook.offline.fact_files import add_field_names

    config = options.judging_configuration(command, config)
    settings = options.settings_of(config, scheduler, grove)
    cluster_facts = options.facts_of_options(facts, settings, kubeconfig, context, kubernetes, live=live)
    documents = options.documents_of(paths)
    cluster_facts = add_field_names(cluster_facts, schemas or ())
    raise typer.Exit(print_explanations(documents, cluster_facts, settings, output, config))


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
    scheduler: options.Scheduler = None,
    facts: options.Facts = None,
    kubernetes: options.Kubernetes = None,
    live: options.Live = False,
    config: options.ConfigurationOrInstalled = None,
    effort: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="Spend N times the work of admission on each gang.")
    ] = 1,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit 1 also if anything about a gang is not known or not judged; 3 if nothing was judged."
        ),
    ] = False,
    output: PictureOutput = Picture.TEXT,
    namespace: options.NamespaceOfNamed = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
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
    from webhook.cli.fit_text import add_occupied_room, object_references, print_fits, read_documents

    if (references := object_references(paths)) is not None:
        if facts or live or kubernetes is not None:
            raise typer.BadParameter("--facts, --live and --kubernetes are for manifests: KIND/NAME reads the cluster")
        access = options.connected(kubeconfig, context)
        settings = options.judging_files(options.settings_there(config, access), scheduler)
        documents = read_documents(references, namespace, access)
        cluster_facts = add_occupied_room(options.read_cluster_facts(settings, access), access)
    else:
        if namespace is not None:
            raise typer.BadParameter("--namespace is for KIND/NAME, not for manifests")
        settings = options.settings_of(options.judging_configuration(command, config), scheduler)
        cluster_facts = options.facts_of_options(facts, settings, kubeconfig, context, kubernetes, live=live)
        documents = options.documents_of(paths)
        if live:
            cluster_facts = add_occupied_room(cluster_facts, options.connected(kubeconfig, context))
    raise typer.Exit(print_fits(documents, cluster_facts, settings, effort, output, strict=strict))


class Syntax(StrEnum):
    """The formats of `render`."""

    YAML = "yaml"
    JSON = "json"


def render(  # noqa: PLR0913 - one parameter for each option
    paths: options.Inputs,
    *,
    scheduler: options.Scheduler = None,
    facts: options.Facts = None,
    kubernetes: options.Kubernetes = None,
    config: options.JudgingConfiguration = None,
    grove: options.Grove = None,
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

    raise typer.Exit(print_rendered(paths, facts, kubernetes, options.settings_of(config, scheduler, grove), output))


def rules(
    command: typer.Context,
    rule: Annotated[str | None, typer.Argument(metavar="ID", help="One rule, in full.", show_default=False)] = None,
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"A RollcallConfiguration whose rules are listed, with their actions; `{options.NO_FILE}` for "
            "every rule.",
            show_default=options.DEFAULT,
        ),
    ] = None,
    output: options.ReferenceOutput = options.ReferenceFormat.TEXT,
) -> None:
    """List the rules, or show one with its reason, its source and its examples.

    With a configuration it lists the rules of the enabled schedulers, each with its action there instead of its
    default. `-o markdown` is the reference and reads no configuration.

    **Examples**

    - `rollcall rules`
    - `rollcall rules koordinator/mnnvl`
    - `rollcall rules --config rollcall.yaml`
    - `rollcall rules -o markdown > rules.md`
    """
    from webhook.cli.rule_text import print_chosen

    print_chosen(command, rule, config, output)


def facts(
    *,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.", show_default=False)
    ],
    config: options.Configuration = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.KubeContext = None,
) -> None:
    """Write what rules may ask about in a cluster into a folder, for `--facts` of `check`, `explain`, `fit`, `render`
    and `serve`.

    Reads with your own rights and changes nothing in the cluster. It writes one file for each kind: nodes, queues,
    quotas, devices, topologies and their bindings, PriorityClasses, labels of namespaces, runtimes, gangs, the
    workloads that Rollcall recorded, the served kinds and the names of their fields. Only the fields that rules read
    are written: no Secret, of ConfigMaps only that the Cluster Autoscaler has written its status, and of pods no image,
    command, environment or volume. Other files of the folder are left alone. What pods on nodes use is not written.

    A kind that you may not read is not written, so `check` says which rules it cannot judge. With `--config` only the
    kinds of the enabled schedulers are read.

    Exit code 2: the folder cannot be written. 3: the cluster cannot be reached, or some kinds could not be read.

    **Examples**

    - `rollcall facts --context prod -o cluster/`
    - `rollcall check --facts cluster/ deploy/`
    - `rollcall fit --facts cluster/ deploy/`
    """
    from webhook.offline.whole_files import SUFFIX, write_folder
    from webhook.offline.yaml_and_json import as_compact_yaml_text
    from webhook.operations.cluster_facts import projections_of, read_cluster

    projections = projections_of(options.configured(config))
    read = asyncio.run(read_cluster(options.connected(kubeconfig, context), projections))
    removed = write_folder(folder, {kind.name: as_compact_yaml_text(kind.manifest) for kind in read.kinds})
    for kind in read.kinds:
        more = f", {kind.left_out} left out because they cannot be read" if kind.left_out else ""
        typer.echo(printable(f"{folder / kind.name}{SUFFIX}: {kind.size}{more}"))
    for path in removed:
        typer.echo(printable(f"{path}: removed, because it is no longer known"))
    for what, why in read.failed.items():
        tell(f"{what} could not be read: {why}")
    if read.failed:
        raise typer.Exit(NOT_EVALUATED)


shapes_app = typer.Typer(no_args_is_help=True, help="Kinds of workloads that are declared by WorkloadShapes.")
_INDENT = "    "


@shapes_app.callback()
def root() -> None:
    """Kinds of workloads that are declared by WorkloadShapes."""


@shapes_app.command(name="list")
def list_shapes(config: options.Configuration = None) -> None:
    """List the declared kinds: those that are built in, and those of a configuration.

    **Examples**

    - `rollcall shapes list`
    - `rollcall shapes list --config rollcall.yaml`
    """
    from rich.table import Table
    from rich.text import Text

    from webhook.config.defaults import built_in_shapes

    settings, built_in = options.configured(config), built_in_shapes()
    table = Table(box=None, pad_edge=False)
    for title in ("NAME", "KIND", "GANG", "OPTED IN BY", "FROM"):
        table.add_column(title, no_wrap=title != "GANG")
    several = {forms[0].group_kind for forms in settings.kinds.forms if len(forms) > 1}
    for shape in settings.kinds.declared:
        versions = f" ({', '.join(shape.versions)})" if shape.group_kind in several else ""
        kind = f"{shape.resource.api.kind}.{shape.resource.api.group}{versions}"
        origin = "built in" if built_in.get(shape.name) is shape else "the configuration"
        by = "namespace or label" if shape.by_namespace else "label"
        table.add_row(*map(Text, (shape.name, kind, _gang(shape), by, origin)))
    options.console().print(table)


def _gang(shape: WorkloadShape) -> str:
    from webhook.workloads.workload_shape import Over

    if shape.left_to:
        return f"that of its {shape.left_to}"
    return {
        Over.ALL: "all parts",
        Over.PART: "each part",
        Over.GROUPS: "first groups of all roles",
        Over.NONE: "none, only judged",
    }[shape.over]


@shapes_app.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="A built-in shape.")]) -> None:
    """Print a built-in shape as YAML: to read it, or to start from it. A WorkloadShape of the same kind in a
    configuration replaces it.

    **Examples**

    - `rollcall shapes show raycluster`
    """
    from webhook.config.defaults import built_in_documents
    from webhook.offline.yaml_and_json import as_yaml_text

    typer.echo(as_yaml_text(built_in_documents()[_built_in_name(name)]), nl=False)


def _built_in_name(name: str) -> str:
    from webhook.config.defaults import built_in_shapes

    built_in = built_in_shapes()
    if name not in built_in:
        allowed = ", ".join(built_in)
        raise typer.BadParameter(f"{name}: is not a built-in shape (allowed: {allowed}){meant(name, built_in)}")
    return name


@shapes_app.command()
def init(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The kind, or its plural.")],
    *,
    from_crd: Annotated[
        Path, typer.Option("--from-crd", metavar="FILE", help="A file with its CustomResourceDefinition.")
    ],
) -> None:
    """Print a first draft of a WorkloadShape for a kind, made from its CustomResourceDefinition.

    The draft has the places of pod templates and counts. The comments above it say what a schema cannot show.

    Exit code 2 if the file has no CustomResourceDefinition of that kind.

    **Examples**

    - `rollcall shapes init Training --from-crd crd.yaml > training.yaml`
    """
    from webhook.model.reading import Malformed
    from webhook.offline.judgement import kind_of, objects_in
    from webhook.offline.manifests import read_file
    from webhook.offline.shape_drafts import draft_of
    from webhook.offline.yaml_and_json import as_yaml_text

    for document in read_file(from_crd, may_be_empty=False):
        for manifest, _ in objects_in(document.manifest):
            if kind_of(manifest).kind != "CustomResourceDefinition":
                continue
            try:
                draft = draft_of(manifest, kind)
            except Malformed as error:
                raise InputError(str(from_crd), f"the CustomResourceDefinition cannot be read: {error}") from None
            if draft is not None:
                lines = (f"# * {check}\n" for check in draft.checks)
                typer.echo(f"# A draft. Check it:\n{''.join(lines)}{as_yaml_text(draft.shape)}", nl=False)
                return
    raise InputError(str(from_crd), f"has no CustomResourceDefinition of the kind {kind}")


@shapes_app.command()
def test(
    shape: Annotated[str, typer.Argument(metavar="SHAPE", help="A file with WorkloadShapes, or a built-in shape.")],
    samples: Annotated[list[str], typer.Argument(metavar="SAMPLE...", help="Files and folders with workloads.")],
    *,
    scheduler: Annotated[
        str, typer.Option(metavar="NAME", help="The scheduler that the samples are judged for.")
    ] = "koord-scheduler",
    config: options.Configuration = None,
) -> None:
    """Show what a shape sees in workloads: their gangs, their parts, how a pod of each is known, and what is written.

    Exit code 1 if a sample is refused or has the wrong types, 2 if a file has no workload of the kind.

    **Examples**

    - `rollcall shapes test training.yaml samples/`
    - `rollcall shapes test raycluster cluster.yaml --scheduler kai-scheduler`
    """
    from webhook.cluster.clock import MACHINE_CLOCK
    from webhook.config.defaults import built_in_forms
    from webhook.model.facts import ClusterFacts
    from webhook.offline.configuration_file import load_shapes
    from webhook.offline.fact_files import add_field_names
    from webhook.offline.judgement import judge, kind_of, objects_in
    from webhook.offline.manifests import files_of, read_file
    from webhook.offline.worlds import one_world

    settings = options.judging_files(options.configured(config), scheduler)
    shapes = load_shapes(Path(shape)) if Path(shape).exists() else built_in_forms(_built_in_name(shape))
    settings = replace(settings, kinds=settings.kinds.add_declared(shapes))
    tested = {form.group_kind for form in shapes}
    documents = [document for path in files_of([Path(sample) for sample in samples]) for document in read_file(path)]
    cluster_facts = one_world(add_field_names(ClusterFacts()), documents, settings.kinds)
    seen, code = 0, CLEAN
    for document in documents:
        objects = {at: manifest for manifest, at in objects_in(document.manifest)}
        for judgement in judge(document.manifest, cluster_facts, settings, MACHINE_CLOCK.now()):
            manifest = objects.get(judgement.at)
            if manifest is not None and kind_of(manifest)[::2] in tested:
                seen += 1
                code = max(code, _show(document, manifest, judgement, cluster_facts, settings))
    if not seen:
        kinds = ", ".join(sorted(kind for _, kind in tested))
        raise InputError(", ".join(samples), f"there is no workload of the kind {kinds}")
    raise typer.Exit(code)


def _show(
    document: Document, manifest: Any, judgement: Judgement, cluster_facts: ClusterFacts, settings: Settings
) -> int:
    """Prints what is seen in one workload, and returns the exit code that it asks for."""
    from webhook.offline.judgement import kind_of

    line, column = document.position(judgement.at)
    typer.echo(f"{document.source}:{line}:{column}: {judgement.kind} {judgement.namespace}/{judgement.name}")
    for finding in judgement.verdict.findings:
        typer.echo(f"{_INDENT}{finding.action}: {finding}")
    if not judgement.verdict.allowed:
        return REFUSED
    view = settings.kinds.views[kind_of(manifest)[::2]](manifest)
    try:
        for written in _lines(view, cluster_facts, settings):
            typer.echo(f"{_INDENT}{written}" if written else "")
    except Inexpressible as error:
        for problem in error.findings:
            typer.echo(f"{_INDENT}{problem.action}: {problem}")
        return REFUSED
    return CLEAN


def _lines(workload: Any, cluster_facts: ClusterFacts, settings: Settings) -> Iterator[str]:
    from webhook.fit.verdict import count_text
    from webhook.model.workload_record import SCHEDULER_LABEL
    from webhook.offline.expected_pods import expected_pods
    from webhook.offline.gang_tree import workload_tree
    from webhook.offline.pictures import gang_picture, tree_lines
    from webhook.offline.translation import translated_objects
    from webhook.offline.yaml_and_json import as_yaml_text
    from webhook.workloads.opted_in_gang import no_gang
    from webhook.workloads.shaped_workload import ShapedWorkload

    if not isinstance(workload, ShapedWorkload):
        return
    yield from tree_lines(gang_picture(workload_tree(workload, workload)))
    if (barred := no_gang(workload)) is not None:
        yield f"no gang of its own: {barred.why}"
    for part in workload.outside_parts:
        yield f"outside the gang: {part.name}, {count_text(part.pods, 'pod')}"
    for expected in expected_pods(workload):
        labels = {key: value for key, value in expected.pod["metadata"]["labels"].items() if key != SCHEDULER_LABEL}
        known_by = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        yield f"a pod of {expected.part.name or workload.name} is known by {expected.chain}: {known_by or 'no label'}"
    profile = settings.profiles[settings.forced or settings.default]
    for rendered in translated_objects(workload, profile, cluster_facts, settings):
        yield ""
        yield from (f"# {line}" for comment in rendered.comment for line in comment.splitlines())
        if rendered.manifest.get("kind") != "Pod":
            yield from as_yaml_text(rendered.manifest).splitlines()
