# Arm Cortex-M3 without an operating system, see arm-none-eabi.cmake.
set(CANNERY_CORTEX m3)
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
