"""`python -m benchmarks`: /validate and /mutate over HTTPS against an empty route, in turns."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks import held_ratios
from benchmarks.load import Figures, drive, request_bytes
from benchmarks.reviews import manifests, pod_clique_set_review, pod_review, real_reviews
from benchmarks.servers import SIX_PROFILES, empty_route, free_port, resident_megabytes, rollcall


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each target has its turn (default 5)")
    parser.add_argument("--seconds", type=float, default=3, help="how long a turn lasts (default 3)")
    parser.add_argument("--connections", type=int, default=8, help="keep-alive connections (default 8)")
    parser.add_argument("--reviews", type=Path, help="a folder of recorded AdmissionReviews to send instead")
    held_ratios.add_options(parser)
    chosen = parser.parse_args()

    best: dict[str, float] = {}
    if chosen.reviews is None:
        bodies = {"PodCliqueSet": [pod_clique_set_review()], "Pod": [pod_review()]}
    else:
        bodies = {str(chosen.reviews): real_reviews(chosen.reviews)}
    with tempfile.TemporaryDirectory() as name:
        folder, ports = Path(name), Ports(free_port(), free_port(), free_port())
        with (
            rollcall(folder, ports.one) as (server, cold),
            rollcall(folder, ports.six, SIX_PROFILES),
            empty_route(folder, ports.empty),
        ):
            print(f"cold start {cold:.2f} s, resident {resident_megabytes(server):.0f} MB")
            for title, reviews in bodies.items():
                size = sum(map(len, reviews)) // len(reviews)
                print(f"\n{title}: {len(reviews)} review(s) of {size} bytes, {chosen.connections} connections")
                ratios = uvloop.run(_compare(ports, folder / "ca.crt", reviews, chosen))
                best |= {f"{title} {name}": round(ratio, 2) for name, ratio in ratios.items()}
            uvloop.run(_beside_checks(ports.one, folder / "ca.crt", chosen))
            print(f"\nafterwards resident {resident_megabytes(server):.0f} MB")
    held_ratios.conclude(
        chosen, "server, of an empty route", best, lambda now, then: now * held_ratios.TOLERATED < then
    )


class Ports(NamedTuple):
    """Where rollcall listens with one profile and with six, and where the empty route does."""

    one: int
    six: int
    empty: int


async def _compare(ports: Ports, ca: Path, reviews: list[bytes], chosen: argparse.Namespace) -> dict[str, float]:
    """By endpoint and number of profiles: the share of the empty route, the middle one to record, the best to hold."""
    targets = {
        "empty route": (ports.empty, [request_bytes("/empty", body) for body in reviews]),
        **{
            f"{path}, {title}": (port, [request_bytes(f"{path}?timeout=5s", body) for body in reviews])
            for path in ("/validate", "/mutate")
            for title, port in (("1 profile", ports.one), ("6 profiles", ports.six))
        },
    }
    runs: dict[str, list[Figures]] = {name: [] for name in targets}
    for port, requests in targets.values():
        await drive(port, ca, requests, connections=chosen.connections, seconds=0.5)
    for _ in range(chosen.rounds):
        for name, (port, requests) in targets.items():
            runs[name].append(await drive(port, ca, requests, connections=chosen.connections, seconds=chosen.seconds))
    print(f"{'':<22}{'req/s':>8}{'p50 ms':>8}{'p95 ms':>8}{'p99 ms':>8}{'max ms':>8}   of the empty route")
    best: dict[str, float] = {}
    for name, figures in runs.items():
        ratios = [own.rate / empty.rate for own, empty in zip(figures, runs["empty route"], strict=True)]
        middle = [statistics.median(getattr(run, field) for run in figures) for field in ("rate", "p50", "p95", "p99")]
        worst = max(run.worst for run in figures)
        print(
            f"{name:<22}{middle[0]:>8.0f}{middle[1]:>8.2f}{middle[2]:>8.2f}{middle[3]:>8.2f}{worst:>8.1f}"
            f"   {statistics.median(ratios):.0%} ({min(ratios):.0%} to {max(ratios):.0%})"
        )
        if name != "empty route":
            best[name] = statistics.median(ratios) if chosen.record else max(ratios)
    return best


async def _beside_checks(port: int, ca: Path, chosen: argparse.Namespace) -> None:
    """/validate while two clients have /check read file after file of YAML: threads that share one interpreter."""
    admission, checks = (
        [request_bytes("/validate?timeout=5s", pod_clique_set_review())],
        [request_bytes("/check", manifests(10))],
    )
    print("\n/validate of a PodCliqueSet, and what /check takes from it")
    for name, clients in (("alone", 0), ("beside /check", 2)):
        runs = [drive(port, ca, admission, connections=chosen.connections, seconds=chosen.seconds)]
        if clients:
            runs.append(drive(port, ca, checks, connections=clients, seconds=chosen.seconds))
        figures, *rest = await asyncio.gather(*runs)
        beside = f", {rest[0].rate:.1f} checks/s" if rest else ""
        print(f"{name:<14}{figures.rate:>6.0f} req/s, p50 {figures.p50:.2f} ms, p99 {figures.p99:.2f} ms{beside}")


if __name__ == "__main__":
    main()
