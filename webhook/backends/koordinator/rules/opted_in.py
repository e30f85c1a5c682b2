"""Rules for TrainJobs, JobSets, LeaderWorkerSets and Jobs on koord-scheduler: their quota, and one setting."""

from __future__ import annotations

from webhook.backends import families
from webhook.backends.koordinator.keys import NAME, QUOTA_KEYS, QUOTA_KEYS_OF_PODS
from webhook.backends.koordinator.rules import workload as set_rules
from webhook.backends.koordinator.rules.quota import judge_quota
from webhook.backends.koordinator.rules.workload import judge_match_policy, share_faults
from webhook.backends.koordinator.settings import RuleContext
from webhook.backends.queue_families import opted_in_disagreement
from webhook.model.capabilities import QUOTA_LABEL
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import Quota
from webhook.model.reading import Manifest
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job, job_set, pod_template, replicated
from webhook.validators.opted_in_names import named
from webhook.validators.registry import Example, Results, Subject, rule

_QUOTAS = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False), "all-teams": Quota(is_parent=True)})


def _with_share(percent: str) -> Manifest:
    resources = {"requests": {"koordinator.sh/gpu": percent}}
    return job(template=pod_template({"containers": [{"name": "main", "image": "a", "resources": resources}]}))


@rule(
    "koordinator/owner-gpu-share",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(_with_share("50")),
    fails=Example(_with_share("150")),
)
def gpu_share(workload: OptedInWorkload, _: RuleContext) -> Results:
    """As for `koordinator/gpu-share`: koord-manager refuses pods that state shares of GPUs in other ways, if its gate
    ValidatePodDeviceResource is on.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/verify_device_resource.go, v1.8.0.
    """
    for part in workload.distinct_parts:
        yield from share_faults(part.template)


@rule(
    "koordinator/owner-quota",
    subject=Subject.OPTED_IN,
    passes=Example(job(labels={QUOTA_LABEL: "team-a"}), facts=_QUOTAS),
    fails=Example(job(labels={QUOTA_LABEL: "all-teams"}), facts=_QUOTAS),
)
def quota(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Koordinator charges a pod that names a missing quota to koordinator-default-quota, without a message. It refuses
    the creation of a pod that names a parent quota. A workload names its quota by Koordinator's label or by Grove's
    annotation scheduling.grove.io/koordinator-quota. Rollcall writes the label on its pods.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/elasticquota/plugin_helper.go,
    pkg/webhook/elasticquota/pod_check.go.
    """
    for use in named(workload, QUOTA_KEYS, QUOTA_KEYS_OF_PODS):
        yield from judge_quota(use.value, use.path, context)


quota_disagree = opted_in_disagreement(
    "koordinator/owner-quota-disagree",
    """A gang with two quotas starts only when both have room at the same moment. The quota that the workload names
    replaces the quota of its pods.

    Source: koordinator-sh/koordinator checks quotas pod by pod in PreFilter
    (pkg/scheduler/plugins/elasticquota/plugin.go).
    """,
    scheduler=NAME,
    key=("labels", QUOTA_LABEL),
    keys=lambda _: QUOTA_KEYS,
    of_pods=lambda _: QUOTA_KEYS_OF_PODS,
    remedy=lambda _: f"name one quota, preferably in the label {QUOTA_LABEL} of the workload",
    what="quota",
    passes=Example(job_set(replicated("node", template=pod_template(labels={QUOTA_LABEL: "team-a"})))),
)


@rule(
    "koordinator/owner-only-waiting",
    subject=Subject.OPTED_IN,
    passes=Example(job(), config={"matchPolicy": "waiting-and-running"}),
    fails=Example(job(), config={"matchPolicy": "only-waiting"}),
)
def only_waiting(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Under only-waiting, bound pods do not count. A replacement pod that waits alone never reaches its gang's minimum
    and never binds. The Job controller replaces single pods.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`isGangValidForPermit`).
    """
    if not isinstance(workload, MadeJobSet):
        yield from judge_match_policy(context, "a pod that is replaced alone")


resource_claims = families.opted_in_resource_claims(
    "koordinator/owner-resource-claims", set_rules.resource_claims.documentation, scheduler=NAME
)
