"""Gangs of one namespace by hand, and what the commands of `rollcall` and the events say of them."""

from __future__ import annotations

import json
from subprocess import CompletedProcess
from typing import Any

from tests.e2e.command import run_here
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.grove_operator import Played
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import clique, pod_clique_set
from webhook.cli.output import CLEAN


class Gangs:
    """Sets of one namespace, and what Rollcall says of their gangs."""

    def __init__(self, plane: ControlPlane, server: RollcallServer, namespace: str) -> None:
        self.plane = plane
        self.server = server
        self.namespace = namespace

    def create(self, name: str, *, cpu: str = "1", **fields: Any) -> Played:
        """Create a set of a leader and two workers with their pods, as Grove would."""
        without = fields.pop("without", None)
        gates = fields.pop("gates", False)
        workload = pod_clique_set(
            name, self.namespace, clique("leader", 1, cpu=cpu), clique("worker", 2, cpu=cpu), **fields
        )
        played = self.store(workload).create(without=without)
        if not gates:
            played.lift_gates()
        return played

    def store(self, workload: Manifest) -> Played:
        path = f"/apis/grove.io/v1alpha1/namespaces/{self.namespace}/podcliquesets"
        answer = self.plane.http.post(path, json=workload)
        assert answer.is_success, answer.text
        return Played(self.plane, answer.json())

    def run(self, *arguments: str) -> CompletedProcess[str]:
        """The command, as a user with the right to read everything."""
        return run_here(*arguments, f"--config={self.server.config}", f"--kubeconfig={self.plane.kubeconfig}")

    def ungate(self, *arguments: str) -> str:
        """The output of `rollcall gangs ungate`, which needs no configuration."""
        done = run_here("gangs", "ungate", *arguments, f"--kubeconfig={self.plane.kubeconfig}")
        assert done.returncode == CLEAN, done.stderr
        return done.stdout

    def said(self) -> dict[str, str]:
        """The state of each gang in `rollcall gangs`."""
        done = self.run("gangs", "-n", self.namespace, "-o", "json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)["gangs"]
        return {
            one["name"].removesuffix("-0"): one["reasons"][0]["reason"] if one["reasons"] else one["state"]
            for one in found
        }

    def events(self) -> dict[str, set[str]]:
        """The reasons of the Warning events on each PodGang."""
        found: dict[str, set[str]] = {}
        for event in self.plane.items(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"):
            if event["regarding"].get("kind") == "PodGang" and event["type"] == "Warning":
                found.setdefault(event["regarding"]["name"].removesuffix("-0"), set()).add(event["reason"])
        return found


def bind(plane: ControlPlane, pod: Manifest, node: str) -> None:
    """What a scheduler does, for one pod alone."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
    body = {"metadata": {"name": metadata["name"]}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    plane.http.post(path, json=body).raise_for_status()


def pod_groups(namespace: str) -> str:
    """The path of Koordinator's PodGroups."""
    return f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
