"""`python -m benchmarks.burst`: many pods of gangs, created by a few clients through a real API server: with Rollcall's
webhooks, with some of them, with webhooks that do nothing, and with none, in turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import uvloop
import yaml
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.control_planes import find_programs
from benchmarks.null_webhook import PATCHING
from benchmarks.reviews import pod_clique_set
from tests.e2e.conftest import apply_crds, gated, until_asked
from tests.e2e.control_plane import ADMIN, OPERATOR, ControlPlane
from tests.e2e.grove_client import answered
from tests.e2e.grove_operator import Played, defaulted
from tests.e2e.programs import eventually, free_port, processor_seconds
from tests.e2e.raw_client import RawClient
from tests.e2e.rollcall_server import RollcallServer, trusting
from webhook.certificates.files import CERTIFICATE_FILE, KEY_FILE

_PODS = "/api/v1/namespaces/default/pods"
_SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
_CREATED = 201
_PROGRAMS = {
    "kube-apiserver": "API server",
    "etcd": "etcd",
    "rollcall": "Rollcall",
    "null": "null",
    "clients": "clients",
}
# So many probes in a row must reach exactly the webhooks of a turn before it begins.
_SURE = 5
# So many pods are created before a turn is measured: they open its connections.
_WARM_UP = 200


_MUTATE, _VALIDATE = _BOTH = ("/mutate", "/validate")


class Turn(NamedTuple):
    """The webhooks of a turn: which server answers (none, `rollcall` or `null`), at which of its paths, and which of
    these the API server calls for a pod of Grove's operator. With `all_judged` the condition that spares pods the
    second call is left out. `prefix` precedes the paths.
    """

    title: str
    server: str
    paths: tuple[str, ...]
    called: tuple[str, ...]
    all_judged: bool = False
    prefix: str = ""


_NONE = Turn("none", "", (), ())
_TURNS = (
    _NONE,
    Turn("both", "rollcall", _BOTH, (_MUTATE,)),
    Turn("both, all judged", "rollcall", _BOTH, _BOTH, all_judged=True),
    Turn("mutating", "rollcall", (_MUTATE,), (_MUTATE,)),
    Turn("validating", "rollcall", (_VALIDATE,), (_VALIDATE,)),
    # It seals no pod.
    Turn("both, doing nothing", "null", _BOTH, _BOTH),
    Turn("one, doing nothing", "null", (_MUTATE,), (_MUTATE,)),
    Turn("one, only patching", "null", (_MUTATE,), (_MUTATE,), prefix=PATCHING),
)


class Spent(NamedTuple):
    """What the creation of all pods took: seconds, processor seconds of each program, and what the server of the turn
    counted: calls by path, and connections.
    """

    seconds: float
    processor: dict[str, float]
    counts: Counter[str]

    @property
    def used(self) -> float:
        """The processor seconds of all programs."""
        return sum(self.processor[name] for name in _PROGRAMS)


class Burst:
    """A control plane with PodCliqueSets, Rollcall, and webhooks that do nothing. `close` ends it."""

    def __init__(self, version: str, pods: int, clients: int) -> None:
        self._plane = plane = ControlPlane(version)
        self._clients = clients
        try:
            apply_crds(plane)
            self._rollcall = RollcallServer(plane, gated())
            self._null = self._start_null()
            self._rollcall.until_ready()
            self._configurations = list(yaml.safe_load_all(self._rollcall.manifests()))
            self._rollcall.register()
            until_asked(plane)
            self._pods = list(itertools.islice(self._operators_pods(), pods))
        except BaseException:
            plane.close()
            raise

    def _start_null(self) -> httpx.Client:
        folder, port = self._rollcall.folder, free_port()
        command = [sys.executable, "-m", "benchmarks.null_webhook", str(port)]
        self._plane.workplace.start("null", [*command, folder / CERTIFICATE_FILE, folder / KEY_FILE])
        return httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting(folder), trust_env=False)

    def _operators_pods(self) -> Iterator[dict[str, Any]]:
        """The pods of any number of sets, as Grove's operator sends them."""
        for number in itertools.count():
            stored = answered(self._plane.http.post(_SETS, json=defaulted(pod_clique_set(f"set-{number}"))))
            played = Played(self._plane, stored)
            played.create_podgangs()
            for clique in played.cliques:
                yield from (played.pod(clique, index) for index in range(clique.replicas))

    def close(self) -> None:
        """End all programs."""
        self._null.close()
        self._rollcall.http.close()
        self._plane.close()

    def run(self, turn: Turn) -> Spent:
        """Register the webhooks of a turn, create the pods, and delete them."""
        self._register(turn)
        uvloop.run(self._create(self._pods[:_WARM_UP]))
        self._clear()
        counted, used, begun = self._counts(), self._processor(), time.perf_counter()
        uvloop.run(self._create(self._pods))
        seconds = time.perf_counter() - begun
        processor = {name: value - used[name] for name, value in self._processor().items()}
        counts = self._counts()
        self._clear()
        found = {key[1]: counts[key] - counted[key] for key in counts if key[0] == turn.server}
        return Spent(seconds, processor, Counter(found))

    def _register(self, turn: Turn) -> None:
        """Register these webhooks and no others, and wait until the API server calls them and no others."""
        url = str(self._null.base_url).rstrip("/") + turn.prefix
        for configuration, path in zip(self._configurations, _BOTH, strict=True):
            hooks = [_unconditional(hook) if turn.all_judged else hook for hook in configuration["webhooks"]]
            text = json.dumps({**configuration, "webhooks": hooks})
            if turn.server == "null":
                text = text.replace(self._rollcall.url, url)
            command = ("apply", "-f", "-") if path in turn.paths else ("delete", "--ignore-not-found", "-f", "-")
            self._plane.kubectl(*command, stdin=text, check=True)
        expected = [Counter({(turn.server, path): 1 for path in paths}) for paths in (turn.paths, turn.called)]
        right = itertools.count(1)
        eventually(
            lambda: [self._probe(ADMIN), self._probe(OPERATOR)] == expected and next(right) >= _SURE,
            f"the webhooks of {turn.title} are called",
        )

    def _probe(self, user: str) -> Counter[tuple[str, str]]:
        """The calls that one more pod of a user causes. Rollcall refuses it unless the user is Grove's operator."""
        before = self._counts()
        self._plane.http_as(user).post(_PODS, params={"dryRun": "All"}, json=self._pods[0])
        calls = self._counts() - before
        return Counter({key: count for key, count in calls.items() if key[1] in _BOTH})

    def _clear(self) -> None:
        self._plane.http.delete(_PODS, params={"gracePeriodSeconds": "0"}, timeout=60).raise_for_status()
        eventually(lambda: self._plane.items(_PODS, limit="1") == [], "the pods are deleted", timeout=60)

    async def _create(self, pods: list[dict[str, Any]]) -> None:
        client = RawClient(self._plane.url, self._plane.tls, OPERATOR)
        answers = await client.statuses([client.request("POST", _PODS, pod) for pod in pods], self._clients)
        client.close()
        if set(answers) != {_CREATED}:
            raise RuntimeError(f"not every pod was created: {dict(answers)}")

    def _processor(self) -> dict[str, float]:
        names = {self._rollcall.program.name: "rollcall"}
        programs = self._plane.workplace.programs
        found = {names.get(program.name, program.name): program.processor_seconds for program in programs}
        return {**found, "clients": processor_seconds(os.getpid())}

    def _counts(self) -> Counter[tuple[str, str]]:
        """What both servers have counted, by server: calls by path, bytes of them, and connections."""
        found = Counter({("null", name): count for name, count in self._null.get("/counts").json().items()})
        for family in text_string_to_metric_families(self._rollcall.http.get("/metrics").text):
            for sample in family.samples:
                if sample.name == "rollcall_admission_requests_total":
                    found["rollcall", f"/{sample.labels['endpoint']}"] += int(sample.value)
                elif sample.name == "rollcall_connections":
                    found["rollcall", "connections"] = int(sample.value)
        return found


