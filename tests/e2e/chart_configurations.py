"""Configurations that the chart is rendered with, each with other objects or fields than the rest."""

from __future__ import annotations

from typing import Any

from tests.e2e.control_plane import Manifest

GANGS = {"name": "default-scheduler", "config": {"gangScheduling": True, "hierarchical": "off"}}
KOORDINATOR = {"name": "koord-scheduler", "config": {"gangMode": "NonStrict"}}
VOLCANO = {"name": "volcano", "config": {"topology": "hypernode", "defaultQueue": "batch"}}
KAI = {"name": "kai-scheduler", "config": {"queueLabelKey": "example.com/queue"}}


def with_profiles(*profiles: Manifest, **sections: Any) -> Manifest:
    return {"scheduler": {"profiles": list(profiles), "defaultProfileName": profiles[0]["name"]}, **sections}


_LINK = {"group": "example.com", "version": "v1", "kind": "Runner", "plural": "runners", "name": "{workload}-runner"}
# A shape with another controller above its pods, and one that is only judged and opted in by its own label.
TRAINING: Manifest = {
    "metadata": {"name": "training"},
    "spec": {
        "for": {"group": "example.com", "kind": "Training", "plural": "trainings", "versions": ["v1", "v1beta1"]},
        "parts": [{"template": "$.spec.template", "pods": 2, "pod": {"chain": [_LINK]}}],
    },
}
# The same kind in a version with other paths.
OLDER_TRAINING: Manifest = {
    "metadata": {"name": "training-v1alpha1"},
    "spec": {
        "for": {"group": "example.com", "kind": "Training", "plural": "trainings", "versions": ["v1alpha1"]},
        "parts": [{"template": "$.spec.pods.template", "pods": 2, "pod": {"chain": [_LINK]}}],
    },
}
REPORT: Manifest = {
    "metadata": {"name": "report"},
    "spec": {
        "for": {"group": "example.com", "kind": "Report", "plural": "reports", "versions": ["v1"]},
        "optIn": "workload",
        "gang": {"over": "none"},
    },
}
CONFIGURATIONS: dict[str, Manifest] = {
    "koord-scheduler": with_profiles(KOORDINATOR),
    "koord-scheduler without its gate": with_profiles({**KOORDINATOR, "gate": False}),
    "volcano": with_profiles(VOLCANO),
    "topology objects": with_profiles(
        {"name": "koord-scheduler", "config": {"topologyBinding": "dc", "topologyObjects": "write"}},
        {"name": "volcano", "config": {"topologyBinding": "dc", "topologyObjects": "write"}},
    ),
    "volcano gated": with_profiles({**VOLCANO, "gate": True}),
    "kai-scheduler": with_profiles(KAI),
    "gangs of kube-scheduler": with_profiles(GANGS),
    "kube-scheduler alone": with_profiles({"name": "default-scheduler"}),
    "lpx-scheduler": with_profiles({"name": "lpx-scheduler"}),
    "all of them": with_profiles(
        VOLCANO, GANGS, KAI, {"name": "lpx-scheduler"}, KOORDINATOR, {"name": "scheduler-plugins-scheduler"}
    ),
    "escapes": with_profiles(KAI, escapes={"delete": ["stale"]}),
    "audit": with_profiles(VOLCANO, KOORDINATOR, audit={"openReports": True}),
    "audit of gangs of kube-scheduler": with_profiles(GANGS, audit={"openReports": True}),
    "audit turned off": with_profiles(KAI, audit={"openReports": False}),
    "remedies": with_profiles(KAI, remedies={"causes": ["forgotten", "objectLeft", "oldMembership", "groveGate"]}),
    "admission check": with_profiles(KAI, kueue={"admissionCheck": "on"}),
    "admission check as YAML 1.1 writes it": with_profiles(GANGS, kueue={"admissionCheck": True}),
    "registration": with_profiles(
        GANGS,
        registration={"failurePolicy": "Ignore", "timeoutSeconds": 11, "excludedNamespaces": ["b", "a", "kube-public"]},
    ),
    "enforcement": with_profiles(
        KOORDINATOR, enforcement={"mode": "audit", "rules": {"koordinator/priority-class": "off"}}
    ),
    "the net, which denies": with_profiles(KAI, KOORDINATOR, VOLCANO, registration={"net": "Deny"}),
    "the net, which warns of gangs": with_profiles(
        GANGS, {"name": "scheduler-plugins-scheduler"}, registration={"net": "Warn", "excludedNamespaces": ["a"]}
    ),
    "the net for the audit log": with_profiles({"name": "lpx-scheduler"}, registration={"net": "Audit"}),
    "tenancy": with_profiles(
        {**VOLCANO, "controllers": ["system:serviceaccount:batch:vc-controllers"]},
        {**KOORDINATOR, "controllers": []},
        tenancy={
            "exemptUsers": ["ada@example.com", "system:serviceaccount:argocd:controller"],
            "groveOperators": ["system:serviceaccount:*:grove", "system:serviceaccount:dynamo:grove-operator", "admin"],
        },
    ),
    "operators in any namespace": with_profiles(
        KAI, tenancy={"groveOperators": ["system:serviceaccount:*:b", "system:serviceaccount:*:a"]}
    ),
    "no operator": with_profiles(KAI, tenancy={"groveOperators": []}),
    "a writer by another name": with_profiles(GANGS, tenancy={"reconcilers": ["system:serviceaccount:gangs:writer"]}),
    "serving": with_profiles(GANGS, serving={"drainSeconds": 0, "maxInFlight": 100_000}),
    "traces": with_profiles(GANGS, tracing={"endpoint": "http://otel.monitoring.svc:4318/v1/traces", "sampleRatio": 1}),
    "traces by TLS": with_profiles(GANGS, tracing={"endpoint": "https://otel.example.com"}),
    "a scheduler as a shadow": with_profiles(KOORDINATOR, shadow=["kai-scheduler", "default-scheduler", "volcano"]),
    "declared kinds": with_profiles(
        KOORDINATOR,
        workloads={
            "disabled": ["rayjob", "sparkapplication", "dynamographdeployment"],
            "shapes": [TRAINING, OLDER_TRAINING, REPORT],
        },
        kueue={"admissionCheck": "on"},
    ),
    "declared kinds with the audit": with_profiles(
        KOORDINATOR,
        workloads={"disabled": ["rayjob", "sparkapplication"], "shapes": [TRAINING, OLDER_TRAINING, REPORT]},
        audit={"openReports": True},
    ),
}
