"""The expected rights of the reconciler, written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.installation.registrations import HEAD, KUEUE
from webhook.config.file import settings_from
from webhook.config.settings import followed_projections
from webhook.installation.rbac import reconciler_access_rules
from webhook.model.keys import Api
from webhook.model.projections import POD_CLIQUE_SETS, Resource
from webhook.operations.audit import listings

FOLLOWING = ["list", "watch"]
WRITING = ["list", "watch", "create", "patch", "delete"]
# What the reconciler needs whatever is enabled.
ALWAYS = {
    "/namespaces": FOLLOWING,
    "/resourcequotas": FOLLOWING,
    "/limitranges": FOLLOWING,
    "resource.k8s.io/resourceslices": FOLLOWING,
    "resource.k8s.io/deviceclasses": FOLLOWING,
    "resource.k8s.io/resourceclaimtemplates": FOLLOWING,
    "resource.k8s.io/resourceclaims": FOLLOWING,
    "/nodes": FOLLOWING,
    "/configmaps": FOLLOWING,
    "cluster.x-k8s.io/machinedeployments": FOLLOWING,
    "cluster.x-k8s.io/machinesets": FOLLOWING,
    "cluster.x-k8s.io/machinepools": FOLLOWING,
    "karpenter.sh/nodepools": FOLLOWING,
    "grove.io/podcliquesets": FOLLOWING,
    "grove.io/podcliques": FOLLOWING,
    "grove.io/podcliquescalinggroups": FOLLOWING,
    "grove.io/clustertopologybindings": FOLLOWING,
    "scheduler.grove.io/podgangs": [*FOLLOWING, "get"],
    # The condition of a PodGang that lost pods.
    "scheduler.grove.io/podgangs/status": ["patch"],
    "grove.io/podgangmaps": FOLLOWING,
    "scheduling.k8s.io/priorityclasses": FOLLOWING,
    "grove.io/podcliquesets/finalizers": ["update"],
    "scheduler.grove.io/podgangs/finalizers": ["update"],
    "events.k8s.io/events": ["create", "patch"],
    "/pods": FOLLOWING,
}
GATED = {"/pods": ["list", "watch", "patch"]}
# For the gangs of workloads that are not Grove's.
OPTED_IN_KINDS = {
    "apps/statefulsets": FOLLOWING,
    "apps/statefulsets/finalizers": ["update"],
    "apps/deployments": FOLLOWING,
    "apps/deployments/finalizers": ["update"],
    "apps/replicasets": FOLLOWING,
    "kubeflow.org/pytorchjobs": FOLLOWING,
    "kubeflow.org/pytorchjobs/finalizers": ["update"],
    "disaggregatedset.x-k8s.io/disaggregatedsets": FOLLOWING,
    "disaggregatedset.x-k8s.io/disaggregatedsets/finalizers": ["update"],
    "kubeflow.org/mpijobs": FOLLOWING,
    "kubeflow.org/mpijobs/finalizers": ["update"],
    "ray.io/rayclusters": FOLLOWING,
    "ray.io/rayclusters/finalizers": ["update"],
    "sparkoperator.k8s.io/sparkapplications": FOLLOWING,
    "sparkoperator.k8s.io/sparkapplications/finalizers": ["update"],
    "batch/jobs": FOLLOWING,
    "batch/jobs/finalizers": ["update"],
    "jobset.x-k8s.io/jobsets": FOLLOWING,
    "jobset.x-k8s.io/jobsets/finalizers": ["update"],
    "leaderworkerset.x-k8s.io/leaderworkersets": FOLLOWING,
    "leaderworkerset.x-k8s.io/leaderworkersets/finalizers": ["update"],
    "trainer.kubeflow.org/trainjobs": FOLLOWING,
}
# KAI's podgrouper makes the gangs of the other kinds. Jobs may stand between a pod and a workload of a declared kind.
LEFT_BY_KAI = {
    "apps/statefulsets": FOLLOWING,
    "apps/statefulsets/finalizers": ["update"],
    "apps/deployments": FOLLOWING,
    "apps/deployments/finalizers": ["update"],
    "apps/replicasets": FOLLOWING,
    "batch/jobs": FOLLOWING,
    "disaggregatedset.x-k8s.io/disaggregatedsets": FOLLOWING,
    "disaggregatedset.x-k8s.io/disaggregatedsets/finalizers": ["update"],
    "leaderworkerset.x-k8s.io/leaderworkersets": FOLLOWING,
    "leaderworkerset.x-k8s.io/leaderworkersets/finalizers": ["update"],
    "sparkoperator.k8s.io/sparkapplications": FOLLOWING,
    "sparkoperator.k8s.io/sparkapplications/finalizers": ["update"],
}
# For the gangs that Kueue holds, if Rollcall makes gangs.
OF_KUEUE = {**dict.fromkeys(KUEUE, FOLLOWING), "kueue.x-k8s.io/workloads": FOLLOWING}
# By profile: what it needs besides.
BESIDES: dict[str, tuple[dict[str, Any], dict[str, list[str]]]] = {
    "default-scheduler": ({"name": "default-scheduler"}, {}),
    "default-scheduler with gangs": (
        {"name": "default-scheduler", "config": {"gangScheduling": True}},
        {
            "scheduling.k8s.io/workloads": WRITING,
            "scheduling.k8s.io/podgroups": WRITING,
            "scheduling.k8s.io/compositepodgroups": WRITING,
            **OPTED_IN_KINDS,
            **OF_KUEUE,
        },
    ),
    "koord-scheduler": (
        {"name": "koord-scheduler"},
        {
            "scheduling.sigs.k8s.io/elasticquotas": FOLLOWING,
            "scheduling.koordinator.sh/clusternetworktopologies": FOLLOWING,
            "scheduling.sigs.k8s.io/podgroups": WRITING,
            **OPTED_IN_KINDS,
            **OF_KUEUE,
            **GATED,
        },
    ),
    "koord-scheduler without the gate": (
        {"name": "koord-scheduler", "gate": False},
        {
            "scheduling.sigs.k8s.io/elasticquotas": FOLLOWING,
            "scheduling.koordinator.sh/clusternetworktopologies": FOLLOWING,
            "scheduling.sigs.k8s.io/podgroups": WRITING,
            **OPTED_IN_KINDS,
            **OF_KUEUE,
        },
    ),
    "volcano": (
        {"name": "volcano", "config": {"topology": "hypernode"}},
        {
            "scheduling.volcano.sh/queues": FOLLOWING,
            "topology.volcano.sh/hypernodes": FOLLOWING,
            "scheduling.volcano.sh/podgroups": WRITING,
            **OPTED_IN_KINDS,
            **OF_KUEUE,
        },
    ),
    "kai-scheduler": (
        {"name": "kai-scheduler"},
        {
            "scheduling.run.ai/queues": FOLLOWING,
            "kai.scheduler/topologies": WRITING,
            "grove.io/clustertopologybindings/finalizers": ["update"],
            "kai.scheduler/schedulingshards": FOLLOWING,
            "scheduling.run.ai/podgroups": WRITING,
            **LEFT_BY_KAI,
            **OF_KUEUE,
        },
    ),
    "lpx-scheduler": ({"name": "lpx-scheduler"}, {}),
    "scheduler-plugins-scheduler": (
        {"name": "scheduler-plugins-scheduler"},
        {**OPTED_IN_KINDS, **OF_KUEUE, "scheduling.x-k8s.io/podgroups": WRITING},
    ),
    "volcano with the gate": (
        {"name": "volcano", "gate": True},
        {
            "scheduling.volcano.sh/queues": FOLLOWING,
            "topology.volcano.sh/hypernodes": FOLLOWING,
            "scheduling.volcano.sh/podgroups": WRITING,
            **OPTED_IN_KINDS,
            **OF_KUEUE,
            **GATED,
        },
    ),
}


def test_a_reconciler_can_delete_pods_only_if_configured() -> None:
    settings = settings_from({**HEAD, "escapes": {"delete": ["stale"]}}, "test")
    role = reconciler_access_rules(settings, "system", "writer")[0]
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": [*FOLLOWING, "get", "delete"]} in role["rules"]


@pytest.mark.parametrize(
    ("cause", "verbs"),
    [
        ("forgotten", ["get", "patch", "delete"]),
        ("oldMembership", ["get", "delete"]),
        ("objectLeft", []),
    ],
)
def test_the_rights_about_pods_grow_with_the_remedies(cause: str, verbs: list[str]) -> None:
    settings = settings_from({**HEAD, "remedies": {"causes": [cause]}}, "test")
    role = reconciler_access_rules(settings, "rollcall-system", "rollcall-reconciler")[0]
    (pods,) = (rule for rule in role["rules"] if rule["resources"] == ["pods"])
    assert pods["verbs"] == [*FOLLOWING, *verbs]


@pytest.mark.parametrize(("cause", "granted"), [("groveGate", True), ("oldMembership", False)])
def test_a_reconciler_can_patch_sets_only_if_configured(cause: str, *, granted: bool) -> None:
    settings = settings_from({**HEAD, "remedies": {"causes": [cause]}}, "test")
    rules = reconciler_access_rules(settings, "rollcall-system", "rollcall-reconciler")[0]["rules"]
    verbs = {verb for rule in rules if "podcliquesets" in rule["resources"] for verb in rule["verbs"]}
    assert ("patch" in verbs) is granted


@pytest.mark.parametrize("mode", ["audit", "on"])
def test_a_reconciler_can_answer_kueue_only_if_configured(mode: str) -> None:
    def granted(**sections: Any) -> dict[str, list[str]]:
        settings = settings_from({**HEAD, "scheduler": {"profiles": [{"name": "lpx-scheduler"}]}, **sections}, "test")
        rules = reconciler_access_rules(settings, "system", "writer")[0]["rules"]
        return {f"{rule['apiGroups'][0]}/{rule['resources'][0]}": rule["verbs"] for rule in rules}

    without, found = granted(kueue={"admissionCheck": "off"}), granted(kueue={"admissionCheck": mode})
    assert without == granted()
    assert {kind: verbs for kind, verbs in found.items() if verbs != without.get(kind)} == {
        **OF_KUEUE,
        "kueue.x-k8s.io/workloads": [*FOLLOWING, "get"],
        "kueue.x-k8s.io/workloads/status": ["patch"],
        "kueue.x-k8s.io/admissionchecks/status": ["patch"],
        "batch/jobs": ["get"],
        "jobset.x-k8s.io/jobsets": ["get"],
        "leaderworkerset.x-k8s.io/leaderworkersets": ["get"],
        "trainer.kubeflow.org/trainjobs": ["get"],
        "apps/deployments": ["get"],
        "apps/statefulsets": ["get"],
        "disaggregatedset.x-k8s.io/disaggregatedsets": ["get"],
        "nvidia.com/dynamographdeployments": ["get"],
        "kubeflow.org/pytorchjobs": ["get"],
        "kubeflow.org/mpijobs": ["get"],
        "ray.io/rayclusters": ["get"],
        "ray.io/rayjobs": ["get"],
        "ray.io/rayservices": ["get"],
        "sparkoperator.k8s.io/sparkapplications": ["get"],
        "batch.volcano.sh/jobs": ["get"],
        "grove.io/podcliquesets": [*FOLLOWING, "get"],
        "/pods": [*FOLLOWING, "get"],
    }


WRITTEN_TOPOLOGIES = {
    "koord-scheduler": "scheduling.koordinator.sh/clusternetworktopologies",
    "volcano": "topology.volcano.sh/hypernodes",
}


@pytest.mark.parametrize(("scheduler", "kind"), WRITTEN_TOPOLOGIES.items(), ids=WRITTEN_TOPOLOGIES)
def test_a_reconciler_can_write_topology_objects_only_if_configured(scheduler: str, kind: str) -> None:
    def granted(**config: str) -> dict[str, list[str]]:
        profile = {"name": scheduler, "config": config}
        settings = settings_from({**HEAD, "scheduler": {"profiles": [profile]}}, "test")
        rules = reconciler_access_rules(settings, "system", "writer")[0]["rules"]
        return {f"{rule['apiGroups'][0]}/{rule['resources'][0]}": rule["verbs"] for rule in rules}

    without = granted()
    assert (without[kind], without["/nodes"]) == (FOLLOWING, FOLLOWING)
    assert granted(topologyBinding="dc") == without
    written = granted(topologyBinding="dc", topologyObjects="write")
    assert {kind: verbs for kind, verbs in written.items() if verbs != without.get(kind)} == {
        kind: WRITING,
        "grove.io/clustertopologybindings/finalizers": ["update"],
    }


@pytest.mark.parametrize(("profile", "besides"), BESIDES.values(), ids=BESIDES)
def test_a_reconciler_can_write_for_the_enabled_schedulers_and_hold_its_lease(
    profile: dict[str, Any], besides: dict[str, list[str]]
) -> None:
    settings = settings_from({**HEAD, "scheduler": {"profiles": [profile]}}, "test")
    role, _, own, _ = reconciler_access_rules(settings, "system", "writer")
    granted = [
        (f"{group}/{resource}", rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    assert dict(granted) == {**ALWAYS, **besides}
    # Each once, and nothing by a wildcard.
    assert len(granted) == len(dict(granted))
    assert own["metadata"]["namespace"] == "system"
    assert own["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["rollcall-reconciler"],
            "verbs": ["get", "update"],
        },
        # The records of gangs that lost pods, and no other ConfigMap, such as Rollcall's configuration.
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [f"rollcall-losses-{number}" for number in range(4)],
            "verbs": ["get", "patch", "delete"],
        },
    ]


def test_a_reconciler_can_audit_only_if_configured() -> None:
    profiles = [{"name": name} for name in ("koord-scheduler", "volcano", "kai-scheduler")]

    def granted(**sections: Any) -> dict[str, list[str]]:
        settings = settings_from({**HEAD, "scheduler": {"profiles": profiles}, **sections}, "test")
        rules = reconciler_access_rules(settings, "system", "writer")[0]["rules"]
        return {f"{rule['apiGroups'][0]}/{rule['resources'][0]}": rule["verbs"] for rule in rules}

    assert "openreports.io/reports" not in granted(audit={"openReports": False})
    found = granted(audit={"openReports": True})
    assert found["openreports.io/reports"] == ["list", "create", "patch", "delete"]
    # Everything that is listed, and what admission knows besides.
    settings = settings_from({**HEAD, "scheduler": {"profiles": profiles}, "audit": {"openReports": True}}, "test")
    served = {
        Api(group, "v1", kind): Resource(Api(group, "v1", kind), plural)
        for profile in settings.profiles.values()
        for group, kind, plural, _ in profile.judged
        if group
    }
    served |= {one.api: one for kind in settings.kinds.views for one in settings.kinds.written(kind)}
    served[POD_CLIQUE_SETS.resource.api] = POD_CLIQUE_SETS.resource
    listed = {f"{one.resource.api.group}/{one.resource.plural}" for one in listings(settings, served)}
    assert {"grove.io/podcliquesets", "scheduling.run.ai/queues", "ray.io/rayjobs", "/pods"} <= listed
    facts = followed_projections(settings, objects=True)
    listed |= {f"{one.resource.api.group}/{one.resource.plural}" for one in facts}
    assert {kind for kind in listed if "list" not in found.get(kind, ())} == set()
