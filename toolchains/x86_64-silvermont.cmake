# 64-bit Intel Atom (Silvermont) with Linux: the NAO V6. The compiler is the one for x86-64: the
# machine's own, or on other machines Debian's gcc-x86-64-linux-gnu g++-x86-64-linux-gnu
# libc6-dev-amd64-cross. Tests run on an emulated Westmere with what Silvermont has besides.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

set(CMAKE_C_COMPILER x86_64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER x86_64-linux-gnu-g++)
set(CMAKE_C_FLAGS_INIT "-march=silvermont")
set(CMAKE_CXX_FLAGS_INIT "-march=silvermont")

include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
if(CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "x86_64")
  cannery_emulator(qemu-x86_64 -cpu Westmere,+movbe,+rdrand,+3dnowprefetch)
else()
  set(CMAKE_FIND_ROOT_PATH /usr/x86_64-linux-gnu)
  cannery_emulator(qemu-x86_64 -cpu Westmere,+movbe,+rdrand,+3dnowprefetch
    -L /usr/x86_64-linux-gnu)
endif()

set(CANNERY_TARGET silvermont)
