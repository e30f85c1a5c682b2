"""Plays the operator of Grove's next generation (v0.1.0-alpha.12 and later), and its migration of living sets.

Written from what that operator was seen to send; a test compares. What it shares with the generation before is in
`grove_operator`. Left out: hashes of pod templates, PodClique statuses, topology, and updates that run two
generations of pods side by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from typing import Self

from tests.e2e.control_plane import Manifest
from tests.e2e.grove_client import Refused
from tests.e2e.grove_next_objects import NextObjects, generation_of, short_name
from tests.e2e.grove_operator import Clique, pod_index
from tests.e2e.podgangmaps import Gang, with_clique, with_group

MIGRATING = "PodGangMigrationInProgress"
_BASE = "grove.io/base-podgang"


class NextPlayed(NextObjects):
    """What was made of one set, and what the operator does with it from then on.

    `create()`, `lift_gates()`, `bound()`, `pods()` and the rest work as for the generation before. Further:

    * `migrate()` takes over a set that `Played` created: the operator was replaced under living gangs. `migration()`
      does the same one write at a time, for tests that have something happen in between; after any of them `migrate()`,
      or that of another player of the same set, does the rest.
    * `delete_pod(name)` deletes a pod and puts another one in its place, with the labels of today and without a gate.
    * `scale(name, replicas)` scales a scaling group, or a PodClique that is in none; zero too.
    * `roll(clique, image)` is a rolling update; in a scaling group that gives PodCliques new uids.
    * `given(*entries)`, before `create()`, has it begin with other entries than a new set gets.
    * `gangs` are its PodGangs with role, epoch and `depends_on`; `maps` the entries of its PodGangMaps by replica.

    `lift_gates()` frees the gangs whose anchor is scheduled and no others, so it is called again once the anchor is.
    """

    def create_podgangs(self) -> Self:
        """Create PodGangMaps, PodCliques and PodGangs; the PodGangs name no pods yet."""
        for replica in self.maps:
            self.post("podgangmaps", self.new_map(replica))
        super().create_podgangs()
        return self

    def startable(self) -> set[str]:
        """The PodGangs whose anchors are scheduled, and those that depend on none."""
        bound = [pod["metadata"]["labels"] for pod in self.pods() if pod["spec"].get("nodeName")]
        missing = {
            (replica, gang.entry["epoch"])
            for replica in self.maps
            for gang in self.gangs_of_replica(replica)
            if not self._scheduled(gang, bound)
        }
        return {
            gang.name
            for replica in self.maps
            for gang in self.gangs_of_replica(replica)
            if not missing & {(replica, epoch) for epoch in gang.depends_on}
        }

    def _scheduled(self, gang: Gang, bound: list[Manifest]) -> bool:
        there = [labels["grove.io/podclique"] for labels in bound if labels["grove.io/podgang"] == gang.name]
        return all(there.count(group["name"]) >= group["minReplicas"] for group in self.pod_groups(gang.name, ()))

    # the migration

    def migrate(self) -> Self:
        """Migrate a living set of the generation before, or what is left to migrate of it.

        The set is marked; then come the PodGangMaps; PodCliques and pods get the new names, running or not; the
        PodGangs of before are deleted, and only then those of now are created. The mark goes last.
        """
        for _ in self.migration():
            pass
        return self

    def migration(self) -> Iterator[str]:
        """The same, one write at a time: each is done when its name (`UPDATE pods demo-0-router-x7k2p`) is yielded."""
        written = len(self.sent)
        for _ in self._steps():
            for sent in self.sent[written:]:
                yield f"{sent.operation} {sent.resource} {sent.name}"
            written = len(self.sent)

    def _steps(self) -> Iterator[None]:
        self._mark(migrating=True)
        yield
        for replica in self.maps:
            self._find_or_write_map(replica)
            yield
        self.cliques = self.expected_cliques()
        yield from self._relabelled()
        yield from self._replaced_podgangs()
        self._mark(migrating=False)
        yield

    def _mark(self, *, migrating: bool) -> None:
        stored = self.get("podcliquesets", self.name).get("status", {}).get("conditions", [])
        conditions = [condition for condition in stored if condition["type"] != MIGRATING]
        if migrating:
            mark = {
                "type": MIGRATING,
                "status": "True",
                "reason": "LegacyPodGangsFound",
                "message": "PodGangs are being migrated to PodGangMaps",
                "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            conditions.append(mark)
        self.patch("podcliquesets/status", self.name, {"status": {"conditions": conditions}})

    def _find_or_write_map(self, replica: int) -> None:
        try:
            self.maps[replica] = self.get("podgangmaps", f"{self.name}-{replica}")["spec"]["entries"]
        except Refused:
            self.post("podgangmaps", self.new_map(replica))

    def _relabelled(self) -> Iterator[None]:
        """Give PodCliques, and after each its pods, the names of now."""
        by_name, pods = {clique.name: clique for clique in self.cliques}, self.items("pods", self.selector)
        for stored in self.items("podcliques", self.selector):
            clique = by_name[stored["metadata"]["name"]]
            self.took({"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", **stored})
            self._relabel("podcliques", stored, clique.podgang)
            yield
            for pod in pods:
                if pod["metadata"]["labels"]["grove.io/podclique"] == clique.name:
                    self._relabel("pods", pod, self.podgang_of(clique, pod_index(pod)))
                    yield

    def _relabel(self, resource: str, stored: Manifest, podgang: str) -> None:
        """Give a PodClique or a pod the name of its PodGang, if it has another one and is not being deleted."""
        metadata = stored["metadata"]
        labels = metadata["labels"]
        if "deletionTimestamp" not in metadata and (labels["grove.io/podgang"] != podgang or _BASE in labels):
            change = {"grove.io/podgang": podgang, **({_BASE: None} if _BASE in labels else {})}
            self.patch(resource, metadata["name"], {"metadata": {"labels": change}})

    def _replaced_podgangs(self) -> Iterator[None]:
        there = [stored["metadata"]["name"] for stored in self.items("podgangs", self.selector)]
        for name in there:
            if name not in self.podgangs:
                self.delete("podgangs", name)
                yield
        pods = self.pods()
        for name in self.podgangs:
            if name not in there:
                self.post("podgangs", self.new_podgang(name, pods))
                yield

    # a set that changes

    def scale(self, name: str, replicas: int, *, replica: int = 0) -> Self:
        """Scale a scaling group, or a PodClique that is in none, of one replica of the set."""
        entries, full = self.maps[replica], f"{self.name}-{replica}-{name}"
        self.scaled[replica, name] = replicas
        if group := self.group(name):
            minimum = group.get("minAvailable", 1)
            self.maps[replica] = with_group(entries, name, replicas, minimum, time.time_ns())
        else:
            self.maps[replica] = with_clique(entries, name, replicas, time.time_ns())
            self.patch("podcliques", full, {"spec": {"replicas": replicas}})
        self.cliques = self.expected_cliques()
        if group and any(clique.group == full for clique in self.cliques):
            self.scaling_group(next(clique for clique in self.cliques if clique.group == full))
        if full in self.scaling_groups:
            self.patch("podcliquescalinggroups", full, {"spec": {"replicas": replicas}})
        self._rewrite(replica)
        self.lift_gates()
        return self

    def _rewrite(self, replica: int) -> None:
        """Have what there should be and nothing else, in the operator's order: PodCliques, the PodGangMap, what goes,
        pods, PodGangs.
        """
        self._create_pod_cliques()
        self.patch("podgangmaps", f"{self.name}-{replica}", {"spec": {"entries": self.maps[replica]}})
        there = {stored["metadata"]["name"]: stored for stored in self.items("podgangs", self.selector)}
        for name in there.keys() - set(self.podgangs):
            self.delete("podgangs", name)
        self._delete_surplus()
        self._create_missing_pods()
        pods = self.pods()
        for name in self.podgangs:
            groups = self.pod_groups(name, pods)
            if name not in there:
                self.post("podgangs", self.new_podgang(name, pods))
            elif there[name]["spec"]["podgroups"] != groups:
                self.patch("podgangs", name, {"spec": {"podgroups": groups}})

    def _delete_surplus(self) -> None:
        by_name = {clique.name: clique for clique in self.cliques}
        for stored in self.items("podcliques", self.selector):
            name = stored["metadata"]["name"]
            if name not in by_name:
                self.delete("podcliques", name)
                self._pod_cliques.pop(name, None)
            else:
                self._relabel("podcliques", stored, by_name[name].podgang)
        for pod in self.pods():
            clique = by_name.get(pod["metadata"]["labels"]["grove.io/podclique"])
            if clique is None or pod_index(pod) >= clique.replicas:
                self.delete("pods", pod["metadata"]["name"])

    def _create_missing_pods(self) -> None:
        there = {pod["spec"]["hostname"] for pod in self.pods()}
        for clique in self.cliques:
            for index in range(clique.replicas):
                if f"{clique.name}-{index}" not in there:
                    self.create_pod(clique, index)

    def roll(self, name: str, image: str, after_each: Callable[[], object] = lambda: None) -> Self:
        """Change the image of a clique; epochs and names stay.

        Its pods are replaced one by one, the oldest first. In a scaling group a replica's PodCliques are deleted and
        recreated, the lowest index first. `after_each` is called after each of these, to wait until the new pods
        run, as the operator does.
        """
        template = deepcopy(self.workload["spec"]["template"])
        spec = next(clique["spec"]["podSpec"] for clique in template["cliques"] if clique["name"] == name)
        spec["containers"][0]["image"] = image
        self.workload = {**self.workload, "spec": {**self.workload["spec"], "template": template}}
        self.patch("podcliquesets", self.name, {"spec": {"template": template}})
        self._write_generation(generation_of(template))
        self.cliques = self.expected_cliques()
        for clique in [clique for clique in self.cliques if short_name(clique) == name]:
            if clique.group is not None:
                self._recreate_replica(clique)
                after_each()
                continue
            self.patch("podcliques", clique.name, {"spec": {"podSpec": spec}})
            for pod in sorted(self.items("pods", f"grove.io/podclique={clique.name}"), key=_age):
                self.delete_pod(pod["metadata"]["name"])
                after_each()
        return self

    def _recreate_replica(self, one: Clique) -> None:
        """Delete and create the PodCliques of a replica of a scaling group, and with them their pods."""
        own = {clique.name for clique in self.cliques if clique[-2:] == one[-2:]}
        for name in sorted(own):
            self.delete("podcliques", name)
            del self._pod_cliques[name]
        for pod in self.pods():
            if pod["metadata"]["labels"]["grove.io/podclique"] in own:
                self.delete("pods", pod["metadata"]["name"])
        self._create_pod_cliques()
        self._create_missing_pods()
        self.lift_gates()

    def _write_generation(self, generation: str) -> None:
        """Only the hash of maps and PodGangs changes."""
        for replica, entries in self.maps.items():
            self.maps[replica] = [{**entry, "podCliqueSetGenerationHash": generation} for entry in entries]
            self.patch("podgangmaps", f"{self.name}-{replica}", {"spec": {"entries": self.maps[replica]}})
        for name in self.podgangs:
            labels = {"grove.io/podcliqueset-generation-hash": generation}
            self.patch("podgangs", name, {"metadata": {"labels": labels}})


def _age(pod: Manifest) -> tuple[str, int]:
    return pod["metadata"]["creationTimestamp"], -pod_index(pod)
