"""Names for array types, and the one convention that kernels rely on.

Kernels are compiled once per combination of argument types, and a read-only array is a type of
its own. So an array that a kernel only reads (transitions, policies, costs) is always passed
read-only, and an array that it writes is always writable.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

_Scalar = TypeVar("_Scalar", bound=np.generic)


def frozen(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """A read-only, C-contiguous view of the array; a copy if the array is not contiguous."""
    flags = array.flags
    if not flags.c_contiguous:
        array = np.ascontiguousarray(array)
    elif not flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)
    return view
