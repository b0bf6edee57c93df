# The network of examples/ball. `cannery` says where CMake finds the package Cannery.
vcpkg_check_linkage(ONLY_STATIC_LIBRARY)

find_program(CANNERY cannery REQUIRED)
execute_process(
  COMMAND "${CANNERY}" cmake-dir
  OUTPUT_VARIABLE cannery_dir
  OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)

vcpkg_cmake_configure(
  SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/project"
  OPTIONS
    "-DCannery_DIR=${cannery_dir}"
    "-DBALL_MODEL=${CMAKE_CURRENT_LIST_DIR}/../../../ball/ball.h5")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME ball-net)

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
file(WRITE "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright" "The generated code is yours: MIT-0.\n")
