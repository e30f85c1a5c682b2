"""Mistakes in a PodCliqueSet: what Grove refuses, and what a scheduler could not start."""

from __future__ import annotations

from tests.unit.cli.agreement import KAI_ONLY, Case
from tests.unit.mistakes.manifests import KAI_QUEUES, SET, VOLCANO_QUEUE, annotated, changed, labelled, on
from tests.unit.mistakes.mistake import Mistake

_DECODE = "        replicas: 4\n"
_IMAGE = "            image: example.com/decode\n"
_POOL = "    - name: pool\n"
_ROLE = "        roleName: decode\n"
_EXPLICIT = changed(SET, "    cliques:\n", "    cliqueStartupType: CliqueStartupTypeExplicit\n    cliques:\n")
_TOPOLOGY = changed(
    SET,
    "    cliques:\n",
    "    topologyConstraint:\n      topologyName: dc\n      pack:\n        required: rack\n    cliques:\n",
)
_CLAIMS = changed(
    SET,
    _IMAGE,
    f"{_IMAGE}          resourceClaims:\n          - name: gpu\n            resourceClaimTemplateName: gpu\n",
)
_KAI = on("kai-scheduler", SET)
_QUEUE = "scheduling.grove.io/volcano-queue"


def _in_queue(queue: str, queues: str = KAI_QUEUES) -> str:
    """Return the set in a queue of KAI, and Queues from line 36."""
    return f"{labelled(_KAI, f'kai.scheduler/queue: {queue}')}---\n{queues}"


