// sniff: detects a file's format and the settings that a job for it needs.
#include "shared/data/formats/sniff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "shared/base/names.h"
#include "shared/base/units.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/json/json_scan.h"
#include "shared/data/formats/mnist/mnist.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/formats/parser.h"
#include "shared/data/formats/sniff_columns.h"
#include "shared/data/formats/text/table_columns.h"
#include "shared/data/records/delimited.h"
#include "shared/data/records/line_windows.h"
#include "shared/data/values/fields.h"
#include "shared/data/values/number.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

constexpr size_t kSampleLines = 10'000;
const std::set<std::string> kMissingMarks = {"?",    "NA",   "N/A",  "NaN", "nan",
                                             "NULL", "null", "None", "\\N"};
struct Sample {
  std::string text;
  std::string_view rest;                // after the skipped lines, up to the last line break
  std::vector<std::string_view> lines;  // without blank lines and line breaks
};

/// Returns the records of `rest` that are not blank.
std::vector<std::string_view> lines_of(std::string_view rest, LineRules rules) {
  std::vector<std::string_view> lines = records_in(rest, rules, /*whole=*/true, kSampleLines);
  std::erase_if(lines, [](std::string_view line) { return trimmed(line).empty(); });
  return lines;
}

Result<Sample> read_sample(const std::string& path, uint32_t skip_lines) {
  DP_TRY(File file, File::open(path));
  if (file.bytes() == 0) return Error{ErrorCode::kBadData, str("the file is empty: ", path), path};
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  Sample sample;
  sample.text.resize(kSampleBytes);
  DP_TRY(const size_t n, source->read(sample.text.data(), kSampleBytes));
  sample.text.resize(n);
  std::string_view rest = sample.text;
  if (rest.substr(0, 3) == "\xef\xbb\xbf") rest.remove_prefix(3);
  for (uint32_t i = 0; i < skip_lines && !rest.empty(); ++i)
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  if (n == kSampleBytes && rest.rfind('\n') != std::string_view::npos)
    rest = rest.substr(0, rest.rfind('\n') + 1);  // the sample cuts off the line after it
  sample.rest = rest;
  sample.lines = lines_of(rest, {});
  return sample;
}

bool number_of(std::string_view text, double& value) {
  // parse_float() needs a byte after the text that is not part of a number, so copy the text.
  float number = 0;
  const std::string copy(text);
  const char* const end = parse_float(copy.c_str(), number);
  if (copy.empty() || end != copy.c_str() + copy.size()) return false;
  value = double(number);
  return true;
}

std::string joined(const std::vector<std::string>& texts, const char* separator) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : separator) + text;
  return out;
}

// ---- libsvm

/// Returns true if the lines are libsvm, "label index:value ...", or with `ffm` libffm,
/// "label field:index:value ...". The sets get their labels and features.
bool looks_like_libsvm(const Sample& sample, bool ffm, std::set<double>& labels,
                       std::set<uint64_t>& features) {
  labels.clear();
  features.clear();
  size_t pairs = 0;
  for (std::string_view line : sample.lines) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    size_t at = std::min(line.find_first_of(" \t"), line.size());
    double label = 0;
    if (!number_of(line.substr(0, at), label)) return false;
    if (labels.size() <= kClassesMax) labels.insert(label);
    while ((at = line.find_first_not_of(" \t", at)) != std::string_view::npos) {
      const size_t end = std::min(line.find_first_of(" \t", at), line.size());
      std::string_view token = line.substr(at, end - at);
      if (ffm) {
        const size_t first = token.find(':');
        double group = 0;
        if (first == std::string_view::npos || !number_of(token.substr(0, first), group))
          return false;
        token.remove_prefix(first + 1);
      }
      const size_t colon = token.find(':');
      double value = 0;
      uint64_t index = 0;
      at = end;
      if (token.substr(0, 4) == "qid:") continue;  // the reader reports it as an error
      const std::string number(token.substr(0, colon));
      const char* const stop = parse_uint(number.c_str(), index);
      if (colon == std::string_view::npos || stop != number.c_str() + number.size() ||
          !number_of(token.substr(colon + 1), value))
        return false;
      features.insert(index);
      ++pairs;
    }
  }
  return pairs > 0;
}

