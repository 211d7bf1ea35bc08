# The flags of all targets of this project. Third-party headers are SYSTEM includes.
add_library(dp_flags INTERFACE)
target_compile_options(dp_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wno-missing-field-initializers -Wno-restrict
  $<$<BOOL:${DP_WERROR}>:-Werror>)
# No other library replaces a function of a module, so position-independent code may be inlined as that of a program is.
target_compile_options(dp_flags INTERFACE
  $<$<BOOL:$<TARGET_PROPERTY:POSITION_INDEPENDENT_CODE>>:-fno-semantic-interposition>)
if(DP_ARCH)
  target_compile_options(dp_flags INTERFACE -march=${DP_ARCH})
endif()
if(DP_SANITIZE)
  target_compile_options(dp_flags INTERFACE -fsanitize=${DP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(dp_flags INTERFACE -fsanitize=${DP_SANITIZE})
  # g++ 12 assumes that the stack of detect_stack_use_after_return is aligned to 64 bytes, but it is not.
  if(DP_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(dp_flags INTERFACE -mno-avx512f)
  endif()
endif()
target_include_directories(dp_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
# oneDNN selects its instruction set at run time, the code of this project at compile time (DP_ARCH). Never use
# -ffast-math, because the results of a build must be the same bit for bit.
# -g1 has functions and lines, which backtraces and perf need, but no variables: it compiles in 70 % of the time of -g.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1")
if(DP_ARCHIVES)
  set(CMAKE_CXX_FLAGS_RELEASE "-O3")  # what packages hold is stripped
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
if(DP_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")  # reports need only line numbers
endif()
find_program(DP_CCACHE ccache)
if(DP_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DP_CCACHE})
endif()
find_program(DP_MOLD mold)
if(DP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
