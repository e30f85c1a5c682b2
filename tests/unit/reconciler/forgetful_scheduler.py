"""A cluster whose scheduler has forgotten a gang, and takes it up again once it is woken."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import httpx

from tests.unit.reconciler.cluster import PODS
from tests.unit.reconciler.grove import grove_pod, put_pods
from tests.unit.reconciler.running_reconciler import GROUPS, world
from tests.unit.worlds import koordinator
from webhook.model.facts import NO_FACTS
from webhook.model.keys import Record
from webhook.model.pod_template import Pod
from webhook.mutators.prepare_pod import prepare_pod

GROUP = "demo-0-a"


def prepared(name: str, clique: str = GROUP, gang: str = "demo-0") -> dict[str, Any]:
    """A pod as the webhook leaves it."""
    profile = koordinator(standalone=False).profiles["koord-scheduler"]
    member = profile.member("team-a", gang, clique, Record("koord-scheduler"), NO_FACTS)
    found = grove_pod(name, clique, gang)
    found["metadata"]["resourceVersion"] = "7"
    prepare_pod(Pod(found), profile, member)
    return found


class ForgetfulScheduler:
    """A gang of two pods. `wakes` is after how many wakes the scheduler binds its pods. `patches` are the JSON patches
    that came, each with its path.
    """

    def __init__(self, wakes: int = 1) -> None:
        self.cluster = world(GROUP)
        self.patches: list[tuple[str, list[dict[str, Any]]]] = []
        self._wakes = wakes
        put_pods(self.cluster, prepared("one"), prepared("two"))
        self.cluster.answering = self._answer

    @property
    def minimum(self) -> int:
        group = self.cluster.get(GROUPS, "team-a", GROUP)
        return -1 if group is None else int(group["spec"]["minMember"])

    @property
    def minimums(self) -> list[int]:
        """The minimums that patches wrote, in order."""
        return [one["value"] for _, patch in self.patches for one in patch if one["path"] == "/spec/minMember"]

    @property
    def deleted(self) -> list[str]:
        """The names of the objects that were deleted, in order."""
        return [path.rpartition("/")[2] for method, path in self.cluster.writes if method == "DELETE"]

    def start(self, *names: str) -> None:
        """Bind these pods; without names, every pod."""
        for pod in [deepcopy(one) for one in self.cluster.objects[PODS]]:
            if not names or pod["metadata"]["name"] in names:
                pod["spec"]["nodeName"] = "n1"
                self.cluster.apply(PODS, pod)

    def _answer(self, request: httpx.Request) -> httpx.Response | None:
        if request.headers["content-type"] != "application/json-patch+json":
            return None
        start, _, rest = request.url.path.partition("/namespaces/team-a/")
        plural, _, name = rest.partition("/")
        live = self.cluster.get(f"{start}/{plural}", "team-a", name)
        patch = json.loads(request.content)
        if live is None or any(one["op"] == "test" and _at(live, one["path"]) != one["value"] for one in patch):
            return httpx.Response(422, json={"message": "the test failed"})
        self.patches.append((request.url.path, [one for one in patch if one["op"] != "test"]))
        for one in patch:
            if one["op"] != "test":
                *parents, last = _steps(one["path"])
                holder = live
                for parent in parents:
                    holder = holder[parent]
                holder[last] = one["value"]
        self.cluster.tell(f"{start}/{plural}", "MODIFIED", live)
        if plural == "podgroups" and self.minimum == 2:
            self._wakes -= 1
            if self._wakes == 0:
                self.start()
        return httpx.Response(200, json={**live, "metadata": {"resourceVersion": "7", **live["metadata"]}})


def _steps(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _at(live: Any, path: str) -> Any:
    for part in _steps(path):
        live = live.get(part) if isinstance(live, dict) else None
    return live
