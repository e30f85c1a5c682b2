"""`python -m benchmarks.kept`: what a replica keeps of thousands of objects that are as large as the API server takes,
of each kind that is followed. Each kind is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from resource import getpagesize
from typing import NamedTuple

from tests.unit.cluster.hostile import SAMPLES, attacks, projections
from webhook.cluster.watch import Index

# etcd takes 1.5 MiB, and an object has some more fields than a sample.
OBJECT_BYTES = 1400 * 1024
# Of each way to grow an object, so many come first: parsing them is memory that the process keeps, once.
_WARM_UP = 2


class Kept(NamedTuple):
    """What became of the objects of one kind."""

    objects: int
    entries: int
    grown: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kept", description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000, help="of each kind (default 10000)")
    parser.add_argument("--bytes", type=int, default=OBJECT_BYTES, help=f"of each object (default {OBJECT_BYTES})")
    parser.add_argument("--part", help="only this part of the facts, such as koordinator_pod_groups")
    chosen = parser.parse_args()
    print(f"{'part of the facts':34}{'objects':>9}{'entries':>9}{'MB':>8}{'bytes/object':>14}{'seconds':>9}")
    for place, projection in enumerate(projections()):
        if chosen.part in {None, projection.part}:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                found = pool.submit(_keep, place, chosen.objects, chosen.bytes).result()
            name, each = f"{projection.part} ({projection.resource.api.version})", found.grown // found.objects
            figures = f"{found.objects:>9}{found.entries:>9}{found.grown / 1e6:>8.1f}{each:>14}{found.seconds:>9.1f}"
            print(f"{name:34}{figures}", flush=True)


def _keep(place: int, objects: int, size: int) -> Kept:
    projection = projections()[place]
    ways = list(attacks(SAMPLES[projection.part], size))
    warm_up = Index(projection)
    for number, attack in enumerate(ways * _WARM_UP):
        warm_up.put(attack.object(number))
    index = Index(projection)
    gc.collect()
    begun, before = time.perf_counter(), _resident_bytes()
    for number, attack in enumerate(islice(cycle(ways), objects)):
        index.put(attack.object(len(ways) * _WARM_UP + number))
    gc.collect()
    grown = max(0, _resident_bytes() - before)
    return Kept(objects, len(index.entries), grown, time.perf_counter() - begun)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


if __name__ == "__main__":
    main()
