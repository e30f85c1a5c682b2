"""Pods of Grove's operator that the API server does not send to /validate, on real API servers: whatever a rule finds
anything in is sent, and so is whatever `/mutate` has not sealed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import httpx
import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ADMIN, OPERATOR, ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Rollcall
from tests.e2e.gang_writer import why
from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.second_webhook import PlayedWebhook
from tests.e2e.workloads import clique, pod_clique_set
from webhook.admission.pod_admission import validate_pod
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Kind, Request
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.known_objects import PodGangFacts, PriorityClass, Quota
from webhook.model.pod_template import Pod
from webhook.validators.pod_guard import MOST_CONTAINERS
from webhook.validators.registry import Rule, Subject
from webhook.workloads.pod_clique_set import PodCliqueSet

SCHEDULERS = ("koord-scheduler", "kai-scheduler", "volcano", "scheduler-plugins-scheduler", "default-scheduler")
_PROFILES: list[Manifest] = [{"name": scheduler} for scheduler in SCHEDULERS]
_PROFILES[1]["config"] = {"defaultQueue": "batch"}
CONFIG = configuration_of(*_PROFILES, enforcement={"mode": "audit"})
SEAL = "rollcall.dev/seal"
MASTERS = {"Impersonate-Group": "system:masters"}
# Users, and whether pods that they create are Grove's.
USERS = {
    "system:serviceaccount:dynamo:grove-operator": True,
    "system:serviceaccount:dynamo:grove-operators": False,
    "system:serviceaccount:dynamo:x:grove-operator": False,
    "system:serviceaccount:grove-operator": False,
    "alice": False,
}
RANDOM_PODS = 150
# What the rules read, with values that they refuse and values that they allow.
LABELS = {
    "koordinator.sh/qosClass": ("LS", "BE", "LSR", "LSE", "SYSTEM", "ls", ""),
    "koordinator.sh/priority-class": ("koord-prod", "koord-batch", "high"),
    "scheduling.koordinator.sh/scheduler-name": ("koord-scheduler", "batch", ""),
    "quota.scheduling.koordinator.sh/name": ("team-a", "all-teams"),
    "app": ("demo",),
}
ANNOTATIONS = {
    "scheduling.koordinator.sh/reserve-pod": ("true", ""),
    "gpu-fraction": ("0.5", ""),
    "gpu-memory": ("1000", ""),
    "example.com/note": ("koordinator.sh/gpu-core",),
}
REQUESTS = {
    "cpu": ("1", "1500m"),
    "nvidia.com/gpu": ("1",),
    "koordinator.sh/gpu-core": ("50", "0"),
    "kubernetes.io/batch-cpu": ("4000", "0"),
    "example.com/nic": ("1",),
}


class Case(NamedTuple):
    """A pod, and who creates it: the user of a token, or one that its holder names."""

    name: str
    pod: Manifest
    token: str = OPERATOR
    user: str = ""


class Sent(NamedTuple):
    """What became of a pod: whether it was sent to /validate, and the answer to its creation."""

    was: bool
    answer: httpx.Response


class World:
    """A namespace with a gang for each scheduler, and a server that knows them all."""

    def __init__(self, plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove) -> None:
        self.plane, self.server, self.namespace = plane, server, namespace
        self.settings: Settings = settings_from(CONFIG, "test")
        self.played: dict[str, Played] = {}
        for scheduler in SCHEDULERS:
            labels = {"rollcall.dev/scheduler": scheduler}
            cliques = clique("worker"), clique("spare")
            self.played[scheduler] = grove(pod_clique_set(f"set-{scheduler}", namespace, *cliques, labels=labels))
            self.played[scheduler].create_podgangs()
        self.facts = self._facts()
        eventually(self._knows_every_gang, "the server knows every gang")

    def _facts(self) -> ClusterFacts:
        sets = {(self.namespace, one.name): Record(scheduler) for scheduler, one in self.played.items()}
        gangs = {
            (self.namespace, f"{one.name}-0"): PodGangFacts(one.name, frozenset(each.name for each in one.cliques))
            for one in self.played.values()
        }
        classes = {"high": PriorityClass(1000, is_default=False)}
        quotas = {"team-a": Quota(is_parent=False), "all-teams": Quota(is_parent=True)}
        return ClusterFacts(
            pod_clique_sets=sets, pod_gangs=gangs, priority_classes=classes, elastic_quotas=quotas, namespaces={}
        )

    def _knows_every_gang(self) -> bool:
        """A pod of a PodClique that its gang lacks is sealed only while the server does not know the gang."""
        return all(self.create(Case("probe", self.stranger(scheduler))).was for scheduler in SCHEDULERS)

    def usual(self, scheduler: str) -> Manifest:
        """A pod of the scheduler's gang as Grove's operator sends it."""
        played = self.played[scheduler]
        found: Manifest = deepcopy(played.pod(played.cliques[0], 0))
        found["metadata"].setdefault("annotations", {})
        return found

    def stranger(self, scheduler: str) -> Manifest:
        """A pod of a PodClique that the gang lacks."""
        found = self.usual(scheduler)
        found["metadata"]["labels"]["grove.io/podclique"] = "stranger"
        return found

    def create(self, case: Case) -> Sent:
        """Create a pod, as a dry run."""
        before = self.judged()
        headers = {"Impersonate-User": case.user, **MASTERS} if case.user else {}
        client = self.plane.http_as(case.token)
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        answer = client.post(path, params={"dryRun": "All"}, json=case.pod, headers=headers)
        assert answer.is_success or "admission webhook" in answer.text, (case.name, why(answer))
        return Sent(self.judged() > before, answer)

    def judged(self) -> float:
        """The calls of /validate until now."""
        return sum(
            float(line.rpartition(" ")[2])
            for line in self.server.http.get("/metrics").text.splitlines()
            if line.startswith('rollcall_admission_requests_total{endpoint="validate"')
        )

    def found_in(self, pod: Manifest) -> list[str]:
        """The rules that find anything in a pod of Grove's operator, or cannot judge it."""
        kind = Kind("", "v1", "Pod")
        asked = Request("uid", "CREATE", kind, self.namespace, "", pod, user=next(iter(USERS)))
        verdict = validate_pod(asked, Pod(pod, self.namespace), self.facts, self.settings)
        return [found.rule for found in verdict.findings] + [missing.rule for missing in verdict.unjudged]

    def rules(self, scheduler: str) -> list[Rule]:
        """The rules about pods of a scheduler's profile."""
        every = self.settings.profiles[scheduler].every_rule
        return [declared for declared in every if declared.subject is Subject.POD]


