"""The objects of a PodCliqueSet as the operator of Grove's next generation writes them; for `grove_next_operator`."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from typing import Self

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.grove_client import Refused
from tests.e2e.grove_operator import Clique, Played, owner_reference
from tests.e2e.podgangmaps import Gang, first_entries, gangs_of, short


class NextObjects(Played):
    """What there is of one set: its PodGangMaps, and what follows from them."""

    def __init__(self, plane: ControlPlane, workload: Manifest) -> None:
        template = workload["spec"]["template"]
        self.maps: dict[int, list[Manifest]] = {
            replica: first_entries(template, time.time_ns(), generation_of(template))
            for replica in range(workload["spec"].get("replicas", 0))
        }
        # How many pods a PodClique of a replica has, or how many replicas a scaling group, where that was scaled.
        self.scaled: dict[tuple[int, str], int] = {}
        self.scaling_groups: dict[str, Manifest] = {}
        super().__init__(plane, workload)

    def given(self, *entries: Manifest, replica: int = 0) -> Self:
        """Go by these entries of a PodGangMap and not by those that a new set gets: several anchors, say, among which
        the pods of a PodClique are divided.
        """
        self.maps[replica] = list(entries)
        self.cliques = self.expected_cliques()
        return self

    @property
    def gangs(self) -> list[Gang]:
        """The PodGangs of its PodGangMaps."""
        return [gang for replica in self.maps for gang in self.gangs_of_replica(replica)]

    @property
    def podgangs(self) -> list[str]:
        return [gang.name for gang in self.gangs]

    def gangs_of_replica(self, replica: int) -> list[Gang]:
        """Those of one replica of the set."""
        return list(gangs_of(f"{self.name}-{replica}", self.maps[replica]))

    def expected_cliques(self) -> list[Clique]:
        return [clique for replica in self.maps for clique in self._cliques_of_replica(replica)]

    def _cliques_of_replica(self, replica: int) -> Iterator[Clique]:
        template, base = self.workload["spec"]["template"], f"{self.name}-{replica}"
        templates = {clique["name"]: clique for clique in template["cliques"]}
        groups = template.get("podCliqueScalingGroups") or []
        grouped = {member for group in groups for member in group["cliqueNames"]}
        gangs = self.gangs_of_replica(replica)
        for name in (name for name in templates if name not in grouped):
            # One without pods names the first anchor nevertheless.
            anchor = short(f"{base}-{self.maps[replica][0]['epoch']}")
            holder = next((gang.name for gang in gangs if name in gang.cliques), anchor)
            yield Clique(f"{base}-{name}", self._sized(templates[name], replica), holder, None, replica)
        for group in groups:
            full = f"{base}-{group['name']}"
            holders = {index: gang.name for gang in gangs for index in gang.groups.get(group["name"], [])}
            for index in sorted(holders):
                for one in group["cliqueNames"]:
                    yield Clique(f"{full}-{index}-{one}", templates[one], holders[index], None, replica, full, index)

    def _sized(self, template: Manifest, replica: int) -> Manifest:
        """The template of a PodClique with the number of pods that it was scaled to; its minimum stays."""
        count = template["spec"].get("replicas", 1)
        spec = {"minAvailable": count or 1, **template["spec"]}
        return {**template, "spec": {**spec, "replicas": self.scaled.get((replica, template["name"]), count)}}

    # what the objects look like

    def podgang_of(self, clique: Clique, index: int) -> str:
        """The pods of a PodClique that several entries have are divided in the order of these."""
        if clique.group is None:
            for gang in self.gangs_of_replica(clique.replica):
                index -= gang.cliques.get(short_name(clique), 0)
                if index < 0 and short_name(clique) in gang.cliques:
                    return gang.name
        return clique.podgang

    def environment(self, clique: Clique) -> list[Manifest]:
        return [*self.group_environment(clique), *self.clique_environment(clique)]

    def owner_of(self, clique: Clique) -> Manifest:
        """A PodClique of a scaling group has that as its owner."""
        return owner_reference(self.workload if clique.group is None else self.scaling_group(clique))

    def scaling_group(self, clique: Clique) -> Manifest:
        """The scaling group that a PodClique is of; it is created where it is not there."""
        full = str(clique.group)
        if full not in self.scaling_groups:
            try:
                self.scaling_groups[full] = self.get("podcliquescalinggroups", full)
            except Refused:
                self.scaling_groups[full] = self.post("podcliquescalinggroups", self._new_group(clique))
        return self.scaling_groups[full]

    def _new_group(self, clique: Clique) -> Manifest:
        base = f"{self.name}-{clique.replica}"
        group = self.group(str(clique.group).removeprefix(f"{base}-"))
        return self._owned_by_the_set(
            "PodCliqueScalingGroup",
            str(clique.group),
            clique.replica,
            "pcs-podcliquescalinggroup",
            {
                "cliqueNames": group["cliqueNames"],
                "replicas": self.scaled.get((clique.replica, group["name"]), group.get("replicas", 1)),
                "minAvailable": group.get("minAvailable", 1),
            },
        )

    def new_map(self, replica: int) -> Manifest:
        """A PodGangMap as it is first sent."""
        spec = {"podCliqueSetReplicaIndex": replica, "entries": self.maps[replica]}
        return self._owned_by_the_set("PodGangMap", f"{self.name}-{replica}", replica, "pcs-podgangmap", spec)

    def _owned_by_the_set(self, kind: str, name: str, replica: int, component: str, spec: Manifest) -> Manifest:
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {
                    "app.kubernetes.io/component": component,
                    "app.kubernetes.io/managed-by": "grove-operator",
                    "app.kubernetes.io/name": name,
                    "app.kubernetes.io/part-of": self.name,
                    "grove.io/podcliqueset-replica-index": str(replica),
                },
                "ownerReferences": [owner_reference(self.workload)],
            },
            "spec": spec,
        }

    def podgang_labels(self, name: str) -> Manifest:
        replica, gang = next(
            (one, gang) for one in self.maps for gang in self.gangs_of_replica(one) if gang.name == name
        )
        return {
            **super().podgang_labels(name),
            "grove.io/epoch": gang.entry["epoch"],
            "grove.io/podgang-role": gang.entry["role"],
            "grove.io/podcliqueset-generation-hash": gang.entry["podCliqueSetGenerationHash"],
            "grove.io/podcliqueset-replica-index": str(replica),
        }

    def pod_groups(self, podgang: str, pods: Sequence[Manifest]) -> list[Manifest]:
        gang = next(gang for gang in self.gangs if gang.name == podgang)
        return [
            {
                "name": clique.name,
                # Of a PodClique that several entries have, each needs no more than it holds.
                "minReplicas": min(clique.minimum, gang.cliques.get(short_name(clique), clique.minimum)),
                "podReferences": self.references(podgang, clique.name, pods),
            }
            for clique in self.cliques
            if self._holds(gang, clique)
        ]

    def _holds(self, gang: Gang, clique: Clique) -> bool:
        if clique.group is not None:
            return clique.podgang == gang.name
        return gang in self.gangs_of_replica(clique.replica) and short_name(clique) in gang.cliques

    def references(self, podgang: str, clique: str, pods: Sequence[Manifest]) -> list[Manifest]:
        """Those of the PodClique that the PodGang has, which its label says."""
        own = [pod for pod in pods if pod["metadata"]["labels"].get("grove.io/podgang") == podgang]
        return super().references(podgang, clique, own)

    def group(self, name: str) -> Manifest:
        """The template of a scaling group, empty if it is none."""
        groups = self.workload["spec"]["template"].get("podCliqueScalingGroups") or []
        return next((group for group in groups if group["name"] == name), {})


def short_name(clique: Clique) -> str:
    """The name of a PodClique in its set."""
    return str(clique.template["name"])


def generation_of(template: Manifest) -> str:
    """A hash of the template, which changes with it; the operator's own is opaque."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:20]
