from __future__ import annotations

from itertools import product
from random import Random

from webhook.fit.exact import Space, Steps
from webhook.fit.verdict import StepBudget


def test_the_reached_vectors_are_the_sums_of_patterns_and_all_below_them() -> None:
    random = Random(1)  # noqa: S311 - the same each time, and no secret
    for _ in range(60):
        most = tuple(random.randint(0, 4) for _ in range(random.randint(1, 3)))
        nodes = [
            [tuple(random.randint(0, 3) for _ in most) for _ in range(random.randint(1, 3))]
            for _ in range(random.randint(1, 4))
        ]
        steps = Steps(Space(most))
        for patterns in nodes:
            steps.add(patterns, None, StepBudget())
        sums = [tuple(map(sum, zip(*chosen, strict=True))) for chosen in product(*nodes)]
        for vector in product(*(range(limit + 1) for limit in most)):
            reached = any(all(a <= b for a, b in zip(vector, total, strict=True)) for total in sums)
            assert steps.has(vector) == reached, (most, nodes, vector)


def test_the_way_back_says_what_each_node_takes() -> None:
    steps = Steps(Space((3, 2)))
    for name in ("first", "second", "third"):
        steps.add([(1, 1), (2, 0)], name, StepBudget())
    taken = dict(steps.back((3, 2)))
    assert sorted(taken.values()) == [(1, 0), (1, 1), (1, 1)] or tuple(map(sum, zip(*taken.values(), strict=True))) == (
        3,
        2,
    )
    assert all(pods in ((1, 0), (1, 1), (2, 0), (0, 1)) for pods in taken.values())


def test_the_largest_vectors_have_none_above_them() -> None:
    space = Space((3, 3))
    steps = Steps(space)
    steps.add([(1, 2), (3, 0)], None, StepBudget())
    assert sorted(space.largest(steps.reached)) == [(1, 2), (3, 0)]
