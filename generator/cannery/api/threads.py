"""Threads that work on the calls of one network."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any

import numpy as np

from cannery.api.arrays import Array, pointer
from cannery.errors import ToolchainError

#: Equal to `CANNERY_POOL_MAX_THREADS` in `pthread_pool.h`.
MAX_THREADS = 32

#: The alignment of memory for generated code.
_ALIGN = 64


def aligned(size: int) -> Array:
    """This many bytes of zeros, aligned for use as a workspace."""
    memory = np.zeros(size + _ALIGN, np.uint8)
    start = -(pointer(memory).value or 0) % _ALIGN
    return memory[start : start + size]


class Threads:
    """A pool of threads, started by the first call, for one caller at a time.

    Whoever uses it holds `lock`. In a forked process, the threads start again.
    """

    def __init__(self, library: Any, count: int) -> None:
        self.count = count
        self.lock = threading.Lock()
        self._size = library.cannery_python_threads_bytes
        self._start = library.cannery_python_threads_start
        self._stop = library.cannery_python_threads_stop
        self._size.restype = ctypes.c_size_t
        self._stop.restype = None
        self._memory: Array | None = None
        self._process = 0

    def pool(self) -> ctypes.c_void_p:
        """The pool for the generated functions. Raises ToolchainError."""
        if self._memory is None or self._process != os.getpid():
            memory = aligned(self._size())
            error = self._start(pointer(memory), ctypes.c_int32(self.count))
            if error:
                raise ToolchainError(
                    f"threads cannot be started: {os.strerror(error)}", where="threads",
                    cure="take fewer",
                )  # fmt: skip
            self._memory, self._process = memory, os.getpid()
            weakref.finalize(self, _end, self._stop, memory, self._process)
        return pointer(self._memory)


def _end(stop: Any, memory: Array, process: int) -> None:
    """End the threads of a pool; a forked process has none of them."""
    if process == os.getpid():
        stop(pointer(memory))
