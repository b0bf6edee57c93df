# 64-bit RISC-V with Linux, plain C. Debian: gcc-riscv64-linux-gnu g++-riscv64-linux-gnu
# libc6-dev-riscv64-cross qemu-user.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)

set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)

set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu)
include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
cannery_emulator(qemu-riscv64 -L /usr/riscv64-linux-gnu)

set(CANNERY_TARGET riscv64)
