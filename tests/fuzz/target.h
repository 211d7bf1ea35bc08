// Target: what is fuzzed, how its inputs are made, and what must hold of each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/rng.h"
#include "shared/base/units.h"

namespace downpour::fuzz {

/// What a reader is given: the bytes of a file or of several that belong together, and a number
/// that decides how they are read (cuts, batch size).
struct Input {
  uint64_t knobs = 0;
  std::vector<std::string> files;
  bool operator==(const Input&) const = default;
  size_t bytes() const {
    size_t sum = 0;
    for (const std::string& file : files) sum += file.size();
    return sum;
  }
};

struct Target {
  std::string name;
  /// An input, from the stream of random numbers alone.
  std::function<Input(Rng&)> make;
  /// Reads it. What is wrong with the reader; empty: nothing, whatever the input is.
  std::function<std::string(const Input&)> run;
  uint64_t memory_bytes_max = 256 * kMiB;  // at once, while an input is read
  int cpu_seconds_max = 10;                // of one input; ten times as much under a sanitizer
};

/// All of them. Their scratch files lie in `folder`.
std::vector<Target> all_targets(const std::string& folder);

// By what is read; each appends its own.
void add_text_targets(const std::string& folder, std::vector<Target>& out);
void add_record_targets(const std::string& folder, std::vector<Target>& out);
void add_array_targets(const std::string& folder, std::vector<Target>& out);
void add_setting_targets(const std::string& folder, std::vector<Target>& out);
void add_state_targets(std::vector<Target>& out);
void add_store_targets(std::vector<Target>& out);
void add_key_targets(const std::string& folder, std::vector<Target>& out);
void add_bomb_targets(const std::string& folder, std::vector<Target>& out);

}  // namespace downpour::fuzz
