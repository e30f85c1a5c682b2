"""A sample of each of Kueue's kinds, with every field that its projection reads."""

from __future__ import annotations

from webhook.model.reading import Manifest

_CONDITIONS = [
    {
        "type": "Active",
        "status": "False",
        "reason": "FlavorNotFound",
        "message": "references missing ResourceFlavor(s): h100",
        "lastTransitionTime": "2026-11-01T10:00:00Z",
    }
]
KUEUE_SAMPLES: dict[str, Manifest] = {
    "local_queues": {
        "metadata": {},
        "spec": {"clusterQueue": "research", "stopPolicy": "Hold"},
        "status": {"conditions": _CONDITIONS},
    },
    "cluster_queues": {
        "metadata": {},
        "spec": {
            "cohortName": "all",
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [
                        {
                            "name": "h100",
                            "resources": [
                                {"name": "cpu", "nominalQuota": "8", "borrowingLimit": "4", "lendingLimit": "2"}
                            ],
                        }
                    ],
                }
            ],
            "admissionChecksStrategy": {"admissionChecks": [{"name": "gang", "onFlavors": ["h100"]}]},
            "stopPolicy": "Hold",
            "namespaceSelector": {"matchLabels": {"team": "ml"}},
        },
        "status": {"conditions": _CONDITIONS},
    },
    "cohorts": {"metadata": {}, "spec": {"parentName": "all"}},
    "resource_flavors": {"metadata": {}, "spec": {"topologyName": "racks", "nodeLabels": {"pool": "h100"}}},
    "kueue_topologies": {"metadata": {}, "spec": {"levels": [{"nodeLabel": "example.com/rack"}]}},
    "admission_checks": {
        "metadata": {},
        "spec": {"controllerName": "rollcall.dev/gang"},
        "status": {"conditions": _CONDITIONS},
    },
    "kueue_workloads": {
        "metadata": {
            "creationTimestamp": "2026-11-01T10:00:00Z",
            "labels": {"kueue.x-k8s.io/job-uid": "u-1"},
            "annotations": {"kueue.x-k8s.io/component-workload-index": "0"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "u-1", "controller": True}
            ],
        },
        "spec": {
            "queueName": "research",
            "active": True,
            "priority": 10,
            "podSets": [{"name": "main", "count": 4, "minCount": 2, "template": {"spec": {"containers": []}}}],
        },
        "status": {
            "admission": {
                "clusterQueue": "research",
                "podSetAssignments": [{"name": "main", "count": 3, "topologyAssignment": {"levels": ["rack"]}}],
            },
            "admissionChecks": [{"name": "gang", "state": "Retry", "message": "no such topology"}],
            "requeueState": {"count": 1, "requeueAt": "2026-11-01T10:00:00Z"},
            "schedulingStats": {"evictions": [{"reason": "PodsReadyTimeout", "count": 1}]},
            "conditions": [{**_CONDITIONS[0], "type": "QuotaReserved"}],
        },
    },
}
