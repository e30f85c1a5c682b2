"""Settings, requests and facts for the tests of the core, in a short form, as a configuration file gives them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from tests.configurations import configuration_of, settings_from_document
from webhook import admission
from webhook.config.settings import Settings
from webhook.model.admission_request import Kind, Request, Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.reading import Manifest
from webhook.offline.judgement import kind_of

PCS = Kind("grove.io", "v1alpha1", "PodCliqueSet")
POD = Kind("", "v1", "Pod")


def koordinator(config: Mapping[str, Any] | None = None, *, standalone: bool = True, **profile: Any) -> Settings:
    """Settings with koord-scheduler as the default; `config` is the profile's, keywords stand beside it. Its pods are
    not gated unless a keyword says so: the gate has tests of its own.
    """
    return settings_of("koord-scheduler", config, standalone=standalone, **{"gate": False, **profile})


def settings_of(
    scheduler: str,
    config: Mapping[str, Any] | None = None,
    *,
    standalone: bool = True,
    kueue: Mapping[str, Any] | None = None,
    **profile: Any,
) -> Settings:
    """Settings with that scheduler as the default. `kueue` is the section of that name."""
    document = configuration_of({"name": scheduler, "config": dict(config or {}), **profile}, kueue=dict(kueue or {}))
    return settings_from_document(document, standalone=standalone)


def three_schedulers(default: str = "koord-scheduler", **koordinator: Any) -> Settings:
    """Settings with koord-scheduler, lpx-scheduler and default-scheduler, which makes gangs as Kubernetes 1.37 does.
    Keywords stand beside koord-scheduler's config.
    """
    profiles = [
        {"name": "koord-scheduler", "gate": False, **koordinator},
        {"name": "default-scheduler", "config": {"gangScheduling": True, "apiGeneration": "v1beta1"}},
        {"name": "lpx-scheduler"},
    ]
    return settings_from_document(configuration_of(*profiles, default=default), standalone=True)


def request(manifest: Manifest, old: Manifest | None = None, kind: Kind | None = None, *, user: str = "") -> Request:
    """A CREATE of `manifest`, or an UPDATE of `old`. Copies, because admission changes what it is given."""
    found = kind or (PCS if manifest.get("kind") in {None, PCS.kind} else kind_of(manifest))
    operation = "CREATE" if old is None else "UPDATE"
    return Request("test-uid", operation, found, "default", "demo", deepcopy(manifest), deepcopy(old), user=user)


def validate(
    manifest: Manifest,
    old: Manifest | None = None,
    *,
    settings: Settings | None = None,
    facts: ClusterFacts = NO_FACTS,
    user: str = "",
) -> Verdict:
    """The verdict on an object as it would be stored: mutated first, as in a cluster."""
    asked = request(manifest, old, user=user)
    chosen = settings or koordinator()
    admission.mutate(asked, facts, chosen)
    return admission.validate(asked, facts, chosen)


def rules(verdict: Verdict) -> list[str]:
    """The ids of what was found, in order."""
    return [finding.rule for finding in verdict.findings]


def gang_pod(**fields: Any) -> Manifest:
    """A pod as Grove's operator creates it for the PodClique demo-0-worker."""
    metadata: Manifest = {
        "generateName": "demo-0-worker-",
        "namespace": "default",
        "labels": {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "demo",
            "grove.io/podclique": "demo-0-worker",
            "grove.io/podgang": "demo-0",
            **fields.pop("labels", {}),
        },
    }
    if "annotations" in fields:
        metadata["annotations"] = fields.pop("annotations")
    spec = {
        "containers": [{"name": "main", "image": "example.com/main"}],
        "schedulerName": "default-scheduler",
        "hostname": "demo-0-worker-0",
        "subdomain": "demo-0",
        "schedulingGates": [{"name": "grove.io/podgang-pending-creation"}],
        **fields,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
