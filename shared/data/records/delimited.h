// Delimited text: lines of cells that a delimiter separates, as in CSV and TSV.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::data {

/// Returns the delimiter of a CSV, TSV or criteo file. Error kConfig if the job's delimiter is not
/// valid.
Result<char> delimiter_of(const DataSpec& data);

/// Splits a line at `delimiter`. With `quotes`, the rules of RFC 4180 apply; quoted cells point
/// into `store`. Returns false for an unclosed quote, or for text after a closing quote. Cells
/// beyond cells.size() are counted but not stored.
bool split_line(std::string_view line, char delimiter, bool quotes,
                std::vector<std::string_view>& cells, size_t& count, std::string& store);

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// Removes blanks around a text, and carriage returns at its end.
std::string_view trimmed(std::string_view text);

/// Returns a text as error messages show it: shortened, control bytes escaped.
std::string shown(std::string_view text);

}  // namespace downpour::data
