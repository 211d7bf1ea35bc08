// Target: one reader that is fuzzed, how its inputs are made, and how each is checked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/rng.h"
#include "shared/base/units.h"

namespace downpour::fuzz {

/// The input of a reader: the bytes of one file or of several that belong together, and a number
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
  /// Makes an input. The result depends only on the random numbers.
  std::function<Input(Rng&)> make;
  /// Reads the input. Returns what is wrong with the reader, or an empty text. A bad input is not a
  /// fault of the reader.
  std::function<std::string(const Input&)> run;
  uint64_t memory_bytes_max = 256 * kMiB;  // peak while one input is read
  int cpu_seconds_max = 10;                // for one input; ten times as much under a sanitizer
};

/// Returns a target whose input is one file.
inline Target one_file(std::string name, std::function<std::string(Rng&)> make,
                       std::function<std::string(const std::string&)> run) {
  return {.name = std::move(name),
          .make = [make = std::move(make)](Rng& rng) { return Input{.files = {make(rng)}}; },
          .run = [run = std::move(run)](const Input& input) { return run(input.files[0]); }};
}

/// Returns all targets. Their scratch files are in `folder`.
std::vector<Target> all_targets(const std::string& folder);

// Each function appends the targets of one kind of input.
void add_text_targets(const std::string& folder, std::vector<Target>& out);
void add_record_targets(const std::string& folder, std::vector<Target>& out);
void add_array_targets(const std::string& folder, std::vector<Target>& out);
void add_setting_targets(const std::string& folder, std::vector<Target>& out);
void add_state_targets(std::vector<Target>& out);
void add_store_targets(std::vector<Target>& out);
void add_serve_targets(std::vector<Target>& out);
void add_key_targets(const std::string& folder, std::vector<Target>& out);
void add_bomb_targets(const std::string& folder, std::vector<Target>& out);

}  // namespace downpour::fuzz
