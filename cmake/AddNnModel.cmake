# add_nn_model(<target> MODEL <file>
#              [NAME <c identifier>] [TARGET <name> | ISA <isa>...] [TUNING <record or folder>]
#              [AUTOTUNE] [CONTEXT cold|warm] [DEVICE <name>...] [LOCKED] [STAND_IN]
#              [MAX_ERROR <e>] [WEIGHTS_AS float32|float16|int4|palette4|palette2] [COMPUTE_AS float32|float16|bfloat16] [MAX_LINES <n>] [MAX_SIZE <x>] [MAX_RAM <n>] [MAX_FLASH <n>] [FAST_RAM <n>] [SECTION weights|code|workspace|fast=<name>...] [SPLIT <n>] [IO_LAYOUT model|nhwc|nchw] [IO_TYPE model|raw] [BATCH <n>] [DIM <name>=<n> ...] [INPUT_DTYPE <tensor>=uint8 ...]
#              [SCALE <s>] [OFFSET <o>] [REVERSE_CHANNELS <tensor>...] [INPUT_VIEW <tensor>...] [MANY <n>] [PARALLEL] [OPENMP] [SHARED] [WEIGHTS <file>] [COMPILED_NN] [CLASS_NAMES <file>] [METADATA] [PEEPHOLES <npz>] [CUSTOM <op>=<c>...] [STREAMING] [BLOCK <n>...] [LATENCY <n>] [TIME_AXIS <tensor>=<axis>...] [VARIABLE_LENGTH]
#              [QUANTIZE int16|int8] [CALIBRATION <npz>] [MAX_LOSS <e>] [SAME_EVERYWHERE] [STATE <input>=<output> ...] [SET <input>=<value> ...] [MAX_TRIPS <n>] [NOISE seed|input|mean]
#              [RENAME <tensor>=<name> ...] [OUTPUTS <tensor>...] [TRACE_STEPS] [DUMP_VALUES]
#              [FLAGS_FROM <target>...])
#
#   Makes a static library <target>, alias cannery::<target>, of the network in <file>, with its
#   headers <name>.h and <name>.hpp. NAME defaults to <target>, made an identifier. Also makes the
#   targets <target>_autotune and <target>_verify.
#
#   Without TARGET and ISA the variable CANNERY_TARGET counts, which toolchain files set. Without
#   that, the library uses what the compiler allows under the flags really in use: those of the
#   configuration, of the directory, and of the targets in FLAGS_FROM.
#
#   AUTOTUNE makes the tuning record as part of the build, before the sources, if there is none that
#   serves every layer: as <target>_autotune does, with the compiler, the flags and the emulator of
#   the build. Nothing is tuned while the record serves; delete it to tune again. Where only an
#   emulator runs programs, also by a script, no record is made, as times of an emulator choose
#   nothing: the cost model chooses. With LOCKED, it does not: the record is made if need be, then has to serve every
#   layer, so a build that cannot measure needs a record from elsewhere. CONTEXT says what calls find
#   in the caches when AUTOTUNE or <target>_autotune measures: see cannery autotune --context.
#   STAND_IN lets CMAKE_CROSSCOMPILING_EMULATOR reach another processor than the target's; its times
#   count as another's then. DEVICE, else the variable CANNERY_DEVICE, names devices that run programs
#   instead: ssh:nao@10.0.0.5, or a name from devices.toml (cannery autotune --device).
#
#   INPUT_VIEW names image inputs that are regions of larger images: <name>_run gets their strides.
#   MANY sets how many inputs <name>_run_many computes together at most. STREAMING makes networks
#   over time run step by step, BLOCK steps in a call (several: functions for each), with outputs that may be LATENCY steps late
#   (auto: as few as the network needs); STATE names inputs and outputs that are the state: <name>_step.
#   SECTION names where the linker finds the weights, the code and the static workspace. FAST_RAM gives the
#   workspace a region of up to so many bytes for what is accessed most: <name>_run_in takes both regions.
#   SET makes inputs constants. NOISE says where the random numbers of a network come from; seed: <name>_seed.
#   TIME_AXIS says which axes of inputs are steps, where Cannery finds others.
#   VARIABLE_LENGTH: sequences have up to as many steps as the model, <name>_run gets their length.
#
#   SPLIT spreads the code over this many C files, which are compiled at once; a library of a model file
#   of 4 MB or more has 4, others 1, unless it is given.
#
#   PARALLEL adds <name>_run_parallel and <name>_run_many_parallel, which use the threads of a pool
#   that the program brings (<cannery/parallel.h>; <cannery/pthread_pool.h> is one). OPENMP does the
#   same and adds <name>_openmp(), a pool of OpenMP's threads; the library links to OpenMP, so a
#   project that imports it once it is installed finds OpenMP first.
#
#   SHARED makes a shared library, which exports the functions of <name>.h and nothing else. Programs
#   that open it at run time, by <name>_loader.h, link to <target>_loader.
#
#   COMPILED_NN adds <name>_compiled_nn.h, by which programs that were written for CompiledNN use the
#   network (<cannery/compiled_nn.h>).
#
#   CLASS_NAMES adds <name>_class_name: the names of the classes, one in each line of the file. METADATA adds
#   <name>_metadata: what the model file says of itself.
#
#   TRACE_STEPS adds <name>_trace_read: how much time each step took (<cannery/trace.h>). DUMP_VALUES
#   adds <name>_dump, which shows the values of each layer (<cannery/dump.h>).
#
#   WEIGHTS keeps the weights out of the code, in a file in the build tree (CANNERY_WEIGHTS, a property
#   of <target>, is its path), which the program gives to <name>_weights_open or <name>_weights_set.
#
# install_nn_model(<target>... [EXPORT <export set>] [INCLUDES <folder>] [WEIGHTS <folder>])
#
#   Installs libraries of add_nn_model and their headers, the latter into INCLUDES or include; into
#   WEIGHTS, if it is given, the files of weights that are apart.
#
# CANNERY_PYTHON is the Python that runs Cannery; it is searched for and probed.

