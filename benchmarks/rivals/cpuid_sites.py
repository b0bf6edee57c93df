"""Where the CPUID instructions of libraries are.

Two bytes are not an instruction: they may be part of a longer one, or of a constant. So the
function that they are in is disassembled from its start, which the tables for exceptions tell.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_CPUID = b"\x0f\xa2"
_LOAD, _EH_FRAME_HDR = 1, 0x6474E550
_EXECUTABLE = 1

#: Bytes from such an instruction on that are disassembled, too: one that the two bytes are part of
#: has to be whole.
_REST = 32

#: Bytes before it from which disassembling finds the beginnings of instructions in any case.
_FAR = 1 << 16

#: Of the table in .eh_frame_hdr: how it counts, and how it writes addresses (of 4 bytes, from its
#: start). All linkers write these.
_UDATA4, _DATAREL_SDATA4 = 0x03, 0x3B


class _Elf:
    """What is needed of a shared library of x86-64, little-endian."""

    def __init__(self, file: Path) -> None:
        self.data = file.read_bytes()
        if self.data[:5] != b"\x7fELF\x02":
            self.segments = []
            return
        offset, size, count = (
            struct.unpack_from("<Q", self.data, 32)[0],
            *struct.unpack_from("<HH", self.data, 54),
        )
        #: Type, flags, offset, address, bytes in the file.
        self.segments = [
            struct.unpack_from("<IIQQ8xQ", self.data, offset + k * size) for k in range(count)
        ]

    def candidates(self) -> Iterator[int]:
        """Addresses of the two bytes in code."""
        for kind, flags, offset, address, size in self.segments:
            at = offset - 1
            while kind == _LOAD and flags & _EXECUTABLE:
                at = self.data.find(_CPUID, at + 1, offset + size)
                if at < 0:
                    break
                yield address + at - offset

    def code(self, begin: int, end: int) -> bytes:
        """What lies between two addresses."""
        for kind, _, offset, address, size in self.segments:
            if kind == _LOAD and address <= begin < address + size:
                last = min(end, address + size)
                return self.data[begin - address + offset : last - address + offset]
        return b""

    def functions(self) -> list[int]:
        """Addresses of functions, ascending."""
        for kind, _, offset, address, _ in self.segments:
            version, _, counts, table = self.data[offset : offset + 4]
            known = (version, counts, table) == (1, _UDATA4, _DATAREL_SDATA4)
            if kind == _EH_FRAME_HDR and known:
                (count,) = struct.unpack_from("<I", self.data, offset + 8)
                entries = struct.unpack_from(f"<{2 * count}i", self.data, offset + 12)
                return [address + start for start in entries[::2]]
        return []


@cache
def cpuid_sites(file: Path) -> tuple[int, ...]:
    """Addresses of the CPUID instructions of a library, from its start."""
    elf = _Elf(file)
    functions = elf.functions()
    found = []
    for address in elf.candidates():
        number = bisect_right(functions, address)
        start = max(functions[number - 1] if number else address, address - _FAR)
        if number and _is_cpuid(elf.code(start, address + _REST), address - start):
            found.append(address)
    return tuple(found)


def _is_cpuid(code: bytes, at: int) -> bool:
    """Whether an instruction at this place is one; `code` begins where a function does."""
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(code)
        file.flush()
        command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return bool(re.search(rf"^\s*{at:x}:.*\tcpuid", done.stdout, re.MULTILINE))


def mapped_code(process: int) -> list[Path]:
    """The files that a process has code of."""
    lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    parts = (line.split(maxsplit=5) for line in lines)
    names = {p[5] for p in parts if len(p) == 6 and "x" in p[1] and p[5].startswith("/")}
    return sorted(path for path in map(Path, names) if path.is_file())
