# Arm Cortex-M without an operating system: M7, or what CANNERY_CORTEX says (cortex-m4.cmake and its
# kin set it). Debian: gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib
# qemu-system-arm. Executables are linked for a board of QEMU with semihosting, so that tests run;
# -DCANNERY_BOARD=OFF leaves start-up code, linker script and system calls to the project.

if(NOT CANNERY_CORTEX)
  set(CANNERY_CORTEX m7)
endif()
set(_cannery_memory)
set(_cannery_board mps2-an385)
if(CANNERY_CORTEX STREQUAL "m4")
  set(_cannery_fpu "-mfpu=fpv4-sp-d16 -mfloat-abi=hard")
  set(_cannery_board mps2-an386)
elseif(CANNERY_CORTEX STREQUAL "m7")
  set(_cannery_fpu "-mfpu=fpv5-sp-d16 -mfloat-abi=hard")
  set(_cannery_board mps2-an500)
elseif(CANNERY_CORTEX STREQUAL "m33")
  set(_cannery_fpu "-mfpu=fpv5-sp-d16 -mfloat-abi=hard")
  set(_cannery_board mps2-an505)
  set(_cannery_memory vectors_start=0x10000000 code_start=0x10000400 data_start=0x38000000)
elseif(CANNERY_CORTEX STREQUAL "m55")
  set(_cannery_fpu "-mfloat-abi=hard")
  set(_cannery_board mps3-an547)
  set(_cannery_memory vectors_start=0 code_start=0x01000000 code_bytes=0x200000
    data_start=0x21000000)
elseif(CANNERY_CORTEX MATCHES "^(m0plus|m3)$")
  set(_cannery_fpu "")
else()
  message(FATAL_ERROR "Cannery: no toolchain for CANNERY_CORTEX=${CANNERY_CORTEX}; "
    "take m0plus, m3, m4, m7, m33 or m55")
endif()

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR cortex-${CANNERY_CORTEX})

set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(_cannery_flags "-mthumb -mcpu=cortex-${CANNERY_CORTEX} ${_cannery_fpu}")
set(CMAKE_C_FLAGS_INIT "${_cannery_flags}")
set(CMAKE_CXX_FLAGS_INIT "${_cannery_flags} -fno-exceptions -fno-rtti")
set(CMAKE_ASM_FLAGS_INIT "${_cannery_flags}")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
set(CANNERY_BOARD ON CACHE BOOL "Link executables for a board of QEMU")
if(CANNERY_BOARD)
  string(CONCAT CMAKE_EXE_LINKER_FLAGS_INIT "-specs=rdimon.specs "
    "\"-T${CMAKE_CURRENT_LIST_DIR}/mps2.ld\" \"${CMAKE_CURRENT_LIST_DIR}/mps2.S\"")
  foreach(_cannery_symbol IN LISTS _cannery_memory)
    string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -Wl,--defsym=${_cannery_symbol}")
  endforeach()
  cannery_emulator(qemu-system-arm -M ${_cannery_board} -display none -monitor none -serial none
    -semihosting-config enable=on,target=native -kernel)
endif()

set(CANNERY_TARGET cortex-${CANNERY_CORTEX})
