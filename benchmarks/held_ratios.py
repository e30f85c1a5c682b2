"""The ratios that a change must hold: those of decisions to a copy of their reviews, and of the server to an empty
route. `benchmarks/ratios.json` has them; `--record` writes them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_FILE = Path(__file__).parent / "ratios.json"
# A ratio that is a quarter worse is a loss, and not only a busy machine.
TOLERATED = 1.25


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the two options to the command line of a benchmark."""
    parser.add_argument(
        "--held", action="store_true", help="fail if a ratio is more than a quarter worse than recorded"
    )
    parser.add_argument("--record", action="store_true", help="write the ratios as those to hold")


def recorded(section: str) -> Mapping[str, float]:
    """The recorded ratios of one benchmark."""
    ratios: dict[str, float] = _sections().get(section, {})
    return ratios


def conclude(
    chosen: argparse.Namespace,
    section: str,
    ratios: Mapping[str, float],
    is_worse: Callable[[float, float], bool],
) -> None:
    """Record the ratios, or exit if one `is_worse` than the recorded one, as the command line chose."""
    if chosen.record:
        _FILE.write_text(json.dumps(_sections() | {section: dict(ratios)}, indent=2) + "\n")
        return
    before = recorded(section)
    lost = [name for name, ratio in ratios.items() if name in before and is_worse(ratio, before[name])]
    if chosen.held and lost:
        sys.exit(f"more than a quarter worse than {_FILE.name} has: {'; '.join(lost)}")


def _sections() -> dict[str, dict[str, float]]:
    sections: dict[str, dict[str, float]] = json.loads(_FILE.read_text()) if _FILE.exists() else {}
    return sections
