// sniff of tables: finds the delimiter and the header, derives a field from each column, and finds
// the target.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "shared/base/names.h"
#include "shared/data/formats/sniff_columns.h"
#include "shared/data/formats/text/odd_cells.h"
#include "shared/data/formats/text/table_columns.h"
#include "shared/data/records/delimited.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

const std::set<std::string> kMissingMarks = {"?",    "NA",   "N/A",  "NaN", "nan",
                                             "NULL", "null", "None", "\\N"};

// Names that columns of texts and their targets often have, besides those of targets.
constexpr std::array kTextNames = {"text",    "review",    "reviews",  "sentence", "comment",
                                   "message", "title",     "headline", "document", "tweet",
                                   "body",    "sentiment", "category", "topic",    "description"};

constexpr const char* kPlainNumbers =
    "write them like 1234.5, without currency, percent sign, separators of thousands and decimal "
    "comma";

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

Column look_at(Records rows, size_t index, const std::set<std::string>& missing) {
  Column column;
  for (const auto& row : rows) {
    const std::string& cell = row[index];
    double value = 0;
    if (cell.empty()) {
      ++column.empty;
    } else if (missing.contains(cell)) {
      ++column.marks[cell];
    } else {
      column.add_text(cell, number_of(cell, value) ? std::optional(value) : std::nullopt);
    }
  }
  return column;
}

/// Returns the texts that mean a missing value whatever the column has.
std::set<std::string> marks_of(const FileSample& file) {
  const std::vector<std::string>& declared = file.declared().missing;
  std::set<std::string> marks(declared.begin(), declared.end());
  if (!file.roles().missing_decided) marks.insert(kMissingMarks.begin(), kMissingMarks.end());
  return marks;
}

/// Returns the facts of a file in Criteo's format. The format's default transform of numbers is
/// log(1 + x), because Criteo's numbers are counts. Quantiles serve other numbers, too.
FileFacts criteo_facts(const Rows& rows, const Roles& roles) {
  FileFacts facts{.format = DataFormat::kCriteo, .columns = default_columns(DataFormat::kCriteo)};
  const auto is_column = [&](const std::string& name) {
    return std::ranges::count(facts.columns, name) > 0;
  };
  std::vector<Roles::Target> targets = present(roles.targets, is_column);
  if (targets.empty()) targets = {{"label", ""}};
  std::string note;
  for (FieldSpec& field : default_fields(DataFormat::kCriteo)) {
    const auto target = std::ranges::find(targets, field.name, &Roles::Target::name);
    if (target != targets.end()) {
      const auto column =
          size_t(std::ranges::find(facts.columns, field.name) - facts.columns.begin());
      describe_target(*target, look_at(rows, column, kMissingMarks), facts, note);
      continue;
    }
    if (field.name.starts_with('I')) field.transform = {ops::Quantile{}};
    take_weight(roles, field);
    facts.fields.push_back(std::move(field));
  }
  facts.reason = str("criteo: label, 13 numbers and 26 hashed categories, separated by tabs",
                     facts.target == "label" ? "" : str("; target \"", facts.target, "\""), note);
  return facts;
}

/// Returns the format of tables with this delimiter: the one whose delimiter it is, otherwise csv.
/// In csv, cells may be in quotes, with any delimiter.
DataFormat table_format_of(char delimiter, bool quoted) {
  if (quoted) return DataFormat::kCsv;
  for (const FormatTraits& traits : kFormats)
    if (has_named_columns(traits.format) && traits.delimiter == delimiter) return traits.format;
  return DataFormat::kCsv;
}

/// The records of a table, and the delimiter of its cells.
struct Cells {
  DataFormat format{};
  char delimiter = 0;  // 0: the file is no table
  size_t width = 0;    // number of columns
  std::vector<std::string_view> lines;
  bool breaks = false;  // quoted cells may contain line breaks
};

bool has_odd_quotes(std::string_view line) {
  return std::count(line.begin(), line.end(), '"') % 2 != 0;
}

