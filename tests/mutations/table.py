"""All changes; how to add one: a row in the table of its folder, with the test that is nearest.

Changes are such as people make: a condition or a term that is missing, one too many or too few, the
wrong sign, operands swapped, something that is not reset. They are chosen before anybody knows
whether a test sees them.
"""

from __future__ import annotations

from mutations import (
    table_audio,
    table_devices,
    table_frontends,
    table_kernels,
    table_libraries,
    table_memory,
    table_passes,
    table_quantization,
    table_streaming,
    table_structure,
    table_tools,
    table_tune,
)
from mutations.change import Change

CHANGES: tuple[Change, ...] = (
    *table_passes.CHANGES,
    *table_quantization.CHANGES,
    *table_frontends.CHANGES,
    *table_audio.CHANGES,
    *table_kernels.CHANGES,
    *table_structure.CHANGES,
    *table_memory.CHANGES,
    *table_streaming.CHANGES,
    *table_tune.CHANGES,
    *table_tools.CHANGES,
    *table_devices.CHANGES,
    *table_libraries.CHANGES,
)
