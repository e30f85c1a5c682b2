"""The check of Rollcall's AdmissionCheck in Kueue: each reason why nobody answers it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.texts import Text
from webhook.config.settings import Settings
from webhook.model.reading import Manifest
from webhook.operations.diagnosis import configured, example_object, installed, lease
from webhook.operations.installation_checks import admission_check
from webhook.workloads.kueue_integration import CheckMode

API = "kueue.x-k8s.io/v1beta2"
ON = replace(configured(), admission_check=CheckMode.ON)
OFF = configured()
STALE = lease(renewTime="2026-09-01T11:30:00.000000Z")


def check(name: str = "gang", controller: str = "rollcall.dev/gang", active: str = "True") -> Manifest:
    status = {"conditions": [{"type": "Active", "status": active}]}
    return example_object(API, "AdmissionCheck", name, spec={"controllerName": controller}, status=status)


def queue(name: str, *checks: str) -> Manifest:
    strategy = {"admissionChecks": [{"name": check} for check in checks]}
    return example_object(API, "ClusterQueue", name, spec={"admissionChecksStrategy": strategy})


def found(settings: Settings, *objects: Manifest) -> list[tuple[str, str]]:
    without = ("Lease",) if STALE in objects else ()
    symptoms = admission_check.look(installed(*objects, settings=settings, without=without))
    return [(one.where, one.observation) for one in symptoms]


@pytest.mark.parametrize(
    ("settings", "objects", "expected"),
    [
        pytest.param(ON, (check(), queue("a", "gang")), [], id="answered"),
        pytest.param(OFF, (), [], id="Kueue without checks"),
        pytest.param(OFF, (check(), queue("a")), [], id="not used"),
        pytest.param(OFF, (check(controller="example.com/x"), queue("a", "gang")), [], id="another controller"),
        pytest.param(
            OFF,
            (check(), queue("b", "other", "gang"), queue("a", "gang")),
            [("AdmissionCheck gang", Text("ClusterQueue a and 1 more", "kueue.admissionCheck is off"))],
            id="off",
        ),
        pytest.param(
            ON,
            (check(), queue("a", "gang"), STALE),
            [
                (
                    "AdmissionCheck gang",
                    Text("ClusterQueue a ", "rollcall-reconciler-1", "2026-09-01T11:30:00.000000Z"),
                )
            ],
            id="no leader",
        ),
        pytest.param(
            ON,
            (check(active="False"), queue("a", "gang")),
            [("AdmissionCheck gang", Text("ClusterQueue a ", "Active=True"))],
            id="inactive",
        ),
    ],
)
def test_a_check_that_nobody_answers_is_found(
    settings: Settings, objects: tuple[Manifest, ...], expected: list[tuple[str, str]]
) -> None:
    assert found(settings, *objects) == expected