/// Returns how many of the records don't have the usual number of cells.
size_t odd_rows(const std::vector<std::string_view>& records, char delimiter) {
  size_t with_it = 0;
  usual_width(split_all(records, delimiter, true, kSampleLines), with_it);
  return std::min(records.size(), kSampleLines) - with_it;
}

/// Returns whether cells in quotes contain line breaks. Then most of the lines that are no rows
/// belong to records of several lines. A quote that is open by mistake has no such effect.
bool has_breaks_in_quotes(FileSample& file, char delimiter) {
  if (std::ranges::none_of(file.lines(), has_odd_quotes)) return false;
  return 2 * odd_rows(file.records(delimiter), delimiter) < odd_rows(file.lines(), delimiter);
}

/// Returns whether most of the first lines have a cell in quotes.
bool has_quoted_cells(const std::vector<std::string_view>& lines, char delimiter) {
  const Rows rows = split_all(lines, delimiter, /*quotes=*/false, 200);
  const auto is_quoted = [](const std::string& cell) {
    return cell.size() >= 2 && cell.front() == '"' && cell.back() == '"';
  };
  const auto quoted = std::ranges::count_if(
      rows, [&](const auto& row) { return std::ranges::any_of(row, is_quoted); });
  return size_t(quoted) * 2 > rows.size();
}

/// Chooses the delimiter with which the most lines have the same number of cells.
Cells find_cells(FileSample& file, std::string_view candidates) {
  Cells out;
  double best = 0;
  for (const char candidate : candidates) {
    // In a job's tsv, quotes belong to the cells.
    const bool quoted =
        file.declared().format != DataFormat::kTsv && has_quoted_cells(file.lines(), candidate);
    const DataFormat format = table_format_of(candidate, quoted);
    const bool quotes = traits_of(format).quotes;
    const bool breaks =
        quotes && (file.declared().quoted_newlines ||
                   (!file.roles().breaks_decided && has_breaks_in_quotes(file, candidate)));
    // If cells may contain line breaks, the end of a record depends on the delimiter.
    std::vector<std::string_view> records = breaks ? file.records(candidate) : file.lines();
    const Rows rows = split_all(records, candidate, quotes, 200);
    size_t with_it = 0;
    const size_t columns = usual_width(rows, with_it);
    const double share =
        rows.empty() ? 0 : double(with_it) / double(std::min<size_t>(records.size(), 200));
    if (columns < 2 || share < 0.9 || share <= best) continue;
    best = share;
    out = {format, candidate, columns, std::move(records), breaks};
  }
  return out;
}

/// Returns whether the line is not a row but names the delimiter for spreadsheets: `sep=;`.
bool names_delimiter(std::string_view line) {
  return line.starts_with("sep=") && trimmed(line).size() == 5;
}

/// Returns how many lines of the file, such as comments, `sep=;` or blank lines, stand before the
/// first row with the usual number of cells.
uint32_t lines_before(FileSample& file, const Cells& cells) {
  const bool quotes = traits_of(cells.format).quotes;
  for (const std::string_view& line : cells.lines) {
    const Rows row = split_all({line}, cells.delimiter, quotes, 1);
    if (row.empty() || row[0].size() != cells.width || names_delimiter(line)) continue;
    return uint32_t(std::count(file.text().data(), line.data(), '\n'));
  }
  return file.declared().skip_lines;
}

