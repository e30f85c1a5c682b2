"""Each fact about a release, with the gang that it concerns and the one that it does not."""

from __future__ import annotations

import re

import pytest

from webhook.operations.release_notes import EVERY_CHANGE, UNREAD
from webhook.operations.releases import ChangeOutcome, Product, Release, ReleaseChange, ReleaseExample
from webhook.operations.upgrade_plan import Upgrade, UpgradeVerdict, verdict

CHANGES = [pytest.param(change, id=change.id) for change in EVERY_CHANGE]


def judged(change: ReleaseChange, example: ReleaseExample) -> UpgradeVerdict:
    targets = {} if change.product is None else {change.product: Release(example.to)}
    return verdict(Upgrade(targets, example.cluster.moves), example.gang, example.cluster)


@pytest.mark.parametrize("change", CHANGES)
def test_a_fact_concerns_its_example(change: ReleaseChange) -> None:
    (effect,) = [one for one in judged(change, change.hit).effects if one.change == change.id]
    assert (effect.outcome, effect.source) == (change.outcome, change.source)
    assert "{" not in effect.why + effect.before + effect.after


@pytest.mark.parametrize("change", CHANGES)
def test_a_fact_spares_its_other_example(change: ReleaseChange) -> None:
    assert change.id not in [one.change for one in judged(change, change.spared).effects]


@pytest.mark.parametrize("change", CHANGES)
def test_a_fact_says_what_to_do_and_where_it_is_from(change: ReleaseChange) -> None:
    assert re.fullmatch(r"https://\S+(, https://\S+)*( \([^)]+\))?", change.source)
    assert not change.why.endswith(".")
    assert change.outcome is ChangeOutcome.CONTINUES or change.before, "something can be done before"


def test_every_fact_has_a_name_of_its_own() -> None:
    assert len({change.id for change in EVERY_CHANGE}) == len(EVERY_CHANGE)


def test_the_example_of_every_product_is_a_release_that_is_known() -> None:
    for product in Product:
        assert product not in UNREAD or Release(product.example) < UNREAD[product]


# What was seen on real clusters, or is stated by the projects: a fact whose example is upgraded, release, outcome.
SEEN = [
    ("grove/own-backend", "v0.1.0-alpha.11", "continues"),
    ("grove/own-backend", "v0.1.0-alpha.12-rc1", "continues"),
    ("grove/own-backend", "v0.1.0-alpha.12", "must be re-created"),
    ("grove/podgangs-replaced", "v0.1.0-alpha.13", "continues"),
    ("grove/own-backend", "v0.1.0-alpha.13", "must be re-created"),
    ("kubernetes/workload-v1alpha1", "1.35", "continues"),
    ("kubernetes/workload-v1alpha1", "1.36", "must be re-created"),
    ("kubernetes/workload-v1alpha1", "1.37", "must be re-created"),
    ("kubernetes/workload-v1alpha2", "1.36", "continues"),
    ("kubernetes/workload-v1alpha2", "v1.37.0-beta.0", "must be re-created"),
    ("kubernetes/workload-v1alpha2", "v1.37.2+k3s1", "must be re-created"),
    ("kai/finishing-gangs", "0.16.1", "continues"),
    ("kai/finishing-gangs", "0.16.2", "unknown"),
    ("kai/finishing-gangs", "v0.16.9", "unknown"),
    ("kai/finishing-gangs", "0.17", "unknown"),
    ("kai/finishing-gangs", "0.17.1", "continues"),
    ("koordinator/topology", "1.6", "unknown"),
    ("koordinator/topology", "1.7", "continues"),
    ("koordinator/topology", "1.8.0", "continues"),
]


@pytest.mark.parametrize(("change", "to", "outcome"), SEEN)
def test_a_release_has_the_outcome_that_was_seen(change: str, to: str, outcome: str) -> None:
    (found,) = [one for one in EVERY_CHANGE if one.id == change]
    assert judged(found, found.hit._replace(to=to)).outcome == outcome


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("v0.1.0-alpha.11", "v0.1.0-alpha.12-rc1"),
        ("v0.1.0-alpha.12-rc1", "v0.1.0-alpha.12-rc2"),
        ("v0.1.0-alpha.12-rc2", "v0.1.0-alpha.12"),
        ("v0.1.0-alpha.9", "v0.1.0-alpha.10"),
        ("v0.1.0-alpha.13", "v0.1.0-beta.1"),
        ("v0.1.0-rc.1", "v0.1.0"),
        ("1.37.0-beta.0", "1.37"),
        ("1.37", "v1.37.1"),
        ("0.9", "0.16.2"),
    ],
)
def test_releases_are_ordered(earlier: str, later: str) -> None:
    assert Release(earlier) < Release(later)


def test_a_release_without_a_patch_number_is_the_first_of_its_series() -> None:
    assert Release("0.17") == Release("v0.17.0") == Release("0.17.0+fips")
    assert {Release("0.17")} == {Release("0.17.0")}
    assert (str(Release("v0.17")), repr(Release("v0.17"))) == ("v0.17", "Release('v0.17')")


@pytest.mark.parametrize("written", ["", "latest", "1", "1.x", "1.2.3.4", "1.37 ", "v", "0.1.0-alpha.13\n", "99999.1"])
def test_what_is_not_a_version_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=re.escape(written) or "^$"):
        Release(written)
