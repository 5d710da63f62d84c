import itertools

import numpy as np
import pytest

import belated as bl
from belated.environments.gridworld import MOVES, PAPER_WALLS


def test_paper_grid_has_the_known_optimum():
    world = bl.environments.paper_grid()
    assert world.problem == bl.Problem(100, 4, 50, homogeneous=True)
    _, value = bl.best_policy(world.mdp, world.costs.at(0))
    assert value == pytest.approx(21.34, abs=0.005)
    walled = bl.environments.paper_walled_grid()
    _, longer = bl.best_policy(walled.mdp, walled.costs.at(0))
    assert 31 < longer < 33


@pytest.mark.parametrize("absorbing", [False, True])
def test_gridworld_against_its_definition(absorbing):
    rows, columns, slip = 3, 4, 0.2
    walls = [(1, 1), (0, 3)]
    world = bl.environments.gridworld((rows, columns), walls, slip, 6, absorbing)
    p = world.mdp.transitions.dense()[0]
    expected = np.zeros((12, 4, 12))
    for row, column, action in itertools.product(range(rows), range(columns), range(4)):
        s = row * columns + column
        for move, (down, right) in enumerate(MOVES):
            to = (row + down, column + right)
            inside = 0 <= to[0] < rows and 0 <= to[1] < columns
            stuck = (row, column) in walls or not inside or to in walls
            if absorbing and s == 11:
                stuck = True
            target = s if stuck else to[0] * columns + to[1]
            expected[s, action, target] += slip / 4 + (1 - slip) * (move == action)
    np.testing.assert_allclose(p, expected, atol=1e-15)
    costs = world.costs.at(0)
    assert costs.shape == (1, 12, 4)
    assert np.all(costs[0, 11] == 0)
    assert np.all(costs[0, :11] == 1)


def test_walls_are_never_entered():
    world = bl.environments.paper_walled_grid()
    uniform = np.full(world.problem.shape, 0.25)
    reach = bl.occupancy(world.mdp, uniform).sum((0, 2)).reshape(10, 10)
    assert all(reach[cell] == 0 for cell in PAPER_WALLS)
    assert np.count_nonzero(reach) == 100 - len(PAPER_WALLS)


def test_random_mdp_is_sparse_and_repeats():
    world = bl.environments.random_mdp(8, 3, 5, successors=2, homogeneous=False, seed=4)
    assert world.mdp.transitions.successors.shape == (5, 8, 3, 2)
    assert np.all((world.mdp.transitions.dense() > 0).sum(-1) == 2)
    again = bl.environments.random_mdp(8, 3, 5, successors=2, homogeneous=False, seed=4)
    assert np.array_equal(world.mdp.transitions.dense(), again.mdp.transitions.dense())


def test_chain_prefers_to_swim():
    world = bl.environments.chain(6, 40)
    policy, value = bl.best_policy(world.mdp, world.costs.at(0))
    assert np.all(policy[0, :, 1] == 1)
    left = np.zeros(world.problem.shape)
    left[:, :, 0] = 1
    assert value < bl.policy_values(world.mdp, left, world.costs.at(0))[0][0, 0]


def test_bandit_and_lower_bound_shapes():
    assert bl.environments.bandit([0.1, 0.2, 0.3]).problem.shape == (1, 1, 3)
    world = bl.environments.delay_lower_bound(4, states=3, actions=2, horizon=2)
    assert world.problem.shape == (2, 3, 2)
    assert np.array_equal(world.costs.at(0), world.costs.at(4))