/// Returns whether the first row has the names of the columns. `columns` are the columns of the
/// other rows.
bool begins_with_header(const Rows& rows, const std::vector<Column>& columns,
                        const DataSpec& declared) {
  // The first row is a header if it has a name in a column whose other cells are all numbers.
  bool header = false;
  double value = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& first = rows[0][i];
    header |= columns[i].is_numeric() && !first.empty() && !kMissingMarks.contains(first) &&
              std::ranges::count(declared.missing, first) == 0 && !number_of(first, value);
  }
  // A first record may have one bad value. So a first row that contains a number is a header only
  // if all of its cells are different and not empty, and never if the job names the columns.
  const bool names_only = std::none_of(rows[0].begin(), rows[0].end(),
                                       [&](const auto& cell) { return number_of(cell, value); });
  const bool unnamed = std::count(rows[0].begin(), rows[0].end(), "") > 0;
  const bool distinct = !unnamed && first_repeated(rows[0]) == nullptr;
  return header && (names_only || (distinct && declared.columns.empty()));
}

/// Returns whether a text is usual for the name of a column of texts, or of a target.
bool is_usual_name(std::string text) {
  for (char& c : text) c = char(std::tolower(uint8_t(c)));
  // One letter is more often the value of a category.
  return text.size() > 1 && (target_rank(text) != kNoTargetName ||
                             std::ranges::find(kTextNames, text) != kTextNames.end());
}

/// Returns whether a text may be a name: it begins with no digit, sign or currency.
bool may_be_name(const std::string& text) {
  return !text.empty() && (std::isalpha(uint8_t(text[0])) || text[0] == '_' || text[0] == '#' ||
                           uint8_t(text[0]) >= 0x80);
}

/// Returns whether the first row has names although no column is numeric: all of its cells differ,
/// and no other row has one of them in its column. A first record has that, too, if each of its
/// texts occurs once. So a name must be a usual one, or in some column almost all texts must occur
/// again.
bool begins_with_text_names(const Rows& rows, const std::vector<Column>& columns) {
  constexpr double kChance = 0.05;  // that a record is taken for a header
  if (rows.size() < 2 || first_repeated(rows[0]) != nullptr) return false;
  bool usual = false;
  double chance = 1;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& first = rows[0][i];
    const auto has_it = [&](const auto& row) { return &row != &rows[0] && row[i] == first; };
    if (!may_be_name(first) || kMissingMarks.contains(first) || std::ranges::any_of(rows, has_it))
      return false;
    usual = usual || is_usual_name(first);
    const auto& texts = columns[i].texts;
    if (texts.size() == kDistinctMax) continue;  // not all are known
    const auto once = std::ranges::count_if(texts, [](const auto& t) { return t.second == 1; });
    // If the first row is a record, it is as likely as any other to be one of these.
    if (columns[i].cells > 0)
      chance = std::min(chance, double(once + 1) / double(columns[i].cells + 1));
  }
  return usual || chance <= kChance;
}

/// Checks the first row of a file whose columns a job names.
Result<void> check_declared(const FileSample& file, const std::vector<std::string>& first,
                            bool is_header) {
  if (is_header) {
    return Error{
        ErrorCode::kBadData, str("the first line looks like a header: ", shown(first[0]), ", ..."),
        str(file.path(), ":", file.declared().skip_lines + 1),
        "set data.header = true to use its names, or data.skip_lines = 1 to use those of "
        "data.columns; if it is a record, add its mark for an unknown number to data.missing"};
  }
  const size_t declared = file.declared().columns.size();
  if (declared == first.size()) return {};
  return Error{
      ErrorCode::kConfig,
      str("data.columns has ", declared, " names, but the lines have ", first.size(), " columns"),
      "data.columns", str("name all columns of ", file.path())};
}

/// Returns the targets of the job, or the one that is likely.
std::vector<Roles::Target> targets_of(const FileSample& file, bool named,
                                      const std::vector<std::string>& names,
                                      const std::vector<Column>& columns) {
  const auto is_column = [&](const auto& name) { return std::ranges::count(names, name) > 0; };
  std::vector<Roles::Target> targets = present(file.roles().targets, is_column);
  std::string ignored;
  if (targets.empty()) targets = {{names[choose_target(names, columns, named, ignored)], ""}};
  return targets;
}