FileFacts libsvm(const Sample& sample, bool ffm, const std::set<double>& labels,
                 const std::set<uint64_t>& features) {
  FileFacts facts{.format = ffm ? DataFormat::kLibffm : DataFormat::kLibsvm,
                  .fields = default_fields(DataFormat::kLibsvm),
                  .target = "label"};
  facts.classes = classes_of(labels, sample.lines.size());
  std::vector<std::string> texts;
  for (const double label : labels)
    if (texts.size() < 5) texts.push_back(str(label));
  facts.reason = str(ffm ? "libffm: " : "libsvm: ", features.size(), " features in the first ",
                     sample.lines.size(), " lines, labels ", joined(texts, ", "),
                     labels.size() > texts.size() ? " ..." : "", " (", said(facts.classes), ")");
  return facts;
}

// ---- delimited

using Rows = std::vector<std::vector<std::string>>;

Rows split_all(const std::vector<std::string_view>& lines, char delimiter, bool quotes,
               size_t rows_max) {
  Rows rows;
  std::vector<std::string_view> cells(4096);
  std::string store;
  for (const std::string_view line : lines) {
    if (rows.size() == rows_max) break;
    size_t count = 0;
    if (!split_line(line, delimiter, quotes, cells, count, store) || count > cells.size()) continue;
    rows.emplace_back(cells.begin(), cells.begin() + ptrdiff_t(count));
  }
  return rows;
}

/// Returns the most frequent number of columns. `with_it` is the number of rows that have it.
size_t usual_width(const Rows& rows, size_t& with_it) {
  std::map<size_t, size_t> counts;
  for (const auto& row : rows) ++counts[row.size()];
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  with_it = most == counts.end() ? 0 : most->second;
  return most == counts.end() ? 0 : most->first;
}

bool looks_like_criteo(const Rows& rows) {
  for (const auto& row : rows) {
    if (row.size() != 40 || (row[0] != "0" && row[0] != "1")) return false;
    for (size_t i = 1; i < 40; ++i) {
      double value = 0;
      const bool hex =
          row[i].size() == 8 && row[i].find_first_not_of("0123456789abcdef") == std::string::npos;
      if (!row[i].empty() && !(i <= 13 ? number_of(row[i], value) : hex)) return false;
    }
  }
  return !rows.empty();
}

/// Returns the fields of a file in Criteo's format. The format's default transform is log(1 + x) of
/// positive numbers, because Criteo's numbers are counts. A column with many negative numbers holds
/// no counts. It gets no transform, because the default one would discard the negative numbers.
std::vector<FieldSpec> criteo_fields(const Rows& rows) {
  constexpr size_t kNegativeShare = 10;  // no counts if at least 1 in 10 numbers is negative
  std::vector<FieldSpec> fields = default_fields(DataFormat::kCriteo);
  for (size_t column = 1; column <= 13; ++column) {
    size_t negative = 0, present = 0;
    for (const auto& row : rows) {
      present += row[column].empty() ? 0 : 1;
      negative += row[column].starts_with('-') ? 1 : 0;
    }
    if (negative > 0 && negative * kNegativeShare >= present) fields[column].transform.clear();
  }
  return fields;
}

Column look_at(const Rows& rows, size_t index, size_t first_row) {
  Column column;
  for (size_t r = first_row; r < rows.size(); ++r) {
    const std::string& cell = rows[r][index];
    double value = 0;
    if (cell.empty()) {
      ++column.empty;
    } else if (kMissingMarks.contains(cell)) {
      ++column.marks[cell];
    } else {
      column.add_text(cell, number_of(cell, value) ? std::optional(value) : std::nullopt);
    }
  }
  return column;
}

