# 64-bit Arm (v8-A) with Linux; -DCANNERY_TARGET=aarch64-a72 and the like choose another processor.
# Debian: gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
if(CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "aarch64")
  cannery_emulator(qemu-aarch64 -cpu max)
else()
  set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
  cannery_emulator(qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu)
endif()

if(NOT DEFINED CANNERY_TARGET)
  set(CANNERY_TARGET aarch64-a53)
endif()
