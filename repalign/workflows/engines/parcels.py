"""Units on their way to other processes: what several of them share is sent to a node once.

A unit of a comparison carries the moments and the ICA of its two spaces, which are those of many
other units. Pickled out of band (PEP 574), each large array is put into Ray's object store once,
and every process of a node reads the same memory.
"""

import pickle
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ray import ObjectRef

# Smaller arrays travel with their unit.
SHARED_BYTES = 2**18
# What is kept in the object store for units to come; the longest unused goes first.
KEPT_BYTES = 2**28


@dataclass(frozen=True)
class Parcel:
    """Units as bytes, and references to the arrays that they share with others."""

    content: bytes
    arrays: "tuple[ObjectRef[Any], ...]"


class Packer:
    """Packs units, and puts large arrays of theirs into the object store, where they stay a while.

    Use one for units that are alive together.

    Attributes:
        shared_bytes: How many bytes were put.
    """

    def __init__(self) -> None:
        # The buffer is kept with its reference, so that no other array gets its address.
        self._put: OrderedDict[tuple[int, int], tuple[pickle.PickleBuffer, ObjectRef[Any]]]
        self._put = OrderedDict()
        self._kept_bytes = self.shared_bytes = 0

    def pack(self, units: Sequence[Any]) -> Parcel:
        """Return units ready to be sent."""
        found: list[ObjectRef[Any]] = []

        def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
            if memoryview(buffer).nbytes < SHARED_BYTES:
                return True
            found.append(self._reference(buffer))
            return False

        content = pickle.dumps(list(units), protocol=5, buffer_callback=keep_in_band)
        return Parcel(content, tuple(found))

    def _reference(self, buffer: pickle.PickleBuffer) -> "ObjectRef[Any]":
        import ray

        values = np.frombuffer(buffer.raw(), dtype=np.uint8)
        where = (values.__array_interface__["data"][0], values.nbytes)
        if where not in self._put:
            self._put[where] = (buffer, ray.put(values))
            self.shared_bytes += values.nbytes
            self._kept_bytes += values.nbytes
        self._put.move_to_end(where)
        reference = self._put[where][1]
        while self._kept_bytes > KEPT_BYTES and len(self._put) > 1:
            # Tasks on their way hold theirs, so that nothing is lost.
            (_, n_bytes), _ = self._put.popitem(last=False)
            self._kept_bytes -= n_bytes
        return reference


def unpack(content: bytes, arrays: Sequence[Any]) -> list[Any]:
    """Return the units of a parcel, whose shared arrays have arrived."""
    return pickle.loads(content, buffers=arrays)
