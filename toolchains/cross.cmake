# What the toolchain files have in common.

# Programs come from this machine, libraries and headers from the target's root. Packages may be
# anywhere: Cannery's own is a Python package of this machine.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)

# cannery_emulator(<program> <argument>...): tests run under it, if it is installed.
macro(cannery_emulator program)
  find_program(CANNERY_EMULATOR NAMES ${program} ${program}-static)
  if(CANNERY_EMULATOR)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${CANNERY_EMULATOR};${ARGN}")
  endif()
endmacro()
