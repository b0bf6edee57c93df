# 32-bit Intel Atom (Bonnell) with Linux: the NAO V5. Debian: gcc-i686-linux-gnu g++-i686-linux-gnu
# libc6-dev-i386-cross qemu-user. Tests run on an emulated Atom N270, which has no more than SSSE3.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR i686)

set(CMAKE_C_COMPILER i686-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER i686-linux-gnu-g++)
set(CMAKE_C_FLAGS_INIT "-march=bonnell -mfpmath=sse")
set(CMAKE_CXX_FLAGS_INIT "-march=bonnell -mfpmath=sse")

set(CMAKE_FIND_ROOT_PATH /usr/i686-linux-gnu)
include("${CMAKE_CURRENT_LIST_DIR}/cross.cmake")
cannery_emulator(qemu-i386 -cpu n270 -L /usr/i686-linux-gnu)

set(CANNERY_TARGET atom32)
