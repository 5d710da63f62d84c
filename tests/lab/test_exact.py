"""Exact values, against enumeration and limits."""

import itertools
import math

import pytest

from belated.lab import part
from belated.lab.spec import Scene
from oracles import delay_lower_bound, expected_largest_surplus, oppo_bound


@pytest.mark.parametrize(("blocks", "actions"), [(1, 2), (3, 2), (4, 3), (5, 2)])
def test_the_largest_surplus_agrees_with_enumeration(blocks, actions):
    coins = itertools.product(itertools.product((0, 1), repeat=blocks), repeat=actions)
    surpluses = [max(blocks / 2 - sum(arm) for arm in arms) for arms in coins]
    expected = sum(surpluses) / len(surpluses)
    assert expected_largest_surplus(blocks, actions) == pytest.approx(expected)


def test_the_exact_lower_bound_tends_to_that_of_normal_variables():
    # (H / 2) E[largest of A standard normals] sqrt(K (d + 1)); E = 1.02938 for A = 4
    for delay in (0, 4, 19):
        world = part("delay_lower_bound", delay=delay, actions=4, horizon=3)
        found = delay_lower_bound(Scene(world, None, part("fixed", delay=delay), 4000))
        assert found == pytest.approx(1.5 * 1.02938 * math.sqrt(4000 * (delay + 1)), rel=2e-3)


def test_the_bound_is_least_at_its_own_rate():
    H, A, K, D = 3, 4, 100, 50
    squares = 1 + 4 + 9
    rate = math.sqrt(H * math.log(A) / ((K + D) * squares))
    best = oppo_bound(H, A, K, D, rate)
    assert best == pytest.approx(2 * math.sqrt(H * math.log(A) * (K + D) * squares))
    assert oppo_bound(H, A, K, D, rate / 2) > best
