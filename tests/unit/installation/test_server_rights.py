"""The expected rights of the server, written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.installation.registrations import GANGS, HEAD, KUEUE
from webhook.config.defaults import default_settings
from webhook.config.file import settings_from
from webhook.config.settings import BoundRules, Settings
from webhook.installation.rbac import access_rules, reconciler_access_rules
from webhook.model.findings import Action
from webhook.validators import GENERAL_RULES
from webhook.validators.registry import BoundRule


def rights(*groups: str, settings: Any = None) -> dict[str, list[str]]:
    role, _ = access_rules(settings or default_settings(), "rollcall-system", "rollcall")
    return {
        f"{rule['apiGroups'][0]}/{rule['resources'][0]}": rule["verbs"]
        for rule in role["rules"]
        if not groups or rule["apiGroups"][0] in groups
    }


def test_a_server_can_read_its_cached_kinds_and_write_nothing() -> None:
    reading = ["get", "list", "watch"]
    assert rights() == {
        "/namespaces": reading,
        "/resourcequotas": reading,
        "/limitranges": reading,
        "resource.k8s.io/resourceslices": reading,
        "resource.k8s.io/deviceclasses": reading,
        "resource.k8s.io/resourceclaimtemplates": reading,
        "resource.k8s.io/resourceclaims": reading,
        "/nodes": reading,
        "/configmaps": reading,
        "cluster.x-k8s.io/machinedeployments": reading,
        "cluster.x-k8s.io/machinesets": reading,
        "cluster.x-k8s.io/machinepools": reading,
        "karpenter.sh/nodepools": reading,
        "grove.io/podcliquesets": reading,
        "scheduler.grove.io/podgangs": reading,
        "grove.io/podgangmaps": reading,
        "grove.io/clustertopologybindings": reading,
        "scheduling.k8s.io/priorityclasses": reading,
        "scheduling.sigs.k8s.io/elasticquotas": reading,
        "scheduling.koordinator.sh/clusternetworktopologies": reading,
        "scheduling.sigs.k8s.io/podgroups": reading,
        "kai.scheduler/schedulingshards": reading,
        "kai.scheduler/topologies": reading,
        "scheduling.run.ai/queues": reading,
        "scheduling.run.ai/podgroups": reading,
        "scheduling.volcano.sh/queues": reading,
        "scheduling.volcano.sh/podgroups": reading,
        "scheduling.x-k8s.io/podgroups": reading,
        "topology.volcano.sh/hypernodes": reading,
        "/pods": ["list"],
        "batch/jobs": reading,
        "jobset.x-k8s.io/jobsets": reading,
        "leaderworkerset.x-k8s.io/leaderworkersets": reading,
        "trainer.kubeflow.org/trainjobs": reading,
        "trainer.kubeflow.org/trainingruntimes": reading,
        "trainer.kubeflow.org/clustertrainingruntimes": reading,
        "apps/deployments": reading,
        "apps/statefulsets": reading,
        "kubeflow.org/pytorchjobs": reading,
        "disaggregatedset.x-k8s.io/disaggregatedsets": reading,
        "kubeflow.org/mpijobs": reading,
        "ray.io/rayclusters": reading,
        "sparkoperator.k8s.io/sparkapplications": reading,
        "kueue.x-k8s.io/localqueues": reading,
        "kueue.x-k8s.io/clusterqueues": reading,
        "kueue.x-k8s.io/resourceflavors": reading,
        "kueue.x-k8s.io/topologies": reading,
        "kueue.x-k8s.io/admissionchecks": reading,
    }


def test_rights_that_no_enabled_scheduler_needs_are_not_requested() -> None:
    plain = settings_from({"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}, "test")
    assert rights("scheduling.sigs.k8s.io", "scheduling.koordinator.sh", settings=plain) == {}


def test_the_server_can_read_pods_if_gangs_use_the_workload_api() -> None:
    for gangs, verbs in ((True, ["get", "list", "watch"]), (False, ["list"])):
        profile = {"name": "default-scheduler", "config": {"gangScheduling": gangs}}
        settings = settings_from({**HEAD, "scheduler": {"profiles": [profile]}}, "test")
        assert rights("", settings=settings)["/pods"] == verbs


def test_the_rights_are_bound_to_the_account() -> None:
    _, binding = access_rules(default_settings(), "here", "me")
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "rollcall-serve",
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", "namespace": "here", "name": "me"}]


def test_a_server_can_read_workload_api_objects_if_gangs_use_them() -> None:
    settings = settings_from({**HEAD, "scheduler": {"profiles": [GANGS]}}, "test")
    reading = ["get", "list", "watch"]
    assert rights("scheduling.k8s.io", settings=settings) == {
        "scheduling.k8s.io/priorityclasses": reading,
        "scheduling.k8s.io/workloads": reading,
        "scheduling.k8s.io/podgroups": reading,
        "scheduling.k8s.io/compositepodgroups": reading,
    }


def with_kueue_rule(settings: Settings) -> Settings:
    """Settings as if their first profile had one rule about Kueue."""
    profile = next(iter(settings.profiles.values()))
    about_kueue = BoundRule(replace(profile.every_rule[0], id="kueue/some-rule"), Action.WARN)
    profile.rules = BoundRules([about_kueue])
    return settings


def test_a_server_can_read_kueues_queues_if_a_rule_about_them_is_on() -> None:
    settings = with_kueue_rule(settings_from(HEAD, "test"))
    assert rights("kueue.x-k8s.io", settings=settings) == {kind: ["get", "list", "watch"] for kind in KUEUE}


def test_a_server_without_a_rule_about_kueue_reads_nothing_of_it() -> None:
    rules = {rule.id: "off" for rule in GENERAL_RULES if rule.id.startswith("kueue/")}
    settings = settings_from({**HEAD, "enforcement": {"rules": rules}}, "test")
    assert rights("kueue.x-k8s.io", settings=settings) == {}


def test_of_config_maps_only_the_status_of_the_cluster_autoscaler_is_read() -> None:
    settings = settings_from({**HEAD, "scheduler": {"profiles": [{"name": "volcano"}]}}, "test")
    roles = (access_rules(settings, "system", "server")[0], reconciler_access_rules(settings, "system", "writer")[0])
    found = [rule for role in roles for rule in role["rules"] if "configmaps" in rule["resources"]]
    assert [rule["resourceNames"] for rule in found] == [["cluster-autoscaler-status"]] * 2
