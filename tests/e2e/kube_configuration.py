"""Rollcall's configuration for the gangs of kube-scheduler, which has no other profile."""

from __future__ import annotations

from tests.configurations import configuration_of
from tests.e2e.control_plane import Manifest

# The generation of the Workload API that each version of Kubernetes serves.
GENERATIONS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}


def configuration(**config: object) -> Manifest:
    """The configuration with these settings of the profile."""
    return configuration_of({"name": "default-scheduler", "config": {"gangScheduling": True, **config}})