def _unconditional(hook: dict[str, Any]) -> dict[str, Any]:
    """The webhook for pods as it is called for each of them."""
    is_about_pods = hook["name"] == "pods.validate.rollcall.dev"
    return {key: value for key, value in hook.items() if not (is_about_pods and key == "matchConditions")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.burst", description=__doc__)
    parser.add_argument("--pods", type=int, default=1500, help="pods in a burst (default 1500)")
    parser.add_argument("--clients", type=int, default=8, help="connections that create them (default 8)")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each kind (default 4)")
    parser.add_argument("--kube", default="1.37", help="the version of Kubernetes (default 1.37)")
    titles = [turn.title for turn in _TURNS[1:]]
    parser.add_argument("--turn", action="append", choices=titles, help="beside none, only this (default all)")
    chosen = parser.parse_args()
    turns = [turn for turn in _TURNS if turn is _NONE or turn.title in (chosen.turn or titles)]
    find_programs(f"kube-{chosen.kube}")
    spent: dict[Turn, list[Spent]] = {turn: [] for turn in turns}
    print(f"{chosen.pods} pods by {chosen.clients} clients, on {os.cpu_count()} processors")
    for number in range(chosen.rounds):
        # An API server remembers the pods of past turns, up to a gigabyte, and a turn in which its garbage collector
        # reads all of that takes twice as long. So each round has a new one, and every second round is turned around.
        burst = Burst(chosen.kube, chosen.pods, chosen.clients)
        try:
            for turn in turns[:: -1 if number % 2 else 1]:
                spent[turn].append(burst.run(turn))
                print(f"{turn.title:<22}{spent[turn][-1].seconds:>7.2f} s", flush=True)
        finally:
            burst.close()
    _print_times(spent)
    for turn, every in spent.items():
        if turn.server:
            print(f"{turn.title}: {_traffic(turn, sum((one.counts for one in every), Counter()), chosen.pods)}")


def _print_times(spent: dict[Turn, list[Spent]]) -> None:
    heads = "".join(f"{name:>12}" for name in _PROGRAMS.values())
    print(f"{'medians':<22}{'seconds':>8}{'of none':>9}{'processor s':>13}{'of none':>9}{heads}")
    for turn, every in spent.items():
        pairs = list(zip(every, spent[_NONE], strict=True))
        seconds = statistics.median(one.seconds for one in every)
        slower = statistics.median(one.seconds / none.seconds for one, none in pairs)
        used = statistics.median(one.used for one in every)
        more = statistics.median(one.used / none.used for one, none in pairs)
        each = "".join(f"{statistics.median(one.processor[name] for one in every):>12.2f}" for name in _PROGRAMS)
        print(f"{turn.title:<22}{seconds:>8.2f}{slower:>9.2f}{used:>13.2f}{more:>9.2f}{each}")


def _traffic(turn: Turn, counts: Counter[str], pods: int) -> str:
    """What the server of the turn counted: calls, connections, and the sizes of reviews where it counts them."""
    rounds = max(counts[path] for path in turn.called) / pods
    said = [f"{counts[path] / pods / rounds:.2f} calls of {path} a pod" for path in turn.paths]
    said += [f"{counts[f'{path} bytes'] / counts[path]:.0f} bytes" for path in turn.paths if counts[f"{path} bytes"]]
    return ", ".join([*said, f"{counts['connections'] / rounds:.0f} connections opened"])


if __name__ == "__main__":
    main()