@pytest.fixture
def world(plane: ControlPlane, rollcall: Rollcall, namespace: str, grove: Grove) -> World:
    return World(plane, rollcall(plane, CONFIG), namespace, grove)


def changed(pod: Manifest, metadata: Manifest, spec: Manifest) -> Manifest:
    """The pod with more labels, annotations and fields of its spec."""
    found = deepcopy(pod)
    for part in ("labels", "annotations"):
        found["metadata"][part].update(metadata.get(part) or {})
    for container in spec.get("containers", []):
        asked = container.get("resources", {}).get("requests", {})
        # The API server wants limits for what is not overcommitted.
        container["resources"] = {"requests": asked, "limits": asked}
    # The cluster need not have the PriorityClasses of the examples.
    found["spec"]["containers"] = spec.get("containers") or found["spec"]["containers"]
    return found


def of_examples(world: World) -> Iterator[Case]:
    """The failing example of each rule that finds something in a pod alone, as a pod of Grove's operator."""
    for scheduler in SCHEDULERS:
        for declared in world.rules(scheduler):
            example, pod = deepcopy(declared.fails.object), world.usual(scheduler)
            if example["kind"] == "Pod":
                label = example["metadata"]["labels"]["grove.io/podclique"]
                own = {k: v for k, v in example["metadata"]["labels"].items() if k not in pod["metadata"]["labels"]}
                pods = [changed(pod, {"labels": own}, {})]
                if label != "demo-0-worker":
                    pods[0]["metadata"]["labels"]["grove.io/podclique"] = label
            else:
                templates = [
                    ({"labels": one.labels, "annotations": one.annotations}, dict(one.spec))
                    for one in PodCliqueSet(example).pod_templates()
                ]
                pods = [changed(pod, *template) for template in templates]
            if declared.guard is None or declared.guard.traits or declared.guard.by_facts:
                yield from (Case(f"{declared.id}, {scheduler}", one) for one in pods)


def at_random(world: World) -> Iterator[Case]:
    """Pods with anything that the rules read, by Grove's operator and by others. The seed is fixed."""
    chance = random.Random(23)  # noqa: S311 - a table, not a secret

    def some(of: dict[str, tuple[str, ...]], share: float) -> dict[str, str]:
        return {key: chance.choice(values) for key, values in of.items() if chance.random() < share}

    for number in range(RANDOM_PODS):
        scheduler = chance.choice(SCHEDULERS[:2] * 3 + SCHEDULERS)
        metadata = {"labels": some(LABELS, 0.15), "annotations": some(ANNOTATIONS, 0.15)}
        containers = [
            {"name": f"c-{place}", "image": "example.com/main", "resources": {"requests": some(REQUESTS, 0.1)}}
            for place in range(chance.choice((1, 1, 2, MOST_CONTAINERS, MOST_CONTAINERS + 1)))
        ]
        pod = changed(world.usual(scheduler), metadata, {"containers": containers})
        if chance.random() < 0.2:
            # What other controllers make has other keys, and so has what none has made.
            pod["metadata"]["ownerReferences"] = []
        if chance.random() < 0.3:
            pod["metadata"]["annotations"][SEAL] = chance.choice(("", "a/b/c", "set/clique/0123456789ab"))
        user = chance.choice(list(USERS)) if chance.random() < 0.2 else ""
        yield Case(f"random {number}", pod, ADMIN if user else OPERATOR, user)