/// Reads "None" in a target of texts as a class and not as missing, unless a column of numbers has
/// it, too.
void keep_class_none(const FileSample& file, Records records, bool named,
                     std::vector<Column>& columns, const std::vector<std::string>& names) {
  if (!file.declared().missing.empty() || file.roles().missing_decided) return;
  const std::string name = targets_of(file, named, names, columns)[0].name;
  const auto target = size_t(std::ranges::find(names, name) - names.begin());
  const auto has_none = [](const Column& column) { return column.marks.contains("None"); };
  if (columns[target].texts.empty() || columns[target].is_numeric() || !has_none(columns[target]))
    return;
  for (const Column& column : columns)
    if (column.is_numeric() && has_none(column)) return;
  std::set<std::string> marks = kMissingMarks;
  marks.erase("None");
  for (size_t i = 0; i < columns.size(); ++i)
    if (has_none(columns[i])) columns[i] = look_at(records, i, marks);
}

/// Reads texts in columns of numbers as missing where they may be marks, and warns of numbers that
/// are texts to the parser. Returns such a number of the target; empty if it has none. A job that
/// declares its fields decides this itself.
std::string judge_odd_cells(const FileSample& file, Records records, bool named,
                            std::vector<Column>& columns, FileFacts& facts) {
  if (!file.declared().fields.empty()) return {};
  const std::vector<std::string>& names = facts.columns;
  const std::vector<Roles::Target> targets = targets_of(file, named, names, columns);
  std::string of_target;
  const auto is_class = [&](const std::string& text) {
    for (size_t i = 0; i < names.size(); ++i)
      if (names_target(targets, names[i]) && columns[i].texts.contains(text)) return true;
    return false;
  };
  for (size_t i = 0; i < names.size(); ++i) {
    const bool target = names_target(targets, names[i]);
    std::set<std::string> marks = missing_marks(records, i, columns[i], target);
    const bool open = file.declared().missing.empty() && !file.roles().missing_decided;
    if (open && !marks.empty() && (target || std::ranges::none_of(marks, is_class))) {
      std::string list;
      for (const auto& mark : marks) list += str(list.empty() ? "\"" : ", \"", shown(mark), "\"");
      marks.merge(marks_of(file));
      columns[i] = look_at(records, i, marks);
      facts.warnings.push_back(
          str("the column `", shown(names[i]), "` has numbers and ", list, ", read as missing (",
              columns[i].missing(), " of the ", records.size(),
              " records in the sample, with empty cells); to change this, list the texts that mean "
              "missing: --set 'data.missing=[...]'"));
    } else if (std::string cell = formatted_number(records, i, columns[i]); !cell.empty()) {
      if (target) {
        of_target = std::move(cell);
        continue;
      }
      facts.warnings.push_back(str("the column `", shown(names[i]),
                                   "` is read as texts, because its numbers are "
                                   "written like \"",
                                   shown(cell), "\"; ", kPlainNumbers));
    }
  }
  return of_target;
}

