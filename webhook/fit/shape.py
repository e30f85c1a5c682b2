"""GangShape: a gang as its workload states it, before a scheduler packs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.fit.verdict import Witness
from webhook.model.fields import FieldPath
from webhook.model.keys import Record
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.podtemplate import PodTemplate


class MemberShape(NamedTuple):
    """The pods that a gang has of one template. The gang starts with `minimum` of them; `pods` is their number.
    `required` is the node label key of the domain that they must share, `required_at` the field that says so.

    `role` is what people call the template: members with the same role have the same template. `part` is the name of
    the member in the gang object, where that is another.
    """

    name: str
    at: FieldPath
    template: PodTemplate
    minimum: int
    pods: int
    required: str | None = None
    required_at: FieldPath | None = None
    role: str = ""
    part: str = ""
    # Labels that its controllers are known to write into all of these pods.
    written: Mapping[str, str] = {}

    @property
    def called(self) -> str:
        """The name of its role."""
        return self.role or self.name


class SubsetShape(NamedTuple):
    """Members of a gang that must share a domain, such as one replica of a scaling group."""

    name: str
    members: tuple[str, ...]
    required: str
    required_at: FieldPath


class GangShape(NamedTuple):
    """A gang. `required` is the node label key of the domain that all its pods must share. `stored` says whether the
    templates are those of stored pods: no other webhook can change these.

    `labels` and `annotations` are those that the scheduler reads of the gang (a PodGang or a workload), and `more` is
    how many further gangs are equal to this one. `opted_in` is the gang in the form that backends take, for a workload
    that is not Grove's.

    `left_out` says in words what restricts the gang and is not in the shape: it is unknown, or there is too much of
    it. *Never* holds without it; *fits* is not claimed.

    `queue` is that of the group which the workload's own controller makes, if it does.

    `refusals` are proofs that what holds its workload never lets it start, whatever the gang is. `assumptions` are
    what they rely on, and `unjudged` says what is not known of that.
    """

    name: str
    namespace: str
    members: tuple[MemberShape, ...]
    record: Record
    subsets: tuple[SubsetShape, ...] = ()
    required: str | None = None
    required_at: FieldPath | None = None
    labels: Mapping[str, Any] = {}
    annotations: Mapping[str, Any] = {}
    topology_name: str | None = None
    stored: bool = False
    more: int = 0
    opted_in: OptedInGang | None = None
    left_out: tuple[str, ...] = ()
    queue: str | None = None
    refusals: tuple[Witness, ...] = ()
    assumptions: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[MemberShape, ...]:
        """The members that the gang cannot start without."""
        return tuple(member for member in self.members if member.minimum > 0)