_OF_GROVE = {
    "a minimum above the replicas": Mistake(
        changed(SET, _DECODE, f"{_DECODE}        minAvailable: 5\n"), ("25 error grove/min-available",)
    ),
    "a minimum of a scaling group above its replicas": Mistake(
        changed(SET, _POOL, f"{_POOL}      minAvailable: 2\n"), ("32 error grove/min-available",)
    ),
    "a negative number of pods": Mistake(
        changed(SET, "replicas: 4", "replicas: -1"), ("24 error grove/min-available",)
    ),
    "a scaling group without replicas": Mistake(
        changed(SET, _POOL, f"{_POOL}      replicas: 0\n"), ("32 error grove/min-available",)
    ),
    "a quoted number": Mistake(changed(SET, "replicas: 4", 'replicas: "4"'), ("24 error grove/shape",)),
    "a clique that starts after none": Mistake(
        changed(_EXPLICIT, _ROLE, f"{_ROLE}        startsAfter: [nosuch]\n"), ("25 error grove/starts-after",)
    ),
    "a clique that starts after itself": Mistake(
        changed(_EXPLICIT, _ROLE, f"{_ROLE}        startsAfter: [decode]\n"), ("25 error grove/starts-after",)
    ),
    "cliques that start after one another": Mistake(
        changed(
            changed(_EXPLICIT, _ROLE, f"{_ROLE}        startsAfter: [prefill]\n"),
            "        roleName: prefill\n",
            "        roleName: prefill\n        startsAfter: [decode]\n",
        ),
        ("26 error grove/starts-after-cycle",),
    ),
    "an order that Grove does not read": Mistake(
        changed(SET, _ROLE, f"{_ROLE}        startsAfter: [prefill]\n"), ("24 warning grove/starts-after-unread",)
    ),
    "a short name of the startup type": Mistake(
        changed(SET, "    cliques:\n", "    cliqueStartupType: Explicit\n    cliques:\n"),
        ("11 error grove/startup-type",),
    ),
    "a capital in a clique's name": Mistake(
        SET.replace("name: decode", "name: Decode").replace(", decode]", ", Decode]"),
        ("21 error grove/names",),
        "https://github.com/ai-dynamo/grove/issues/113",
    ),
    "names that are too long together": Mistake(
        changed(SET, "  name: serve\n", "  name: llama-4-maverick-17b-128e-instruct-fp8\n"),
        ("12 error grove/name-length", "21 error grove/name-length"),
        "https://github.com/ai-dynamo/grove/issues/660",
    ),
    "a clique that does not exist in a scaling group": Mistake(
        changed(SET, "[prefill, decode]", "[prefill, decoder]"), ("32 error grove/scaling-group-clique",)
    ),
    "a clique twice": Mistake(
        changed(changed(SET, "    - name: decode\n", "    - name: prefill\n"), ", decode]", "]"),
        ("21 error grove/own-names",),
    ),
    "a role twice": Mistake(changed(SET, "roleName: decode", "roleName: prefill"), ("23 error grove/role-name",)),
    "a clique's name that ends in another name": Mistake(
        SET.replace("name: decode", "name: pprefill").replace(", decode]", ", pprefill]"),
        ("12 warning grove/clique-name-suffix",),
    ),
}
_OF_THE_SCHEDULER = {
    "a misspelt scheduler": Mistake(on("koord-schedular", SET), ("17 error rollcall/scheduler-unknown",)),
    "two schedulers": Mistake(
        changed(
            SET,
            f"{_DECODE}        podSpec:\n          schedulerName: koord-",
            f"{_DECODE}        podSpec:\n          schedulerName: lpx-",
        ),
        ("26 error rollcall/scheduler-disagree",),
    ),
    "a scheduler that says none": Mistake(
        labelled(SET, "rollcall.dev/scheduler: none"), ("7 error rollcall/scheduler-unknown",)
    ),
    "no scheduler": Mistake(SET.replace("          schedulerName: koord-scheduler\n", ""), ("8 warning kube/no-gang",)),
    "the scheduler of Kubernetes without gangs": Mistake(on("default-scheduler", SET), ("8 warning kube/no-gang",)),
    "a scheduler that the configuration lacks": Mistake(
        SET, ("17 error rollcall/scheduler-unknown",), case=Case({**KAI_ONLY, "defaultProfileName": "kai-scheduler"})
    ),
    "another gang's pods": Mistake(
        changed(
            SET, "    - name: decode\n", "    - name: decode\n      annotations: {scheduling.k8s.io/group-name: pg}\n"
        ),
        ("22 error koordinator/claimed-pods",),
    ),
    "NVLink with Koordinator": Mistake(
        changed(
            annotated(SET, "grove.io/mnnvl-group: train"),
            _IMAGE,
            f"{_IMAGE}            resources: {{limits: {{nvidia.com/gpu: 8}}}}\n",
        ),
        ("7 error koordinator/mnnvl",),
    ),
    "resource claims with Koordinator": Mistake(_CLAIMS, ("30 error koordinator/resource-claims",)),
    "resource claims with Volcano": Mistake(on("volcano", _CLAIMS), ("30 error volcano/resource-claims",)),
    "a topology without its binding": Mistake(_TOPOLOGY, ("14 not judged koordinator/topology-layer",)),
    "a topology that Volcano's profile lacks": Mistake(
        on("volcano", _TOPOLOGY), ("14 error volcano/topology-unavailable",)
    ),
    "a topology with scheduler-plugins": Mistake(
        on("scheduler-plugins-scheduler", _TOPOLOGY), ("14 error coscheduling/topology",)
    ),
    "spare pods with scheduler-plugins": Mistake(
        on("scheduler-plugins-scheduler", changed(SET, _DECODE, f"{_DECODE}        minAvailable: 2\n")),
        ("25 error coscheduling/spare-pods",),
    ),
}
_OF_THE_QUEUE = {
    "no queue of KAI": Mistake(_KAI, ("6 error kai/no-queue",)),
    "a queue by KAI's old label": Mistake(
        labelled(_KAI, "runai/queue: team-a"),
        ("6 error kai/no-queue", "7 warning keys/unknown"),
        "https://github.com/kai-scheduler/KAI-Scheduler/issues/44",
    ),
    "a queue of KAI by Volcano's key": Mistake(
        annotated(_KAI, f"{_QUEUE}: team-a"), ("7 warning kai/queue-key", "8 error kai/no-queue")
    ),
    "a queue of KAI with children": Mistake(_in_queue("department"), ("7 error kai/queue",)),
    "a queue of KAI that the files lack": Mistake(_in_queue("team-b"), ("7 not judged kai/queue",)),
    "a queue of KAI whose parent the files lack": Mistake(
        _in_queue("team-a", KAI_QUEUES.partition("---\n")[2]),
        ("7 not judged kai/queue", "40 not judged kai/queue-parent"),
        "https://github.com/kai-scheduler/KAI-Scheduler/issues/612",
    ),
    "a queue of another node pool": Mistake(
        _in_queue(
            "team-a",
            changed(KAI_QUEUES, "  name: team-a\n", "  name: team-a\n  labels: {kai.scheduler/node-pool: workers}\n"),
        ),
        ("6 error kai/node-pool", "47 error kai/queue-pool"),
        "https://github.com/kai-scheduler/KAI-Scheduler/issues/1045",
    ),
    "a part of a GPU and whole GPUs": Mistake(
        changed(
            changed(
                _in_queue("team-a"),
                "    - name: decode\n",
                "    - name: decode\n      annotations: {gpu-fraction: '0.5'}\n",
            ),
            _IMAGE,
            f"{_IMAGE}            resources: {{limits: {{nvidia.com/gpu: 1}}}}\n",
        ),
        ("23 error kai/gpu-sharing",),
    ),
    "a preemptibility that KAI does not know": Mistake(
        labelled(_in_queue("team-a"), "kai.scheduler/preemptibility: never"), ("7 error kai/preemptibility",)
    ),
    "a queue of Volcano by Volcano's own key": Mistake(
        annotated(on("volcano", SET), "scheduling.volcano.sh/queue-name: team-a"), ("7 warning volcano/queue-key",)
    ),
    "a queue of Volcano with a capital": Mistake(
        annotated(on("volcano", SET), f"{_QUEUE}: Team-A"), ("7 error volcano/queue-name",)
    ),
    "Volcano's root queue": Mistake(annotated(on("volcano", SET), f"{_QUEUE}: root"), ("7 error volcano/queue",)),
    "two queues of Volcano": Mistake(
        changed(
            annotated(on("volcano", SET), f"{_QUEUE}: team-a"),
            "    - name: decode\n",
            f"    - name: decode\n      annotations: {{{_QUEUE}: team-b}}\n",
        ),
        ("24 error volcano/queue-disagree",),
    ),
    "a queue of Volcano that the files lack": Mistake(
        f"{annotated(on('volcano', SET), f'{_QUEUE}: team-b')}---\n{VOLCANO_QUEUE}", ("7 not judged volcano/queue",)
    ),
}
MISTAKES = {**_OF_GROVE, **_OF_THE_SCHEDULER, **_OF_THE_QUEUE}
