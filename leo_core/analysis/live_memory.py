"""The most memory that tensors made inside a block held at one time, on any device, from torch's own operations."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Use as a context manager; `peak` is in bytes. What existed before the block (weights, inputs) is not counted, and neither
    is what a kernel uses inside itself. An operation is slowed down by the count, so time nothing in the same block.
    """

    def __init__(self):
        super().__init__()
        self.peak = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}
        self._before: dict[int, StorageWeakRef] = {}  # references keep the addresses from being used again

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._live and storage._cdata not in self._before:
                    self._before[storage._cdata] = StorageWeakRef(storage)
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage())
        self._live = {key: one for key, one in self._live.items() if not one[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self._live.values()))
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        known = self._live.get(key)
        if known is not None and known[0].expired():  # another storage took the place of one that is gone
            known = None
        if known is None and key not in self._before:
            self._live[key] = (StorageWeakRef(storage), storage.nbytes())
