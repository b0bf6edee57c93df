# The Python that runs Cannery. It is a program of the build machine, so FindPython (which looks for
# the target's) is of no use, and a toolchain file's root path does not apply.

# _cannery_python_command(<out>): the command that runs this very Cannery. Searches and probes once
# per configure run; CANNERY_PYTHON is a cache variable that the user may set.
function(_cannery_python_command out)
  get_property(command GLOBAL PROPERTY _CANNERY_PYTHON_COMMAND)
  if(NOT command)
    set(script "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/run_cannery.py")
    _cannery_find_python("${script}")
    set(command "${CANNERY_PYTHON}" "${script}")
    set_property(GLOBAL PROPERTY _CANNERY_PYTHON_COMMAND "${command}")
  endif()
  set(${out} "${command}" PARENT_SCOPE)
endfunction()

# _cannery_python_candidates(<out>): where a Python may be that runs Cannery.
function(_cannery_python_candidates out)
  set(candidates "${CANNERY_PYTHON}")
  if(NOT CANNERY_PYTHON)
    # The environment that owns the wheel: <prefix>/lib/python3.x/site-packages/cannery/cmake.
    get_filename_component(prefix "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../../.." ABSOLUTE)
    set(candidates "${prefix}/bin/python3" "${prefix}/bin/python")
    # The environment that the README makes in a checkout.
    get_filename_component(own "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../.venv" ABSOLUTE)
    list(APPEND candidates "${own}/bin/python3")
    foreach(variable VIRTUAL_ENV CONDA_PREFIX)
      if(DEFINED ENV{${variable}})
        list(APPEND candidates "$ENV{${variable}}/bin/python3")
      endif()
    endforeach()
    foreach(name python3 python3.14 python3.13 python3.12 python3.11 python3.10 python)
      find_program(_cannery_program ${name} NO_CACHE NO_CMAKE_FIND_ROOT_PATH)
      if(_cannery_program)
        list(APPEND candidates "${_cannery_program}")
      endif()
      unset(_cannery_program)
    endforeach()
    list(REMOVE_DUPLICATES candidates)
  endif()
  set(${out} "${candidates}" PARENT_SCOPE)
endfunction()

# _cannery_find_python(<script>): sets CANNERY_PYTHON to the first Python that passes its probe.
function(_cannery_find_python script)
  _cannery_python_candidates(candidates)
  set(reasons)
  foreach(candidate IN LISTS candidates)
    if(NOT EXISTS "${candidate}" AND NOT CANNERY_PYTHON)
      continue()
    endif()
    execute_process(
      COMMAND "${candidate}" "${script}" --probe
      RESULT_VARIABLE result OUTPUT_VARIABLE version ERROR_VARIABLE reason
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(result EQUAL 0)
      if(NOT CANNERY_PYTHON)
        message(STATUS "Cannery ${version}, run by ${candidate}")
      endif()
      set(CANNERY_PYTHON "${candidate}" CACHE FILEPATH "Python that runs Cannery")
      return()
    endif()
    if(NOT reason)
      set(reason "${result}")
    endif()
    string(REGEX REPLACE "\n.*" "" reason "${reason}")
    list(APPEND reasons "  ${candidate}: ${reason}")
  endforeach()
  list(JOIN reasons "\n" reasons)
  set(package cannery)
  get_filename_component(own "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.." ABSOLUTE)
  if(EXISTS "${own}/generator")
    set(package "${own}")
  endif()
  message(FATAL_ERROR
    "Cannery: found no Python that can run it.\n${reasons}\n"
    "Make one and name it:\n"
    "  python3 -m venv .venv && .venv/bin/pip install ${package}\n"
    "  cmake -DCANNERY_PYTHON=$PWD/.venv/bin/python ...")
endfunction()
