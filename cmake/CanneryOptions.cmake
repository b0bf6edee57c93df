# Rendered from cannery/options.py and cannery/target/ by
#   python -m cannery.options_cmake > cmake/CanneryOptions.cmake
# Do not edit.

set(_CANNERY_FLAG_OPTIONS "METADATA;SAME_EVERYWHERE;PARALLEL;OPENMP;SHARED;COMPILED_NN;STREAMING;VARIABLE_LENGTH;LOCKED;STAND_IN;TRACE_STEPS;DUMP_VALUES")
set(_CANNERY_ONE_OPTIONS "NAME;BATCH;MAX_TRIPS;NOISE;PEEPHOLES;CLASS_NAMES;TARGET;MAX_LINES;MAX_SIZE;SPLIT;MAX_ERROR;QUANTIZE;CALIBRATION;MAX_LOSS;IO_LAYOUT;IO_TYPE;SCALE;OFFSET;MANY;WEIGHTS;LATENCY;TUNING")
set(_CANNERY_MANY_OPTIONS "DIM;SET;OUTPUTS;STATE;CUSTOM;ISA;INPUT_DTYPE;REVERSE_CHANNELS;INPUT_VIEW;RENAME;BLOCK;TIME_AXIS")
set(_CANNERY_PATH_OPTIONS "PEEPHOLES;CLASS_NAMES;CALIBRATION;WEIGHTS;TUNING")

# Flags that make compilers produce code for a target or an instruction set.
set(_CANNERY_TARGETS "native;atom32;silvermont;armv7-a9;aarch64-a53;aarch64-a72;aarch64-a76;aarch64-a78;cortex-m7;riscv64;generic;sse2;ssse3;sse42;avx2;avx512;avx512vnni;neon32;neon64;neon64dot;riscv64v128;riscv64v256;sse2-32;ssse3-32;sse42-32;avx2-32;avx512-32;avx512vnni-32")
set(_CANNERY_ISAS "generic;sse2;ssse3;sse42;avx2;avx512;avx512vnni;neon32;neon64;neon64dot;riscv64v128;riscv64v256;sse2-32;ssse3-32;sse42-32;avx2-32;avx512-32;avx512vnni-32")
set(_CANNERY_FLAGS_atom32 "-march=bonnell;-mfpmath=sse")
set(_CANNERY_FLAGS_silvermont "-march=silvermont")
set(_CANNERY_FLAGS_armv7-a9 "-mcpu=cortex-a9;-mfpu=neon;-mfloat-abi=hard")
set(_CANNERY_FLAGS_aarch64-a53 "-mcpu=cortex-a53")
set(_CANNERY_FLAGS_aarch64-a72 "-mcpu=cortex-a72")
set(_CANNERY_FLAGS_aarch64-a76 "-mcpu=cortex-a76")
set(_CANNERY_FLAGS_aarch64-a78 "-mcpu=cortex-a78")
set(_CANNERY_FLAGS_cortex-m7 "-mcpu=cortex-m7;-mthumb;-mfpu=fpv5-sp-d16;-mfloat-abi=hard")
set(_CANNERY_FLAGS_riscv64 "")
set(_CANNERY_FLAGS_generic "")
set(_CANNERY_FLAGS_sse2 "-msse2")
set(_CANNERY_FLAGS_ssse3 "-mssse3")
set(_CANNERY_FLAGS_sse42 "-msse4.2")
set(_CANNERY_FLAGS_avx2 "-mavx2;-mfma")
set(_CANNERY_FLAGS_avx512 "-mavx2;-mfma;-mavx512f;-mavx512vl;-mavx512bw;-mavx512dq")
set(_CANNERY_FLAGS_avx512vnni "-mavx2;-mfma;-mavx512f;-mavx512vl;-mavx512bw;-mavx512dq;-mavx512vnni")
set(_CANNERY_FLAGS_neon32 "-mfpu=neon;-mfloat-abi=hard")
set(_CANNERY_FLAGS_neon64 "")
set(_CANNERY_FLAGS_neon64dot "-march=armv8.2-a+dotprod")
set(_CANNERY_FLAGS_riscv64v128 "-march=rv64gcv;-mrvv-vector-bits=zvl;-mllvm;-force-vector-width=1")
set(_CANNERY_FLAGS_riscv64v256 "-march=rv64gcv_zvl256b;-mrvv-vector-bits=zvl;-mllvm;-force-vector-width=1")
set(_CANNERY_FLAGS_sse2-32 "-msse2;-mfpmath=sse")
set(_CANNERY_FLAGS_ssse3-32 "-mssse3;-mfpmath=sse")
set(_CANNERY_FLAGS_sse42-32 "-msse4.2;-mfpmath=sse")
set(_CANNERY_FLAGS_avx2-32 "-mavx2;-mfma;-mfpmath=sse")
set(_CANNERY_FLAGS_avx512-32 "-mavx2;-mfma;-mavx512f;-mavx512vl;-mavx512bw;-mavx512dq;-mfpmath=sse")
set(_CANNERY_FLAGS_avx512vnni-32 "-mavx2;-mfma;-mavx512f;-mavx512vl;-mavx512bw;-mavx512dq;-mavx512vnni;-mfpmath=sse")

# Processors and boards that have no target of their own, and what serves them.
set(_CANNERY_BOARDS "nao;ras[pb]|raps|rpi|pi-?[345];(arm-?)?cortex-?a9$;(arm-?)?cortex-?a53$;(arm-?)?cortex-?a72$;(arm-?)?cortex-?a76$;(arm-?)?cortex-?a78$;jetson|orin|booster;rk3588|orange-?pi-?5|rock-?5;(aarch64|arm64|armv8)(-?a)?$;bonnell|atom|i[3-6]86;(x86|amd64|x64)([-_]64)?$;stm32[fh]7|cortex-?m7;spacemit|banana-?pi-?f3;(risc-?v|rv)-?64|risc-?v$|sifive|visionfive;esp|rp2|stm32|nrf|avr|arduino|teensy|xtensa|risc|rv(32|64)|cortex-?m|mips|power|wasm")
set(_CANNERY_BOARD_CURES "silvermont for a NAO V6, atom32 for a V5;aarch64-a53 for a Raspberry Pi 3, aarch64-a72 for a 4, aarch64-a76 for a 5;armv7-a9;aarch64-a53;aarch64-a72;aarch64-a76;aarch64-a78;aarch64-a78;aarch64-a76;neon64, which every Arm v8-A runs;atom32, or sse2-32, which every 32-bit PC runs;sse2, which every PC runs, or native for this one;cortex-m7;riscv64v256;riscv64, or riscv64v128 or riscv64v256 if it has the V extension, by the width of its registers;any, with the chip's compiler and flags by --cc, or in CMake by your toolchain file")

# How generated code is compiled in every configuration.
set(_CANNERY_PRIVATE_FLAGS_all "-O2;-fno-fast-math;-ffp-contract=off")
set(_CANNERY_PRIVATE_FLAGS_gcc "-fno-tree-ter;-fno-tree-loop-distribute-patterns;-fno-schedule-insns")
set(_CANNERY_PRIVATE_FLAGS_gcc_neon "-frename-registers")
set(_CANNERY_PRIVATE_FLAGS_x86_32 "-mfpmath=sse")