include("${CMAKE_CURRENT_LIST_DIR}/CanneryPython.cmake")

cmake_policy(PUSH)
cmake_policy(VERSION 3.21...3.31)

function(add_nn_model target)
  include("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/CanneryOptions.cmake")
  cmake_parse_arguments(PARSE_ARGV 1 ARG
    "AUTOTUNE;${_CANNERY_FLAG_OPTIONS}" "MODEL;CONTEXT;${_CANNERY_ONE_OPTIONS}"
    "FLAGS_FROM;DEVICE;${_CANNERY_MANY_OPTIONS}")
  _cannery_check_arguments()
  _cannery_warn_of_words()
  if(NOT DEFINED ARG_DEVICE AND CANNERY_DEVICE)
    set(ARG_DEVICE ${CANNERY_DEVICE})
  endif()
  _cannery_language(language)
  set(suffix_C c)
  set(suffix_CXX cpp)
  _cannery_choose_target(flags target_options)
  set(openmp_unit)
  if(ARG_OPENMP)
    _cannery_find_openmp()
    set(openmp_unit _openmp.c)
  endif()
  _cannery_choose_split()
  _cannery_tell_of_project_file()
  _cannery_place_weights()
  _cannery_generating_options(options)
  list(PREPEND options ${target_options} --name "${ARG_NAME}")

  # Configurations differ in flags, so they may differ in instruction sets.
  set(base "${CMAKE_CURRENT_BINARY_DIR}/cannery")
  file(MAKE_DIRECTORY "${base}")
  set(folder "${base}/${target}")
  set(folders "${folder}")
  get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(multi_config)
    set(folders "${CMAKE_CONFIGURATION_TYPES}")
    list(TRANSFORM folders PREPEND "${folder}/")
    string(APPEND folder "/$<CONFIG>")
  endif()

  _cannery_python_command(python_command)
  set(probe "${target}_cannery_probe")
  set(macros "$<TARGET_OBJECTS:${probe}>")
  _cannery_tool_options(tool_options)
  set(tuning_context)
  if(DEFINED ARG_CONTEXT)
    set(tuning_context --context "${ARG_CONTEXT}")
  endif()
  _cannery_add_probe()
  set(tuned)
  if(ARG_AUTOTUNE)
    set(tuned "${folder}/${ARG_NAME}.tuned")
    _cannery_add_tuning()
  endif()
  _cannery_add_generation()
  _cannery_add_library()
  _cannery_add_tool_targets()
endfunction()

