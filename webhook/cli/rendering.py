"""The objects that `rollcall render` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from webhook import admission
from webhook.backends.base import Backend
from webhook.cli.author_commands import Syntax
from webhook.cli.options import KubernetesRelease, assume_release, documents_of, facts_of
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, as_json_text, tell
from webhook.cluster.clock import MACHINE_CLOCK
from webhook.config.settings import Settings
from webhook.errors import Inexpressible, InputError
from webhook.model.admission_request import Request
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT, FieldPath
from webhook.model.findings import Finding, Unjudged, printable
from webhook.model.grove import GROUP, SCHEDULER_GROUP, ClusterTopologyBinding, PodGang
from webhook.model.reading import Malformed, Manifest, mapping, text
from webhook.model.topology_tree import tree_of
from webhook.model.workload_record import OPTED_OUT
from webhook.offline.fact_files import add_field_names
from webhook.offline.judgement import judge, kind_of, objects_in, profile_of
from webhook.offline.manifests import Document
from webhook.offline.omissions import add_remedies
from webhook.offline.report import position_in
from webhook.offline.translation import (
    gang_objects,
    name_scheduler_in_member,
    pods_of_set,
    shown_record,
    translated_objects,
)
from webhook.offline.worlds import Worlds
from webhook.offline.yaml_and_json import as_yaml_text
from webhook.validators.opted_in_agreement import runtime, train_job_alone
from webhook.workloads.opted_in_gang import no_gang
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

# Stands for the characters that the API server adds to a generateName.
_ADDED = "added"
# Far more than any cluster has; without a limit a mistyped number would be written out as names.
MAX_PODS = 100_000


class RenderedItem(NamedTuple):
    """One object of a document."""

    document: Document
    at: FieldPath
    manifest: Manifest

    def place(self, path: FieldPath) -> str:
        return str(position_in(self.document, FieldPath((*self.at.parts, *path.parts))))

    def error(self, why: str) -> InputError:
        return InputError(self.document.source, why, *self.document.position(self.at))


class Rendered(NamedTuple):
    """One object to print, and the comment above it."""

    comment: str
    manifest: Manifest


class LeftOut(str):
    """Why nothing is printed of a workload that may have a gang."""

    __slots__ = ()


def print_rendered(
    paths: Sequence[str],
    facts: Sequence[Path] | None,
    kubernetes: KubernetesRelease | None,
    settings: Settings,
    output: Syntax,
) -> int:
    """Prints what each workload in the files would get, and returns the exit code. Raises `InputError`."""
    cluster_facts = add_field_names(assume_release(kubernetes, facts_of(facts, settings), settings))
    documents = documents_of(paths)
    worlds = Worlds(cluster_facts, documents, settings.kinds)
    for remark in worlds.remarks:
        tell(str(remark))
    objects: list[Rendered] = []
    code, not_judged = CLEAN, False
    items = (
        RenderedItem(document, at, manifest) for document in documents for manifest, at in objects_in(document.manifest)
    )
    for item in items:
        cluster_facts = worlds.facts_for(item.document)
        try:
            for rendered in _render(item, cluster_facts, settings):
                if isinstance(rendered, Rendered):
                    objects.append(rendered)
                    continue
                not_judged = not_judged or isinstance(rendered, LeftOut)
                tell(f"{item.place(ROOT)}: {rendered}")
        except Inexpressible as refusal:
            unjudged = add_remedies(refusal.unjudged, cluster_facts)
            reasons: tuple[Finding | Unjudged, ...] = (*refusal.findings, *unjudged)
            for reason in reasons:
                tell(f"{item.place(reason.at)}: {reason}")
            code = max(code, REFUSED if refusal.findings else NOT_EVALUATED)
        except Malformed as wrong:
            raise item.error(str(wrong)) from None
    if not objects and code == CLEAN:
        tell("nothing to render: no workload with a gang, no PodGang or Pod, nor a topology that needs an object")
        code = NOT_EVALUATED if not_judged else CLEAN
    if output is Syntax.JSON:
        whole = {"apiVersion": "v1", "kind": "List", "items": [rendered.manifest for rendered in objects]}
        typer.echo(as_json_text(whole))
    else:
        typer.echo("".join(map(_yaml, objects)), nl=False)
    return code


def _render(item: RenderedItem, facts: ClusterFacts, settings: Settings) -> Iterator[Rendered | str]:
    """Yields what an object gets, or a sentence that says why it gets nothing."""
    manifest = item.manifest
    group, _, kind = kind_of(manifest)
    if (group, kind) == (GROUP, "PodCliqueSet") or (group, kind) in settings.kinds:
        yield from _workload(item, facts, settings)
    elif (group, kind) == (SCHEDULER_GROUP, "PodGang"):
        podgang = PodGang(manifest)
        profile = profile_of(podgang, settings)
        if profile is not None:
            for desired in gang_objects(podgang, shown_record(podgang, profile, facts), profile, facts):
                yield Rendered(f"PodGang {podgang.name}, {profile.name}", desired)
    elif (group, kind) == (GROUP, "ClusterTopologyBinding"):
        for name in settings.profiles if settings.forced is None else [settings.forced]:
            yield from _topology(ClusterTopologyBinding(manifest), settings.profiles[name].backend, facts)
    elif (group, kind) == ("", "Pod"):
        name_scheduler_in_member(manifest, settings.forced, settings.kinds)
        verdict = admission.mutate(_request(manifest), facts, settings)
        yield Rendered(f"Pod, {verdict.scheduler or 'left as it is'}", manifest)
    elif kind in {"TrainingRuntime", "ClusterTrainingRuntime"}:
        # The TrainJobs that name it show it.
        return
    else:
        yield f"{kind or 'an object without a kind'} is left out: it has no gang"


def _topology(binding: ClusterTopologyBinding, backend: Backend[Any], facts: ClusterFacts) -> Iterator[Rendered | str]:
    """Yields the topology objects of one scheduler, and what is wrong with the labels of nodes if they are known."""
    comment = f"ClusterTopologyBinding {binding.name}, {backend.name}"
    if backend.topology_kind is None:
        return
    if backend.topology_binding and backend.topology_binding != binding.name:
        yield f"{comment}: left out: the configuration takes the topology from {backend.topology_binding}"
        return
    labels = None if facts.nodes is None else {name: node.labels for name, node in facts.nodes.items()}
    if not backend.topology_from_nodes:
        objects: Sequence[Manifest] = backend.topology_objects(binding)
    elif labels is None:
        yield f"{comment}: left out: it is made from the labels of nodes; supply them with --facts"
        return
    else:
        objects = backend.node_topology_objects(binding, labels, {}).objects
    yield from (Rendered(comment, desired) for desired in objects)
    if labels is not None and objects:
        yield from (f"{comment}: {problem.message}" for problem in tree_of(binding, labels).problems)


def _workload(item: RenderedItem, facts: ClusterFacts, settings: Settings) -> Iterator[Rendered | str]:
    """Yields the objects of a workload. Nothing is printed before all objects are made, so that a gang that cannot be
    expressed is not printed in part.
    """
    # Refused as by the webhook: a gang that may not be stored has no objects.
    (judgement,) = judge(item.manifest, facts, settings, MACHINE_CLOCK.now())
    verdict = judgement.verdict
    if verdict.denials:
        raise Inexpressible(verdict.denials)
    title = f"{judgement.kind} {judgement.namespace}/{judgement.name}"
    if verdict.omission is not None:
        sentence = f"{title}: {verdict.omission}"
        yield sentence if verdict.omission.reason.is_ordinary else LeftOut(sentence)
        return
    if verdict.scheduler in {None, OPTED_OUT}:
        yield ": ".join((title, *verdict.notes))
        return
    if blind := tuple(missing for missing in verdict.unjudged if missing.rule == runtime.id):
        raise Inexpressible((), blind)
    yield from verdict.notes
    # What is printed is made only if that is the case.
    yield from (str(missing) for missing in verdict.unjudged if missing.rule == train_job_alone.id)
    named_later = _name_generated(item.manifest)
    workload = _view(item, settings)
    objects = list(translated_objects(workload, settings.profiles[verdict.scheduler or ""], facts, settings))
    for comment, desired in objects:
        yield Rendered("\n".join(map(printable, (*comment, *named_later))), desired)
    if not objects:
        barred = no_gang(workload) if isinstance(workload, OptedInWorkload) else None
        yield f"{title} makes no pods, so it has no gang" if barred is None else f"{title}: {barred.why}"


def _view(item: RenderedItem, settings: Settings) -> PodCliqueSet | OptedInWorkload:
    group, _, kind = kind_of(item.manifest)
    if kind != "PodCliqueSet":
        return settings.kinds.views[group, kind](item.manifest)
    workload = PodCliqueSet(item.manifest)
    if (pods := pods_of_set(workload)) > MAX_PODS:
        raise item.error(f"{workload.name} would have {pods} pods; render shows at most {MAX_PODS}")
    return workload


def _name_generated(manifest: Manifest) -> tuple[str, ...]:
    """Gives a placeholder name to a workload with generateName, and returns the note about it."""
    metadata = manifest["metadata"]
    if metadata.get("name") or not metadata.get("generateName"):
        return ()
    metadata["name"] = f"{metadata['generateName']}{_ADDED}"
    return (f"`{_ADDED}` stands for what the API server adds to its name",)


def _request(manifest: Manifest) -> Request:
    metadata = mapping(manifest.get("metadata"))
    name = text(metadata.get("name")) or text(metadata.get("generateName")) or ""
    return Request("", "CREATE", kind_of(manifest), text(metadata.get("namespace")) or "default", name, manifest)


def _yaml(rendered: Rendered) -> str:
    comment = "".join(f"# {printable(line)}\n" for line in rendered.comment.splitlines())
    return f"---\n{comment}{as_yaml_text(_plain(rendered.manifest))}"


def _plain(value: Any) -> Any:
    """Returns plain dicts and lists of a manifest, whose values may be read-only views."""
    if isinstance(value, dict):
        return {key: _plain(below) for key, below in value.items()}
    return [_plain(below) for below in value] if isinstance(value, list | tuple) else value
