"""Labels at the ends of curves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from belated.lab import drawing


@given(st.lists(st.floats(0, 1), max_size=8))
def test_labels_are_moved_apart_in_their_order(wanted):
    wanted = np.array(wanted)
    placed = drawing.spread(wanted, gap=0.06)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(placed[order]) >= 0.06 - 1e-9).all()
    if len(wanted) > 1 and np.diff(np.sort(wanted)).min() >= 0.06:
        np.testing.assert_allclose(placed, wanted)


def test_labels_that_must_move_down_leave_the_others_where_they_are():
    placed = drawing.spread(np.array([0.3, 0.98, 0.99, 1.0]), gap=0.06)
    np.testing.assert_allclose(placed, [0.3, 0.88, 0.94, 1.0])
