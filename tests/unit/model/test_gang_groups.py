"""The index of lists in Koordinator's PodGroups, when groups are created, changed and deleted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed
from webhook.model.pod_groups import KoordinatorPodGroup, KoordinatorPodGroups, gang_id

KEYS = [("default", name) for name in "abc"]


def group(*names: str) -> KoordinatorPodGroup:
    return KoordinatorPodGroup(1, tuple(f"default/{name}" for name in names))


def searched(known: KoordinatorPodGroups) -> dict[str, set[tuple[str, str]]]:
    """The same by a search through all of them."""
    return {
        gang_id(wanted): {key for key, found in known.items() if gang_id(wanted) in found.groups and key != wanted}
        for wanted in KEYS
    }


changes = st.lists(
    st.tuples(
        st.sampled_from(KEYS), st.none() | st.lists(st.sampled_from("abc"), max_size=4).map(lambda names: group(*names))
    )
)


@given(changes)
def test_the_index_agrees_with_a_full_search(made: list[tuple[tuple[str, str], KoordinatorPodGroup | None]]) -> None:
    known = KoordinatorPodGroups()
    for key, found in made:
        if found is None:
            known.pop(key, None)
        else:
            known[key] = found
    assert {gang_id(key): set(known.listing(key)) for key in KEYS} == searched(known)


def test_a_deleted_group_is_removed_from_the_index() -> None:
    known = KoordinatorPodGroups({KEYS[0]: group("a", "b")})
    del known[KEYS[0]]
    assert not known.listing(KEYS[1])


def test_a_snapshot_with_added_facts_keeps_the_index_and_does_not_change_the_cache() -> None:
    cache = KoordinatorPodGroups({KEYS[0]: group("a", "b")})
    facts = ClusterFacts(koordinator_pod_groups=cache)
    learned = facts.learned({Needed("koordinator_pod_groups", KEYS[2]): group("b", "c")}).koordinator_pod_groups
    assert learned is not None
    assert set(learned.listing(KEYS[1])) == {KEYS[0], KEYS[2]}
    assert set(cache.listing(KEYS[1])) == {KEYS[0]}
