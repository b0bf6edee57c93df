# Arm Cortex-M55 without an operating system, see arm-none-eabi.cmake.
set(CANNERY_CORTEX m55)
include("${CMAKE_CURRENT_LIST_DIR}/arm-none-eabi.cmake")
