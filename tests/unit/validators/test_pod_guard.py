"""The traits by which an API server knows which pods a rule must see."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.pod_template import Pod
from webhook.validators.pod_guard import NEEDS_WORKLOAD, HasAnnotation, HasLabel, Requests, Trait, any_of, sees

GPU = Requests(frozenset({"example.com/gpu"}))


def container(kind: str = "requests", **amounts: str) -> dict[str, Any]:
    return {"name": "main", "resources": {kind: {f"example.com/{name}": said for name, said in amounts.items()}}}


CASES: dict[str, tuple[Trait, dict[str, Any], bool]] = {
    "the label": (HasLabel("team"), {"labels": {"team": ""}}, True),
    "another label": (HasLabel("team"), {"labels": {"teams": "a"}}, False),
    "no labels": (HasLabel("team"), {}, False),
    "an allowed value": (HasLabel("class", other_than=("LS",)), {"labels": {"class": "LS"}}, False),
    "another value": (HasLabel("class", other_than=("LS",)), {"labels": {"class": "ls"}}, True),
    "no label with a value": (HasLabel("class", other_than=("LS",)), {}, False),
    "the annotation": (HasAnnotation("note"), {"annotations": {"note": ""}}, True),
    "the key as a label": (HasAnnotation("note"), {"labels": {"note": ""}}, False),
    "a request": (GPU, {"containers": [container(), container(gpu="0")]}, True),
    "a limit of an init container": (GPU, {"initContainers": [container("limits", gpu="1")]}, True),
    "another resource": (GPU, {"containers": [container(nic="1")]}, False),
    "no resources": (GPU, {"containers": [{"name": "main"}]}, False),
    "many containers": (GPU, {"containers": [container()] * 32}, False),
    "very many containers": (GPU, {"containers": [container()] * 33}, True),
    "many resources": (GPU, {"containers": [container(**{f"r{n}": "1" for n in range(32)})]}, False),
    "very many resources": (GPU, {"containers": [container("limits", **{f"r{n}": "1" for n in range(33)})]}, True),
    "very many init containers": (GPU, {"initContainers": [container()] * 33}, True),
}


@pytest.mark.parametrize(("trait", "fields", "expected"), CASES.values(), ids=CASES)
def test_a_pod_has_a_trait_by_what_its_author_wrote(trait: Trait, fields: dict[str, Any], expected: bool) -> None:
    assert trait.matches(Pod({"metadata": fields, "spec": fields}).template) == expected


def test_guards_together_name_each_trait_once() -> None:
    guards = (sees(HasAnnotation("note")), NEEDS_WORKLOAD, sees(HasLabel("a"), HasAnnotation("note")))
    assert any_of(guards) == (
        '"note" in object.metadata.?annotations.orValue({}) || "a" in object.metadata.?labels.orValue({})'
    )
    assert any_of([NEEDS_WORKLOAD]) == ""


def test_guards_together_look_through_the_containers_once() -> None:
    both = any_of([sees(GPU), sees(HasLabel("a"), Requests(frozenset({"example.com/nic"})))])
    assert both == f"{HasLabel('a').cel} || {Requests(frozenset({'example.com/gpu', 'example.com/nic'})).cel}"
