"""The ElasticQuota of a gang: all cliques use one quota, which exists and is a leaf.

A PodCliqueSet names its quota by the annotation scheduling.grove.io/koordinator-quota on itself or on its cliques
(GREP-537's later revision). A clique can also use Koordinator's own pod label. Source of the behaviour:
koordinator-sh/koordinator, pkg/scheduler/plugins/elasticquota, pkg/webhook/elasticquota.
"""

from __future__ import annotations

import re

from webhook.backends.koordinator.facts import quotas_of_namespace
from webhook.backends.koordinator.keys import BUILT_IN_QUOTAS, QUOTA_KEYS, QUOTA_KEYS_OF_PODS, ROOT_QUOTA
from webhook.backends.koordinator.settings import RuleContext
from webhook.model.capabilities import QUOTA_ANNOTATION, QUOTA_LABEL, Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import PodGangFacts, Quota
from webhook.model.record import recorded_quota
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.membership import moved
from webhook.validators.opted_in_names import first_named
from webhook.validators.pod_guard import HasLabel, sees
from webhook.validators.registry import Change, Example, Results, Subject, rule

# The limit of Kubernetes for a label value; the name of an ElasticQuota may be longer.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")

_QUOTAS = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False), "all-teams": Quota(is_parent=True)})


def _asking(quota: str) -> dict[str, str]:
    return {QUOTA_ANNOTATION: quota}


