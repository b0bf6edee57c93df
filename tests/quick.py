"""What `pytest -m quick` runs: the edit loop, a minute on two cores.

These modules start next to no programs. They see what passes, frontends, plans, records, layouts,
memory and options do, how the references compute, and what becomes of the C text; whether
compilers, emulators, CMake and the command line agree is left to the others.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent

#: Modules, and folders all of whose modules are quick.
QUICK = """
ctext ir layouts passes
analysis/test_mix
choose/test_bounds choose/test_plan choose/test_record choose/test_rounding
cli/test_files cli/test_pictures cli/test_tuning_report
emit/test_golden emit/test_halo emit/test_literals
frontends/test_foreign frontends/test_keras_augmentation frontends/test_keras_damage
frontends/test_keras_errors frontends/test_keras_formats frontends/test_keras_layers
frontends/test_keras_recurrent frontends/test_keras_weights
frontends/test_onnx_attributes frontends/test_onnx_classic frontends/test_onnx_declared
frontends/test_onnx_einsum
frontends/test_onnx_functions frontends/test_onnx_halves frontends/test_onnx_layouts
frontends/test_onnx_lists frontends/test_onnx_order frontends/test_onnx_pools
frontends/test_onnx_reasons frontends/test_onnx_recurrent frontends/test_onnx_refusals
frontends/test_onnx_resize
frontends/test_onnx_scales frontends/test_onnx_semantics frontends/test_peepholes
lowering/test_chains lowering/test_cores lowering/test_memory_plan lowering/test_run_functions
measure/test_intervals measure/test_trial
mutations/test_generated mutations/test_table
ops/test_infer ops/test_infer_agrees ops/test_reference ops/test_reference_elementwise
ops/test_scalar ops/test_shuffles ops/test_sources ops/test_unrolled ops/test_winograd
quantization/test_calibration quantization/test_floats quantization/test_flow
quantization/test_random quantization/test_scales quantization/test_steps quantization/test_table
reporting/test_comparison reporting/test_facts reporting/test_placing
reporting/test_roofline reporting/test_tried
test_architecture test_options test_options_matter
tuning/test_approximations tuning/test_budget tuning/test_earlier tuning/test_finalists
tuning/test_search
""".split()


def is_quick(module: Path) -> bool:
    """Whether a module of tests is one of them."""
    place = module.relative_to(ROOT).with_suffix("")
    return place.as_posix() in QUICK or place.parent.as_posix() in QUICK
