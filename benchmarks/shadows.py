"""`python -m benchmarks.shadows`: what shadows add to the review of a workload, at the endpoint, without HTTP.

The servers take turns in one process, so the ratios count. Each has koord-scheduler as its default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import orjson

from benchmarks.decision import best
from benchmarks.reviews import pod_clique_set_review, pod_review
from benchmarks.servers import SIX_PROFILES, configuration
from webhook import admission
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.facts import NO_FACTS
from webhook.server.admission_review import Deliberation
from webhook.server.shadows import ENDPOINT, Allowance, Moment
from webhook.server.state import ServerState

_SHADOWS: dict[str, Sequence[Any]] = {
    "no shadow": (),
    "one scheduler": ("kai-scheduler",),
    "one configuration": ({"config": "next.yaml"},),
    "two schedulers": ("kai-scheduler", "volcano"),
    "four": ("kai-scheduler", "volcano", "lpx-scheduler", {"config": "next.yaml"}),
}
_TURNS, _CALLS = 7, 500


class _Unlimited(Allowance):
    """A share that is never used up: the benchmark asks shadows all the time."""

    def use(self, seconds: float) -> None:
        """Take nothing."""


def main() -> None:
    states = {title: ServerState(_settings(shadows), NO_FACTS, None) for title, shadows in _SHADOWS.items()}
    for state in states.values():
        if state.shadows is not None:
            state.shadows.allowance = _Unlimited()
    for kind, body in (("PodCliqueSet", pod_clique_set_review()), ("Pod", pod_review())):
        found: dict[str, list[float]] = {title: [] for title in states}
        for _ in range(_TURNS):
            for title, state in states.items():
                found[title].append(best(partial(_judge, state, body), rounds=1, times=_CALLS)[0])
        alone = min(found["no shadow"])
        print(f"{kind}: {len(body)} bytes, microseconds a review with its decoding")
        for title, figures in found.items():
            print(f"  {title:<18}{min(figures):>8.1f}   {min(figures) / alone:.2f} of no shadow")


def _settings(shadows: Sequence[Any]) -> Settings:
    later = settings_from(configuration(SIX_PROFILES, "volcano"), "benchmark", shadow_files=None)
    document = {**configuration(SIX_PROFILES, "koord-scheduler"), "shadow": list(shadows)}
    return replace(settings_from(document, "benchmark", shadow_files={"next.yaml": later}), standalone=True)


def _judge(state: ServerState, body: bytes) -> None:
    now = perf_counter()
    shadows = None
    if state.shadows is not None:
        shadows = partial(state.shadows.annotations, moment=Moment(now, now + 5, ()))
    facts = state.facts
    review = Deliberation(ENDPOINT, admission.validate, state.settings, lambda: facts, None, shadows=shadows)
    review.begin(body, orjson.loads)


if __name__ == "__main__":
    main()
