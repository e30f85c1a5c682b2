"""`python -m benchmarks.shadowed_creations`: many PodCliqueSets, created by a few clients through a real API server, in
turns with a shadow and without.

Two servers with the same default scheduler run all the time, and both follow what is stored. In each turn the API
server calls one of them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
from collections import Counter
from typing import Any, NamedTuple

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.control_planes import find_programs
from tests.configurations import configuration_of
from tests.e2e.conftest import apply_crds, until_asked
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.programs import Program, eventually
from tests.e2e.raw_client import RawClient
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import two_cliques

_SHADOW = "kai-scheduler"
_QUEUE: dict[str, Any] = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team-a"},
    # -1 is no limit.
    "spec": {"resources": {name: {"quota": 0, "limit": -1} for name in ("cpu", "memory", "gpu")}},
}
_SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
_CONFIGURATION = configuration_of("koord-scheduler")
_TURNS = {"no shadow": _CONFIGURATION, f"shadow {_SHADOW}": {**_CONFIGURATION, "shadow": [_SHADOW]}}
_PROGRAMS = ("kube-apiserver", "etcd", "Rollcall")
_CREATED = 201
# Every so many sets name no queue of KAI, which its shadow denies.
_WITHOUT_QUEUE = 4


class Spent(NamedTuple):
    """What the creations of a turn took: seconds, processor seconds of each program, the answers of the API server by
    HTTP status, and what Rollcall counted: calls and reviews of the shadow, by their outcome.
    """

    seconds: float
    processor: dict[str, float]
    answers: Counter[int]
    calls: Counter[str]
    shadowed: Counter[str]
    shadow_seconds: float


class Creations:
    """A control plane with one server for each kind of turn. `close` ends it."""

    def __init__(self, version: str, clients: int) -> None:
        self._plane = plane = ControlPlane(version)
        self._clients = clients
        self._numbers = itertools.count()
        try:
            apply_crds(plane)
            plane.apply(_QUEUE, check=True)
            # The rights of the last, which are those of the first and more, hold for both.
            self.servers = {title: RollcallServer(plane, config) for title, config in _TURNS.items()}
            for server in self.servers.values():
                server.until_ready()
        except BaseException:
            plane.close()
            raise

    def close(self) -> None:
        """End all programs."""
        for server in self.servers.values():
            server.http.close()
        self._plane.close()

    def run(self, title: str, count: int) -> Spent:
        """Have the API server call the server of that title, and create so many PodCliqueSets."""
        server = self.servers[title]
        self._register(title)
        before, used, begun = _counted(server), self._processor(server), time.perf_counter()
        answers = uvloop.run(self._create(count))
        seconds, after = time.perf_counter() - begun, _counted(server)
        processor = {name: value - used[name] for name, value in self._processor(server).items()}
        calls, shadowed = after.calls - before.calls, after.shadowed - before.shadowed
        return Spent(seconds, processor, answers, calls, shadowed, after.shadow_seconds - before.shadow_seconds)

    def _register(self, title: str) -> None:
        server, others = self.servers[title], [one for name, one in self.servers.items() if name != title]
        server.register()
        until_asked(self._plane)

        def alone() -> bool:
            before = [_counted(one).calls for one in others]
            until_asked(self._plane)
            return before == [_counted(one).calls for one in others]

        eventually(alone, f"only the server with {title} is called")

    async def _create(self, count: int) -> Counter[int]:
        client = RawClient(self._plane.url, self._plane.tls, ADMIN)
        sets = (_set(number) for number in itertools.islice(self._numbers, count))
        try:
            return await client.statuses((client.request("POST", _SETS, one) for one in sets), self._clients)
        finally:
            client.close()

    def _processor(self, server: RollcallServer) -> dict[str, float]:
        names = {server.program.name: "Rollcall"}
        found = {names.get(one.name, one.name): one.processor_seconds for one in self._plane.workplace.programs}
        return {name: found[name] for name in _PROGRAMS}


class _Counted(NamedTuple):
    calls: Counter[str]
    shadowed: Counter[str]
    shadow_seconds: float


def _set(number: int) -> dict[str, Any]:
    labels = {"kai.scheduler/queue": _QUEUE["metadata"]["name"]} if number % _WITHOUT_QUEUE else None
    return two_cliques(f"set-{number}", "default", labels=labels)


def _counted(server: RollcallServer) -> _Counted:
    found = _Counted(Counter(), Counter(), 0.0)
    for family in text_string_to_metric_families(server.http.get("/metrics").text):
        for sample in family.samples:
            labels, value = sample.labels, sample.value
            if sample.name == "rollcall_admission_requests_total":
                found.calls[labels["outcome"]] += int(value)
            elif sample.name == "rollcall_shadow_reviews_total":
                found.shadowed[labels["would"]] += int(value)
            elif sample.name == "rollcall_shadow_seconds_total":
                found = found._replace(shadow_seconds=value)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shadowed_creations", description=__doc__)
    parser.add_argument("--workloads", type=int, default=10_000, help="PodCliqueSets of each kind (default 10000)")
    parser.add_argument("--clients", type=int, default=8, help="connections that create them (default 8)")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each kind (default 4)")
    parser.add_argument("--kube", default="1.37", help="the version of Kubernetes (default 1.37)")
    chosen = parser.parse_args()
    find_programs(f"kube-{chosen.kube}")
    creations = Creations(chosen.kube, chosen.clients)
    spent: dict[str, list[Spent]] = {title: [] for title in _TURNS}
    try:
        each = chosen.workloads // chosen.rounds
        print(f"{chosen.rounds} times {each} sets by {chosen.clients} clients, on {os.cpu_count()} processors")
        for _, title in itertools.product(range(chosen.rounds), _TURNS):
            spent[title].append(creations.run(title, each))
            print(f"{title:<22}{spent[title][-1].seconds:>7.2f} s", flush=True)
        _print(spent, {title: server.program for title, server in creations.servers.items()})
    finally:
        creations.close()
    if any(set(one.answers) != {_CREATED} for every in spent.values() for one in every):
        sys.exit("not every set was created")


def _print(spent: dict[str, list[Spent]], programs: dict[str, Program]) -> None:
    print(f"{'sums':<22}{'seconds':>9}" + "".join(f"{name:>16}" for name in _PROGRAMS))
    for title, every in spent.items():
        used = "".join(f"{sum(one.processor[name] for one in every):>16.1f}" for name in _PROGRAMS)
        print(f"{title:<22}{sum(one.seconds for one in every):>9.1f}{used}")
    first, second = spent.values()
    pairs = list(zip(first, second, strict=True))
    ratios = [("seconds", statistics.median(shadowed.seconds / alone.seconds for alone, shadowed in pairs))]
    for name in _PROGRAMS:
        ratios.append((name, statistics.median(two.processor[name] / one.processor[name] for one, two in pairs)))
    print("median of the ratios: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios))
    for title, every in spent.items():
        answers, calls, shadowed = (
            sum(counts, Counter[Any]()) for counts in zip(*(one[2:5] for one in every), strict=True)
        )
        print(f"{title}: answers {dict(answers)}, calls {dict(calls)}, {programs[title].peak_megabytes:.0f} MB at most")
        if shadowed:
            print(f"    of the shadow {dict(shadowed)}, {sum(one.shadow_seconds for one in every):.1f} s")


if __name__ == "__main__":
    main()
