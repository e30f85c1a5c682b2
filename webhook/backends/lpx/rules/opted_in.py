"""The rule for TrainJobs, JobSets, LeaderWorkerSets and Jobs."""

from webhook.backends import families
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Example

opted_in_alone = families.opted_in_alone(
    "lpx/owner-no-gang",
    """lpx-scheduler reads its gangs from Grove's own objects, and Rollcall writes none for it. The pods of other
    workloads start one by one.

    Source: ai-dynamo/grove, operator/internal/scheduler (lpx).""",
    alone=lambda _: True,
    why="lpx-scheduler knows only Grove's gangs, so no gang is made and the pods start one by one",
    remedy="choose another scheduler",
    passes=Example(job(scheduler="lpx-scheduler", parallelism=1, completions=1)),
    fails=Example(job(scheduler="lpx-scheduler")),
)
