// Reading: what must hold of a data set's readers, whatever its bytes are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "shared/data/reading/dataset.h"
#include "tests/fuzz/target.h"

namespace downpour::fuzz {

/// A data set as a job declares it, read on the way that training takes: list_files, find_cuts,
/// cut_shards, open_shard.
class Reading {
 public:
  /// `job` is TOML: what stands in a job's [data], and maybe more of it.
  explicit Reading(std::string_view job);
  /// From the start with a layout of every field: numbers as floats, keys as bags.
  explicit Reading(DataSpec data);

  /// Reads the data set at `path`: as a whole, again, piece by piece, shuffled, from a later batch
  /// on, in shares by number, with bad records skipped and not. What does not hold; empty: all
  /// does. `knobs` decides batch size and cuts.
  ///
  ///     An error has a code for the user, and names the file.
  ///     Twice the same gives the same. Pieces tile a file and hold its records, no more, no fewer.
  ///     good + skipped + filtered = read. Without bad records "fail" reads the same as "skip";
  ///     with any it is an error.
  ///     Numbers are finite, keys are in their tables, columns have their sizes.
  std::string check(const std::string& path, uint64_t knobs) const;

  /// The same, read once from start to end, bad records skipped: for what is large.
  std::string check_once(const std::string& path, bool shuffle) const;

 private:
  std::shared_ptr<data::ReadPlan> plan_of(const std::string& path) const;

  DataSpec data_;
  InputLayout layout_;
  bool random_ = false;  // some op is
  std::shared_ptr<data::VocabularyPool> vocabularies_ = data::make_vocabulary_pool();
  mutable std::shared_ptr<data::ScratchPool> scratch_;  // of many inputs, but not of all
  mutable uint32_t reads_ = 0;
};

/// A target that has the data set in the file `name` of `folder` checked.
Target target_of_file(const std::string& folder, const std::string& name, std::string_view job,
                      std::function<std::string(Rng&)> bytes);

/// Whether an error is one for a user who gave a bad file, and names it.
std::string check_error(const Error& error, const std::string& path);

/// Writes a file anew; ends the process where it can't.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace downpour::fuzz