Result<FileFacts> delimited(const Sample& sample, const std::string& path,
                            const DataSpec& declared) {
  char delimiter = 0;
  size_t width = 0;
  double best = 0;
  std::string candidates = "\t,;|";
  if (!declared.delimiter.empty()) {
    DP_TRY(const char known, delimiter_of(declared));
    candidates = known;
  }
  std::vector<std::string_view> lines;
  for (const char candidate : candidates) {
    // If cells may contain line breaks, the end of a record depends on the delimiter.
    const bool quoting = declared.quoted_newlines && candidate != '\t';
    std::vector<std::string_view> records =
        quoting ? lines_of(sample.rest, {.quoting = candidate}) : sample.lines;
    const Rows rows = split_all(records, candidate, candidate != '\t', 200);
    size_t with_it = 0;
    const size_t columns = usual_width(rows, with_it);
    const double share =
        rows.empty() ? 0 : double(with_it) / double(std::min<size_t>(records.size(), 200));
    if (columns < 2 || share < 0.9 || share <= best) continue;
    best = share;
    width = columns;
    delimiter = candidate;
    lines = std::move(records);
  }
  if (delimiter == 0) {
    return Error{
        ErrorCode::kBadData,
        str("can't detect the format; the first line is \"", shown(sample.lines[0]), "\""),
        str(path, ":", declared.skip_lines + 1),
        "supported formats are TFRecord, npy, npz, libsvm, libffm, JSON lines, CSV, TSV, criteo "
        "and mnist (idx), each also compressed (gzip, zstd); set data.format in a job"};
  }
  FileFacts facts{.format = delimiter == '\t' ? DataFormat::kTsv : DataFormat::kCsv};
  if (delimiter != ',' && delimiter != '\t') facts.delimiter = std::string(1, delimiter);
  Rows rows = split_all(lines, delimiter, delimiter != '\t', kSampleLines);
  std::erase_if(rows, [&](const auto& row) { return row.size() != width; });
  if (delimiter == '\t' && looks_like_criteo(rows)) {
    return FileFacts{
        .format = DataFormat::kCriteo,
        .columns = default_columns(DataFormat::kCriteo),
        .fields = criteo_fields(rows),
        .target = "label",
        .classes = 2,
        .reason = "criteo: label, 13 numbers and 26 hashed categories, separated by tabs"};
  }
  size_t padded = 0;
  for (auto& row : rows) {
    for (std::string& cell : row) {
      padded += trimmed(cell).size() != cell.size();
      cell = std::string(trimmed(cell));
    }
  }
  facts.trim = padded > 0;

  // The first row is a header if it has a name in a column whose other cells are all numbers.
  facts.header = declared.header;
  std::vector<Column> columns;
  for (size_t i = 0; i < width; ++i) {
    columns.push_back(look_at(rows, i, 1));
    double value = 0;
    const std::string& first = rows[0][i];
    facts.header |= columns[i].is_numeric() && !first.empty() && !kMissingMarks.contains(first) &&
                    !number_of(first, value);
  }
  // A first record may have one bad value. So a first row that contains a number is a header only
  // if all of its cells are different and not empty.
  const bool names_only = std::none_of(rows[0].begin(), rows[0].end(), [](const std::string& cell) {
    double value = 0;
    return number_of(cell, value);
  });
  if (!names_only && !declared.header) {
    const bool unnamed = std::count(rows[0].begin(), rows[0].end(), "") > 0;
    facts.header &= !unnamed && first_repeated(rows[0]) == nullptr;
  }
  if (!facts.header) {
    for (size_t i = 0; i < width; ++i) columns[i] = look_at(rows, i, 0);
  }
  for (size_t i = 0; i < width; ++i)
    facts.columns.push_back(facts.header && !rows[0][i].empty() ? rows[0][i] : unnamed_column(i));
  if (const std::string* name = first_repeated(facts.columns)) {
    return Error{
        ErrorCode::kBadData,
        str("the first line looks like a header, but has the column `", shown(*name), "` twice"),
        path, "give each column a unique name"};
  }
  std::string why, note;
  const size_t target = choose_target(facts.columns, columns, facts.header, why);
  if (!facts.header) facts.columns[target] = "label";

  std::set<std::string> marks;
  size_t numeric = 0, categorical = 0, text = 0;
  for (size_t i = 0; i < width; ++i) {
    for (const auto& [mark, count] : columns[i].marks) marks.insert(mark);
    // Nothing is known about a column without values.
    if (i == target || columns[i].cells == 0) continue;
    facts.fields.push_back(field_of(facts.columns[i], columns[i]));
    (columns[i].is_numeric() ? numeric : columns[i].is_text() ? text : categorical) += 1;
  }
  facts.missing.assign(marks.begin(), marks.end());
  describe_target(facts.columns[target], columns[target], facts, note);
  const char* const name = delimiter == '\t' ? "tsv" : "csv";
  facts.reason =
      str(name, facts.header ? " with header" : " without header", ": ", numeric, " numeric, ",
          categorical, " categorical", text > 0 ? str(", ", text, " text") : "",
          " columns; target \"", facts.target, "\" (", why, "; ", said(facts.classes), note, ")");
  return facts;
}

