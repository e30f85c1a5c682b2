"""The configuration file: the settings that it gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.config.configurations import HEAD, KOORD, scheduler
from webhook.backends.koordinator.keys import KoordinatorSettings
from webhook.config.defaults import default_settings, force_scheduler
from webhook.config.file import settings_from
from webhook.errors import ConfigurationError
from webhook.model.findings import Action
from webhook.model.quantity import Version


def test_the_smallest_file_enables_only_the_default_scheduler() -> None:
    settings = settings_from(dict(HEAD), "rollcall.yaml")
    assert (list(settings.profiles), settings.default) == (["default-scheduler"], "default-scheduler")


def test_the_scheduler_block_of_grove_s_configuration_is_accepted() -> None:
    profiles = [
        {"name": "default-scheduler", "config": {"gangScheduling": False}},
        {
            "name": "koord-scheduler",
            "config": {
                "gangMode": "NonStrict",
                "matchPolicy": "once-satisfied",
                "scheduleTimeoutSeconds": 30,
                "defaultQoSClass": "LS",
                "topologyKeyMappings": {"topology.kubernetes.io/rack": "RackLayer"},
            },
        },
    ]
    settings = settings_from(scheduler(*profiles), "rollcall.yaml")
    assert settings.default == "koord-scheduler"
    assert settings.profiles["koord-scheduler"].backend.settings == KoordinatorSettings(
        gangMode="NonStrict",
        matchPolicy="once-satisfied",
        scheduleTimeoutSeconds=30,
        defaultQoSClass="LS",
        topologyKeyMappings={"topology.kubernetes.io/rack": "RackLayer"},
    )


def test_koordinator_s_defaults_are_the_safe_ones() -> None:
    settings = settings_from(scheduler(KOORD), "rollcall.yaml")
    backend = settings.profiles["koord-scheduler"].backend
    assert backend.settings.model_dump() == {
        "gangMode": "Strict",
        "matchPolicy": "waiting-and-running",
        "scheduleTimeoutSeconds": 600,
        "defaultQoSClass": None,
        "topologyKeyMappings": {},
        "awareNetworkTopology": True,
        # What is not stated is not guessed.
        "enableRuntimeQuota": None,
        "enableCheckParentQuota": None,
        "disableDefaultQuota": None,
        "topologyBinding": None,
        "topologyObjects": "compare",
    }


def test_a_key_without_a_value_counts_as_absent() -> None:
    empty = {"scheduler": None, "enforcement": {"mode": None, "rules": None}, "namespaces": {"team-a": None}}
    settings = settings_from({**HEAD, **empty}, "rollcall.yaml")
    assert list(settings.profiles) == ["default-scheduler"]
    document = scheduler({**KOORD, "config": {"gangMode": None}, "gate": None, "schedulerVersion": None})
    assert settings_from(document, "rollcall.yaml").profiles["koord-scheduler"].gate is True


@pytest.mark.parametrize(
    ("name", "gated"),
    [
        ("koord-scheduler", True),
        ("default-scheduler", False),
        ("kai-scheduler", False),
        ("volcano", False),
        ("scheduler-plugins-scheduler", False),
    ],
)
def test_pods_are_gated_by_default_if_the_scheduler_would_start_half_a_gang(name: str, gated: bool) -> None:
    for profile, expected in (({}, gated), ({"gate": True}, True), ({"gate": False}, False)):
        document = {**HEAD, "scheduler": {"profiles": [{"name": name, **profile}]}}
        assert settings_from(document, "rollcall.yaml").profiles[name].gate is expected


def test_a_profile_accepts_the_keys_of_its_backend() -> None:
    profile = {**KOORD, "gate": True, "schedulerVersion": "v1.8.0", "enforcement": {"mode": "warn"}}
    found = settings_from(scheduler(profile), "rollcall.yaml").profiles["koord-scheduler"]
    assert (found.gate, found.ceiling, found.backend.scheduler_version) == (True, Action.WARN, Version(1, 8, 0))


@pytest.mark.parametrize("off", ["off", False], ids=["YAML 1.2", "YAML 1.1"])
def test_an_unquoted_off_read_as_false_means_off(off: Any) -> None:
    settings = settings_from(scheduler(KOORD, enforcement={"mode": off}), "rollcall.yaml")
    assert settings.profiles["koord-scheduler"].ceiling is Action.OFF


def test_a_profile_s_mode_has_precedence_over_the_global_one() -> None:
    document = scheduler({**KOORD, "enforcement": {"mode": "deny"}}, enforcement={"mode": "audit"})
    profiles = settings_from(document, "rollcall.yaml").profiles
    assert profiles["koord-scheduler"].ceiling is Action.DENY
    assert profiles["default-scheduler"].ceiling is Action.AUDIT


def test_without_a_file_every_backend_is_enabled_and_the_plain_scheduler_is_the_default() -> None:
    settings = default_settings()
    assert (list(settings.profiles), settings.default) == (
        [
            "default-scheduler",
            "koord-scheduler",
            "volcano",
            "kai-scheduler",
            "lpx-scheduler",
            "scheduler-plugins-scheduler",
        ],
        "default-scheduler",
    )


def test_a_forced_scheduler_must_be_a_profile() -> None:
    settings = force_scheduler(default_settings(), "koord-scheduler")
    assert (settings.forced, settings.forced_by) == ("koord-scheduler", "--scheduler")
    with pytest.raises(ConfigurationError, match=r"allowed: default-scheduler\b"):
        force_scheduler(settings_from(dict(HEAD), "rollcall.yaml"), "koord-scheduler")
    with pytest.raises(ConfigurationError, match="slurm"):
        force_scheduler(settings, "slurm")
