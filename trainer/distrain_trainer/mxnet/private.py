"""Use private names of MXNet 1.9 that have no public equivalent. All other modules use only public names.

There will be no more releases of MXNet, so these names will not change.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from mxnet.base import _LIB, check_call

# The attributes of the fp16 loss scaler that change during the training. Only `loss_scale` is public.
SCALES = ("loss_scale", "next_loss_scale", "unskipped")


def barrier(store: Any) -> None:
    """Wait until every worker of a KVStore has called this. MXNet's own documentation uses `_barrier` too."""
    store._barrier()


def parameters_by_path(model: Any) -> dict[str, Any]:
    """Return the parameters of a model, keyed by their paths in the model.

    Gluon's save_parameters writes them under the same paths.
    """
    return dict(model._collect_params_with_prefix())


def updater_of(trainer: Any) -> Any:
    """For a trainer with one device, return the object that contains the optimizer's state.

    The public function save_states can only write the state to a file.
    """
    [updater] = trainer._updaters
    return updater


def count_update(optimizer: Any, index: int) -> None:
    """Increase the optimizer's count of a weight's updates without changing the weight."""
    optimizer._update_count(index)


def loss_scaler_of(trainer: Any) -> Any:
    """Return the loss scaler that amp.init_trainer has attached to a trainer, or None."""
    return getattr(trainer, "_amp_loss_scaler", None)


def scales_of(scaler: Any) -> dict[str, float]:
    return {name: getattr(scaler, f"_{name}") for name in SCALES}


def set_scales(scaler: Any, scales: Mapping[str, float]) -> None:
    for name in SCALES:
        if name in scales:
            setattr(scaler, f"_{name}", scales[name])


def copy_from_gpu(array: Any, place: Any) -> None:
    """Copy an array into host memory. asnumpy would allocate new memory."""
    pointer = place.ctypes.data_as(ctypes.c_void_p)
    check_call(_LIB.MXNDArraySyncCopyToCPU(array.handle, pointer, ctypes.c_size_t(place.size)))


def view(array: Any) -> Any:
    """Wait until an array on the host is computed, and return a view of its bytes.

    The bytes share the array's memory.
    """
    array.wait_to_read()
    pointer = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    size = array.size * np.dtype(array.dtype).itemsize
    return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_uint8)), shape=(size,))