# Checks ARG_*; sets ARG_MODEL to a full path and ARG_NAME.
macro(_cannery_check_arguments)
  set(problem)
  if(ARG_UNPARSED_ARGUMENTS)
    list(GET ARG_UNPARSED_ARGUMENTS 0 first)
    _cannery_meant(meant "${first}" MODEL AUTOTUNE CONTEXT FLAGS_FROM DEVICE
      ${_CANNERY_FLAG_OPTIONS} ${_CANNERY_ONE_OPTIONS} ${_CANNERY_MANY_OPTIONS})
    set(problem "unknown arguments: ${ARG_UNPARSED_ARGUMENTS} (${meant}`cannery compile --help` lists the known ones)")
  elseif(ARG_KEYWORDS_MISSING_VALUES)
    set(problem "no value after ${ARG_KEYWORDS_MISSING_VALUES}")
  elseif(NOT ARG_MODEL)
    set(problem "MODEL <file> is missing")
  elseif(DEFINED ARG_TARGET AND DEFINED ARG_ISA)
    set(problem "give TARGET or ISA, not both")
  elseif(TARGET ${target})
    set(problem "there is a target of that name already")
  endif()
  get_property(can_share GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS)
  if(NOT problem AND ARG_SHARED AND NOT can_share)
    set(problem "SHARED is given, but ${CMAKE_SYSTEM_NAME} has no shared libraries; leave it out")
  endif()
  list(LENGTH ARG_ISA count)
  if(NOT problem AND ARG_AUTOTUNE AND count GREATER 1)
    set(problem "AUTOTUNE is for one instruction set; tune for each by cannery autotune --isa")
  endif()
  if(NOT problem AND DEFINED ARG_WEIGHTS AND count GREATER 1)
    set(problem "WEIGHTS is for one instruction set, as the order of weights depends on it")
  endif()
  if(NOT problem AND DEFINED ARG_CONTEXT AND NOT ARG_CONTEXT MATCHES "^(cold|warm)$")
    set(problem "CONTEXT ${ARG_CONTEXT} is neither cold nor warm")
  endif()
  if(NOT problem)
    get_filename_component(ARG_MODEL "${ARG_MODEL}" ABSOLUTE)
    if(NOT EXISTS "${ARG_MODEL}" OR IS_DIRECTORY "${ARG_MODEL}")
      set(problem "there is no model file ${ARG_MODEL}")
    endif()
  endif()
  if(NOT problem AND NOT DEFINED ARG_NAME)
    string(REGEX REPLACE "[^A-Za-z0-9]+" "_" ARG_NAME "${target}")
    string(REGEX REPLACE "^_+|_+$" "" ARG_NAME "${ARG_NAME}")
    if(ARG_NAME MATCHES "^[0-9]|^$")
      string(PREPEND ARG_NAME "net_")
    endif()
  endif()
  # The generator checks more; this much keeps file names and commands sound.
  if(NOT problem AND NOT ARG_NAME MATCHES "^[A-Za-z][A-Za-z0-9_]*$")
    set(problem "NAME ${ARG_NAME} is not a C identifier")
  endif()
  foreach(other IN LISTS ARG_FLAGS_FROM)
    if(NOT problem AND NOT TARGET ${other})
      set(problem "FLAGS_FROM ${other} is no target (yet)")
    endif()
  endforeach()
  if(problem)
    message(FATAL_ERROR "add_nn_model(${target}): ${problem}")
  endif()
endmacro()

# Warns of a misspelt keyword that the list before it has swallowed: OUTPUTS y QUANTISE int8.
function(_cannery_warn_of_words)
  set(keywords MODEL AUTOTUNE CONTEXT FLAGS_FROM DEVICE
    ${_CANNERY_FLAG_OPTIONS} ${_CANNERY_ONE_OPTIONS} ${_CANNERY_MANY_OPTIONS})
  foreach(option IN LISTS _CANNERY_MANY_OPTIONS ITEMS DEVICE)
    foreach(value IN LISTS ARG_${option})
      if(value MATCHES "^[A-Z][A-Z_]+$")
        _cannery_meant(meant "${value}" ${keywords})
        if(meant)
          message(WARNING "add_nn_model(${target}): '${value}' is taken as a value of ${option}; ${meant}")
        endif()
      endif()
    endforeach()
  endforeach()
endfunction()