@rule(
    "koordinator/quota",
    capability=Capability.QUOTA,
    passes=Example(pod_clique_set(annotations=_asking("team-a")), facts=_QUOTAS),
    fails=Example(pod_clique_set(annotations=_asking("team-b")), facts=_QUOTAS),
)
def quota(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Koordinator charges a pod that names a missing quota to koordinator-default-quota, without a message. It refuses
    the creation of a pod that names a parent quota.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/elasticquota/plugin_helper.go,
    pkg/webhook/elasticquota/pod_check.go.
    """
    for use in context.uses[Capability.QUOTA]:
        yield from judge_quota(use.value, use.path, context)


@rule(
    "koordinator/pod-quota",
    subject=Subject.POD,
    guard=sees(HasLabel(QUOTA_LABEL)),
    looks_at=(QUOTA_LABEL,),
    passes=Example(pod_clique_set(), facts=_QUOTAS),
    fails=Example(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "demo-0-worker-",
                "labels": {
                    "app.kubernetes.io/managed-by": "grove-operator",
                    "app.kubernetes.io/part-of": "demo",
                    "grove.io/podgang": "demo-0",
                    "grove.io/podclique": "demo-0-worker",
                    QUOTA_LABEL: "all-teams",
                },
            },
            "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
        },
        facts=_QUOTAS,
    ),
)
def pod_quota(pod: PodTemplate, context: RuleContext) -> Results:
    """The check of koordinator/quota for a pod, if its set bypassed the webhook or if its quota has become a parent
    since. A missing quota is not a reason to refuse a pod, because the known facts may be older than the cluster.

    Source: as for koordinator/quota.
    """
    if context.workload is None and QUOTA_LABEL in pod.labels:
        for result in judge_quota(pod.labels[QUOTA_LABEL], pod.labels_path / QUOTA_LABEL, context):
            if isinstance(result, Unjudged) or result.absent is None:
                yield result


@rule(
    "koordinator/quota-disagree",
    capability=Capability.QUOTA,
    passes=Example(pod_clique_set(clique("worker", annotations=_asking("team-a")), annotations=_asking("team-a"))),
    fails=Example(pod_clique_set(clique("worker", annotations=_asking("team-b")), annotations=_asking("team-a"))),
)
def quota_disagree(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A gang with two quotas starts only when both have room at the same moment. One quota may hold its room until the
    timeout of the other.

    Source: koordinator-sh/koordinator checks quotas pod by pod in PreFilter
    (pkg/scheduler/plugins/elasticquota/plugin.go).
    """
    # First the PodCliqueSet's own, then by clique name, so that reordering the cliques moves no finding.
    uses = sorted(context.uses[Capability.QUOTA], key=lambda use: use.path.anchor)
    for use in uses[1:]:
        if use.value != uses[0].value:
            yield Finding(
                at=use.path,
                found=use.value,
                why=f"all pods of a set need one quota, and {uses[0].path} is {uses[0].value}",
                remedy=f"name one quota, preferably in the annotation {QUOTA_ANNOTATION} of the set",
            )


_OWN = ClusterFacts(elastic_quotas={"default": Quota(is_parent=False, namespace="default")})
_OWN_PARENT = ClusterFacts(elastic_quotas={"default": Quota(is_parent=True, namespace="default")})
_BY_NAMESPACE = {"disableDefaultQuota": False}


@rule(
    "koordinator/namespace-quota",
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(pod_clique_set(), config=_BY_NAMESPACE, facts=_OWN),
    fails=Example(pod_clique_set(), config=_BY_NAMESPACE, facts=_OWN_PARENT),
)
def namespace_quota(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> Results:
    """Pods that name no quota get the ElasticQuota with the name of their namespace, or one that lists the namespace.
    Koordinator refuses the creation of their pods if that is a parent. The feature gate DisableDefaultQuota, which the
    profile's disableDefaultQuota states, turns this off.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/elasticquota/plugin_helper.go,
    pkg/webhook/elasticquota/pod_check.go, v1.8.0.
    """
    quotas, disabled = context.facts.elastic_quotas, context.settings.disableDefaultQuota
    if not quotas or disabled is True or _names_quota(workload, context):
        return
    found = quotas_of_namespace(workload.namespace, quotas)
    if not found or not all(quotas[name].is_parent for name in found):
        return
    of_set = isinstance(workload, PodCliqueSet)
    at = ANNOTATIONS / QUOTA_ANNOTATION if of_set else LABELS / QUOTA_LABEL
    if found != [workload.namespace] and not context.facts.is_whole("elastic_quotas"):
        # One with the name of the namespace comes before those that list it.
        yield Unjudged(at, "the ElasticQuotas", part="elastic_quotas")
        return
    if disabled is None:
        yield Unjudged(
            at,
            f"the gate DisableDefaultQuota, by which pods get the parent quota {shown(min(found))} of their namespace,",
            remedy="state disableDefaultQuota in the profile's config, or name a quota",
        )
        return
    yield Finding(
        at=at,
        found=None,
        why=f"the namespace gives its pods the quota {shown(min(found))}, which is a parent and takes none",
        remedy="name one of its children",
    )


def _names_quota(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> bool:
    if isinstance(workload, PodCliqueSet):
        return bool(context.uses.get(Capability.QUOTA))
    return first_named(workload, QUOTA_KEYS, QUOTA_KEYS_OF_PODS) is not None


_LIVING = ClusterFacts(
    elastic_quotas={"team-a": Quota(is_parent=False), "team-b": Quota(is_parent=False)},
    pod_gangs={("default", "demo-0"): PodGangFacts(workload="demo")},
)


@rule(
    "koordinator/quota-change",
    subject=Subject.CHANGE,
    passes=Example(
        pod_clique_set(annotations=_asking("team-a")), old=pod_clique_set(annotations=_asking("team-a")), facts=_LIVING
    ),
    fails=Example(
        pod_clique_set(annotations=_asking("team-b")), old=pod_clique_set(annotations=_asking("team-a")), facts=_LIVING
    ),
)
def quota_change(change: Change, context: RuleContext) -> Results:
    """If the quota of an existing gang changes, its old pods stay charged to the old quota and replacements are charged
    to the new one.

    Source: GREP-537's later revision makes the quota immutable; Koordinator never re-reads the label of a bound pod.
    """
    before, now = recorded_quota(change.old), recorded_quota(change.new)
    if before == now:
        return
    uses = context.uses.get(Capability.QUOTA)
    use = Use(uses[0].path if uses else ANNOTATIONS / QUOTA_ANNOTATION, now)
    yield from moved(
        change, context, use, f"the pods of its gangs are charged to {before or 'no named quota'}", "quota"
    )


def judge_quota(name: object, path: FieldPath, context: RuleContext) -> Results:
    """The problems of a quota that is named at `path`."""
    quotas = context.facts.elastic_quotas
    if name in BUILT_IN_QUOTAS:
        return
    if name and not _LABEL_VALUE.match(str(name)):
        yield Finding(
            at=path,
            found=name,
            why=f"it becomes the value of the pod label {QUOTA_LABEL} but is not a valid value, "
            "so no pod could be created",
            remedy="name an ElasticQuota of at most 63 letters, digits, dots and dashes",
        )
        return
    if quotas is None and name != ROOT_QUOTA:
        yield Unjudged(path, "the ElasticQuotas", part="elastic_quotas")
        return
    found = Quota(is_parent=True) if name == ROOT_QUOTA or quotas is None else quotas.get(str(name))
    if found is None:
        yield Finding(
            at=path,
            found=name,
            why="no ElasticQuota has that name, so the pods would count against koordinator-default-quota",
            remedy="name an ElasticQuota that exists, or create it first",
            absent=Needed("elastic_quotas", str(name)),
        )
    elif found.is_parent:
        yield Finding(
            at=path,
            found=name,
            why="it is a parent quota, and Koordinator admits pods only to a leaf",
            remedy="name one of its children",
        )
