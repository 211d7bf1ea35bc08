// Batches of parsed records: their columns before and after the records, and LineBatches, which
// parses lines in memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/data/formats/json/json_rules.h"
#include "shared/data/formats/parser.h"
#include "shared/data/reading/read_plan.h"
#include "shared/data/reading/scratch.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

/// Empties the batch and makes room for `records_max` records of the parser in its columns and in
/// `scratch`.
void begin_columns(const InputLayout& layout, const RecordParser& parser, uint32_t records_max,
                   Scratch& scratch, Batch& batch);
/// Makes room for `records_max` records in total, and keeps those that the batch has.
void grow_columns(uint32_t records_max, Scratch& scratch, Batch& batch);
/// Makes the keys of the batch's records unique, and cuts the columns to batch.records.
void finish_columns(const InputLayout& layout, const RecordParser& parser, Scratch& scratch,
                    Batch& batch);
/// Returns the error for a bad record at `where`.
Error bad_record_error(const Fault& fault, std::string where);
/// Returns true if a field has more keys than one batch may have, 67 million.
bool too_many_keys(const std::vector<KeyBuffer>& buffers);

/// Parses lines that are in memory instead of a file, such as the rows of a request. Keeps its
/// parser and its buffers from call to call. Belongs to one thread.
class LineBatches {
 public:
  /// `plan` must be one of for_prediction() for a format of lines. It needs no files. `rules` apply
  /// to JSON. Errors: those of the format's parser.
  static Result<std::unique_ptr<LineBatches>> make(std::shared_ptr<const ReadPlan> plan,
                                                   const JsonRules& rules);

  /// Parses all lines into `batch`, without those that the plan's filter leaves out. A line break
  /// or '\r' follows each line, except for JSON, and at least kPadBytes readable bytes. Error
  /// kBadData: `where` is "row N", counted from 0.
  Result<void> parse(std::span<const std::string_view> lines, Batch& batch);

 private:
  LineBatches(std::shared_ptr<const ReadPlan> plan, std::unique_ptr<RecordParser> parser)
      : plan_(std::move(plan)), parser_(std::move(parser)) {}

  std::shared_ptr<const ReadPlan> plan_;
  std::unique_ptr<RecordParser> parser_;
  Scratch scratch_;
};

}  // namespace downpour::data
