"""Makes a failing case small: parts are left out, and what still fails is kept. All ways of one round are one batch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.e2e.control_plane import Manifest
from tests.e2e.fit.batch import Batches
from tests.e2e.fit.case import Case
from tests.e2e.fit.sketch import Offers
from tests.e2e.fit.soundness import BATCH, Judge, Report, try_cases

# By scheduler, the cases that failed once.
_KEPT = Path(__file__).parent / "kept"
_MOST_ROUNDS = 15
_OF_A_POD = (
    "affinity",
    "hostNetwork",
    "initContainers",
    "nodeSelector",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
)


def shrunk(batches: Batches, judge: Judge, case: Case) -> Case:
    """The smallest case that was found to fail as this one does."""
    for _ in range(_MOST_ROUNDS):
        report = Report()
        ways = sorted(smaller(case), key=size)[:BATCH]
        try_cases(batches, judge, ways, report)
        if not report.failures:
            return case
        case = min((failure.case for failure in report.failures), key=size)
    return case


def size(case: Case) -> int:
    """How much there is to read in it."""
    return len(json.dumps(case.as_json()))


def smaller(case: Case) -> Iterator[Case]:
    """The cases that have a part less."""
    for raw in _without_parts(case.as_json()):
        yield Case.of(raw)


def _without_parts(raw: Manifest) -> Iterator[Manifest]:
    for name, without in (("members", _without_member), ("nodes", _without_node)):
        if len(raw[name]) > 1:
            yield from (without(raw, index) for index in range(len(raw[name])))
    for index, member in enumerate(raw["members"]):
        yield from _with_smaller_member(raw, index, member)
    for name in ("foreign", "namespaced", "subsets"):
        if raw[name]:
            yield {**deepcopy(raw), name: []}
    for name in ("required", "enough"):
        if raw[name] is not None:
            yield {**deepcopy(raw), name: None}
    for index, node in enumerate(raw["nodes"]):
        for name, empty in (("taints", []), ("capacity", {}), ("cordoned", False)):
            if node[name]:
                yield _changed(raw, ("nodes", index), **{name: empty})


def _with_smaller_member(raw: Manifest, index: int, member: Manifest) -> Iterator[Manifest]:
    """The same with fewer pods of a member, or with less asked of them."""
    for fewer in {1, member["minimum"] // 2, member["minimum"] - 1} - {0, member["minimum"]}:
        yield _changed(raw, ("members", index), minimum=fewer, pods=fewer)
    if member["pods"] > member["minimum"]:
        yield _changed(raw, ("members", index), pods=member["minimum"])
    if member["required"]:
        yield _changed(raw, ("members", index), required=None)
    yield from _without_fields(raw, index)


def _without_fields(raw: Manifest, index: int) -> Iterator[Manifest]:
    """The same with less in the pod spec of a member."""
    spec = raw["members"][index]["spec"]
    for name in _OF_A_POD:
        if name in spec:
            yield _changed(raw, ("members", index), spec={key: value for key, value in spec.items() if key != name})
    if "runtimeClassName" in spec:
        rest = {key: value for key, value in spec.items() if key not in {"runtimeClassName", "overhead"}}
        yield _changed(raw, ("members", index), spec=rest)
    for holder in ("containers", "initContainers"):
        found = spec.get(holder, [])
        for place, container in enumerate(found):
            others = [one for other, one in enumerate(found) if other != place]
            if others:
                yield _changed(raw, ("members", index), spec={**spec, holder: others})
            for less in _with_less(container):
                changed = [less if other == place else one for other, one in enumerate(found)]
                yield _changed(raw, ("members", index), spec={**spec, holder: changed})


def _with_less(container: Manifest) -> Iterator[Manifest]:
    if "ports" in container:
        yield {key: value for key, value in container.items() if key != "ports"}
    # Not its claims.
    stated = container.get("resources", {})
    said = {kind: stated[kind] for kind in ("requests", "limits") if kind in stated}
    for resource in {name for amounts in said.values() for name in amounts}:
        rest = {
            kind: {name: amount for name, amount in amounts.items() if name != resource}
            for kind, amounts in said.items()
        }
        yield {**container, "resources": {**stated, **rest}}


def _changed(raw: Manifest, place: tuple[str, int], **fields: Any) -> Manifest:
    found = deepcopy(raw)
    name, index = place
    found[name][index].update(fields)
    return found


def _without_member(raw: Manifest, index: int) -> Manifest:
    found = deepcopy(raw)
    gone = found["members"].pop(index)["name"]
    for subset in found["subsets"]:
        subset["members"] = [name for name in subset["members"] if name != gone]
    found["subsets"] = [subset for subset in found["subsets"] if subset["members"]]
    if found["enough"] is not None:
        grouped = {name for subset in found["subsets"] for name in subset["members"]}
        parts = len(found["subsets"]) + sum(member["name"] not in grouped for member in found["members"])
        found["enough"] = min(found["enough"], parts)
    return found


def _without_node(raw: Manifest, index: int) -> Manifest:
    """The same without a node; later nodes get its place, and their names change with that."""

    def renamed(found: re.Match[str]) -> str:
        number = int(found[1])
        return '"@gone"' if number == index else f'"@n{number - (number > index)}"'

    found: Manifest = json.loads(re.sub(r'"@n(\d+)"', renamed, json.dumps(raw)))
    del found["nodes"][index]
    found["foreign"] = [
        {**pod, "node": pod["node"] - (pod["node"] > index)} for pod in found["foreign"] if pod["node"] != index
    ]
    return found


def line_of(case: Case) -> str:
    """The case as a line of a file of kept cases."""
    return json.dumps(case.as_json(), sort_keys=True)


def kept_cases(program: str, offers: Offers) -> list[Case]:
    """The cases that failed once with this scheduler, of any of its configurations, and that can be asked of it."""
    path = _KEPT / f"{program.partition(' ')[0]}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    cases = [Case.of(json.loads(line)) for line in lines]
    return [case for case in cases if _can_be_asked(case, offers)]


def _can_be_asked(case: Case, offers: Offers) -> bool:
    required = case.required is not None or any(member.required for member in case.members)
    return (
        (offers.topology or not required)
        and (offers.nested or not case.subsets)
        and (offers.trees or case.enough is None)
        and (offers.quotas or case.quota is None)
    )
