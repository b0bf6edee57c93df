# RISC-V, 32 bit, without an operating system: RV32IMC, or what CANNERY_RV32 says (riscv32imafc.cmake
# sets it). Debian: gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc; picolibc
# has no C++ library there. Executables are linked for a board of QEMU with semihosting, so that tests
# run; -DCANNERY_BOARD=OFF leaves start-up code, linker script and system calls to the project.

if(NOT CANNERY_RV32)
  set(CANNERY_RV32 imc)
endif()
if(CANNERY_RV32 STREQUAL "imc")
  set(_cannery_abi ilp32)
elseif(CANNERY_RV32 STREQUAL "imafc")
  set(_cannery_abi ilp32f)
else()
  message(FATAL_ERROR "Cannery: no toolchain for CANNERY_RV32=${CANNERY_RV32}; take imc or imafc")
endif()

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv32)

set(CMAKE_C_COMPILER riscv64-unknown-elf-gcc)
set(CMAKE_CXX_COMPILER riscv64-unknown-elf-g++)
set(_cannery_flags "-march=rv32${CANNERY_RV32} -mabi=${_cannery_abi} --specs=picolibc.specs")
set(CMAKE_C_FLAGS_INIT "${_cannery_flags}")
set(CMAKE_CXX_FLAGS_INIT "${_cannery_flags} -fno-exceptions -fno-rtti")
set(CMAKE_ASM_FLAGS_INIT "${_cannery_flags}")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
# g++ would link the C++ library, which is not there.
set(CMAKE_CXX_LINK_EXECUTABLE "${CMAKE_C_COMPILER} <FLAGS> <CMAKE_CXX_LINK_FLAGS> <LINK_FLAGS> \
<OBJECTS> -o <TARGET> <LINK_LIBRARIES>")

include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
set(CANNERY_BOARD ON CACHE BOOL "Link executables for a board of QEMU")
if(CANNERY_BOARD)
  string(CONCAT CMAKE_EXE_LINKER_FLAGS_INIT "--oslib=semihost --crt0=semihost -Wl,--wrap=main "
    "\"${CMAKE_CURRENT_LIST_DIR}/riscv32-virt.S\"")
  foreach(_cannery_symbol IN ITEMS __flash=0x80000000 __flash_size=16M __ram=0x81000000
      __ram_size=16M __stack_size=1M)
    string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -Wl,--defsym=${_cannery_symbol}")
  endforeach()
  cannery_emulator(qemu-system-riscv32 -M virt -cpu rv32 -bios none -chardev stdio,id=out
    -display none -monitor none -serial none
    -semihosting-config enable=on,target=native,chardev=out -kernel)
endif()

set(CANNERY_TARGET riscv32${CANNERY_RV32})
