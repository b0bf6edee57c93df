"""Rivals that compile an ONNX file, for this processor or what a limit leaves of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rivals.runtimes import F32, Runtime

#: The variable of the environment that names a limit.
LIMIT = "CPUID_LIMIT"

#: Processors that a limit stands for, as LLVM names them.
_CPUS = {"": "host", "avx2": "haswell", "sse": "nehalem"}


def _cpu() -> str:
    return _CPUS[os.environ.get(LIMIT, "")]


class Iree(Runtime):
    """IREE's compiler by LLVM, run by its synchronous runtime; with several threads by its pool."""

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        from iree import runtime

        if threads > 1:
            runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        self.config = runtime.Config("local-task" if threads > 1 else "local-sync")
        context = runtime.SystemContext(config=self.config)
        module = runtime.VmModule.mmap(context.instance, str(_iree_module(file)))
        context.add_vm_module(module)
        names = [n for n in module.function_names if not n.startswith("__") and "$" not in n]
        self.function = context.modules[module.name][names[0]]
        self.inputs: list[Any] = []
        self.found: Any = ()

    def set(self, inputs: Mapping[str, F32]) -> None:
        """See the base."""
        from iree import runtime

        self.inputs = [
            runtime.asdevicearray(self.config.device, array) for array in inputs.values()
        ]

    def call(self) -> None:
        """See the base."""
        self.found = self.function(*self.inputs)

    def outputs(self) -> dict[str, F32]:
        """See the base."""
        found = self.found if isinstance(self.found, tuple | list) else (self.found,)
        return {str(k): np.array(array) for k, array in enumerate(found)}


def _iree_module(file: Path) -> Path:
    """The compiled network; raises CalledProcessError."""
    tools, made = Path(sys.executable).parent, file.with_suffix(".vmfb")
    source = file.with_suffix(".mlir")
    target = [
        "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
        f"--iree-llvmcpu-target-cpu={_cpu()}", "--iree-opt-level=O3",
    ]  # fmt: skip
    for command in (
        [tools / "iree-import-onnx", file, "-o", source],
        [tools / "iree-compile", source, *target, "-o", made],
    ):
        subprocess.run(list(map(str, command)), check=True)
    return made


class Tvm(Runtime):
    """Apache TVM as it compiles without tuning, which takes hours; always one thread."""

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        import onnx
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        if threads > 1:
            raise RuntimeError("takes part with one thread")
        os.environ["TVM_NUM_THREADS"] = "1"
        self.tvm = tvm
        cpu = tvm.target.codegen.llvm_get_system_cpu() if _cpu() == "host" else _cpu()
        module = from_onnx(onnx.load(str(file)), keep_params_in_input=False)
        built = tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "mcpu": cpu}))
        self.function = relax.VirtualMachine(built, tvm.cpu())["main"]
        self.inputs: list[Any] = []
        self.found: Any = ()

    def set(self, inputs: Mapping[str, F32]) -> None:
        """See the base."""
        self.inputs = [self.tvm.runtime.tensor(array) for array in inputs.values()]

    def call(self) -> None:
        """See the base."""
        self.found = self.function(*self.inputs)

    def outputs(self) -> dict[str, F32]:
        """See the base."""
        single = hasattr(self.found, "numpy")
        found = (self.found,) if single else tuple(self.found)
        return {str(k): np.array(array.numpy()) for k, array in enumerate(found)}

    def remark(self) -> str:
        """See the base."""
        return "not tuned"
