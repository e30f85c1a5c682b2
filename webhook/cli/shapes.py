"""`rollcall shapes`: list the declared kinds of workloads, show one, draft one from a CRD, and test one on samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook.cli.options import Configuration, configured, console, judging_files
from webhook.cli.output import CLEAN, REFUSED
from webhook.errors import Inexpressible, InputError
from webhook.model.near_names import meant

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.config.settings import Settings
    from webhook.model.facts import ClusterFacts
    from webhook.model.workloads.shapes.shape import WorkloadShape
    from webhook.model.workloads.workload import Part
    from webhook.offline.judgement import Judgement
    from webhook.sources.manifests import Document

shapes_app = typer.Typer(no_args_is_help=True, help="Kinds of workloads that are declared by WorkloadShapes.")
_INDENT = "    "


@shapes_app.callback()
def root() -> None:
    """Kinds of workloads that are declared by WorkloadShapes."""


@shapes_app.command(name="list")
def list_shapes(config: Configuration = None) -> None:
    """List the declared kinds: those that are built in, and those of a configuration.

    **Examples**

    - `rollcall shapes list`
    - `rollcall shapes list --config rollcall.yaml`
    """
    from rich.table import Table
    from rich.text import Text

    from webhook.config.defaults import built_in_shapes

    settings, known = configured(config), built_in_shapes()
    table = Table(box=None, pad_edge=False)
    for title in ("NAME", "KIND", "GANG", "OPTED IN BY", "FROM"):
        table.add_column(title, no_wrap=title != "GANG")
    several = {forms[0].group_kind for forms in settings.kinds.forms if len(forms) > 1}
    for shape in settings.kinds.declared:
        versions = f" ({', '.join(shape.versions)})" if shape.group_kind in several else ""
        kind = f"{shape.resource.api.kind}.{shape.resource.api.group}{versions}"
        origin = "built in" if known.get(shape.name) is shape else "the configuration"
        by = "namespace or label" if shape.by_namespace else "label"
        row = (shape.name, kind, _gang(shape), by, origin)
        table.add_row(*map(Text, row))
    out: Console = console()
    out.print(table)


def _gang(shape: WorkloadShape) -> str:
    from webhook.model.workloads.shapes.shape import Over

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
    from webhook.cli.yaml_text import as_yaml_text
    from webhook.config.defaults import built_in_documents

    typer.echo(as_yaml_text(built_in_documents()[_known(name)]), nl=False)


def _known(name: str) -> str:
    from webhook.config.defaults import built_in_shapes

    known = built_in_shapes()
    if name not in known:
        raise typer.BadParameter(f"{name}: is not a built-in shape (allowed: {', '.join(known)}){meant(name, known)}")
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
    from webhook.cli.yaml_text import as_yaml_text
    from webhook.model.reading import Malformed
    from webhook.offline.judgement import kind_of, objects_in
    from webhook.offline.shape_drafts import draft_of
    from webhook.sources.manifests import read_file

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
    config: Configuration = None,
) -> None:
    """Show what a shape sees in workloads: their gangs, their parts, how a pod of each is known, and what is written.

    Exit code 1 if a sample is refused or has the wrong types, 2 if a file has no workload of the kind.

    **Examples**

    - `rollcall shapes test training.yaml samples/`
    - `rollcall shapes test raycluster cluster.yaml --scheduler kai-scheduler`
    """
    from webhook.clock import MACHINE_CLOCK
    from webhook.config.defaults import built_in_forms
    from webhook.model.facts import ClusterFacts
    from webhook.offline.judgement import judge, kind_of, objects_in
    from webhook.sources.configuration import load_shapes
    from webhook.sources.facts import with_field_names
    from webhook.sources.manifests import files_of, read_file
    from webhook.sources.worlds import one_world

    settings = judging_files(configured(config), scheduler)
    shapes = load_shapes(Path(shape)) if Path(shape).exists() else built_in_forms(_known(shape))
    settings = replace(settings, kinds=settings.kinds.with_declared(shapes))
    tested = {one.group_kind for one in shapes}
    documents = [document for path in files_of([Path(one) for one in samples]) for document in read_file(path)]
    known = one_world(with_field_names(ClusterFacts()), documents, settings.kinds)
    seen, code = 0, CLEAN
    for document in documents:
        objects = {at: manifest for manifest, at in objects_in(document.manifest)}
        for found in judge(document.manifest, known, settings, MACHINE_CLOCK.now()):
            manifest = objects.get(found.at)
            if manifest is not None and kind_of(manifest)[::2] in tested:
                seen += 1
                code = max(code, _show(document, manifest, found, known, settings))
    if not seen:
        kinds = ", ".join(sorted(kind for _, kind in tested))
        raise InputError(", ".join(samples), f"there is no workload of the kind {kinds}")
    raise typer.Exit(code)


def _show(document: Document, manifest: Any, found: Judgement, known: ClusterFacts, settings: Settings) -> int:
    """Print what is seen in one workload, and return the exit code that it asks for."""
    from webhook.offline.judgement import kind_of

    line, column = document.position(found.at)
    typer.echo(f"{document.source}:{line}:{column}: {found.kind} {found.namespace}/{found.name}")
    for finding in found.verdict.findings:
        typer.echo(f"{_INDENT}{finding.action}: {finding}")
    if not found.verdict.allowed:
        return REFUSED
    view = settings.kinds.views[kind_of(manifest)[::2]](manifest)
    try:
        for written in _lines(view, known, settings):
            typer.echo(f"{_INDENT}{written}" if written else "")
    except Inexpressible as error:
        for problem in error.findings:
            typer.echo(f"{_INDENT}{problem.action}: {problem}")
        return REFUSED
    return CLEAN


def _lines(workload: Any, known: ClusterFacts, settings: Settings) -> Iterator[str]:
    from webhook.cli.yaml_text import as_yaml_text
    from webhook.explain.workload_tree import workload_tree
    from webhook.model.record import SCHEDULER_LABEL
    from webhook.model.workloads.gang import no_gang
    from webhook.model.workloads.shapes.workload import ShapedWorkload
    from webhook.offline.opted_in_pods import expected_pods
    from webhook.offline.translation import translated
    from webhook.pictures.folding import gang_picture
    from webhook.pictures.text import tree_lines

    if not isinstance(workload, ShapedWorkload):
        return
    yield from tree_lines(gang_picture(workload_tree(workload, workload)))
    if (barred := no_gang(workload)) is not None:
        yield f"no gang of its own: {barred.why}"
    for part in workload.outside_parts:
        yield f"outside the gang: {_counted(part)}"
    for expected in expected_pods(workload):
        labels = {key: value for key, value in expected.pod["metadata"]["labels"].items() if key != SCHEDULER_LABEL}
        known_by = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        yield f"a pod of {expected.part.name or workload.name} is known by {expected.chain}: {known_by or 'no label'}"
    profile = settings.profiles[settings.forced or settings.default]
    for one in translated(workload, profile, known, settings):
        yield ""
        yield from (f"# {line}" for comment in one.comment for line in comment.splitlines())
        if one.manifest.get("kind") != "Pod":
            yield from as_yaml_text(one.manifest).splitlines()


def _counted(part: Part) -> str:
    return f"{part.name}, {part.pods} {'pod' if part.pods == 1 else 'pods'}"
