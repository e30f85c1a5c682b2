"""One fact about releases: from which release on it holds, which gangs it concerns, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from webhook.upgrades.present import Cluster, PresentGang
from webhook.upgrades.releases import Product, Release


class Outcome(StrEnum):
    """What happens to a gang, the worst last. A gang that *must be re-created* cannot be kept whole by anything."""

    CONTINUES = "continues"
    UNKNOWN = "unknown"
    RECREATE = "must be re-created"

    @property
    def badness(self) -> int:
        """Its place in the order."""
        return list(Outcome).index(self)


class Example(NamedTuple):
    """A gang in a cluster, and the release to which the product is upgraded."""

    to: str
    gang: PresentGang
    cluster: Cluster = Cluster()


Concerns = Callable[[PresentGang, Cluster], bool]


@dataclass(frozen=True, slots=True)
class Change:
    """A fact about the releases of a product, from `since` on and before `until`. In the series of a release in
    `patched` it ends with that release: the fix was backported.

    `product` is None for a change of scheduler (`--scheduler`), which has no releases. `why`, `before` and `after` are
    the reason and what to do, for all gangs that it concerns. `hit` and `spared` are a gang that it concerns and one
    that it does not: they are its first test.
    """

    id: str
    product: Product | None
    concerns: Concerns
    outcome: Outcome
    why: str
    source: str
    hit: Example
    spared: Example
    since: str | None = None
    until: str | None = None
    patched: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    _range: tuple[Release | None, Release | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises `ValueError` if `since` or `until` is not a version."""
        bounds = tuple(None if one is None else Release(one) for one in (self.since, self.until))
        object.__setattr__(self, "_range", bounds)

    def holds(self, release: Release) -> bool:
        """Whether it is a fact about this release."""
        since, until = self._range
        if any(fix.series == release.series and fix <= release for fix in map(Release, self.patched)):
            return False
        return (since is None or since <= release) and (until is None or release < until)


def gang(name: str = "demo-0", scheduler: str | None = "koord-scheduler", **fields: object) -> PresentGang:
    """A gang for an example."""
    return replace(PresentGang("default", name, scheduler), **fields)  # type: ignore[arg-type]
