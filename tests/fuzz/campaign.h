// Campaign: many inputs for one target, in a process of their own; and what is found, made small.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/fuzz/target.h"

namespace downpour::fuzz {

struct Limits {
  double seconds = 60;           // of reading, on the clock
  uint64_t inputs = UINT64_MAX;  // or so many
  uint64_t seed = 1;
  uint64_t first = 0;  // number of the first input
};

/// How an input ended badly.
struct Finding {
  uint64_t number = 0;
  std::string what;   // of the check, of the signal, or that it took too much
  std::string input;  // path of the file
};

struct Outcome {
  uint64_t inputs = 0;
  double seconds = 0;
  uint64_t peak_bytes = 0;  // of the input that took most
  double cpu_ms_max = 0;    // of the slowest one
  std::optional<Finding> finding;
};

/// Input `number` of a target under a seed: the same for ever.
Input input_of(const Target& target, uint64_t seed, uint64_t number);

/// Reads inputs until a limit or a finding; the finding's input is shrunk and put in `folder`.
Outcome run_campaign(const Target& target, const Limits& limits, const std::string& folder);

/// Reads one input in a process of its own. Empty: all is well.
std::string run_alone(const Target& target, const Input& input, bool quiet);

/// An input and its target's name as a file, and back; false where it is none.
std::string encode_input(const std::string& target, const Input& input);
bool decode_input(const std::string& bytes, std::string& target, Input& input);

}  // namespace downpour::fuzz
