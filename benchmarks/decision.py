"""`python -m benchmarks.decision`: one decision without HTTP, in microseconds, the best of several rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import thread_time

import orjson

from benchmarks.reviews import pod_clique_set_review, pod_review
from benchmarks.servers import FIVE_PROFILES, ONE_PROFILE, configuration
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
    found = []
    for _ in range(rounds):
        begun = thread_time()
        for _ in range(calls):
            call()
        found.append((thread_time() - begun) / calls * 1e6)
    return min(found)


def _parse(body: bytes) -> Request:
    return request_from(orjson.loads(body))


def _decide(decide: Decision, body: bytes, settings: Settings) -> Verdict:
    return decide(_parse(body), NOTHING_KNOWN, settings)


def settings(profiles: Sequence[str], default: str) -> Settings:
    """Those of a server without a cluster."""
    return replace(settings_from(configuration(profiles, default), "benchmark"), standalone=True)


def main() -> None:
    chosen = {"koord-scheduler, alone": settings(ONE_PROFILE, "koord-scheduler")}
    chosen |= {f"{name}, of five": settings(FIVE_PROFILES, name) for name in FIVE_PROFILES}
    print(f"{'':<14}{'parse':>8}{'validate':>10}{'mutate':>8}   microseconds")
    for title, body in (("PodCliqueSet", pod_clique_set_review()), ("Pod", pod_review())):
        # Mutation changes what it is given, so each call parses anew and the parsing is taken off.
        parse = best(partial(_parse, body))
        for scheduler, used in chosen.items():
            figures = [
                best(partial(_decide, decide, body, used)) - parse for decide in (admission.validate, admission.mutate)
            ]
            print(f"{title:<14}{parse:>8.1f}{figures[0]:>10.1f}{figures[1]:>8.1f}   {scheduler}")


if __name__ == "__main__":
    main()