Result<FileFacts> table_facts(const Cells& cells, FileSample& file) {
  const size_t width = cells.width;
  FileFacts facts{.format = cells.format,
                  .skip_lines = file.declared().skip_lines,
                  .quoted_newlines = cells.breaks};
  if (cells.delimiter != traits_of(facts.format).delimiter)
    facts.delimiter = std::string(1, cells.delimiter);
  const std::string_view first = cells.lines.front();
  if (cells.lines.size() == 1 && std::ranges::count(first, '\r') > 1) {
    return Error{ErrorCode::kBadData, "the lines end with CR, as on old Macintosh computers",
                 file.path(), "convert the file: tr '\\r' '\\n' < OLD > NEW"};
  }
  Rows rows = split_all(cells.lines, cells.delimiter, traits_of(facts.format).quotes, kSampleLines);
  if (names_delimiter(first)) rows.erase(rows.begin());
  std::erase_if(rows, [&](const auto& row) { return row.size() != width; });
  if (cells.delimiter == '\t' && file.declared().columns.empty() && looks_like_criteo(rows))
    return criteo_facts(rows, file.roles());
  size_t padded = 0;
  for (auto& row : rows) {
    for (std::string& cell : row) {
      padded += trimmed(cell).size() != cell.size();
      cell = std::string(trimmed(cell));
    }
  }
  facts.trim = padded > 0;

  std::vector<Column> columns;
  const std::set<std::string> missing = marks_of(file);
  for (size_t i = 0; i < width; ++i)
    columns.push_back(look_at(Records(rows).subspan(1), i, missing));
  const std::vector<std::string>& declared = file.declared().columns;
  const bool open = !file.declared().header && !file.roles().header_decided;
  const bool numbers = open && begins_with_header(rows, columns, file.declared());
  const bool texts = open && !numbers && declared.empty() && begins_with_text_names(rows, columns);
  facts.header = file.declared().header || numbers || texts;
  if (!declared.empty() && !file.declared().header)
    DP_TRY_VOID(check_declared(file, rows[0], facts.header));
  const Records records = Records(rows).subspan(facts.header ? 1 : 0);
  if (numbers || texts || names_delimiter(first)) facts.skip_lines = lines_before(file, cells);
  if (!facts.header) {
    for (size_t i = 0; i < width; ++i) columns[i] = look_at(records, i, missing);
  }
  for (size_t i = 0; i < width; ++i) {
    facts.columns.push_back(facts.header && !rows[0][i].empty()  ? rows[0][i]
                            : !facts.header && !declared.empty() ? declared[i]
                                                                 : unnamed_column(i));
  }
  if (const std::string* name = first_repeated(facts.columns)) {
    return Error{
        ErrorCode::kBadData,
        str("the first line looks like a header, but has the column `", shown(*name), "` twice"),
        file.path(), "give each column a unique name"};
  }
  const bool named = facts.header || !declared.empty();
  keep_class_none(file, records, named, columns, facts.columns);
  const std::string odd_target = judge_odd_cells(file, records, named, columns, facts);
  std::set<std::string> marks;
  std::vector<std::string> titles = facts.columns;
  for (size_t i = 0; i < width; ++i) {
    for (const auto& [mark, count] : columns[i].marks) marks.insert(mark);
    // pandas writes an index without a name.
    if (facts.header && rows[0][i].empty()) titles[i] = "index";
  }
  facts.missing.assign(marks.begin(), marks.end());
  const std::string found = describe_columns(
      file.roles(), {.titles = titles, .columns = columns, .named = named, .filters = true},
      facts.columns, facts);
  facts.reason = str(
      traits_of(facts.format).name, facts.header ? " with header" : " without header",
      facts.skip_lines > file.declared().skip_lines ? str(" in line ", facts.skip_lines + 1) : "",
      texts ? " (if the first line is a record: --set data.header=false)" : "",
      cells.breaks && !file.declared().quoted_newlines ? ", line breaks in quotes: " : ": ", found);
  const auto target = std::ranges::find(facts.fields, facts.target, &FieldSpec::name);
  if (!odd_target.empty() && is_sparse(*target)) {
    return Error{ErrorCode::kBadData,
                 str("the numbers of the target `", facts.target, "` are written like \"",
                     shown(odd_target), "\""),
                 file.path(), str(kPlainNumbers, "; or name another target: --target NAME")};
  }
  return facts;
}

}  // namespace

std::optional<Sniffed> sniff_table(FileSample& file) {
  if (file.lines().empty()) return std::nullopt;
  std::string candidates = "\t,;|";
  if (!file.declared().delimiter.empty()) {
    const Result<char> known = delimiter_of(file.declared());
    if (!known) return Sniffed{DataFormat::kAuto, known.error()};
    candidates = *known;
  }
  const Cells cells = find_cells(file, candidates);
  if (cells.delimiter == 0) return std::nullopt;
  return Sniffed{cells.format, table_facts(cells, file)};
}

}  // namespace downpour::data
