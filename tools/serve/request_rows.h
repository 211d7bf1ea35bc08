// RequestRows: the rows of a request's JSON, as texts that RowScorer reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "tools/embedded/model.h"

namespace downpour::tools {

/// Finds rows in {"rows": [{...}, ...]}, {"instances": [...]} or {"columns": {"name": [...], ...}}.
/// Keeps its buffers from call to call.
class RequestRows {
 public:
  explicit RequestRows(size_t rows_max);
  ~RequestRows();

  /// Reads a body that kBodyPadBytes readable bytes follow. Errors: kMalformed if it is not such a
  /// JSON document; kBadData if a row lacks an input of the model, with the row in `where`; kUsage
  /// for more than `rows_max` rows.
  Result<void> read(std::string_view body, const RowScorer& model);
  /// Returns the rows of the last body. They are valid until the next read().
  std::span<const std::string_view> rows() const { return rows_; }

 private:
  struct Impl;
  Result<void> find_rows(std::string_view body, const RowScorer& model);

  const size_t rows_max_;
  std::unique_ptr<Impl> impl_;
  std::vector<std::string_view> rows_;
};

}  // namespace downpour::tools