def sealed_for(world: World, pod: Manifest) -> bool:
    """Whether a stored pod has the seal of its profile and of its labels."""
    labels, seal = pod["metadata"]["labels"], world.settings.profiles[pod["spec"]["schedulerName"]].seal
    assert seal is not None
    named = f"{labels['grove.io/podgang']}/{labels['grove.io/podclique']}/{seal.digest}"
    return bool(pod["metadata"].get("annotations", {}).get(SEAL) == named)


def has_trait(world: World, pod: Manifest) -> bool:
    """Whether a rule of the pod's profile looks for something that the pod has."""
    template = Pod(pod).template
    guards = [declared.guard for declared in world.rules(pod["spec"]["schedulerName"])]
    return any(trait.matches(template) for guard in guards if guard is not None for trait in guard.traits)


@pytest.mark.every_version
def test_each_pod_in_which_a_rule_finds_anything_is_judged(world: World) -> None:
    """Usual pods are spared, and all others are judged as their traits say."""
    for scheduler in SCHEDULERS:
        sent = world.create(Case(scheduler, world.usual(scheduler)))
        assert (sent.was, sent.answer.status_code) == (False, httpx.codes.CREATED), scheduler
        assert sealed_for(world, sent.answer.json()), scheduler
    examples = list(of_examples(world))
    rules = {case.name.partition(",")[0] for case in examples}
    assert rules >= {"koordinator/qos-class", "kai/gpu-sharing", "grove/pod-outside-gang"}
    assert {case.name for case in examples if not world.create(case).was} == set()
    spared, faulty = 0, 0
    for case in at_random(world):
        sent = world.create(case)
        if not sent.answer.is_success:
            assert sent.was, case.name
            continue
        stored = sent.answer.json()
        trusted = USERS[case.user] if case.user else True
        assert sealed_for(world, stored) == trusted, case.name
        controlled = bool(stored["metadata"].get("ownerReferences"))
        expected = not (trusted and controlled) or has_trait(world, stored)
        assert sent.was == expected, (case, stored["metadata"])
        spared += not sent.was
        found = world.found_in(stored) if trusted else []
        faulty += bool(found)
        assert sent.was or found == [], (case.name, found)
    # The table is worth something: many pods of both kinds.
    assert (spared > RANDOM_PODS // 8, faulty > RANDOM_PODS // 8) == (True, True), (spared, faulty)


def test_a_seal_that_its_author_wrote_is_replaced_or_emptied(world: World) -> None:
    """A template may have any annotation, also the seal of another pod."""
    right = world.create(Case("usual", world.usual("koord-scheduler"))).answer.json()["metadata"]["annotations"][SEAL]
    stranger = world.stranger("koord-scheduler")
    named = right.replace(stranger["metadata"]["labels"]["grove.io/podgang"], "other")
    for seal in (right, right.replace("worker", "spare"), named, right.rpartition("/")[0], f"{right}0", "/"):
        for pod, expected in ((world.usual("koord-scheduler"), right), (stranger, "")):
            pod["metadata"]["annotations"][SEAL] = seal
            sent = world.create(Case(seal, pod))
            if sent.answer.is_success:
                assert sent.answer.json()["metadata"].get("annotations", {}).get(SEAL) == expected, seal
            assert sent.was == (expected == ""), seal


# What a webhook after Rollcall's does to a pod that is sealed, each time that it is called, and the rule that is asked.
LATER: dict[str, Any] = {
    "another PodClique": lambda calls: ("labels", "grove.io/podclique", f"stranger-{calls}"),
    "another PodGang": lambda calls: ("labels", "grove.io/podgang", f"stranger-{calls}"),
    "a QoS class": lambda calls: ("labels", "koordinator.sh/qosClass", "LSR"),
    "the mark of a reservation": lambda calls: ("annotations", "scheduling.koordinator.sh/reserve-pod", str(calls)),
}


def test_a_pod_that_a_later_webhook_changes_is_judged(world: World) -> None:
    """It is called again after Rollcall, which is called a second time after its change and no third time."""
    changes = list(LATER.values())

    def mutate(pod: Manifest) -> None:
        part, key, value = changes[0](later.calls)
        pod["metadata"].setdefault(part, {})[key] = value

    later = PlayedWebhook("z-later", "later.example.com", world.plane.folder, mutate, reinvocationPolicy="IfNeeded")
    try:
        world.plane.apply(later.registration(), check=True)

        def called() -> bool:
            before = later.calls
            world.create(Case("probe", world.usual("koord-scheduler")))
            return later.calls > before

        eventually(called, "the later webhook is called")
        for named in LATER:
            assert world.create(Case(named, world.usual("koord-scheduler"))).was, named
            del changes[:1]
    finally:
        world.plane.http.delete(
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/z-later"
        ).raise_for_status()
        later.close()
