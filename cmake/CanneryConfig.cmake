# find_package(Cannery CONFIG REQUIRED) provides add_nn_model() and install_nn_model(), see
# AddNnModel.cmake. Found through Cannery_DIR=$(cannery cmake-dir), or Cannery_ROOT.

cmake_minimum_required(VERSION 3.21...3.31)

include("${CMAKE_CURRENT_LIST_DIR}/AddNnModel.cmake")

set(Cannery_FOUND TRUE)
