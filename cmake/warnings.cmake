# The flags of every target of ours. Third-party headers come in as SYSTEM.
add_library(dp_flags INTERFACE)
target_compile_options(dp_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wno-missing-field-initializers -Wno-restrict
  $<$<BOOL:${DP_WERROR}>:-Werror>)
if(DP_ARCH)
  target_compile_options(dp_flags INTERFACE -march=${DP_ARCH})
endif()
if(DP_SANITIZE)
  target_compile_options(dp_flags INTERFACE -fsanitize=${DP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(dp_flags INTERFACE -fsanitize=${DP_SANITIZE})
  # g++ 12 takes the stack of detect_stack_use_after_return for aligned to 64 bytes, and it is not.
  if(DP_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(dp_flags INTERFACE -mno-avx512f)
  endif()
endif()
target_include_directories(dp_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
# Chosen at run time by oneDNN; ours by the compiler. Never -ffast-math: bits are promised per build.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
if(DP_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")  # a report needs lines, no more: compiles in two thirds of the time
endif()
find_program(DP_CCACHE ccache)
if(DP_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DP_CCACHE})
endif()
find_program(DP_MOLD mold)
if(DP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
