"""`python -m benchmarks.decision`: one decision without HTTP, in microseconds and in times of a copy of its review, the
best of several rounds. The copy is `copy.deepcopy`: no code of this project, and Python as the decision is, so that the
ratio is the same on a quick and on a slow machine.
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import Any, NamedTuple

import orjson

from benchmarks import held_ratios
from benchmarks.reviews import pod_clique_set_review, pod_review
from benchmarks.servers import ONE_PROFILE, SIX_PROFILES, configuration
from webhook import admission
from webhook.admission.decision import request_from
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import NO_FACTS
from webhook.server.admission_review import Decision

_ROUNDS, _CALLS = 50, 100


def best(*calls: Callable[[], object], rounds: int = _ROUNDS, times: int = _CALLS) -> list[float]:
    """Microseconds of each call, in the round that was disturbed the least. They take turns, so that what disturbs the
    machine for some seconds spoils no call in all rounds.
    """
    least = [math.inf] * len(calls)
    for _ in range(rounds):
        for index, call in enumerate(calls):
            begun = thread_time()
            for _ in range(times):
                call()
            least[index] = min(least[index], (thread_time() - begun) / times * 1e6)
    return least


def _parse(body: bytes) -> Request:
    return request_from(orjson.loads(body))


def _decide(decide: Decision, body: bytes, settings: Settings) -> Verdict:
    return decide(_parse(body), NO_FACTS, settings)


def settings(profiles: Sequence[str], default: str, **sections: Any) -> Settings:
    """Those of a server without a cluster. `sections` are further ones of its configuration."""
    return replace(settings_from(configuration(profiles, default) | sections, "benchmark"), standalone=True)


# Every section that rules look at: what a review has nothing of should cost nothing.
WHOLE: dict[str, Any] = {
    "kueue": {"waitForPodsReady": {"timeout": "2h"}},
    "fit": {"nodes": "auto", "templates": [{"name": "h100", "allocatable": {"cpu": 180, "memory": "1900Gi"}}]},
    "exceptions": [
        {
            "name": "night-runs",
            "rules": ["koordinator/mnnvl"],
            "namespaces": ["other"],
            "reason": "moved next week",
            "grantedBy": "anna@example.com",
            "until": "2099-01-01",
        }
    ],
}
DECISIONS: dict[str, Decision] = {"validate": admission.validate, "mutate": admission.mutate}
# A decision is the difference of two measurements, so a small one is never exact.
_NOISE = 0.05
_SECTION = "decision, of a copy of its review"


class Measured(NamedTuple):
    """What one decision takes, and a copy of its review, in microseconds."""

    name: str
    copy: float
    decision: float

    @property
    def ratio(self) -> float:
        """The decision in times of the copy."""
        return self.decision / self.copy


def measured() -> list[Measured]:
    """Each decision under each configuration."""
    alone = "koord-scheduler, alone"
    chosen = {alone: settings(ONE_PROFILE, "koord-scheduler")}
    chosen |= {f"{name}, of six": settings(SIX_PROFILES, name) for name in SIX_PROFILES}
    chosen["koord-scheduler, of six, and all else"] = settings(SIX_PROFILES, "koord-scheduler", **WHOLE)
    ratios: list[Measured] = []
    for kind, body in (("PodCliqueSet", pod_clique_set_review()), ("Pod", pod_review())):
        cases = {
            f"{kind} {what}, {title}": partial(_decide, decide, body, used)
            for title, used in chosen.items()
            for what, decide in DECISIONS.items()
        }
        # Mutation changes what it is given, so each call parses anew and the parsing is taken off.
        copied, parsed, *decided = best(
            partial(copy.deepcopy, orjson.loads(body)), partial(_parse, body), *cases.values()
        )
        ratios += [Measured(name, copied, both - parsed) for name, both in zip(cases, decided, strict=True)]
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decision", description=__doc__)
    held_ratios.add_options(parser)
    chosen = parser.parse_args()
    before = held_ratios.recorded(_SECTION)
    ratios: dict[str, float] = {}
    print(f"{'':<60}{'us':>8}{'of a copy':>10}{'recorded':>10}")
    for figure in measured():
        ratios[figure.name] = round(figure.ratio, 2)
        print(f"{figure.name:<60}{figure.decision:>8.1f}{figure.ratio:>10.2f}{before.get(figure.name, ''):>10}")
    held_ratios.conclude(chosen, _SECTION, ratios, lambda now, then: now > then * held_ratios.TOLERATED + _NOISE)


if __name__ == "__main__":
    main()