# For messages: "did you mean X? ", if a known word resembles `word`.
function(_cannery_meant out word)
  set(${out} "" PARENT_SCOPE)
  _cannery_python_candidates(candidates)
  foreach(python IN LISTS candidates)
    execute_process(
      COMMAND "${python}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/run_cannery.py" --closest "${word}" ${ARGN}
      RESULT_VARIABLE result OUTPUT_VARIABLE near ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(result EQUAL 0)
      if(near)
        set(${out} "did you mean ${near}? " PARENT_SCOPE)
      endif()
      return()
    endif()
  endforeach()
endfunction()

# For messages: what serves a processor or board that has no target of its own, if that is known.
function(_cannery_served_by out word)
  string(TOLOWER "${word}" word)
  set(${out} "" PARENT_SCOPE)
  foreach(pattern cure IN ZIP_LISTS _CANNERY_BOARDS _CANNERY_BOARD_CURES)
    if(word MATCHES "^(${pattern})")
      set(${out} "${cure}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# The language that generated sources are compiled as: no project has to enable C for them.
function(_cannery_language out)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  foreach(language C CXX)
    if(language IN_LIST languages)
      if(NOT CMAKE_${language}_COMPILER_ID MATCHES "GNU|Clang")
        message(FATAL_ERROR "Cannery: the compiler has to be gcc or clang, "
          "this is ${CMAKE_${language}_COMPILER_ID}: ${CMAKE_${language}_COMPILER}")
      endif()
      set(${out} ${language} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "Cannery: the project has neither C nor C++: project(... LANGUAGES C)")
endfunction()

# What TARGET, ISA and CANNERY_TARGET mean: compiler flags, and options of the generator.
function(_cannery_choose_target out_flags out_options)
  set(options)
  set(key)
  if(DEFINED ARG_ISA)
    foreach(isa IN LISTS ARG_ISA)
      list(APPEND options --isa "${isa}")
      if(NOT isa IN_LIST _CANNERY_ISAS)
        _cannery_served_by(served "${isa}")
        if(isa IN_LIST _CANNERY_TARGETS)
          set(served "${isa}")
        endif()
        if(served)
          message(FATAL_ERROR "add_nn_model(${target}): unknown instruction set '${isa}'; "
            "name a processor with TARGET: ${served}")
        endif()
        list(JOIN _CANNERY_ISAS ", " known)
        _cannery_meant(meant "${isa}" ${_CANNERY_ISAS})
        message(FATAL_ERROR "add_nn_model(${target}): unknown instruction set '${isa}'; ${meant}"
          "known are ${known}")
      endif()
    endforeach()
    list(LENGTH ARG_ISA count)
    # Several instruction sets: each file gets the flags of its own, see _cannery_add_library.
    if(count EQUAL 1)
      set(key "${ARG_ISA}")
    endif()
  elseif(DEFINED ARG_TARGET)
    set(key "${ARG_TARGET}")
  elseif(CANNERY_TARGET)
    set(key "${CANNERY_TARGET}")
  endif()
  # `any` is what the compiler's flags allow, as if no target were named.
  if(key STREQUAL "any")
    set(key)
  endif()
  set(flags)
  if(key STREQUAL "native" AND NOT DEFINED ARG_ISA)
    if(CMAKE_CROSSCOMPILING)
      message(FATAL_ERROR "add_nn_model(${target}): TARGET native makes no sense in a cross build; name the processor, `cannery targets` lists them")
    endif()
    set(options --target native)
    set(flags "-mcpu=native")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|i[3-6]86)$")
      set(flags "-march=native")
    endif()
  elseif(key)
    if(NOT key IN_LIST _CANNERY_TARGETS)
      _cannery_served_by(served "${key}")
      if(served)
        message(FATAL_ERROR "add_nn_model(${target}): unknown target '${key}'; take ${served}; "
          "`cannery targets` lists all")
      endif()
      list(JOIN _CANNERY_TARGETS ", " known)
      _cannery_meant(meant "${key}" ${_CANNERY_TARGETS})
      message(FATAL_ERROR "add_nn_model(${target}): unknown target '${key}'; ${meant}known are ${known} "
        "(generic is plain C for every processor)")
    endif()
    if(NOT options)
      set(options --target "${key}")
    endif()
    set(flags ${_CANNERY_FLAGS_${key}})
  endif()
  set(${out_flags} "${flags}" PARENT_SCOPE)
  set(${out_options} "${options}" PARENT_SCOPE)
endfunction()

# Finds OpenMP for the language; the target has to be seen where the library is used.
macro(_cannery_find_openmp)
  if(NOT TARGET OpenMP::OpenMP_${language})
    find_package(OpenMP QUIET COMPONENTS ${language})
    if(NOT TARGET OpenMP::OpenMP_${language})
      message(FATAL_ERROR "add_nn_model(${target}): OPENMP is given, but ${CMAKE_${language}_COMPILER} "
        "cannot link programs with OpenMP; install it (Debian: gcc has it, clang needs libomp-dev), "
        "or give PARALLEL and a pool of your own")
    endif()
    set_target_properties(OpenMP::OpenMP_${language} PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endmacro()

# Into how many files the code of a large network goes, unless that is given: names of sources have
# to be known before the model is read. Sets `step_units`, what these are called after the network.
macro(_cannery_choose_split)
  if(NOT DEFINED ARG_SPLIT)
    file(SIZE "${ARG_MODEL}" bytes)
    if(bytes GREATER_EQUAL 4000000)
      set(ARG_SPLIT 4)
    endif()
  endif()
  set(step_units)
  if(ARG_SPLIT MATCHES "^[0-9]+$" AND ARG_SPLIT GREATER 1)
    foreach(number RANGE 1 ${ARG_SPLIT})
      list(APPEND step_units _steps${number}.c)
    endforeach()
  endif()
endmacro()

# Says that the options of commands are not those of the build where a file beside the model has some.
function(_cannery_tell_of_project_file)
  get_filename_component(place "${ARG_MODEL}" DIRECTORY)
  if(EXISTS "${place}/cannery.toml")
    message(STATUS "add_nn_model(${target}) does not read ${place}/cannery.toml: its options are keywords here")
  endif()
endfunction()

# Where WEIGHTS goes: into the build tree, by configuration where there are several. Sets `apart_unit`,
# the source that opens such a file, after the network's name.
macro(_cannery_place_weights)
  set(apart_unit)
  if(DEFINED ARG_WEIGHTS)
    set(apart_unit _weights_file.c)
    get_filename_component(ARG_WEIGHTS "${ARG_WEIGHTS}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
    if(several)
      get_filename_component(weights_name "${ARG_WEIGHTS}" NAME)
      get_filename_component(ARG_WEIGHTS "${ARG_WEIGHTS}" DIRECTORY)
      string(APPEND ARG_WEIGHTS "/$<CONFIG>/${weights_name}")
    endif()
  endif()
endmacro()

# The command line for every option that was given, except those that name or select.
function(_cannery_generating_options out)
  set(result)
  foreach(keyword IN LISTS _CANNERY_FLAG_OPTIONS _CANNERY_ONE_OPTIONS _CANNERY_MANY_OPTIONS)
    if(keyword MATCHES "^(NAME|TARGET|ISA)$" OR NOT DEFINED ARG_${keyword})
      continue()
    endif()
    string(TOLOWER "--${keyword}" flag)
    string(REPLACE "_" "-" flag "${flag}")
    if(keyword IN_LIST _CANNERY_FLAG_OPTIONS)
      if(ARG_${keyword})
        list(APPEND result "${flag}")
      endif()
      continue()
    endif()
    foreach(value IN LISTS ARG_${keyword})
      if(keyword IN_LIST _CANNERY_PATH_OPTIONS)
        get_filename_component(value "${value}" ABSOLUTE)
      elseif(keyword STREQUAL "CUSTOM" AND value MATCHES "^([^=]+)=(.+)$")
        set(name "${CMAKE_MATCH_1}")
        get_filename_component(value "${CMAKE_MATCH_2}" ABSOLUTE)
        set(value "${name}=${value}")
      endif()
      # One word, so that a value which begins with a dash stays a value.
      list(APPEND result "${flag}=${value}")
    endforeach()
  endforeach()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

# Gives `compiled` (a target) the flags that generated code is compiled with, last so that they win.
function(_cannery_set_flags compiled)
  foreach(other IN LISTS ARG_FLAGS_FROM)
    get_target_property(type ${other} TYPE)
    get_target_property(imported ${other} IMPORTED)
    set(property COMPILE_OPTIONS)
    if(type STREQUAL "INTERFACE_LIBRARY" OR imported)
      set(property INTERFACE_COMPILE_OPTIONS)
    endif()
    target_compile_options(${compiled} PRIVATE "$<TARGET_PROPERTY:${other},${property}>")
  endforeach()
  set(own ${flags} ${_CANNERY_PRIVATE_FLAGS_all})
  if(CMAKE_${language}_COMPILER_ID STREQUAL "GNU")
    list(APPEND own ${_CANNERY_PRIVATE_FLAGS_gcc})
    _cannery_is(is_128 vectors_128
      "defined(__ARM_NEON) || defined(__SSE2__) && !(defined(__AVX2__) && defined(__FMA__))")
    if(is_128)
      list(APPEND own ${_CANNERY_PRIVATE_FLAGS_gcc_128})
    endif()
  endif()
  _cannery_is(is_x86_32 x86_32 "defined(__i386__) && defined(__SSE__)")
  if(is_x86_32)
    list(APPEND own ${_CANNERY_PRIVATE_FLAGS_x86_32})
  endif()
  # Nobody can mend a warning in generated code.
  target_compile_options(${compiled} PRIVATE ${own} -w)
  if(language STREQUAL "C")
    target_compile_features(${compiled} PRIVATE c_std_99)
  else()
    target_compile_features(${compiled} PRIVATE cxx_std_11)
  endif()
  set_target_properties(${compiled} PROPERTIES
    UNITY_BUILD OFF
    DISABLE_PRECOMPILE_HEADERS ON
    ${language}_CLANG_TIDY ""
    ${language}_CPPCHECK ""
    ${language}_CPPLINT ""
    ${language}_INCLUDE_WHAT_YOU_USE "")
endfunction()

# Whether the compiler makes code for which the CONDITION of the preprocessor holds. -mfpmath=sse, for
# one, is an error except for 32-bit x86 with SSE.
function(_cannery_is out name condition)
  get_directory_property(options COMPILE_OPTIONS)
  string(GENEX_STRIP "${options}" options)
  list(APPEND options ${flags})
  string(MD5 key "${CMAKE_${language}_COMPILER} ${CMAKE_${language}_FLAGS} ${options}")
  string(TOUPPER "${name}" upper)
  set(result _CANNERY_${upper}_${language}_${key})
  if(NOT DEFINED ${result})
    set(source "${CMAKE_BINARY_DIR}/CMakeFiles/cannery_${name}.${suffix_${language}}")
    file(WRITE "${source}" "#if !(${condition})\n#error\n#endif\n")
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    try_compile(${result} "${CMAKE_BINARY_DIR}/CMakeFiles/cannery_${name}" "${source}"
      COMPILE_DEFINITIONS ${options})
  endif()
  set(${out} "${${result}}" PARENT_SCOPE)
endfunction()

# An object library whose only object is the listing of the compiler's macros under the very flags
# that the generated code gets; capture_compiler.py also keeps the command, in <object>.command.
function(_cannery_add_probe)
  set(source "${base}/probe.${suffix_${language}}")
  file(CONFIGURE OUTPUT "${source}" CONTENT "")
  add_library(${probe} OBJECT EXCLUDE_FROM_ALL "${source}")
  _cannery_set_flags(${probe})
  set(launcher "${CANNERY_PYTHON}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/capture_compiler.py"
    ${CMAKE_${language}_COMPILER_LAUNCHER})
  set_target_properties(${probe} PROPERTIES
    EXPORT_COMPILE_COMMANDS OFF
    ${language}_COMPILER_LAUNCHER "${launcher}")
endfunction()

# The custom command of AUTOTUNE; its output says that there is a record, or cannot be. The record
# itself is in the depfile: its name follows from macros that are known at the build only.
function(_cannery_add_tuning)
  add_custom_command(
    OUTPUT "${tuned}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
    COMMAND ${python_command} autotune "${ARG_MODEL}" ${tool_options} ${tuning_context}
      --if-needed --depfile "${tuned}.d"
    COMMAND "${CMAKE_COMMAND}" -E touch "${tuned}"
    DEPENDS "${ARG_MODEL}" "${macros}" ${probe}
    DEPFILE "${tuned}.d"
    WORKING_DIRECTORY "${base}"
    COMMENT "Tuning the network ${ARG_NAME}, unless its record serves"
    USES_TERMINAL
    VERBATIM)
endfunction()

# The custom command that runs the generator.
function(_cannery_add_generation)
  # The first is the file by which Make judges whether to run the command: the generator, which may be
  # killed, writes it last.
  set(outputs)
  foreach(suffix .h .hpp .c _static.c _weights.c _selftest.c .json ${openmp_unit} ${apart_unit})
    list(APPEND outputs "${folder}/${ARG_NAME}${suffix}")
  endforeach()
  _cannery_parts(parts)
  foreach(part IN LISTS parts)
    list(APPEND outputs "${folder}/${part}.h")
  endforeach()
  if(ARG_SHARED)
    list(APPEND outputs "${folder}/${ARG_NAME}_loader.h")
  endif()
  if(DEFINED ARG_WEIGHTS)
    list(APPEND outputs "${ARG_WEIGHTS}")
  endif()
  _cannery_step_sources(step_sources "${folder}")
  list(APPEND outputs ${step_sources})
  # Only changed files are written. Ninja looks at the results again; Make would run the command in
  # every build if the files stayed older than the model.
  set(touch)
  if(CMAKE_GENERATOR MATCHES "Makefiles")
    set(touch COMMAND "${CMAKE_COMMAND}" -E touch_nocreate ${outputs})
  endif()
  _cannery_records(records)
  set(advice --sources-only "--tuned-by=build the target ${target}_autotune")
  if(ARG_AUTOTUNE)
    list(APPEND advice --autotuned)
  endif()
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND ${python_command} compile "${ARG_MODEL}" -o "${folder}" ${options} ${advice}
      "--macros=${macros}" "--cc=@${macros}.command" --depfile "${folder}/${ARG_NAME}.d"
    ${touch}
    DEPENDS "${ARG_MODEL}" ${records} ${tuned} "${macros}" ${probe}
    DEPFILE "${folder}/${ARG_NAME}.d"
    WORKING_DIRECTORY "${base}"
    COMMENT "Generating the network ${ARG_NAME}"
    VERBATIM)
endfunction()

# The tuning records that the generator may read. A record that appears later makes CMake run again.
# With AUTOTUNE the record that counts is in the depfile, and its appearance is nothing new, unless
# it has to come from elsewhere: programs may run under an emulator.
function(_cannery_records out)
  if(ARG_AUTOTUNE AND (ARG_DEVICE OR NOT CMAKE_CROSSCOMPILING_EMULATOR))
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  set(place "${ARG_MODEL}")
  if(DEFINED ARG_TUNING)
    get_filename_component(place "${ARG_TUNING}" ABSOLUTE)
  endif()
  if(DEFINED ARG_TUNING AND NOT IS_DIRECTORY "${place}")
    # One that is not there (yet) is nothing to depend on, unless a rule of the project makes it.
    get_source_file_property(generated "${place}" GENERATED)
    if(ARG_AUTOTUNE OR NOT generated)
      string(REGEX REPLACE "([][*?])" "[\\1]" pattern "${place}")
      file(GLOB place CONFIGURE_DEPENDS "${pattern}")
    endif()
    set(${out} "${place}" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(stem "${ARG_MODEL}" NAME_WLE)
  set(record_folder "${place}")
  if(NOT DEFINED ARG_TUNING)
    get_filename_component(record_folder "${place}" DIRECTORY)
  endif()
  string(REGEX REPLACE "([][*?])" "[\\1]" pattern "${record_folder}/${stem}")
  file(GLOB found CONFIGURE_DEPENDS "${pattern}.*tuning.json")
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# The names of the networks within a library that chooses between instruction sets: ball_avx2 ...
function(_cannery_parts out)
  set(result)
  list(LENGTH ARG_ISA count)
  if(count GREATER 1)
    foreach(isa IN LISTS ARG_ISA)
      string(REGEX REPLACE "-32$" "" isa "${isa}")
      list(APPEND result "${ARG_NAME}_${isa}")
    endforeach()
  endif()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

# The sources that a library has for each instruction set if it has several, and those of the steps.
function(_cannery_step_sources out place)
  set(result)
  _cannery_parts(parts)
  if(NOT parts)
    list(TRANSFORM step_units PREPEND "${place}/${ARG_NAME}" OUTPUT_VARIABLE result)
  endif()
  foreach(part IN LISTS parts)
    foreach(unit .c _weights.c ${step_units})
      list(APPEND result "${place}/${part}${unit}")
    endforeach()
  endforeach()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

function(_cannery_add_library)
  set(units .c _static.c _weights.c _selftest.c ${openmp_unit} ${apart_unit})
  list(TRANSFORM units PREPEND "${folder}/${ARG_NAME}" OUTPUT_VARIABLE sources)
  _cannery_step_sources(step_sources "${folder}")
  list(APPEND sources ${step_sources})
  _cannery_parts(parts)
  set(kind STATIC)
  if(ARG_SHARED)
    set(kind SHARED)
  endif()
  add_library(${target} ${kind} ${sources} "${folder}/${ARG_NAME}.h" "${folder}/${ARG_NAME}.hpp"
    "${folder}/${ARG_NAME}.json")
  add_library(cannery::${target} ALIAS ${target})
  add_dependencies(${target} ${probe})
  string(TOUPPER "${ARG_NAME}" upper)
  foreach(place IN LISTS folders)
    list(TRANSFORM units PREPEND "${place}/${ARG_NAME}" OUTPUT_VARIABLE sources)
    _cannery_step_sources(step_sources "${place}")
    set_source_files_properties(${sources} ${step_sources} PROPERTIES LANGUAGE ${language})
    # Large weights are assembled from a file, which no compiler lists as a dependency; the manifest
    # changes with them.
    set_source_files_properties("${place}/${ARG_NAME}_weights.c" PROPERTIES
      COMPILE_DEFINITIONS "${upper}_WEIGHTS_FILE=\"${place}/${ARG_NAME}_weights.bin\""
      OBJECT_DEPENDS "${place}/${ARG_NAME}.json")
    foreach(part isa IN ZIP_LISTS parts ARG_ISA)
      string(TOUPPER "${part}" upper_part)
      list(TRANSFORM step_units PREPEND "${place}/${part}" OUTPUT_VARIABLE part_sources)
      set_source_files_properties("${place}/${part}.c" ${part_sources} PROPERTIES
        COMPILE_OPTIONS "${_CANNERY_FLAGS_${isa}}")
      set_source_files_properties("${place}/${part}_weights.c" PROPERTIES
        COMPILE_DEFINITIONS "${upper_part}_WEIGHTS_FILE=\"${place}/${part}_weights.bin\""
        OBJECT_DEPENDS "${place}/${ARG_NAME}.json")
    endforeach()
  endforeach()
  _cannery_set_flags(${target})
  # The warnings of a project are not for headers that it did not write.
  target_include_directories(${target} SYSTEM PUBLIC
    "$<BUILD_INTERFACE:${folder}>" "$<INSTALL_INTERFACE:include>")
  target_link_libraries(${target} PRIVATE m)
  if(ARG_OPENMP)
    target_link_libraries(${target} PRIVATE OpenMP::OpenMP_${language})
  endif()
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE ${language} CANNERY_FOLDER "${folder}")
  if(DEFINED ARG_WEIGHTS)
    set_target_properties(${target} PROPERTIES CANNERY_WEIGHTS "${ARG_WEIGHTS}")
  endif()
  if(ARG_SHARED)
    set_target_properties(${target} PROPERTIES
      ${language}_VISIBILITY_PRESET hidden
      DEFINE_SYMBOL "${upper}_EXPORTS")
    _cannery_add_loader()
  endif()
endfunction()

# <target>_loader: what programs link to that open the shared library at run time.
function(_cannery_add_loader)
  add_library(${target}_loader INTERFACE)
  add_library(cannery::${target}_loader ALIAS ${target}_loader)
  add_dependencies(${target}_loader ${target})
  target_include_directories(${target}_loader SYSTEM INTERFACE
    "$<BUILD_INTERFACE:${folder}>" "$<INSTALL_INTERFACE:include>")
  target_link_libraries(${target}_loader INTERFACE ${CMAKE_DL_LIBS})
  set_target_properties(${target}_loader PROPERTIES CANNERY_FOLDER "${folder}")
endfunction()

# The options of commands that build and run programs: with the compiler, the flags and the emulator
# that CMake itself uses, or on devices.
function(_cannery_tool_options out)
  set(result ${options} "--macros=${macros}" "--cc=@${macros}.command")
  set(linking "${CMAKE_EXE_LINKER_FLAGS}")
  foreach(config ${CMAKE_CONFIGURATION_TYPES} ${CMAKE_BUILD_TYPE})
    string(TOUPPER "${config}" upper)
    if(CMAKE_EXE_LINKER_FLAGS_${upper})
      string(APPEND linking "$<$<CONFIG:${config}>: ${CMAKE_EXE_LINKER_FLAGS_${upper}}>")
    endif()
  endforeach()
  if(linking)
    list(APPEND result "--ldflags=${linking}")
  endif()
  if(ARG_DEVICE)
    list(TRANSFORM ARG_DEVICE PREPEND "--device=" OUTPUT_VARIABLE devices)
    list(APPEND result ${devices})
  elseif(CMAKE_CROSSCOMPILING_EMULATOR)
    set(words)
    foreach(word IN LISTS CMAKE_CROSSCOMPILING_EMULATOR)
      list(APPEND words "'${word}'")
    endforeach()
    list(JOIN words " " words)
    list(APPEND result "--runner=${words}")
  endif()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

# Sets <out> to the names of variables in the caller: options of a tool, which takes one instruction
# set at a time. Of several, each has flags of its own, not those that the probe was compiled with.
macro(_cannery_options_by_isa out)
  set(${out} tool_options)
  list(LENGTH ARG_ISA count)
  if(count GREATER 1)
    set(${out})
    set(common "${tool_options}")
    list(FILTER common EXCLUDE REGEX "^--macros=")
    string(REGEX REPLACE "(^|;)--isa;[^;]*" "" common "${common}")
    foreach(isa IN LISTS ARG_ISA)
      if(CMAKE_SIZEOF_VOID_P EQUAL 4 AND NOT isa MATCHES "-32$")
        string(APPEND isa "-32")
      endif()
      set(options_${isa} ${common} --isa "${isa}")
      list(APPEND ${out} options_${isa})
    endforeach()
  endif()
endmacro()

# <target>_autotune and <target>_verify.
function(_cannery_add_tool_targets)
  set(autotune_options ${tuning_context})
  set(verify_options)
  _cannery_options_by_isa(by_isa)
  foreach(tool autotune verify)
    set(commands)
    foreach(options IN LISTS by_isa)
      list(APPEND commands COMMAND ${python_command} ${tool} "${ARG_MODEL}" ${${options}}
        ${${tool}_options})
    endforeach()
    add_custom_target(${target}_${tool}
      ${commands}
      DEPENDS "${macros}"
      WORKING_DIRECTORY "${base}"
      USES_TERMINAL
      VERBATIM)
    add_dependencies(${target}_${tool} ${probe})
  endforeach()
endfunction()

function(install_nn_model)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "EXPORT;INCLUDES;WEIGHTS" "")
  if(NOT ARG_INCLUDES)
    set(ARG_INCLUDES include)
  endif()
  if(ARG_KEYWORDS_MISSING_VALUES OR NOT ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "install_nn_model(<target>... [EXPORT <set>] [INCLUDES <folder>] [WEIGHTS <folder>])")
  endif()
  foreach(target IN LISTS ARG_UNPARSED_ARGUMENTS)
    if(TARGET ${target})
      get_target_property(folder ${target} CANNERY_FOLDER)
    endif()
    if(NOT folder)
      message(FATAL_ERROR "install_nn_model: ${target} was not made by add_nn_model")
    endif()
    set(export)
    if(ARG_EXPORT)
      set(export EXPORT "${ARG_EXPORT}")
    endif()
    install(TARGETS ${target} ${export} INCLUDES DESTINATION "${ARG_INCLUDES}")
    install(DIRECTORY "${folder}/" DESTINATION "${ARG_INCLUDES}"
      FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp"
      # Sources alone include these.
      PATTERN "vec_*.h" EXCLUDE PATTERN "scalar_math.h" EXCLUDE PATTERN "trace_clock.h" EXCLUDE)
    get_target_property(weights ${target} CANNERY_WEIGHTS)
    if(ARG_WEIGHTS AND weights)
      install(FILES "${weights}" DESTINATION "${ARG_WEIGHTS}")
    endif()
    unset(folder)
  endforeach()
endfunction()

cmake_policy(POP)
