// StartWeights: the arrays of a file as the initial variables of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/job/job.h"
#include "shared/tensor/variables.h"

namespace downpour::chief {

class StartWeights {
 public:
  /// Reads a file with the names and shapes of `downpour export`. Holds all its rows in memory. A
  /// variable that the file does not have keeps its initial values. Errors: those of WeightsFile;
  /// kConfig names an array that is no variable of the model, or whose shape differs; kBadData for
  /// a key that occurs twice. The result refers to `tables`, which must outlive it.
  static Result<StartWeights> read(const std::string& path, const Job& job,
                                   const std::vector<TableSpec>& tables, uint32_t partitions);

  /// Writes an image for each partition, with the slots of new rows.
  Result<std::vector<wire::ImageRef>> write(checkpoint::ImageFileWriter writer) const;
  /// Returns the number of rows of embeddings.
  uint64_t rows() const;
  /// Returns what the user should know: variables that the file does not have, and offsets and
  /// scales of outputs that differ from those of the job. Empty: nothing.
  const std::string& note() const { return note_; }

 private:
  /// Where a row (or block) of a table belongs.
  struct Place {
    uint32_t partition = 0;
    uint64_t key = 0;
    bool operator==(const Place&) const = default;
    auto operator<=>(const Place&) const = default;
  };
  struct Table {
    const TableSpec* spec = nullptr;
    std::vector<Place> places;  // ascending
    // By variable: the weights of all places in order.
    std::vector<std::vector<float>> weights;
  };
  friend class StartReader;

  std::vector<Table> tables_;
  uint32_t partitions_ = 0;
  std::string note_;
};

}  // namespace downpour::chief
