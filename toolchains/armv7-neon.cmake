# 32-bit Arm (v7-A) with NEON and Linux; -DCANNERY_TARGET=armv7-a7 and the like choose another
# processor. Debian: gcc-arm-linux-gnueabihf g++-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user.
# Where floats are passed in integer registers, -DCANNERY_FLOAT_ABI=softfp; Debian:
# gcc-arm-linux-gnueabi g++-arm-linux-gnueabi libc6-dev-armel-cross.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7l)

if(NOT DEFINED CANNERY_TARGET)
  set(CANNERY_TARGET armv7-a9)
endif()
if(NOT DEFINED CANNERY_FLOAT_ABI)
  set(CANNERY_FLOAT_ABI hard)
endif()
set(_cannery_core cortex-a9)
if(CANNERY_TARGET MATCHES "^armv7-(a[0-9]+)$")
  set(_cannery_core "cortex-${CMAKE_MATCH_1}")
endif()
set(_cannery_triple arm-linux-gnueabihf)
if(CANNERY_FLOAT_ABI STREQUAL "softfp")
  set(_cannery_triple arm-linux-gnueabi)
endif()

set(CMAKE_C_COMPILER ${_cannery_triple}-gcc)
set(CMAKE_CXX_COMPILER ${_cannery_triple}-g++)
set(_cannery_flags "-mcpu=${_cannery_core} -mfpu=neon -mfloat-abi=${CANNERY_FLOAT_ABI}")
set(CMAKE_C_FLAGS_INIT "${_cannery_flags}")
set(CMAKE_CXX_FLAGS_INIT "${_cannery_flags}")

set(CMAKE_FIND_ROOT_PATH /usr/${_cannery_triple})
include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
cannery_emulator(qemu-arm -cpu ${_cannery_core} -L /usr/${_cannery_triple})
