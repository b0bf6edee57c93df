# 32-bit Arm (v7-A) with NEON and Linux. Debian: gcc-arm-linux-gnueabihf g++-arm-linux-gnueabihf
# libc6-dev-armhf-cross qemu-user.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7l)

set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_CXX_COMPILER arm-linux-gnueabihf-g++)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-a9 -mfpu=neon -mfloat-abi=hard")
set(CMAKE_CXX_FLAGS_INIT "-mcpu=cortex-a9 -mfpu=neon -mfloat-abi=hard")

set(CMAKE_FIND_ROOT_PATH /usr/arm-linux-gnueabihf)
include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
cannery_emulator(qemu-arm -cpu cortex-a9 -L /usr/arm-linux-gnueabihf)

set(CANNERY_TARGET armv7-a9)
