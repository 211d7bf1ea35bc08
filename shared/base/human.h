// Figures as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace downpour {

/// "512 B", "1.5 KiB", "3.0 TiB".
std::string human_bytes(uint64_t bytes);

/// 1234567 -> "1,234,567".
std::string grouped(uint64_t n);

/// Rows of cells, aligned: the first `left_columns` to the left, the others (numbers) to the right.
/// Each line is indented by two blanks. Characters are counted, of UTF-8.
std::string table_text(const std::vector<std::vector<std::string>>& rows, size_t left_columns);

/// The columns of a terminal that a text takes, if each character takes one.
size_t text_width(std::string_view text);

}  // namespace downpour
