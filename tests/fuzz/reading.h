// Reading: checks the invariants of the data readers on a data set with arbitrary bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "shared/data/reading/dataset.h"
#include "tests/fuzz/target.h"

namespace downpour::fuzz {

/// Reads a data set as a job declares it, through the functions that training uses: list_files,
/// find_cuts, cut_shards, open_shard.
class Reading {
 public:
  /// `job` is TOML: the [data] section of a job, and optionally other keys.
  explicit Reading(std::string_view job);
  /// The layout has every field of `data`: numbers as float columns, keys as bags.
  explicit Reading(DataSpec data);

  /// Reads the data set at `path` in several ways: as a whole, a second time, piece by piece,
  /// shuffled, from a later batch on, split by record number, and with bad records skipped or
  /// failing. `knobs` decides the batch size, the cuts, and which of these ways are used. Returns
  /// the first violated invariant, or an empty text. The invariants are:
  ///
  /// - An error has a code for the user and names the file.
  /// - A second read gives the same result.
  /// - The shards tile the file and contain exactly its records.
  /// - good + skipped + filtered = read.
  /// - Without bad records, "fail" reads the same as "skip". With bad records, "fail" is an error.
  /// - Numbers are finite, keys are in their tables, and columns have the right sizes.
  std::string check(const std::string& path, uint64_t knobs) const;

  /// Checks one read from start to end, with bad records skipped. For large inputs.
  std::string check_once(const std::string& path, bool shuffle) const;

 private:
  std::shared_ptr<data::ReadPlan> plan_of(const std::string& path) const;

  DataSpec data_;
  InputLayout layout_;
  bool random_ = false;  // some transform is random
  std::shared_ptr<data::VocabularyPool> vocabularies_ = data::make_vocabulary_pool();
  mutable std::shared_ptr<data::ScratchPool> scratch_;  // renewed after some reads
  mutable uint32_t reads_ = 0;
};

/// Returns a target that writes its input to the file `name` of `folder` and checks it with a
/// Reading of `job`. `bytes` makes the inputs.
Target target_of_file(const std::string& folder, const std::string& name, std::string_view job,
                      std::function<std::string(Rng&)> bytes);

/// Returns what is wrong with an error about a bad file: a code that is not for the user, or a text
/// that does not name the file. Returns an empty text for a good error.
std::string check_error(const Error& error, const std::string& path);

/// Replaces the content of a file. Ends the process if that fails.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace downpour::fuzz
