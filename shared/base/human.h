// Numbers and tables in human-readable form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace downpour {

/// Returns a size like "512 B", "1.5 KiB" or "3.0 TiB".
std::string human_bytes(uint64_t bytes);

/// Returns the number with commas between groups of digits: 1234567 -> "1,234,567".
std::string grouped(uint64_t n);

/// Returns rows of cells as aligned text. The first `left_columns` columns are left-aligned, the
/// others (numbers) right-aligned. Each line is indented by two blanks. Widths count UTF-8
/// characters.
std::string table_text(const std::vector<std::vector<std::string>>& rows, size_t left_columns);

/// Returns the number of UTF-8 characters: the terminal columns, if each character takes one.
size_t text_width(std::string_view text);

}  // namespace downpour
