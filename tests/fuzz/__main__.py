"""`python -m tests.fuzz`: sends bodies to the ASGI application, guided by code coverage."""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time
from pathlib import Path
from random import Random

from tests.fuzz.fuzzer import Fuzzer, fuzz
from tests.fuzz.guidance import guide
from tests.fuzz.inputs import read_corpus, write_corpus
from tests.fuzz.minimize import minimized
from tests.fuzz.seeds import seeds


def main() -> int:
    """Run, say what was found, and be an error where anything was."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--bodies", type=int, default=100_000, help="how many bodies are sent (default 100000)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="of what is drawn (default: the time)")
    parser.add_argument("--found", type=Path, help="where to write all that was kept, as a corpus")
    parser.add_argument("--corpus", action="store_true", help="make the corpus of the repository out of what was kept")
    chosen = parser.parse_args()

    watching = guide()
    begun = time.process_time()
    sizes: list[int] = []

    shown: set[str] = set()

    def told(fuzzer: Fuzzer) -> None:
        sizes.append(_resident())
        for kind in fuzzer.found.complaints.keys() - shown:
            one, detail = fuzzer.found.complaints[kind][0]
            print(f"\nWRONG {detail[:500]}\n{one.line()}", file=sys.stderr, flush=True)
            shown.add(kind)
        if fuzzer.found.bodies // 5000 % 10 == 0:
            print(_line(fuzzer, len(watching.seen), begun), file=sys.stderr, flush=True)

    print(f"seed {chosen.seed}, {type(watching).__name__}", file=sys.stderr)
    inputs = [*seeds(), *read_corpus()]
    fuzzer = fuzz(Random(chosen.seed), watching, inputs, chosen.bodies, told)
    print(_line(fuzzer, len(watching.seen), begun))
    for answer, count in sorted(fuzzer.found.answers.items()):
        print(f"  {answer}: {count}")
    took, slowest = fuzzer.found.slowest
    print(f"  slowest: {took:.3f} s, {'' if slowest is None else slowest.line()[:300]}")
    if sizes:
        print(f"  resident MB: {sizes[len(sizes) // 4] / 1e6:.0f} after a quarter, {sizes[-1] / 1e6:.0f} at the end")
    if chosen.found is not None:
        write_corpus(fuzzer.kept, chosen.found)
    if chosen.corpus:
        kept = [*read_corpus(), *fuzzer.kept]
        write_corpus(asyncio.run(minimized(guide(), seeds(given=False), kept)))
    for kind, cases in fuzzer.found.complaints.items():
        for one, detail in cases:
            print(f"\nWRONG {kind}\n{detail[:500]}\n{one.line()}")
    return 1 if fuzzer.found.complaints else 0


def _line(fuzzer: Fuzzer, places: int, begun: float) -> str:
    seconds = time.process_time() - begun
    bodies = fuzzer.found.bodies
    reached = f"{places} places, {len(fuzzer.outcomes)} outcomes, {len(fuzzer.kept)} kept"
    wrong = f"{len(fuzzer.found.complaints)} kinds of wrong answers"
    return f"{bodies} bodies in {seconds:.0f} s of processor time, {bodies / seconds:.0f}/s; {reached}; {wrong}"


def _resident() -> int:
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
