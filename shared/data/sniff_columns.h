// What a look at the values of a column tells of it: the field to declare, and which column is the
// target.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/units.h"
#include "shared/data/dataset.h"

namespace downpour::data {

constexpr size_t kSampleBytes = 8 * kMiB;  // read of a file to find its columns

constexpr size_t kDistinctMax = 2'000;  // distinct texts of a column that are told apart
constexpr size_t kClassesMax = 1'000;

/// What is known of a column after a look at its cells.
struct Column {
  std::vector<double> numbers;
  std::map<std::string, size_t> texts;  // distinct ones, at most kDistinctMax
  std::map<std::string, size_t> marks;  // known marks for missing values
  size_t empty = 0, cells = 0, words = 0;
  bool numeric = true;

  /// Another value, and the number that it is, if it is one.
  void add_text(const std::string& text, std::optional<double> number);
  void add_number(double number);
  bool is_numeric() const { return numeric && !numbers.empty(); }
  bool is_text() const {
    return !is_numeric() && cells > 0 && words > 4 * cells &&
           texts.size() * 2 > std::min(cells, kDistinctMax);
  }
};

/// The classes that numeric targets make: 2, the number of 0, 1, 2 ..., or 0 for any other numbers.
uint32_t classes_of(const std::set<double>& values, size_t records);
/// "binary", "10 classes", "regression".
std::string said(uint32_t classes);

/// The field of a column: numbers standardized, texts hashed, long texts as bags of words.
FieldSpec field_of(const std::string& name, const Column& column);
/// Whether a column is the target by its name ("label", "click", ...).
bool is_target_name(const std::string& name);
/// The column to predict; `why` says how it was found.
size_t choose_target(const std::vector<std::string>& names, const std::vector<Column>& columns,
                     bool header, std::string& why);
/// Adds the target's field to `facts` and says its classes; `note` what its values mean.
void describe_target(const std::string& name, const Column& column, FileFacts& facts,
                     std::string& note);

/// The facts of a TFRecord file: the features of its first Examples.
Result<FileFacts> sniff_tfrecord(const std::string& path);
/// The facts of JSON lines, of which these are the first.
Result<FileFacts> sniff_json(const std::vector<std::string_view>& lines, const std::string& path);
/// The facts of NumPy arrays: a file, an archive, or a folder of files.
Result<FileFacts> sniff_arrays(const std::string& path);

}  // namespace downpour::data
