"""Plays JobSet's controller: creates the Jobs of a stored JobSet and reports their state.

The pods are made by the real Job controller. Keys and order are those of JobSet v0.12; of its webhooks only the
defaults are played, and neither headless Services nor failure and success policies.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.pod_life import let_go
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import controller_reference, created, deleted, listed, patched, read, sha1, until_pods

API = "jobset.x-k8s.io/v1alpha2"
PREFIX = "jobset.sigs.k8s.io"
# A user writes them on the JobSet or on the template of a Job, and they go down to the pods as annotations only.
_HANDED_DOWN = ("alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector")
_CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
# The fields that are merged into the pod template of a suspended Job when the JobSet is resumed.
_MUTABLE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")


class Child(NamedTuple):
    """The place of one Job in its JobSet."""

    name: str
    replicated: Manifest
    job_index: int
    # Its place among all Jobs of the JobSet, and among those of its group.
    global_index: int
    group_index: int


def children(jobset: Manifest) -> list[Child]:
    """All Jobs that a JobSet is to have."""
    name = jobset["metadata"]["name"]
    made: list[Child] = []
    for replicated in jobset["spec"]["replicatedJobs"]:
        for index in range(replicated.get("replicas", 1)):
            siblings = sum(_group(other.replicated) == _group(replicated) for other in made)
            made.append(Child(f"{name}-{replicated['name']}-{index}", replicated, index, len(made), siblings))
    return made


def defaulted(jobset: Manifest) -> Manifest:
    """A JobSet as JobSet's defaulting webhook leaves it."""
    made = deepcopy(jobset)
    spec = made["spec"]
    # Also where `dependsOn` says otherwise.
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    spec.setdefault("successPolicy", {"operator": "All"})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for replicated in spec["replicatedJobs"]:
        job = replicated["template"].setdefault("spec", {})
        job.setdefault("completionMode", "Indexed")
        job["template"]["spec"].setdefault("restartPolicy", "OnFailure")
    return made


