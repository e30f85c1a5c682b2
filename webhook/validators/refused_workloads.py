"""Rules about what the schema, webhook or controller of a workload's own kind refuses. In a cluster that component
reports it; for a file on the command line nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from webhook.model.fields import ANNOTATIONS, METADATA, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import LABEL_VALUE_LIMIT, is_domain_prefixed_path, is_label, is_service_name, is_subdomain
from webhook.model.reading import is_unrendered, plain_object, text
from webhook.validators.examples import job
from webhook.validators.refused_ray import refused_by_kuberay
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.trainjob import TrainerJobSet

_INT32 = 2**31 - 1
# The API server adds five characters to the first 58 of generateName.
_GENERATED, _ADDED = 58, "xxxxx"
# What a label leaves for a name before the hash of a revision.
_MOST_OF_REVISION = LABEL_VALUE_LIMIT - len("-4294967295")
_POD_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_PERCENT = re.compile(r"0*(?:100|[0-9]{1,2})%")
# The kinds whose pod templates are whole, by group. Spark, for one, fills in the containers.
_WHOLE_TEMPLATES = frozenset(
    {"apps", "batch", "batch.volcano.sh", "jobset.x-k8s.io", "kubeflow.org", "leaderworkerset.x-k8s.io", "ray.io"}
)


@rule(
    "owner/refused",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job(completionMode="Indexed")),
    fails=Example(job(completionMode="Indexed", completions=None)),
)
def refused(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """What the kind's own schema, webhook or controller refuses never runs. In a file nothing else says so.

    Source: kubernetes, pkg/apis/batch/validation, pkg/controller/statefulset, pkg/controller/history (v1.37); jobset,
    pkg/webhooks/jobset_webhook.go (v0.12); lws, pkg/webhooks/leaderworkerset_webhook.go (v0.9); trainer,
    pkg/apis/trainer/v1alpha1 (v2.2); training-operator, pkg/webhooks/pytorch (v1.9); mpi-operator,
    pkg/apis/kubeflow/validation and v2beta1/default.go (v0.8); kuberay, controllers/ray/utils/validation.go (v1.6);
    spark-operator, internal/webhook/sparkapplication_validator.go (v2.5).
    """
    api = workload.resource.api
    if (check := _CHECKS.get((api.group, api.kind))) is not None:
        yield from check(workload)
    if api.group in _WHOLE_TEMPLATES and not isinstance(workload, TrainerJobSet):
        for part in workload.distinct_parts:
            spec = part.template.spec
            if "containers" in spec and not spec["containers"]:
                at = part.place / "spec" / "containers"
                yield Finding(at, spec["containers"], "a pod without a container is refused", "add the container")


# --- names


def _longest_name(workload: OptedInWorkload) -> tuple[FieldPath, str]:
    """Returns the field that states the workload's name, and the name that it has, or a name of the same length; an
    empty one if it is not rendered yet.
    """
    field = "name" if text(workload.metadata.get("name")) else "generateName"
    if not workload.name or is_unrendered(workload.name):
        return METADATA / field, ""
    return METADATA / field, workload.name if field == "name" else workload.name[:_GENERATED] + _ADDED


def _unfit_name(
    workload: OptedInWorkload,
    system: str,
    suffix: str = "",
    *,
    limit: int = LABEL_VALUE_LIMIT,
    at_most: Action = Action.DENY,
) -> Results:
    """Yields one finding if the workload's name, with `suffix` behind it, is no name of a Service, or has more than
    `limit` characters.
    """
    at, name = _longest_name(workload)
    if not name:
        return
    stated, whole = workload.name, name + suffix
    what = f"{shown(whole)}, which is made of it," if suffix else "it"
    if len(whole) > limit:
        why = f"{what} has {len(whole)} characters, and {system} allows {limit}"
        yield Finding(at, stated, why, f"shorten it by {len(whole) - limit}", at_most=at_most)
    elif not is_service_name(whole):
        why = f"{system} refuses a name that does not begin with a letter, or is no DNS label"
        remedy = "begin with a letter, and use only lowercase letters, digits and dashes"
        yield Finding(at, stated, why, remedy, at_most=at_most)


def _revision_label(workload: OptedInWorkload, suffix: str = "") -> Results:
    """Yields one finding if a StatefulSet of the workload's name, with `suffix` behind it, has too long a name for its
    pods: each has a label of that name, a dash, and a hash of up to ten digits.
    """
    at, name = _longest_name(workload)
    over = len(name) + len(suffix) - _MOST_OF_REVISION
    if 0 < over <= LABEL_VALUE_LIMIT - _MOST_OF_REVISION:
        why = (
            f"above {_MOST_OF_REVISION} characters the API server refuses the pods of a StatefulSet if the hash of its "
            "revision is long: both are in one label"
        )
        yield Finding(at, workload.name, why, f"shorten it by {over}", at_most=Action.WARN)


# --- Job and JobSet


_INDEXED, _MODES = "Indexed", ("Indexed", "NonIndexed")
_RESTARTS_OF_JOBS = ("Never", "OnFailure")
_NOT_NEGATIVE = ("activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_OF_INDEXES = ("backoffLimitPerIndex", "maxFailedIndexes")
_MOST_INDEXED = 100_000


def _job_spec(spec: Mapping[str, Any], path: FieldPath, *, restarts: str = "", mode: str = "NonIndexed") -> Results:
    """Yields what the API server refuses in the spec of a Job. `restarts` and `mode` hold where it states none."""
    yield from _restart_policy(spec, path / "template" / "spec" / "restartPolicy", restarts)
    mode = _value_or(spec.get("completionMode"), mode)
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    if mode not in _MODES:
        why = "the API server refuses a Job with such a mode"
        yield Finding(path / "completionMode", mode, why, "set Indexed or NonIndexed", instead=_MODES)
    elif mode == _INDEXED:
        if completions is None and parallelism is not None:
            why = "the API server refuses an Indexed Job without completions"
            yield Finding(path / "completions", None, why, "set completions", instead=(parallelism,))
        if type(parallelism) is int and parallelism > _MOST_INDEXED:
            why = f"the API server refuses an Indexed Job with more than {_MOST_INDEXED} pods at a time"
            yield Finding(path / "parallelism", parallelism, why, "lower it")
    for field in (*_OF_INDEXES, "successPolicy") if mode == "NonIndexed" else ():
        if spec.get(field) is not None:
            why = "the API server refuses it in a Job whose mode is not Indexed"
            yield Finding(path / field, spec[field], why, "set completionMode: Indexed, or remove it")
    for field in _NOT_NEGATIVE + _OF_INDEXES:
        if type(value := spec.get(field)) is int and value < 0:
            yield Finding(path / field, value, "the API server refuses a negative number", "set 0 or more")
    most = spec.get("maxFailedIndexes")
    if most is not None and spec.get("backoffLimitPerIndex") is None:
        why = "the API server refuses maxFailedIndexes without it"
        yield Finding(path / "backoffLimitPerIndex", None, why, "set it, or remove maxFailedIndexes", instead=(0,))
    if type(most) is int and type(completions) is int and most > completions and mode == _INDEXED:
        why = f"the API server refuses more than the completions, {completions}"
        yield Finding(path / "maxFailedIndexes", most, why, "lower it", instead=(completions,))
    if isinstance(policy := spec.get("podFailurePolicy"), dict):
        yield from _pod_failure_policy(policy, spec, path)
    if isinstance(policy := spec.get("successPolicy"), dict) and mode == _INDEXED:
        yield from _success_policy(policy, completions, path / "successPolicy" / "rules")


def _restart_policy(spec: Mapping[str, Any], at: FieldPath, default: str) -> Results:
    pod = plain_object(spec.get("template")).get("spec")
    policy = plain_object(pod).get("restartPolicy") or default
    if policy == "Always" or (not policy and isinstance(pod, dict)):
        why = "the API server refuses a Job whose pods always restart"
        if not policy:
            why += ", as they do where nothing is written"
        yield Finding(at, policy or None, why, "set Never or OnFailure", instead=("Never",))
    elif policy and policy not in _RESTARTS_OF_JOBS:
        why = "the API server refuses a Job whose pods have such a policy"
        yield Finding(at, policy, why, "set Never or OnFailure", instead=_RESTARTS_OF_JOBS)
    elif policy == "OnFailure" and spec.get("podFailurePolicy") is not None:
        why = "the API server refuses podFailurePolicy unless it is Never"
        yield Finding(at, policy, why, "set Never, or remove podFailurePolicy", instead=("Never",))


def _pod_failure_policy(policy: Mapping[str, Any], spec: Mapping[str, Any], path: FieldPath) -> Results:
    replacement, rules = spec.get("podReplacementPolicy"), policy.get("rules")
    if replacement not in (None, "Failed"):
        why = "the API server refuses another value beside podFailurePolicy"
        yield Finding(path / "podReplacementPolicy", replacement, why, "set Failed", instead=("Failed",))
    for index, raw in enumerate(rules if isinstance(rules, list) else ()):
        pod_rule, at = plain_object(raw), path / "podFailurePolicy" / "rules" / Item(index)
        action = pod_rule.get("action")
        if action not in _POD_ACTIONS:
            remedy = f"set one of {', '.join(_POD_ACTIONS)}"
            yield Finding(at / "action", action, "the API server refuses a rule without such an action", remedy)
        elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            why = "the API server refuses this action without backoffLimitPerIndex"
            yield Finding(at / "action", action, why, "set backoffLimitPerIndex, or name another action")
        if (pod_rule.get("onExitCodes") is None) is not bool(pod_rule.get("onPodConditions")):
            why = "the API server refuses a rule unless it has either onExitCodes or onPodConditions"
            yield Finding(at, action, why, "keep one of the two" if pod_rule.get("onPodConditions") else "add one")


def _success_policy(policy: Mapping[str, Any], completions: Any, path: FieldPath) -> Results:
    rules = policy.get("rules")
    if not rules:
        yield Finding(path, None, "the API server refuses a successPolicy without rules", "add one")
    for index, raw in enumerate(rules if isinstance(rules, list) else ()):
        success, at = plain_object(raw), path / Item(index)
        count = success.get("succeededCount")
        if count is None and success.get("succeededIndexes") is None:
            why = "the API server refuses a rule that says neither how many nor which indexes"
            yield Finding(at / "succeededCount", None, why, "set succeededCount or succeededIndexes")
        elif type(count) is int and type(completions) is int and not 0 <= count <= completions:
            why = f"the API server refuses a number that is not from 0 to the completions, {completions}"
            yield Finding(at / "succeededCount", count, why, "correct it", instead=(completions,))


def _job_faults(workload: OptedInWorkload) -> Results:
    return _job_spec(workload.spec, SPEC)


def _job_set_faults(job_set: OptedInWorkload) -> Results:
    if not isinstance(job_set, JobSet):
        return
    yield from _names_of_jobs(job_set)
    if isinstance(job_set, TrainerJobSet):
        return
    yield from _target_names(job_set)
    yield from _coordinator(job_set)
    yield from _failure_rules(job_set)
    yield from _gated_restarts(job_set)
    yield from _claims(job_set)
    manager = job_set.spec.get("managedBy")
    if isinstance(manager, str) and not is_domain_prefixed_path(manager):
        why = f"JobSet refuses the name of a controller without a domain, or above {LABEL_VALUE_LIMIT} characters"
        yield Finding(SPEC / "managedBy", manager, why, "write DOMAIN/NAME, or remove it")
    subdomain = plain_object(job_set.spec.get("network")).get("subdomain")
    if isinstance(subdomain, str) and subdomain and not is_service_name(subdomain):
        why = "JobSet makes a Service of this name, and refuses one that is no DNS label or begins with no letter"
        yield Finding(SPEC / "network" / "subdomain", subdomain, why, "use at most 63 of a-z, 0-9 and -")
    names: set[str] = set()
    for index, part in enumerate(job_set.parts):
        if part.name in names:
            why = "the schema of JobSet refuses two replicated Jobs of one name"
            yield Finding(part.path / "name", part.name, why, "rename one")
        names.add(part.name)
        raw = job_set.spec["replicatedJobs"][index]
        if job_set.starts_in_order and raw.get("dependsOn") is not None:
            why = "the schema of JobSet refuses dependsOn beside the startup policy InOrder"
            yield Finding(part.path / "dependsOn", part.after[0] if part.after else None, why, "remove one of the two")
        if isinstance(group := raw.get("groupName"), str) and group and not is_service_name(group):
            why = "JobSet refuses a group whose name is no DNS label, or begins with no letter"
            yield Finding(part.path / "groupName", group, why, "use at most 63 lowercase letters, digits and dashes")
        # What JobSet's webhook writes into them. It does not judge them: the API server refuses each Job.
        at = part.path / "template" / "spec"
        yield from _job_spec(job_set.job_spec(index), at, restarts="OnFailure", mode=_INDEXED)
        if part.pods > _INT32:
            why = f"JobSet refuses replicas times parallelism above {_INT32}"
            yield Finding(part.path / "replicas", part.pods, why, "lower it")


def _names_of_jobs(job_set: JobSet) -> Results:
    """Yields the longest names of Jobs and pods, of which one fault is reported."""
    if any(is_unrendered(part.name) for part in job_set.parts):
        return
    suffixes = []
    for index, part in enumerate(job_set.parts):
        # JobSet names the last Job and the last pod by their number less one, also where that is -1.
        replicas = _value_or(job_set.spec["replicatedJobs"][index].get("replicas"), 1)
        name = f"-{part.name}-{replicas - 1 if type(replicas) is int else 0}"
        suffixes.append(name)
        spec = job_set.job_spec(index)
        completions = spec.get("completions")
        # Without a mode, JobSet's webhook writes Indexed.
        if spec.get("completionMode") in {None, _INDEXED} and type(completions) is int:
            suffixes.append(f"{name}-{completions - 1}-{_ADDED}")
        if part.name and not is_label(part.name):
            why = "JobSet refuses a replicated Job whose name is no DNS label, as its Jobs are named after it"
            yield Finding(part.path / "name", part.name, why, "use lowercase letters, digits and dashes")
            return
    yield from _unfit_name(job_set, "JobSet", max(suffixes, key=len, default=""))


def _target_names(job_set: JobSet) -> Results:
    names = {part.name for part in job_set.parts}
    if any(map(is_unrendered, names)):
        return
    policies = [("successPolicy", plain_object(job_set.spec.get("successPolicy")), SPEC / "successPolicy")]
    rules = plain_object(job_set.spec.get("failurePolicy")).get("rules")
    for index, raw in enumerate(rules if isinstance(rules, list) else ()):
        policies.append(("failurePolicy", plain_object(raw), SPEC / "failurePolicy" / "rules" / Item(index)))
    for called, policy, path in policies:
        targets = policy.get("targetReplicatedJobs")
        for index, name in enumerate(targets if isinstance(targets, list) else ()):
            if not isinstance(name, str) or name not in names:
                why = f"JobSet refuses a {called} that names a replicated Job which does not exist"
                yield Finding(
                    path / "targetReplicatedJobs" / Item(index), name, why, "name a replicated Job of the JobSet"
                )


def _coordinator(job_set: JobSet) -> Results:
    raw = job_set.spec.get("coordinator")
    if not isinstance(raw, dict):
        return
    path = SPEC / "coordinator"
    place = next((n for n, part in enumerate(job_set.parts) if part.name == raw.get("replicatedJob")), None)
    if place is None:
        if any(is_unrendered(part.name) for part in job_set.parts):
            return
        why = "JobSet refuses a coordinator in a replicated Job that does not exist"
        yield Finding(path / "replicatedJob", raw.get("replicatedJob"), why, "name a replicated Job of the JobSet")
        return
    part, spec = job_set.parts[place], job_set.job_spec(place)
    completions = spec.get("completions")
    if spec.get("completionMode") not in {None, "Indexed"} or type(completions) is not int:
        why = "JobSet refuses a coordinator in Jobs that are not Indexed, or have no completions"
        at = part.path / "template" / "spec" / "completions"
        yield Finding(at, completions, why, "set completionMode: Indexed, and completions")
        return
    replicas = part.pods // part.each if part.each > 0 else None
    for field, most in (("jobIndex", replicas), ("podIndex", completions)):
        index = raw.get(field) or 0
        if most is not None and type(index) is int and not 0 <= index < most:
            why = f"JobSet refuses a coordinator with this index: there are {most}"
            remedy = f"set 0 to {most - 1}" if most > 0 else "let the replicated Job have some"
            yield Finding(path / field, index, why, remedy, instead=(0,) if most > 0 else ())
    # JobSet writes the address of the coordinator into a label of each pod.
    at, name = _longest_name(job_set)
    subdomain = plain_object(job_set.spec.get("network")).get("subdomain") or name
    address = f"{name}-{part.name}-{raw.get('jobIndex') or 0}-{raw.get('podIndex') or 0}.{subdomain}"
    if name and (over := len(address) - LABEL_VALUE_LIMIT) > 0:
        why = f"JobSet refuses the address of the coordinator, {shown(address)}: it is too long for a label"
        yield Finding(at, job_set.name, why, f"shorten the names, or the subdomain, by {over}")


def _claims(job_set: JobSet) -> Results:
    """Yields the volumes that JobSet makes: each has a name of its own, and a container mounts it."""
    policies = job_set.spec.get("volumeClaimPolicies")
    names: set[str] = set()
    for index, policy in enumerate(policies if isinstance(policies, list) else ()):
        templates = plain_object(policy).get("templates")
        for place, template in enumerate(templates if isinstance(templates, list) else ()):
            at = SPEC / "volumeClaimPolicies" / Item(index) / "templates" / Item(place) / "metadata" / "name"
            name = plain_object(plain_object(template).get("metadata")).get("name")
            if not isinstance(name, str) or not is_subdomain(name):
                why = "JobSet refuses a template that has no name, or one that no PersistentVolumeClaim can have"
                yield Finding(at, name, why, "name it with lowercase letters, digits and dashes")
                continue
            if name in names:
                yield Finding(at, name, "JobSet refuses two templates of one name", "rename one")
            names.add(name)
            over = len(name) + len("-") + len(_longest_name(job_set)[1]) - LABEL_VALUE_LIMIT
            if over > 0:
                why = f"JobSet refuses a claim if this and its own name have more than {LABEL_VALUE_LIMIT} characters"
                yield Finding(at, name, why, f"shorten one of them by {over}")
            specs = [part.template.spec for part in job_set.parts]
            if any(name in _names(spec.get("volumes")) for spec in specs):
                why = "JobSet refuses a template with the name of a volume of the pods"
                yield Finding(at, name, why, "rename one of the two")
            containers = [
                plain_object(container)
                for spec in specs
                for key in ("containers", "initContainers")
                for container in (spec.get(key) or ())
            ]
            if not any(name in _names(container.get("volumeMounts")) for container in containers):
                yield Finding(at, name, "JobSet refuses a template that no container mounts", "mount it, or remove it")


def _names(items: Any) -> set[Any]:
    return {plain_object(item).get("name") for item in items} if isinstance(items, list) else set()


_RULE_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")
_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")


def _failure_rules(job_set: JobSet) -> Results:
    rules = plain_object(job_set.spec.get("failurePolicy")).get("rules")
    names: set[str] = set()
    for index, raw in enumerate(rules if isinstance(rules, list) else ()):
        failure_rule, path = plain_object(raw), SPEC / "failurePolicy" / "rules" / Item(index)
        # JobSet's webhook names a rule without a name.
        name = failure_rule.get("name") or f"failurePolicyRule{index}"
        if not isinstance(name, str) or _RULE_NAME.fullmatch(name) is None:
            why = "JobSet refuses the name of a rule that is no identifier of at most 128 characters"
            yield Finding(path / "name", name, why, "begin with a letter, and use letters, digits, _ , :")
        elif name in names:
            yield Finding(path / "name", name, "JobSet refuses two rules of one name", "rename one")
        names.add(str(name))
        if (action := failure_rule.get("action")) in _SINGLE_JOB_ACTIONS:
            why = "JobSet refuses it unless its feature gate RestartJob is on, which it is not by default"
            yield Finding(path / "action", action, why, "turn the gate on, or set RestartJobSet", at_most=Action.WARN)
        reasons = failure_rule.get("onJobFailureReasons")
        for place, reason in enumerate(reasons if isinstance(reasons, list) else ()):
            if reason not in _REASONS:
                remedy = f"name one of {', '.join(_REASONS)}"
                at = path / "onJobFailureReasons" / Item(place)
                yield Finding(at, reason, "JobSet refuses a reason for which no Job fails", remedy)


_SINGLE_JOB_ACTIONS = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_MOST_RESTARTED = 1024
_IN_PLACE = "InPlaceRestart"


def _gated_restarts(job_set: JobSet) -> Results:
    """Yields what JobSet refuses of restarts in place, and of those of one Job, whether or not their feature gates are
    on.
    """
    policy = plain_object(job_set.spec.get("failurePolicy"))
    rules = policy.get("rules")
    actions = {plain_object(raw).get("action") for raw in (rules if isinstance(rules, list) else ())}
    in_place = policy.get("restartStrategy") == _IN_PLACE
    if in_place:
        at = SPEC / "failurePolicy" / "restartStrategy"
        why = f"JobSet refuses it unless its feature gate {_IN_PLACE} is on, which it is not by default"
        yield Finding(at, _IN_PLACE, why, "turn the gate on, or set Recreate", at_most=Action.WARN)
    for index, part in enumerate(job_set.parts):
        replicas = job_set.spec["replicatedJobs"][index].get("replicas")
        if not actions.isdisjoint(_SINGLE_JOB_ACTIONS) and type(replicas) is int and replicas > _MOST_RESTARTED:
            why = f"JobSet restarts one Job of at most {_MOST_RESTARTED}"
            yield Finding(part.path / "replicas", replicas, why, "lower it, or set the action RestartJobSet")
        spec, path = job_set.job_spec(index), part.path / "template" / "spec"
        if not in_place:
            continue
        for field, needed in (("backoffLimit", _INT32), ("podReplacementPolicy", "Failed")):
            if (value := spec.get(field)) != needed:
                why = "JobSet refuses another value with restarts in place"
                yield Finding(path / field, value, why, f"set {needed}", instead=(needed,))
        completions, parallelism = spec.get("completions"), spec.get("parallelism")
        if completions is None or completions != parallelism:
            why = "JobSet restarts only Jobs in place that state as many completions as parallelism"
            instead = () if parallelism is None else (parallelism,)
            yield Finding(path / "completions", completions, why, "set both to one number", instead=instead)


# --- LeaderWorkerSet and TrainJob

_SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
_MOST_GROUPS = 1_000_000
_STARTS = ("LeaderCreated", "LeaderReady")
_RESTARTS = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None", "Default")


def _leader_worker_set_faults(workload: OptedInWorkload) -> Results:
    yield from _unfit_name(workload, "LeaderWorkerSet")
    template = plain_object(workload.spec.get("leaderWorkerTemplate"))
    replicas, size = _value_or(workload.spec.get("replicas"), 1), _value_or(template.get("size"), 1)
    # The workers of each group are a StatefulSet that is named after their leader.
    has_workers = type(size) is int and size > 1 and type(replicas) is int and replicas > 0
    yield from _revision_label(workload, f"-{replicas - 1}" if has_workers else "")
    if type(replicas) is int and type(size) is int and (replicas > _MOST_GROUPS or replicas * size > _INT32):
        # Of releases only the next refuses the number of groups.
        most = Action.DENY if replicas * size > _INT32 else Action.WARN
        why = f"LeaderWorkerSet refuses more than {_MOST_GROUPS} groups or {_INT32} pods"
        yield Finding(SPEC / "replicas", replicas, why, "lower it", at_most=most)
    for holder, at, field, values in (
        (workload.spec, SPEC, "startupPolicy", _STARTS),
        (template, SPEC / "leaderWorkerTemplate", "restartPolicy", _RESTARTS),
    ):
        if holder.get(field) not in (None, "", *values):
            why = "the schema of LeaderWorkerSet has no such value"
            yield Finding(at / field, holder[field], why, f"set one of {', '.join(values)}", instead=values)
    yield from _rollout(plain_object(workload.spec.get("rolloutStrategy")), replicas)
    if isinstance(template.get("subGroupPolicy"), dict):
        yield from _subgroups(template["subGroupPolicy"], size)
    elif _SUBGROUP_EXCLUSIVE in workload.annotations:
        why = "LeaderWorkerSet refuses exclusive topology of subgroups without subgroups"
        remedy = "add spec.leaderWorkerTemplate.subGroupPolicy, or remove the annotation"
        yield Finding(ANNOTATIONS / _SUBGROUP_EXCLUSIVE, workload.annotations[_SUBGROUP_EXCLUSIVE], why, remedy)


def _rollout(strategy: Mapping[str, Any], replicas: Any) -> Results:
    rolling = strategy.get("rollingUpdateConfiguration")
    if not isinstance(rolling, dict) or type(replicas) is not int:
        return
    path = SPEC / "rolloutStrategy" / "rollingUpdateConfiguration"
    groups: list[int] = []
    # A part of a group does not become unavailable, but is added as a whole group.
    for field, default, rounded in (("maxUnavailable", 1, 0), ("maxSurge", 0, 99)):
        value = _value_or(rolling.get(field), default)
        if type(value) is int and value >= 0:
            groups.append(value)
        elif isinstance(value, str) and _PERCENT.fullmatch(value):
            groups.append((int(value[:-1]) * replicas + rounded) // 100)
        else:
            why = "LeaderWorkerSet refuses a number of groups that is neither 0 or more nor 0% to 100%"
            yield Finding(path / field, value, why, "set a number of groups, or a percentage")
    if groups == [0, 0] and replicas:
        why = "LeaderWorkerSet refuses a rollout that may neither stop a group nor start another one"
        yield Finding(path / "maxUnavailable", rolling.get("maxUnavailable"), why, "raise it or maxSurge", instead=(1,))
    partition = rolling.get("partition")
    if type(partition) is int and partition < 0:
        yield Finding(path / "partition", partition, "LeaderWorkerSet refuses a negative partition", "set 0 or more")


def _subgroups(policy: Mapping[str, Any], size: Any) -> Results:
    each = policy.get("subGroupSize")
    if type(size) is not int or type(each) is not int or size < 1:
        return
    is_excluded = policy.get("subGroupPolicyType") == "LeaderExcluded"
    if each < 1 or each > size or ((size - 1) % each and (is_excluded or size % each)):
        whole = f"{size - 1}, the number of workers" if is_excluded else f"{size} or {size - 1}"
        yield Finding(
            SPEC / "leaderWorkerTemplate" / "subGroupPolicy" / "subGroupSize",
            each,
            f"LeaderWorkerSet refuses it: subgroups have the same number of pods, so it divides {whole}",
            "set a divisor",
            instead=(1,),
        )


# --- the training operator and mpi-operator


def _pytorch_faults(workload: OptedInWorkload) -> Results:
    yield from _unfit_name(workload, "the training operator", at_most=Action.WARN)
    path = SPEC / "pytorchReplicaSpecs"
    replicas = plain_object(workload.spec.get("pytorchReplicaSpecs"))
    if isinstance(workload.spec.get("elasticPolicy"), dict) and "worker" not in {str(key).lower() for key in replicas}:
        why = "the training operator refuses an elastic job without workers"
        yield Finding(path / "Worker", None, why, "add them, or remove elasticPolicy")
    for key, raw in replicas.items():
        role, replica = str(key).lower(), plain_object(raw)
        if role not in {"master", "worker"}:
            why = "the training operator refuses a replica type other than Master and Worker"
            yield Finding(path / key, key, why, "rename it")
            continue
        if key not in {"Master", "Worker"}:
            why = "the training operator refuses it from v1.8 on: types are written Master and Worker"
            yield Finding(path / key, key, why, f"write {role.capitalize()}", at_most=Action.WARN)
        count = replica.get("replicas")
        if role == "master" and count != 1:
            why = "the training operator refuses a number of masters other than 1"
            action = Action.WARN if count is None else Action.DENY
            yield Finding(path / key / "replicas", count, why, "set 1", at_most=action, instead=(1,))
        elif role == "worker" and count == 0 and count is not False:
            why = "the training operator refuses 0 workers from v1.9 on"
            yield Finding(path / key / "replicas", count, why, "set 1 or more", at_most=Action.WARN, instead=(1,))
        containers = plain_object(plain_object(replica.get("template")).get("spec")).get("containers")
        names = (
            [plain_object(container).get("name") for container in containers] if isinstance(containers, list) else []
        )
        if "pytorch" not in names:
            yield Finding(
                path / key / "template" / "spec" / "containers",
                names[0] if names else None,
                "the training operator refuses a replica without a container named pytorch",
                "name the main container pytorch",
            )


_OF_TRAINING_OPERATOR = "kubeflow.org/v1"
_IMPLEMENTATIONS = ("OpenMPI", "Intel", "MPICH")
_CLEAN_POLICIES = ("None", "Running", "All")


def _mpi_faults(workload: OptedInWorkload) -> Results:
    path = SPEC / "mpiReplicaSpecs"
    replicas = plain_object(workload.spec.get("mpiReplicaSpecs"))
    if workload.raw.get("apiVersion") == _OF_TRAINING_OPERATOR:
        # Another operator, which checks less.
        yield from _training_operator_mpi_faults(replicas, path)
        return
    launcher, worker = replicas.get("Launcher"), replicas.get("Worker")
    if launcher is None:
        yield Finding(path / "Launcher", None, "mpi-operator makes no pod without a launcher", "add it")
    elif (count := plain_object(launcher).get("replicas")) not in (None, 1):
        why = "mpi-operator makes no pod unless there is 1 launcher"
        yield Finding(path / "Launcher" / "replicas", count, why, "set 1", instead=(1,))
    workers = _value_or(plain_object(worker).get("replicas"), 0)
    if worker is not None and workers == 0 and workers is not False:
        why = "mpi-operator makes no pod for 0 workers, also if no number is stated"
        at = path / "Worker" / "replicas"
        written = plain_object(worker).get("replicas")
        yield Finding(at, written, why, "set 1 or more, or leave the workers out", instead=(1,))
    last = max(workers - 1, 0) if type(workers) is int else 0
    yield from _unfit_name(workload, "mpi-operator", f"-worker-{last}")
    for role, replica in replicas.items():
        policy = plain_object(replica).get("restartPolicy")
        if policy not in (None, "", "Never", "OnFailure"):
            why = "mpi-operator makes no pod for another policy than Never and OnFailure"
            yield Finding(path / role / "restartPolicy", policy, why, "set Never or OnFailure", instead=("Never",))
    slots = workload.spec.get("slotsPerWorker")
    if type(slots) is int and slots < 0:
        yield Finding(
            SPEC / "slotsPerWorker", slots, "mpi-operator makes no pod for a negative number", "set 1 or more"
        )
    policy = plain_object(workload.spec.get("runPolicy")).get("cleanPodPolicy")
    if policy not in (None, *_CLEAN_POLICIES):
        at = SPEC / "runPolicy" / "cleanPodPolicy"
        yield Finding(at, policy, "mpi-operator makes no pod for an unknown policy", "set None, Running or All")
    implementation = workload.spec.get("mpiImplementation")
    if implementation not in (None, *_IMPLEMENTATIONS):
        why = "the schema of MPIJob refuses another implementation than OpenMPI, Intel and MPICH"
        yield Finding(SPEC / "mpiImplementation", implementation, why, "name one of them", instead=_IMPLEMENTATIONS)


def _training_operator_mpi_faults(replicas: Mapping[str, Any], path: FieldPath) -> Results:
    """Yields what the training operator's controller refuses (v1.7 to v1.9); it has no webhook for MPIJobs."""
    if "Launcher" not in replicas:
        yield Finding(path / "Launcher", None, "the training operator makes no pod without a launcher", "add it")
    for role, raw in replicas.items():
        if role not in {"Launcher", "Worker"}:
            why = "the training operator makes no pod of an MPIJob with another type than Launcher and Worker"
            yield Finding(path / role, role, why, "rename it")
            continue
        replica = plain_object(raw)
        count = replica.get("replicas")
        if role == "Launcher" and count not in (None, 1):
            why = "the training operator makes no pod unless there is 1 launcher"
            yield Finding(path / role / "replicas", count, why, "set 1", instead=(1,))
        at = path / role / "template" / "spec" / "containers"
        containers = plain_object(plain_object(replica.get("template")).get("spec")).get("containers")
        if containers is None:
            why = "the training operator makes no pod of an MPIJob with a role without containers"
            yield Finding(at, None, why, "add the container")
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            for field in ("name", "image"):
                if not plain_object(container).get(field):
                    why = f"the training operator makes no pod of an MPIJob with a container without {field}"
                    yield Finding(at / Item(index) / field, None, why, "add it")


