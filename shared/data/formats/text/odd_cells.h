// Odd cells: the texts in a column of a table that is one of numbers otherwise.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/formats/sniff_columns.h"

namespace downpour::data {

/// The cells of the records of a sample.
using Records = std::span<const std::vector<std::string>>;

/// Returns the texts that mean a missing value in a column of which at least half of the cells are
/// numbers: the other ones, if they are at most 3 different texts. If the numbers are few enough to
/// be classes or grades, only usual marks such as "-" and "unknown" are, and none if the column
/// `may_be_classes`. Empty for another column.
std::set<std::string> missing_marks(Records records, size_t index, const Column& column,
                                    bool may_be_classes);

/// Returns true for a number that a person reads and the parser does not: with separators of
/// thousands, a decimal comma, a currency or a percent sign.
bool is_formatted_number(std::string_view text);

/// Returns a cell with such a number, if nearly all cells of the column are numbers of either kind;
/// empty otherwise.
std::string formatted_number(Records records, size_t index, const Column& column);

}  // namespace downpour::data
