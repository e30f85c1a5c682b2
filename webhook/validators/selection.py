"""Which backend judges a workload: the first of label, pod templates, namespace, default.

A label and no annotation, because webhook selectors and `kubectl get -l` see only labels. `default-scheduler` in a pod
template says nothing: the API server writes it into every pod whose author wrote nothing, and stock Grove accepts no
scheduler outside its own profiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, SPEC, FieldPath
from webhook.model.reading import text
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.podcliqueset import PodCliqueSet

DEFAULT_SCHEDULER = "default-scheduler"


class Choice(NamedTuple):
    """The scheduler that was chosen and the field that said so, with the names that a profile may have."""

    scheduler: str
    path: FieldPath
    available: tuple[str, ...] = ()


class Named(NamedTuple):
    """A schedulerName that says something, and where it stands."""

    scheduler: str
    path: FieldPath


def label_choice(labels: object) -> Named | None:
    """What a workload's labels say."""
    name = text(labels.get(SCHEDULER_LABEL)) if isinstance(labels, dict) else None
    return None if name is None else Named(name, LABELS / SCHEDULER_LABEL)


def template_names(workload: PodCliqueSet) -> Iterable[Named]:
    """The schedulerNames of the pod templates, without those that say nothing."""
    for clique in workload.cliques:
        name = clique.scheduler_name
        if name is not None and name != DEFAULT_SCHEDULER:
            yield Named(name, clique.path / "spec" / "podSpec" / "schedulerName")


def choose(
    labelled: Named | None,
    named: Iterable[Named],
    namespace: str | None,
    default: str,
    available: tuple[str, ...],
) -> Choice:
    """The choice for a workload: its label, else its templates' name, else the namespace's (`namespace`), else
    `default`.

    Whether the name is a profile's, and whether the templates agree, is for the rules of `webhook.validators.choice`.
    """
    said = labelled or next(iter(named), None)
    if said is not None:
        return Choice(said.scheduler, said.path, available)
    if namespace is not None:
        return Choice(namespace, METADATA / "namespace", available)
    return Choice(default, SPEC, available)


def namespace_choice(facts: ClusterFacts, namespace: str) -> str | None:
    """What the namespace's label says, where the namespace is known."""
    return text(facts.namespace_label(namespace, SCHEDULER_LABEL))
