"""The rule that the JobSet exists that a Job names as its controller. Any author of a Job can write that reference."""

from __future__ import annotations

from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA
from webhook.model.findings import Finding, Unjudged
from webhook.model.keys import Needed, Record
from webhook.model.reading import Manifest
from webhook.model.workloads.facts import KnownWorkload
from webhook.model.workloads.kinds import JOB_SETS
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import OWNER_UID
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Context, Example, Results, Subject, rule

_KNOWN = ClusterFacts(job_sets={("default", "train"): KnownWorkload(Record("koord-scheduler"), uid=OWNER_UID)})


def _made_by(uid: str) -> Manifest:
    found = job()
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": uid}
    found["metadata"] |= {"name": "train-node-0", "ownerReferences": [{**reference, "controller": True}]}
    return found


@rule(
    "owner/foreign-job",
    subject=Subject.PART,
    membership=True,
    passes=Example(_made_by(OWNER_UID), facts=_KNOWN),
    fails=Example(_made_by("0b0e5f0e-2f0a-4f0b-8c1d-3f1f5e0d9a22"), facts=_KNOWN),
)
def foreign_job(part: OptedInWorkload, context: Context[Any]) -> Results:
    """A Job that names a JobSet as its controller is a part of that JobSet: no other rule judges the Job, and Rollcall
    makes no gang for it. Only the uid shows whether the named JobSet is the one that exists. The garbage collector
    deletes a Job whose controller does not exist, so a refusal loses no work. An unknown JobSet is read live before a
    Job is refused.

    Source: kubernetes, pkg/controller/garbagecollector (`isDangling`: an owner with another uid is absent).
    """
    controller = part.controller
    if controller is None:
        return
    at = METADATA / "ownerReferences"
    key = part.namespace, controller.name
    needed = Needed("job_sets", key)
    known = context.facts.job_sets
    if known is None or _of_another_version(context.facts):
        yield Unjudged(at, f"the {needed}", part=needed.part)
        return
    found = known.get(key)
    if found is None or found.uid not in {None, controller.uid}:
        lacking = "this JobSet does not exist" if found is None else f"the JobSet {controller.name} has another uid"
        yield Finding(
            at=at,
            found=controller.uid,
            why=f"{lacking}, so the garbage collector would delete the Job",
            remedy="remove the reference; the controller of a JobSet adds it to the Jobs that it creates",
            absent=needed,
        )


def _of_another_version(facts: ClusterFacts) -> bool:
    """Whether the cluster serves JobSets, but not in the version that Rollcall reads. No JobSet would be found then."""
    wanted = JOB_SETS.api
    served = {api for api in facts.apis or () if (api.group, api.kind) == (wanted.group, wanted.kind)}
    return bool(served) and wanted not in served
