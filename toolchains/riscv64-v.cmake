# 64-bit RISC-V with the V extension and Linux; -DCANNERY_TARGET=riscv64v256 for registers of 256 bits.
# Debian: clang-19 and, for libraries and linker, gcc-riscv64-linux-gnu g++-riscv64-linux-gnu
# libc6-dev-riscv64-cross qemu-user.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)

set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET riscv64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET riscv64-linux-gnu)

if(NOT DEFINED CANNERY_TARGET)
  set(CANNERY_TARGET riscv64v128)
endif()
string(REPLACE "riscv64v" "" vlen "${CANNERY_TARGET}")

set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu)
include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
cannery_emulator(qemu-riscv64 -cpu rv64,v=true,vlen=${vlen},vext_spec=v1.0
  -L /usr/riscv64-linux-gnu)
