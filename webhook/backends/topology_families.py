"""The family of rules about topology that opted-in workloads ask for. The gang object that will carry the topology is
judged by the scheduler's rules about such objects, and what they find is reported at the annotation that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from webhook.model.capabilities import Capability, Use
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding
from webhook.model.reading import Manifest
from webhook.model.stored_object import Judged, StoredObject
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.registry import Context, Example, Results, Rule, Subject, rule

_ASKED = Capability.TOPOLOGY_WORKLOAD


class CarriedTopology(NamedTuple):
    """A gang object with the topology that a workload asks for. `origins` has the annotation behind each of its fields,
    by the field's name; the first one stands for the object as a whole. `where` is where its author finds them, if they
    are not in the workload itself. `by_rollcall`: Rollcall writes the object.
    """

    manifest: Manifest
    origins: Mapping[str, Use]
    where: str = ""
    by_rollcall: bool = False

    def origin(self, at: FieldPath) -> Use:
        """The annotation behind a field of the gang object."""
        return self.origins.get(str(at.parts[-1])) or next(iter(self.origins.values()))


def left_out(remedy: str) -> str:
    """The remedy for a topology that Rollcall does not write."""
    return f"{remedy}; left out until then"


def opted_in_topology(  # noqa: PLR0913 - the declaration of a rule is one flat list of what it is
    id: str,
    documentation: str,
    *,
    kind: Judged,
    version: str,
    rules: tuple[Rule, ...],
    carried: Callable[[OptedInWorkload, Context[Any]], Iterator[CarriedTopology]],
    leaves_out: bool = False,
    passes: Example,
    fails: Example,
    **declared: Any,
) -> Rule:
    """The rule that applies `rules`, which are about gang objects of a kind, to the topology of opted-in workloads.
    With `leaves_out` Rollcall does not write what they find.
    """

    def check(workload: OptedInWorkload, context: Context[Any]) -> Results:
        for one in carried(workload, context):
            stored = StoredObject(one.manifest, kind.kind, version, workload.namespace)
            for applied in rules:
                for found in applied.check(stored, context):
                    origin = one.origin(found.at)
                    if not isinstance(found, Finding):
                        yield replace(found, at=origin.path)
                        continue
                    why = f"{one.where}: {found.why}" if one.where else found.why
                    most = min(found.at_most, applied.default)
                    told = replace(found, at=origin.path, why=why, at_most=most)
                    if one.by_rollcall and leaves_out:
                        told = replace(told, remedy=left_out(found.remedy), left_out=True)
                    yield told

    declare = rule(
        id,
        subject=Subject.OPTED_IN,
        capability=_ASKED,
        passes=passes,
        fails=fails,
        documentation=documentation,
        **declared,
    )
    return declare(check)
