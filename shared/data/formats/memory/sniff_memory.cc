// sniff of a table in memory: derives a field from each column, and finds the target.
#include <algorithm>
#include <cmath>
#include <set>

#include "shared/data/formats/memory/memory_table.h"
#include "shared/data/formats/numpy/array_elements.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/formats/sniff_columns.h"

namespace downpour::data {
namespace {

using Kind = MemoryColumn::Kind;

void look_at(const MemoryColumn& column, uint64_t row, Column& into) {
  const auto number = [&] {
    return npy_number(column.values + int64_t(row) * column.stride, column.type);
  };
  if (!column.has_value(row)) {
    ++into.empty;
  } else if (column.kind == Kind::kTexts) {
    into.add_text(std::string(column.texts[row]), std::nullopt);
  } else if (column.kind == Kind::kDictionary) {
    const double index = number();
    if (index < 0) {
      ++into.empty;
    } else {
      into.add_text(std::string(column.texts[uint64_t(index)]), std::nullopt);
    }
  } else if (const double value = number(); std::isnan(value)) {
    ++into.empty;
  } else if (column.type.is_integer()) {  // a double would round large ones, such as hashes
    visit_npy_type(column.type, [&]<typename T, bool kSwap>() {
      const char* const at = column.values + int64_t(row) * column.stride;
      into.add_text(str(element_value<T, kSwap>(at)), value);
    });
  } else {
    into.add_number(value);
  }
}

/// Looks at rows in equal distances, because a table may be sorted.
std::vector<uint64_t> sampled_rows(uint64_t rows) {
  const uint64_t count = std::min<uint64_t>(rows, kSampleLines);
  std::vector<uint64_t> sample;
  for (uint64_t i = 0; i < count; ++i) sample.push_back(i * rows / count);
  return sample;
}

/// Adds the field of a column of pairs, and what the choice of a model needs to know of its values.
void add_pairs(const MemoryColumn& column, const std::vector<uint64_t>& rows, FileFacts& facts) {
  facts.fields.push_back({.name = column.name, .type = FieldType::kInt64, .shape = {-1}});
  double products = 0;
  for (const uint64_t row : rows) {
    double squares = 0, fourth_powers = 0;
    for (uint64_t i = column.pair_begin(row); i < column.pair_begin(row + 1); ++i) {
      const double value = npy_number(column.values + i * column.type.bytes, column.type);
      if (!std::isfinite(value)) continue;  // the record is bad
      squares += value * value;
      fourth_powers += value * value * value * value;
      facts.largest_value = std::max(facts.largest_value, std::fabs(value));
    }
    products += (squares * squares - fourth_powers) / 2;
  }
  facts.pairs_per_record = products / double(rows.size());
}

FileFacts table_facts(const MemoryTable& table, const std::string& path, const Roles& roles) {
  FileFacts facts{.path = path, .format = DataFormat::kMemory, .records_estimated = table.rows};
  const std::vector<uint64_t> rows = sampled_rows(table.rows);
  std::vector<std::string> names;
  std::vector<Column> columns;
  for (const MemoryColumn& column : table.columns) {
    if (column.kind == Kind::kPairs) {
      facts.has_pairs = true;
      add_pairs(column, rows, facts);
    } else if (column.width > 1) {
      facts.fields.push_back({.name = column.name,
                              .shape = {int64_t(column.width)},
                              .transform = {ops::Standardize{}}});
    } else {
      names.push_back(column.name);
      for (Column& sampled = columns.emplace_back(); const uint64_t row : rows)
        look_at(column, row, sampled);
    }
  }
  if (names.empty()) return facts;
  const std::vector<std::string> titles = names;
  facts.reason =
      str(table.rows,
          " rows: ", describe_columns(roles, {.titles = titles, .columns = columns}, names, facts));
  for (FieldSpec& field : facts.fields)  // every format splits the texts of these fields
    if (field.is_bag() && field.type == FieldType::kString)
      field.transform = {ops::Tokens{}, ops::Hash{}};
  return facts;
}

}  // namespace

Sniffed sniff_memory(const std::string& path, const Roles& roles) {
  const auto table = find_table(path);
  if (!table) return {.facts = table.error()};
  return {DataFormat::kMemory, table_facts(**table, path, roles)};
}

}  // namespace downpour::data