/// Returns the facts of a file. Does not check that its names are UTF-8.
Result<FileFacts> look_at(const std::string& path, const DataSpec& declared) {
  if (names_arrays(DataSpec{}, path)) return sniff_arrays(path);
  DP_TRY(const Sample sample, read_sample(path, declared.skip_lines));
  if (is_tfrecord(sample.text)) return sniff_tfrecord(path);
  if (is_idx_images(sample.text)) {
    DP_TRY(File file, File::open(path));
    DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
    DP_TRY(const IdxImages images, read_idx_header(*source, path));
    std::vector<FieldSpec> fields = default_fields(DataFormat::kMnist);
    fields[0].shape = {int64_t(images.pixels)};
    return FileFacts{.format = DataFormat::kMnist,
                     .fields = std::move(fields),
                     .target = "label",
                     .classes = 10,
                     .reason = str("idx: ", images.count, " images of ", images.pixels,
                                   " pixels, labels in ", idx_labels_path(path))};
  }
  if (is_idx_labels(sample.text)) {
    return Error{ErrorCode::kBadData,
                 str("this file contains the labels of an idx data set: ", path), path,
                 "give the file with the images"};
  }
  if (sample.lines.empty() || sample.text.find('\0') != std::string::npos) {
    return Error{ErrorCode::kBadData, str("is neither text nor a supported binary format: ", path),
                 path,
                 "supported formats are TFRecord, npy, npz, libsvm, libffm, JSON lines, CSV, TSV, "
                 "criteo and mnist (idx), each also compressed (gzip, zstd)"};
  }
  if (sample.lines[0].front() == '{') return sniff_json(sample.lines, path);
  std::set<double> labels;
  std::set<uint64_t> features;
  for (const bool ffm : {false, true}) {
    if (looks_like_libsvm(sample, ffm, labels, features))
      return libsvm(sample, ffm, labels, features);
  }
  return delimited(sample, path, declared);
}

}  // namespace

Result<FileFacts> sniff(const std::string& path, const DataSpec& declared) {
  DP_TRY(FileFacts facts, look_at(path, declared));
  std::vector<std::string> texts = facts.columns;
  for (const FieldSpec& field : facts.fields) {
    texts.push_back(field.source_name());
    texts.insert(texts.end(), field.positive.begin(), field.positive.end());
  }
  for (const std::string& text : texts) {
    if (json::is_utf8(text)) continue;
    return Error{ErrorCode::kBadData,
                 str("\"", shown(text),
                     "\" is a column name that is not UTF-8, but a job file must be UTF-8: ", path),
                 path,
                 str("convert the file: iconv -f latin1 -t utf-8 ", path,
                     "; or list the columns in data.columns of a job")};
  }
  return facts;
}

}  // namespace downpour::data
