"""The memory of a Python process that runs tasks: free memory goes back to the system.

A batch of 20,000 records of 100 bytes consists of pieces of megabytes, in several threads. Arrow's own allocator keeps
what each thread has freed, four times the peak use, and glibc also has a heap for each thread: a slot with four such
tasks held 250 MB, busy or idle. With one heap for all threads, whose free pages are returned now and then, it holds
140 MB when busy and 105 MB when idle, for the same processor time.
"""

import ctypes
import os

_POOL = "ARROW_DEFAULT_MEMORY_POOL"
# From malloc.h: M_ARENA_MAX, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. Freed memory stays until `give_back`.
_OPTIONS = {-8: 1, -1: 1 << 30, -3: 32 << 20}


def share_a_heap() -> None:
    """Let this process, and those forked from it, take all memory from one heap, if its C library can (glibc).

    Call it before there are threads, and before Arrow is imported. A pool named in the environment is kept.
    """
    if set_option := getattr(_c_library(), "mallopt", None):
        os.environ.setdefault(_POOL, "system")
        for option, value in _OPTIONS.items():
            set_option(option, value)


def give_back() -> None:
    """Return the C library's unused pages to the system (glibc)."""
    if trim := getattr(_c_library(), "malloc_trim", None):
        trim(0)


def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
