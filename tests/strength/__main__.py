"""`python -m tests.strength`: random gangs judged, against an oracle that tries everything. A table by family.

It is an error if a gang that can be placed is called *never*, if one that cannot is said to fit, if of those that
cannot less than 95 % are called *never*, or less than 80 % of a family.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.strength.cases import FAMILIES
from tests.strength.measure import Tally, enough, measured


def main() -> int:
    """Run, print the table, and be an error where the promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=3_000, help="how many gangs in all (default 3000)")
    parser.add_argument(
        "--seed", type=int, default=time.time_ns() % 2**32, help="of the first gang (default: the time)"
    )
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only this family, may be repeated")
    chosen = parser.parse_args()
    families = chosen.family or list(FAMILIES)
    print(f"seed {chosen.seed}")
    print(Tally.HEAD)
    tallies = []
    for family in families:
        tallies.append(measured(family, range(chosen.seed, chosen.seed + chosen.cases // len(families))))
        print(tallies[-1].line(family), flush=True)
    total = Tally.of(tallies)
    print(total.line("all"))
    for tally in tallies:
        for wrong in tally.wrong:
            print(f"WRONG {wrong}")
    return 0 if enough(tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
