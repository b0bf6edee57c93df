# Arm Cortex-M0+ without an operating system, see arm-none-eabi.cmake.
set(CANNERY_CORTEX m0plus)
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
