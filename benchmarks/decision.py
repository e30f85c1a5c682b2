"""`python -m benchmarks.decision`: one decision without HTTP, in microseconds and in times of the parsing of its review,
the best of several rounds. `--held` fails if a ratio is more than a quarter above the one that is recorded.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import orjson

from benchmarks.reviews import pod_clique_set_review, pod_review
from benchmarks.servers import ONE_PROFILE, SIX_PROFILES, configuration
from webhook import admission
from webhook.admission.review import request_from
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import NOTHING_KNOWN
from webhook.server.deliberation import Decision

_ROUNDS, _CALLS = 7, 2000


def best(call: Callable[[], object], rounds: int = _ROUNDS, calls: int = _CALLS) -> float:
    """Microseconds a call, in the round that was disturbed the least."""
    figures = []
    for _ in range(rounds):
        begun = thread_time()
        for _ in range(calls):
            call()
        figures.append((thread_time() - begun) / calls * 1e6)
    return min(figures)


def _parse(body: bytes) -> Request:
    return request_from(orjson.loads(body))


def _decide(decide: Decision, body: bytes, settings: Settings) -> Verdict:
    return decide(_parse(body), NOTHING_KNOWN, settings)


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
_RATIOS = Path(__file__).parent / "ratios.json"
# A ratio that is this much above the recorded one is a loss, and not only a busy machine.
_TOLERATED = 1.25


class Measured(NamedTuple):
    """What one decision takes, and the parsing of its review, in microseconds."""

    name: str
    parse: float
    decision: float

    @property
    def ratio(self) -> float:
        """The decision in times of the parsing."""
        return self.decision / self.parse


def measured() -> Iterator[Measured]:
    """Each decision under each configuration."""
    alone = "koord-scheduler, alone"
    chosen = {alone: settings(ONE_PROFILE, "koord-scheduler")}
    chosen |= {f"{name}, of six": settings(SIX_PROFILES, name) for name in SIX_PROFILES}
    chosen["koord-scheduler, of six, and all else"] = settings(SIX_PROFILES, "koord-scheduler", **WHOLE)
    for kind, body in (("PodCliqueSet", pod_clique_set_review()), ("Pod", pod_review())):
        for title, used in chosen.items():
            # Mutation changes what it is given, so each call parses anew and the parsing is taken off.
            parse = best(partial(_parse, body))
            for what, decide in DECISIONS.items():
                both = best(partial(_decide, decide, body, used))
                yield Measured(f"{kind} {what}, {title}", parse, both - parse)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decision", description=__doc__)
    parser.add_argument("--held", action="store_true", help="fail if a ratio is more than a quarter above the recorded")
    parser.add_argument("--record", action="store_true", help="write the ratios as those to hold")
    chosen = parser.parse_args()
    recorded: dict[str, float] = json.loads(_RATIOS.read_text()) if _RATIOS.exists() else {}
    ratios: dict[str, float] = {}
    lost = []
    print(f"{'':<60}{'us':>8}{'of the parsing':>16}{'recorded':>10}")
    for one in measured():
        ratios[one.name] = round(one.ratio, 1)
        before = recorded.get(one.name)
        print(f"{one.name:<60}{one.decision:>8.1f}{one.ratio:>16.1f}{'' if before is None else before:>10}")
        if before is not None and one.ratio > before * _TOLERATED:
            lost.append(one.name)
    if chosen.record:
        _RATIOS.write_text(json.dumps(ratios, indent=2) + "\n")
    elif chosen.held and lost:
        sys.exit(f"more than a quarter above what is recorded in {_RATIOS.name}: {'; '.join(lost)}")


if __name__ == "__main__":
    main()
