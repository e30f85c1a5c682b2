"""Choose the scheduler that judges a workload: by its label, else its pod templates, else its namespace, else the
default.

The choice is a label and not an annotation, because webhook selectors and `kubectl get -l` see only labels.
`default-scheduler` in a pod template does not count as a choice: the API server writes it into every pod without a
schedulerName, and stock Grove accepts only the schedulers of its own profiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from webhook.model import kubernetes_kinds
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, SPEC, FieldPath
from webhook.model.reading import text
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.podcliqueset import PodCliqueSet

DEFAULT_SCHEDULER = kubernetes_kinds.DEFAULT_SCHEDULER
# What chooses the scheduler if nothing else does, in words.
DEFAULT_PROFILE = "default"
# The field of an object that is nearest to a choice of its namespace.
NAMESPACE = METADATA / "namespace"


class Choice(NamedTuple):
    """The chosen scheduler and the field that chose it, with the possible profile names.

    `source` says in words what chose it, if that is no field of the object. `forced`: the caller asks what would happen
    if the workload had that label, or its namespace had it. `overrides`: what the pods name does not count either.
    """

    scheduler: str
    path: FieldPath
    available: tuple[str, ...] = ()
    source: str = ""
    forced: bool = False
    overrides: bool = False

    @property
    def by(self) -> str:
        """What chose the scheduler, in words."""
        return self.source or str(self.path)


class Named(NamedTuple):
    """A schedulerName that counts as a choice, and its path."""

    scheduler: str
    path: FieldPath


class Chosen(NamedTuple):
    """A choice that is made outside of the object, and what made it, in words."""

    scheduler: str
    source: str


def label_choice(labels: object) -> Named | None:
    """The choice in a workload's labels."""
    name = text(labels.get(SCHEDULER_LABEL)) if isinstance(labels, dict) else None
    return None if name is None else Named(name, LABELS / SCHEDULER_LABEL)


def template_names(workload: PodCliqueSet) -> Iterable[Named]:
    """The schedulerNames of the pod templates, without those that do not count as a choice."""
    for clique in workload.cliques:
        name = clique.scheduler_name if "schedulerName" in clique.pod_spec else None
        if name is not None and name != DEFAULT_SCHEDULER:
            yield Named(name, clique.path / "spec" / "podSpec" / "schedulerName")


def choose(
    labelled: Named | None,
    named: Iterable[Named],
    namespace: Chosen | None,
    default: str,
    available: tuple[str, ...],
) -> Choice:
    """The choice for a workload: its label, else its templates' name, else the namespace's (`namespace`), else
    `default`.

    The rules of `webhook.validators.choice` check that the name is a profile's and that the templates agree.
    """
    said = labelled or next(iter(named), None)
    if said is not None:
        return Choice(said.scheduler, said.path, available)
    if namespace is not None:
        return Choice(namespace.scheduler, NAMESPACE, available, namespace.source)
    return Choice(default, SPEC, available, DEFAULT_PROFILE)


def namespace_choice(facts: ClusterFacts, namespace: str) -> Chosen | None:
    """The choice in the namespace's label, if the namespace is known."""
    name = text(facts.namespace_label(namespace, SCHEDULER_LABEL))
    return None if name is None else Chosen(name, f"the label {SCHEDULER_LABEL} of Namespace {namespace}")
