# Arm Cortex-M7 without an operating system. Debian: gcc-arm-none-eabi libnewlib-arm-none-eabi
# libstdc++-arm-none-eabi-newlib qemu-system-arm. Executables are linked for QEMU's board mps2-an500
# with semihosting, so that tests run; -DCANNERY_BOARD=OFF leaves start-up code, linker script and
# system calls to the project.

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR cortex-m7)

set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(_cannery_flags "-mcpu=cortex-m7 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard")
set(CMAKE_C_FLAGS_INIT "${_cannery_flags}")
set(CMAKE_CXX_FLAGS_INIT "${_cannery_flags} -fno-exceptions -fno-rtti")
set(CMAKE_ASM_FLAGS_INIT "${_cannery_flags}")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
set(CANNERY_BOARD ON CACHE BOOL "Link executables for QEMU's board mps2-an500")
if(CANNERY_BOARD)
  string(CONCAT CMAKE_EXE_LINKER_FLAGS_INIT "-specs=rdimon.specs "
    "\"-T${CMAKE_CURRENT_LIST_DIR}/mps2-an500.ld\" \"${CMAKE_CURRENT_LIST_DIR}/mps2-an500.S\"")
  cannery_emulator(qemu-system-arm -M mps2-an500 -display none -monitor none -serial none
    -semihosting-config enable=on,target=native -kernel)
endif()

set(CANNERY_TARGET cortex-m7)
