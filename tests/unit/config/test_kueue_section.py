"""The section `kueue`: the same keys as Kueue's own Configuration, its defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.config.configurations import HEAD, problems_of
from webhook.config.file import settings_from
from webhook.config.kueue_section import Framework, seconds_of
from webhook.model.kueue import INSTALLED, KueueSettings


def kueue(section: dict[str, Any] | None) -> KueueSettings:
    return settings_from({**HEAD, "kueue": section}, "test.yaml").kueue


def problems(section: dict[str, Any]) -> list[str]:
    return problems_of(kueue, section)


@pytest.mark.parametrize("section", [None, {}, {"waitForPodsReady": None}, {"integrations": {"frameworks": None}}])
def test_without_keys_kueue_is_as_its_manifests_install_it(section: dict[str, Any] | None) -> None:
    assert kueue(section) == INSTALLED
    assert (INSTALLED.pods_ready_seconds, INSTALLED.recovery_seconds) == (1800, 1800)
    assert INSTALLED.managed_namespaces == {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kueue-system"]}
        ]
    }
    assert "sparkoperator.k8s.io/sparkapplication" not in INSTALLED.frameworks
    assert {"pod", "batch/job"} <= INSTALLED.frameworks


def test_the_text_of_kueues_own_configuration_is_read() -> None:
    found = kueue(
        {
            "waitForPodsReady": {
                "timeout": "5m",
                "recoveryTimeout": "3m",
                "unscheduledTimeout": "2m",
                "maxTimeoutOnWorkload": "3h",
                "blockAdmission": True,
                "requeuingStrategy": {
                    "timestamp": "Eviction",
                    "backoffLimitCount": 4,
                    "backoffBaseSeconds": 30,
                    "backoffMaxSeconds": 900,
                },
            },
            "manageJobsWithoutQueueName": True,
            "managedJobsNamespaceSelector": {"matchLabels": {"team": "ml"}},
            "integrations": {"frameworks": ["batch/job", "pod"]},
            "featureGates": {
                "SchedulerLibraryIntegration": True,
                "TopologyAwareScheduling": False,
                "WorkloadLevelWaitForPodsReady": True,
                "WaitForPodsReadyMaxNotReady": True,
                "BringYourOwnPodGroup": True,
            },
            "objectRetentionPolicies": {"workloads": {"afterFinished": None, "afterDeactivatedByKueue": "1h"}},
        }
    )
    assert found == KueueSettings(
        pods_ready_seconds=300,
        recovery_seconds=180,
        unscheduled_seconds=120,
        block_admission=True,
        backoff_limit=4,
        backoff_base_seconds=30,
        backoff_max_seconds=900,
        deletes_deactivated=True,
        scheduler_library=True,
        topology_aware=False,
        workload_timeouts=True,
        max_not_ready=True,
        counts_minimums=True,
        manage_without_queue_name=True,
        frameworks=frozenset({"batch/job", "pod"}),
        managed_namespaces={"matchLabels": {"team": "ml"}},
    )


@pytest.mark.parametrize(("written", "release"), [(None, None), ("0.19", (0, 19, 0)), ("0.20", (0, 20, 0))])
def test_the_release_is_unknown_unless_it_is_stated(written: str | None, release: tuple[int, ...] | None) -> None:
    assert kueue({"version": written}).release == release


@pytest.mark.parametrize(
    ("section", "ready", "recovery"),
    [
        ({"timeout": "10m"}, 600, 600),
        ({"timeout": "0s"}, 1800, 1800),
        ({"recoveryTimeout": "0s"}, 1800, None),
        ({"recoveryTimeout": None}, 1800, 1800),
        ({"enable": False, "blockAdmission": True, "unscheduledTimeout": "5m"}, None, None),
    ],
    ids=["one timeout counts for both", "0 is the default", "a recovery of 0 is off", "null is missing", "off"],
)
def test_the_timeouts_are_read_as_kueue_reads_them(
    section: dict[str, Any], ready: int | None, recovery: int | None
) -> None:
    found = kueue({"waitForPodsReady": section})
    assert (found.pods_ready_seconds, found.recovery_seconds) == (ready, recovery)
    assert not found.block_admission
    assert found.unscheduled_seconds is None


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30m", 1800), ("1h30m", 5400), ("5m0s", 300), ("1.5h", 5400), ("1500ms", 2), ("0", 0), ("90s", 90)],
)
def test_durations_are_read_as_go_writes_them(written: str, seconds: int) -> None:
    assert seconds_of(written) == seconds


FRAMEWORKS = ", ".join(Framework.__args__)  # type: ignore[attr-defined]
MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a number for a duration": (
        {"waitForPodsReady": {"timeout": 300}},
        ["kueue.waitForPodsReady.timeout: 300: must be a string..."],
    ),
    "no duration": (
        {"waitForPodsReady": {"timeout": "5 minutes"}},
        ['kueue.waitForPodsReady.timeout: "5 minutes": is not a duration...'],
    ),
    "a negative duration": (
        {"waitForPodsReady": {"recoveryTimeout": "-1m"}},
        ['kueue.waitForPodsReady.recoveryTimeout: "-1m": is not a duration...'],
    ),
    "a misspelt key of a block": (
        {"waitForPodsReady": {"blockAdmision": True}},
        [
            "kueue.waitForPodsReady.blockAdmision: true: is an unknown key; did you mean blockAdmission? (allowed: "
            "enable, timeout, recoveryTimeout, unscheduledTimeout, maxTimeoutOnWorkload, blockAdmission, "
            "requeuingStrategy)"
        ],
    ),
    "a key of Kueue on which no gang depends": (
        {"fairSharing": {}},
        [
            "kueue.fairSharing: {}: is an unknown key (allowed: waitForPodsReady, manageJobsWithoutQueueName, "
            "managedJobsNamespaceSelector, integrations, featureGates, objectRetentionPolicies, "
            "version, admissionCheck)"
        ],
    ),
    "a release that Rollcall does not know": (
        {"version": "0.18"},
        ['kueue.version: "0.18": is not allowed; ... (allowed: 0.19, 0.20)'],
    ),
    "a release that YAML reads as a number": ({"version": 0.2}, ["kueue.version: 0.2: must be a string; quote it"]),
    "a negative limit": (
        {"waitForPodsReady": {"requeuingStrategy": {"backoffLimitCount": -1}}},
        ["kueue.waitForPodsReady.requeuingStrategy.backoffLimitCount: -1: input should be greater than or equal to 0"],
    ),
    "a misspelt framework": (
        {"integrations": {"frameworks": ["batch/jobs"]}},
        [
            'kueue.integrations.frameworks[0]: "batch/jobs": is not allowed; did you mean batch/job? (allowed: '
            f"{FRAMEWORKS})"
        ],
    ),
    "an expression without values": (
        {"managedJobsNamespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In"}]}},
        [
            'kueue.managedJobsNamespaceSelector.matchExpressions[0]: {"key": "team", "operator": "In"}: '
            "... need values..."
        ],
    ),
    "an expression with an unknown operator": (
        {"managedJobsNamespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Equals"}]}},
        [
            'kueue.managedJobsNamespaceSelector.matchExpressions[0].operator: "Equals": is not allowed (allowed: In, '
            "NotIn, Exists, DoesNotExist)"
        ],
    ),
    "an expression without a key": (
        {"managedJobsNamespaceSelector": {"matchExpressions": [{"operator": "Exists"}]}},
        ["kueue.managedJobsNamespaceSelector.matchExpressions[0].key: is required"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_with_its_path(name: str) -> None:
    section, expected = MISTAKES[name]
    require_like(problems(section), expected)


def test_a_block_of_the_wrong_type_is_refused() -> None:
    assert problems({"waitForPodsReady": True}) == ["kueue.waitForPodsReady: true: must be a mapping"]


@pytest.mark.parametrize(
    ("written", "mode"), [(None, "off"), ("off", "off"), (False, "off"), ("audit", "audit"), ("on", "on"), (True, "on")]
)
def test_the_admission_check_is_off_unless_it_is_switched_on(written: object, mode: str) -> None:
    section = {} if written is None else {"admissionCheck": written}
    assert settings_from({**HEAD, "kueue": section}, "test.yaml").admission_check == mode


def test_another_word_for_the_admission_check_is_refused() -> None:
    assert problems({"admissionCheck": "yes"}) == [
        'kueue.admissionCheck: "yes": is not allowed (allowed: off, audit, on)'
    ]