class JobSetController:
    """The controller for the JobSets of one namespace; a test calls it where it would have woken up."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace

    def sync(self, name: str) -> list[Manifest]:
        """Do what is due: create those Jobs that may be there by now, suspend or resume. The Jobs that it created."""
        jobset = read(self.plane, API, "JobSet", self.namespace, name)
        if jobset["spec"].get("managedBy", _CONTROLLER) != _CONTROLLER:
            return []
        made = [created(self.plane, job_of(jobset, child)) for child in self._due(jobset)]
        self._tell_status(jobset)
        return made

    def sync_until(self, name: str, replicated_job: str) -> list[Manifest]:
        """Do what is due until a replicatedJob has its Jobs: the Job controller reports ready pods a second late."""

        def started() -> list[Manifest]:
            self.sync(name)
            jobs = self.jobs(name, replicated_job)
            assert jobs, f"there are {[job['metadata']['name'] for job in self.jobs(name)]}"
            return jobs

        return eventually(started, f"the Jobs of {replicated_job} are created", pause=0.2)

    def restart(self, name: str) -> list[Manifest]:
        """Begin another attempt: the Jobs go with their pods, and new ones of the same names come. The new ones."""
        jobset, jobs = read(self.plane, API, "JobSet", self.namespace, name), self.jobs(name)
        attempt = jobset.get("status", {}).get("restarts", 0) + 1
        patched(self.plane, jobset, {"status": {"restarts": attempt}}, "/status")
        pods = listed(self.plane, "v1", "Pod", self.namespace, f"{PREFIX}/jobset-name={name}")
        for job in jobs:
            deleted(self.plane, job)
        let_go(self.plane, self.namespace, [pod["metadata"]["uid"] for pod in pods])
        eventually(lambda: not self.jobs(name), "the Jobs of the last attempt are gone")
        return self.sync(name)

    def jobs(self, name: str, replicated_job: str | None = None) -> list[Manifest]:
        """The Jobs of a JobSet as they are stored now."""
        selector = f"{PREFIX}/jobset-name={name}"
        if replicated_job is not None:
            selector += f",{PREFIX}/replicatedjob-name={replicated_job}"
        return listed(self.plane, "batch/v1", "Job", self.namespace, selector)

    def pods(self, name: str, count: int, replicated_job: str | None = None) -> list[Manifest]:
        """The pods of a JobSet, or of one of its replicatedJobs, once the Job controller has made so many."""
        selector = f"{PREFIX}/jobset-name={name}"
        if replicated_job is not None:
            selector += f",{PREFIX}/replicatedjob-name={replicated_job}"
        return until_pods(self.plane, self.namespace, selector, count)

    def _due(self, jobset: Manifest) -> Iterator[Child]:
        """The Jobs to be created, and on the way what is suspended or resumed."""
        name, spec = jobset["metadata"]["name"], jobset["spec"]
        suspended = spec.get("suspend", False)
        in_order = spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder"
        for replicated in spec["replicatedJobs"]:
            state = {one["name"]: one for one in self._states(jobset)}
            if not all(_reached(jobset, state, need) for need in replicated.get("dependsOn", ())):
                continue
            existing = {job["metadata"]["name"]: job for job in self.jobs(name, replicated["name"])}
            for child in children(jobset):
                if child.replicated is not replicated:
                    continue
                if child.name not in existing:
                    yield child
                elif existing[child.name]["spec"].get("suspend", False) != suspended:
                    self._suspend(existing[child.name], replicated, suspended)
            if in_order and not suspended and not _started(replicated, state[replicated["name"]]):
                return

    def _suspend(self, job: Manifest, replicated: Manifest, suspended: bool) -> None:
        body: Manifest = {"spec": {"suspend": suspended}}
        if not suspended:
            template = replicated["template"]["spec"]["template"]
            metadata = {key: template.get("metadata", {}).get(key, {}) for key in ("labels", "annotations")}
            kept = {key: template["spec"][key] for key in _MUTABLE_SPEC if key in template["spec"]}
            body["spec"]["template"] = {"metadata": metadata, "spec": kept}
        patched(self.plane, job, body)

    def _states(self, jobset: Manifest) -> list[Manifest]:
        """The state of each replicatedJob, from its status."""
        states = []
        for replicated in jobset["spec"]["replicatedJobs"]:
            told = {"name": replicated["name"], "active": 0, "ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
            for job in self.jobs(jobset["metadata"]["name"], replicated["name"]):
                for word in _counted_fields(job):
                    told[word] += 1
            states.append(told)
        return states

    def _tell_status(self, jobset: Manifest) -> None:
        states = self._states(jobset)
        if jobset.get("status", {}).get("replicatedJobsStatus") != states:
            patched(self.plane, jobset, {"status": {"replicatedJobsStatus": states}}, "/status")


def job_of(jobset: Manifest, child: Child) -> Manifest:
    """A Job as the controller creates it."""
    metadata, template = jobset["metadata"], deepcopy(child.replicated["template"])
    keys, spec = _keys(jobset, child), template["spec"]
    sources = (template.get("metadata", {}), metadata)
    handed = {
        key: source["annotations"][key]
        for source in sources
        for key in _HANDED_DOWN
        if key in source.get("annotations", {})
    }
    for place in (template, spec["template"]):
        labelled = place.setdefault("metadata", {})
        labelled["labels"] = {**labelled.get("labels", {}), **keys}
        labelled["annotations"] = {**labelled.get("annotations", {}), **keys, **handed}
    spec["suspend"] = jobset["spec"].get("suspend", False)
    if jobset["spec"].get("network", {}).get("enableDNSHostnames"):
        spec["template"]["spec"]["subdomain"] = jobset["spec"]["network"].get("subdomain", metadata["name"])
    named = {"name": child.name, "namespace": metadata["namespace"]}
    owned = {"ownerReferences": [controller_reference(jobset)]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**template["metadata"], **named, **owned},
        "spec": spec,
    }


def _keys(jobset: Manifest, child: Child) -> dict[str, str]:
    """The labels and annotations of a Job and of its pods."""
    metadata, every = jobset["metadata"], children(jobset)
    group = _group(child.replicated)
    keys = {
        "jobset-name": metadata["name"],
        "jobset-uid": metadata["uid"],
        "replicatedjob-name": child.replicated["name"],
        "replicatedjob-replicas": str(child.replicated.get("replicas", 1)),
        "job-index": str(child.job_index),
        "job-global-index": str(child.global_index),
        "global-replicas": str(len(every)),
        "group-name": group,
        "group-replicas": str(sum(_group(other.replicated) == group for other in every)),
        "job-group-index": str(child.group_index),
        "job-key": sha1(metadata["namespace"], child.name),
        "restart-attempt": str(jobset.get("status", {}).get("restarts", 0)),
    }
    if (coordinator := jobset["spec"].get("coordinator")) is not None:
        indexes = f"{coordinator.get('jobIndex', 0)}-{coordinator.get('podIndex', 0)}"
        host = f"{metadata['name']}-{coordinator['replicatedJob']}-{indexes}"
        keys["coordinator"] = f"{host}.{jobset['spec'].get('network', {}).get('subdomain', metadata['name'])}"
    return {f"{PREFIX}/{key}": value for key, value in keys.items()}


def _group(replicated: Manifest) -> str:
    return str(replicated.get("groupName", "default"))


def _counted_fields(job: Manifest) -> list[str]:
    """The status fields that count a Job."""
    spec, status = job["spec"], job.get("status", {})
    for condition in status.get("conditions", ()):
        if condition["status"] == "True" and condition["type"] in {"Complete", "Failed"}:
            return ["succeeded" if condition["type"] == "Complete" else "failed"]
    wanted = min(spec["parallelism"], spec.get("completions", spec["parallelism"]))
    told = ["ready"] if status.get("ready", 0) + status.get("succeeded", 0) >= wanted else []
    told += ["active"] if status.get("active", 0) else []
    return told + (["suspended"] if spec.get("suspend") else [])


def _started(replicated: Manifest, state: Manifest) -> bool:
    counted = state["ready"] + state["succeeded"] + state["failed"]
    return bool(counted == replicated.get("replicas", 1))


def _reached(jobset: Manifest, state: dict[str, Manifest], need: Manifest) -> bool:
    (earlier,) = (one for one in jobset["spec"]["replicatedJobs"] if one["name"] == need["name"])
    if need["status"] == "Complete":
        return bool(state[need["name"]]["succeeded"] == earlier.get("replicas", 1))
    return _started(earlier, state[need["name"]])
