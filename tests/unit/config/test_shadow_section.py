"""The section `shadow`: schedulers and files beside the configuration, what is refused, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.texts import is_like
from tests.unit.config.configurations import HEAD, KOORD, problems_of, scheduler
from webhook.backends.registry import installed_backends
from webhook.config.file import settings_from
from webhook.config.settings import Settings, followed_projections
from webhook.errors import ConfigurationError
from webhook.installation.rbac import access_rules, reconciler_access_rules
from webhook.model.findings import Action
from webhook.offline.configuration_file import load_settings

BACKENDS = ", ".join(installed_backends())
RULE = "kai/queue-key"
VOLCANO = scheduler({"name": "volcano"}, default="volcano")


def shadows(*entries: Any, **files: Settings) -> Settings:
    return settings_from(scheduler(KOORD, shadow=list(entries)), "test.yaml", shadow_files=files)


def written(folder: Path, **files: Any) -> Path:
    for name, document in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(document))
    return folder / "rollcall.yaml"


def test_without_the_section_there_are_none() -> None:
    assert settings_from(scheduler(KOORD), "test.yaml").shadows == ()
    assert settings_from(scheduler(KOORD, shadow=None), "test.yaml").shadows == ()


def test_a_scheduler_that_is_enabled_is_judged_by_its_profile() -> None:
    kai = {"name": "kai-scheduler", "config": {"queueLabelKey": "example.com/queue"}}
    (found,) = settings_from(scheduler(KOORD, kai, shadow=["kai-scheduler"]), "test.yaml").shadows
    assert found.name == found.settings.forced == found.settings.default == "kai-scheduler"
    assert found.settings.profiles["kai-scheduler"].backend.settings.queueLabelKey == "example.com/queue"
    assert not found.is_file


def test_a_scheduler_that_is_not_enabled_has_its_defaults_and_the_general_enforcement() -> None:
    document = scheduler(KOORD, shadow=["kai-scheduler"], enforcement={"rules": {RULE: "audit"}})
    (found,) = settings_from(document, "test.yaml").shadows
    actions = {one.rule.id: one.action for one in found.settings.profiles["kai-scheduler"].rules[Action.DENY]}
    assert actions[RULE] is Action.AUDIT
    assert list(found.settings.profiles) == ["kai-scheduler"]


def test_a_file_beside_the_configuration_is_loaded(tmp_path: Path) -> None:
    path = written(tmp_path, rollcall=scheduler(KOORD, shadow=[{"config": "next.yaml"}]), next=VOLCANO)
    (found,) = load_settings(path).shadows
    assert (found.name, found.settings.default, found.is_file) == ("next.yaml", "volcano", True)


MISTAKES: dict[str, tuple[list[Any], str]] = {
    "a scheduler without a backend": (
        ["kai"],
        f'shadow[0]: "kai": ...; did you mean kai-scheduler? (allowed: {BACKENDS})',
    ),
    "a number": (
        [7],
        f"shadow[0]: 7: ... {{config: FILE}} (allowed: {BACKENDS})",
    ),
    "another key": (
        [{"config": "a.yaml", "mode": "warn"}],
        'shadow[0].mode: "warn": is an unknown key (allowed: config)',
    ),
    "another folder": (
        [{"config": "../a.yaml"}],
        'shadow[0].config: "../a.yaml": is not the name ...',
    ),
    "no such file": (
        [{"config": "a.yaml"}],
        'shadow[0].config: "a.yaml": there is no such file ...',
    ),
    "twice": (["volcano", "volcano"], 'shadow[1]: "volcano": appears twice'),
    "too many": (
        ["volcano"] * 5,
        'shadow: ["volcano", "volcano", "volcano", "volcano", "volcano"]: has 5 entries; at most 4 are allowed',
    ),
}


@pytest.mark.parametrize(("entries", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_path_value_and_allowed_values(entries: list[Any], expected: str) -> None:
    assert any(is_like(problem, expected) for problem in problems_of(lambda every: shadows(*every), entries))


def test_a_mistake_in_the_file_of_a_shadow_stops_with_its_line(tmp_path: Path) -> None:
    broken = {**VOLCANO, "serving": {"drainSeconds": -1}}
    path = written(tmp_path, rollcall=scheduler(KOORD, shadow=[{"config": "next.yaml"}]), next=broken)
    with pytest.raises(ConfigurationError) as raised:
        load_settings(path)
    assert str(tmp_path / "next.yaml") in str(raised.value)
    assert "serving.drainSeconds: -1" in str(raised.value)


@pytest.mark.parametrize("itself", [True, False])
def test_a_shadow_has_no_shadows(tmp_path: Path, itself: bool) -> None:
    own = scheduler(KOORD, shadow=[{"config": "rollcall.yaml" if itself else "next.yaml"}])
    path = written(tmp_path, rollcall=own, next={**VOLCANO, "shadow": ["kai-scheduler"]})
    with pytest.raises(ConfigurationError, match="a shadow has no shadows"):
        load_settings(path)


def rights(manifests: list[Any]) -> set[tuple[str, str, str]]:
    return {
        (rule["apiGroups"][0], rule["resources"][0], verb)
        for manifest in manifests
        for rule in manifest.get("rules", ())
        for verb in rule["verbs"]
    }


def test_the_server_may_read_what_a_shadow_judges_by_and_the_reconciler_gets_nothing() -> None:
    without, with_one = settings_from(scheduler(KOORD), "a"), shadows("kai-scheduler")
    more = rights(access_rules(with_one, "n", "a")) - rights(access_rules(without, "n", "a"))
    kinds = {("scheduling.run.ai", "queues"), ("kai.scheduler", "topologies"), ("kai.scheduler", "schedulingshards")}
    assert more == {(*kind, verb) for kind in kinds for verb in ("get", "list", "watch")}
    assert reconciler_access_rules(with_one, "n", "a") == reconciler_access_rules(without, "n", "a")


def test_a_server_does_not_wait_for_what_only_a_shadow_needs() -> None:
    own = set(followed_projections(settings_from(scheduler(KOORD), "a"), objects=True))
    added = [one for one in followed_projections(shadows("kai-scheduler"), objects=True) if one not in own]
    assert {one.resource.plural for one in added} == {"queues", "topologies", "schedulingshards"}
    assert not any(one.awaited for one in added)


def test_no_part_of_the_facts_is_filled_from_two_sources() -> None:
    """The generation of kube-scheduler's API that the configuration names is the one that is read."""
    kube = {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1alpha2"}}
    other = {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}}
    file = settings_from({**HEAD, "scheduler": {"profiles": [other]}}, "next.yaml", shadow_files=None)
    own = settings_from(
        scheduler(kube, default="default-scheduler", shadow=[{"config": "next.yaml"}]),
        "test.yaml",
        shadow_files={"next.yaml": file},
    )
    alone = followed_projections(replace(own, shadows=()), objects=True)
    added = [one for one in followed_projections(own, objects=True) if one not in alone]
    assert not {one.part for one in added if not one.shared} & {one.part for one in alone}
