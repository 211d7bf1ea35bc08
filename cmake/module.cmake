# dp_module(name SOURCES a.cc... DEPS shared::base...) adds a library "name" with an alias after its folder:
#   shared_base -> shared::base, ps_core -> ps::core. Without SOURCES the library is header-only. A unity build compiles
#   the sources in APART as a unit of their own, because only they need wire/messages.h, which changes often.
function(dp_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;DEPS;PRIVATE_DEPS" ${ARGN})
  string(REGEX REPLACE "^([a-z]+)_(.*)$" "\\1::\\2" alias ${name})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES} ${ARG_APART})
    target_link_libraries(${name} PUBLIC dp_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
    set_target_properties(${name} PROPERTIES
      UNITY_BUILD_BATCH_SIZE 32          # presets with unity builds only
      POSITION_INDEPENDENT_CODE ON)      # the programs and libdownpour.so share their modules
    if(ARG_APART)
      set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
      set_source_files_properties(${ARG_SOURCES} PROPERTIES UNITY_GROUP rest)
      set_source_files_properties(${ARG_APART} PROPERTIES UNITY_GROUP apart)
    endif()
    # Link test: an empty main linked with the whole module and only its declared dependencies.
    if(DP_TESTS)
      file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}_link.cc CONTENT "int main() { return 0; }\n")
      add_executable(${name}_link ${CMAKE_CURRENT_BINARY_DIR}/${name}_link.cc)
      set_target_properties(${name}_link PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/link)
      target_link_libraries(${name}_link PRIVATE -Wl,--whole-archive $<TARGET_FILE:${name}> -Wl,--no-whole-archive ${name})
      add_test(NAME ${name}_link COMMAND ${name}_link)
      set_tests_properties(${name}_link PROPERTIES LABELS link TIMEOUT 60)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE dp_flags ${ARG_DEPS})
  endif()
  add_library(${alias} ALIAS ${name})
endfunction()

# dp_program(name SOURCES main.cc DEPS ...) an installed executable. In a Release build its debug information moves to
#   NAME.debug in the same folder, where gdb and perf find it, so that the executable stays small.
function(dp_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_OBJCOPY)
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:${name}> $<TARGET_FILE:${name}>.debug
      COMMAND ${CMAKE_OBJCOPY} --strip-debug --add-gnu-debuglink=$<TARGET_FILE:${name}>.debug $<TARGET_FILE:${name}>)
  endif()
endfunction()

# dp_test(name SOURCES x_test.cc... DEPS ... LABEL unit) adds one Catch2 binary, which is one CTest entry.
#   Sources are relative to tests/<folder of the caller>, so the tests mirror the source tree.
function(dp_test name)
  if(NOT DP_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  file(RELATIVE_PATH here ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(sources)
  foreach(source IN LISTS ARG_SOURCES)
    list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/${here}/${source})
  endforeach()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} dp_flags Catch2::Catch2WithMain)
  # Optimizing Catch2's macros takes long and gains nothing. The modules under test keep their flags.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  # One CTest entry per binary, because starting hundreds of processes on 2 cores is slow. The working directory is the
  # build folder, because a compiler cache may have made the paths in __FILE__ relative to it.
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set(seconds 600)
  if(DP_SANITIZE)
    set(seconds 1800)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${seconds})
endfunction()

# All programs are in one folder, as after an installation, so that they find each other.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
