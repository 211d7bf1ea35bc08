// A small program with the names of all programs of Downpour. Their code is in libdownpour.so.
#include "tools/capi/program.h"

#ifdef DP_ARCH_NEEDED
#include <string_view>
#include <unistd.h>

namespace {

constexpr int kUnavailable = 69;

/// Ends the process with an error if the processor lacks instructions that the library was built
/// with.
void check_processor() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports(DP_ARCH_NEEDED)) return;
  constexpr std::string_view kError =
      "error: this build of Downpour needs a processor of level " DP_ARCH_NEEDED
      " (AVX2)\nhint:  build it from source on this machine\n";
  (void)!write(STDERR_FILENO, kError.data(), kError.size());
  _exit(kUnavailable);
}

// Before the initializers of the library, which already use these instructions.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): read by the dynamic linker
[[gnu::section(".preinit_array"), gnu::used]] void (*first_initializer)() = check_processor;

}  // namespace
#endif

int main(int argc, char** argv) { return dp_run_program(argc, argv); }
