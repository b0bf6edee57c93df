# RISC-V, 32 bit, with an FPU for float32, without an operating system, see riscv32imc.cmake.
set(CANNERY_RV32 imafc)
include("${CMAKE_CURRENT_LIST_DIR}/riscv32imc.cmake")
