// Campaign: runs many inputs of one target in a child process, and shrinks the input that fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/fuzz/target.h"

namespace downpour::fuzz {

struct Limits {
  double seconds = 60;           // wall-clock time
  uint64_t inputs = UINT64_MAX;  // number of inputs
  uint64_t seed = 1;
  uint64_t first = 0;  // number of the first input
};

/// An input that failed.
struct Finding {
  uint64_t number = 0;
  std::string what;   // failed check, signal, or exceeded limit
  std::string input;  // path of the file with the shrunk input
};

struct Outcome {
  uint64_t inputs = 0;
  double seconds = 0;
  uint64_t peak_bytes = 0;  // of the input that needed most
  double cpu_ms_max = 0;    // of the slowest input
  std::optional<Finding> finding;
};

/// Returns input `number` of a target under a seed. It depends on nothing else.
Input input_of(const Target& target, uint64_t seed, uint64_t number);

/// Reads inputs in a child process until a limit or a finding. Shrinks the input of the finding and
/// writes it to a file in `folder`.
Outcome run_campaign(const Target& target, const Limits& limits, const std::string& folder);

/// Reads one input in a child process, without its stderr if `quiet` is set. Returns what failed,
/// or an empty text.
std::string run_alone(const Target& target, const Input& input, bool quiet);

/// Encodes an input and the name of its target as the content of a file. decode_input() reverses
/// this; it returns false if `bytes` are not such a file.
std::string encode_input(const std::string& target, const Input& input);
bool decode_input(const std::string& bytes, std::string& target, Input& input);

}  // namespace downpour::fuzz