# --- Ray and Spark

# A RayCluster is named after its RayJob or RayService, with a dash and five characters.
_RAY_NAME, _RAY_ADDED = 53, 6


def _ray_faults(workload: OptedInWorkload) -> Results:
    added = 0 if workload.resource.api.kind == "RayCluster" else _RAY_ADDED
    # Before v1.4 KubeRay changed such a name itself.
    yield from _unfit_name(workload, "KubeRay", limit=_RAY_NAME - added, at_most=Action.WARN)
    yield from refused_by_kuberay(workload)


_SPARK_ROLES = ("driver", "executor")


def _spark_faults(workload: OptedInWorkload) -> Results:
    # The webhook reads names since v2.4.
    yield from _unfit_name(workload, "spark-operator", at_most=Action.WARN)
    selector = plain_object(workload.spec.get("nodeSelector"))
    if selector and any(plain_object(workload.spec.get(name)).get("nodeSelector") for name in _SPARK_ROLES):
        why = "spark-operator refuses a nodeSelector of the application beside one of a role"
        yield Finding(SPEC / "nodeSelector", next(iter(selector)), why, "write it in both roles")
    version = workload.spec.get("sparkVersion")
    is_old = isinstance(version, str) and version.split(".", 1)[0] in {"0", "1", "2"}
    for name in _SPARK_ROLES:
        if is_old and plain_object(workload.spec.get(name)).get("template") is not None:
            why = "spark-operator refuses a pod template of a role before Spark 3"
            yield Finding(SPEC / name / "template", version, why, "remove it, or set sparkVersion")


_CHECKS: dict[tuple[str, str], Callable[[OptedInWorkload], Results]] = {
    ("apps", "StatefulSet"): _revision_label,
    ("batch", "Job"): _job_faults,
    ("jobset.x-k8s.io", "JobSet"): _job_set_faults,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set_faults,
    ("trainer.kubeflow.org", "TrainJob"): partial(_unfit_name, system="Trainer"),
    ("kubeflow.org", "PyTorchJob"): _pytorch_faults,
    ("kubeflow.org", "MPIJob"): _mpi_faults,
    ("ray.io", "RayCluster"): _ray_faults,
    ("ray.io", "RayJob"): _ray_faults,
    ("ray.io", "RayService"): _ray_faults,
    ("sparkoperator.k8s.io", "SparkApplication"): _spark_faults,
}


def _value_or(value: Any, default: Any) -> Any:
    return default if value is None else value
