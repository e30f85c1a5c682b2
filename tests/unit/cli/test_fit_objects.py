"""The names of objects that `rollcall fit` takes, as kubectl prints them."""

from __future__ import annotations

import pytest

from webhook.cli.fit_text import object_references

NAMED = {
    "job/train": ("jobs", "train"),
    "Job/train": ("jobs", "train"),
    "job.batch/train": ("jobs", "train"),
    "podgang.scheduler.grove.io/demo-0": ("podgangs", "demo-0"),
}


@pytest.mark.parametrize(("argument", "named"), NAMED.items())
def test_a_kind_may_have_its_group_as_kubectl_prints_it(argument: str, named: tuple[str, str]) -> None:
    found = object_references([argument])
    assert found is not None
    assert [(one.resource.plural, one.name) for one in found] == [named]


@pytest.mark.parametrize("argument", ["deploy/job.yaml", "train.yaml", "-", "a b/x", "./job/x"])
def test_what_may_be_a_file_names_no_object(argument: str) -> None:
    assert object_references([argument]) is None
