"""What is known of releases: one entry for each fact, with its source. A new release is a new entry."""

from __future__ import annotations

from webhook.upgrades.change import Change
from webhook.upgrades.changes import grove, kai, kubernetes, schedulers
from webhook.upgrades.releases import Product, Release

ALL: tuple[Change, ...] = (
    *schedulers.CHANGES,
    *kai.CHANGES,
    *kubernetes.CHANGES,
    *grove.CHANGES,
)

# From this release on nothing is known of a product: it is later than what was read. Raise it with the entries.
UNREAD: dict[Product, Release] = {
    Product.KOORDINATOR: Release("1.9.0"),
    Product.VOLCANO: Release("1.16.0"),
    Product.KAI: Release("0.18.0"),
    Product.KUBERNETES: Release("1.39.0-alpha.0"),
    Product.GROVE: Release("v0.1.0-alpha.14-rc0"),
}
