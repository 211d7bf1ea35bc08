// sniff of NumPy arrays: derives the field of each array, and finds the target.
#include <algorithm>

#include "shared/base/human.h"
#include "shared/base/units.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/formats/sniff_columns.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

constexpr uint64_t kSampleRows = 10'000;

/// Returns the statistics of one element over the first rows.
Result<Column> look_at(const SourceArray& source, uint64_t element) {
  const NpyArray& array = source.array;
  if (array.row_bytes() > kSampleBytes) {
    return Error{ErrorCode::kBadData,
                 str("rows of ", human_bytes(array.row_bytes()),
                     " are too long to detect the fields: ", source.where),
                 source.where, "declare data.fields in a job"};
  }
  const uint64_t rows = std::min({array.rows, kSampleRows, kSampleBytes / array.row_bytes()});
  std::string bytes(size_t(rows * array.row_bytes()), '\0');
  if (source.member.deflated) {
    InflatedMember inflated(source.file, source.member);
    std::string head(size_t(array.data_offset), '\0');
    DP_TRY_VOID(inflated.read(head.data(), head.size()));
    DP_TRY_VOID(inflated.read(bytes.data(), bytes.size()));
  } else {
    DP_TRY(const size_t n, source.file->read_at(array.data_offset, bytes.data(), bytes.size()));
    bytes.resize(n);
  }
  Column column;
  for (uint64_t row = 0; (row + 1) * array.row_bytes() <= bytes.size(); ++row) {
    const char* const at = bytes.data() + row * array.row_bytes() + element * array.type.bytes;
    column.add_number(npy_number(at, array.type));
  }
  return column;
}

uint32_t classes_in(const Column& column) {
  return classes_of({column.numbers.begin(), column.numbers.end()}, column.cells);
}

/// Returns the field of an array that is not the target: keys if a row is one integer, else
/// numbers.
Result<FieldSpec> field_of_array(const std::string& name, const SourceArray& source) {
  if (source.array.row_elements > 1)
    return FieldSpec{.name = name, .shape = {int64_t(source.array.row_elements)}};
  if (source.array.type.is_integer() && source.array.type.kind != 'b') {
    return FieldSpec{.name = name, .type = FieldType::kInt64, .transform = {ops::Hash{}}};
  }
  DP_TRY(const Column column, look_at(source, 0));
  FieldSpec field = field_of(name, column);
  field.fallback.reset();  // an array has no missing values
  return field;
}

/// Returns the facts of a matrix. Its target is the first column if only that one is binary, else
/// the last column.
Result<FileFacts> sniff_matrix(const SourceArray& source, const std::string& path) {
  const uint64_t columns = source.array.row_elements;
  FileFacts facts{.format = DataFormat::kNpy, .records_estimated = source.array.rows};
  if (columns < 2) {
    return Error{ErrorCode::kBadData,
                 str("has one number per row, so there is no feature besides the target: ", path),
                 path, "give a folder with one .npy file per field, or an .npz archive"};
  }
  DP_TRY(const Column first, look_at(source, 0));
  DP_TRY(const Column last, look_at(source, columns - 1));
  const bool at_front = classes_in(first) == 2 && classes_in(last) != 2;
  std::string note;
  facts.fields = {{.name = "x", .column = at_front ? "1" : "0", .shape = {int64_t(columns - 1)}}};
  describe_target({"label", ""}, at_front ? first : last, facts, note);
  facts.fields.back().type = FieldType::kFloat32;
  facts.fields.back().column = at_front ? "0" : str(columns - 1);
  facts.reason =
      str("npy: ", source.array.rows, " rows of ", columns, " x ", npy_type_name(source.array.type),
          "; target: the ", at_front ? "first" : "last", " column (", said(facts.classes), ")");
  return facts;
}

Result<FileFacts> array_facts(FileSample& file, DataFormat format) {
  const std::string& path = file.path();
  DataSpec all{.format = format};
  DP_TRY(const std::vector<SourceArray> arrays, open_arrays(all, path));
  if (arrays.front().name.empty()) return sniff_matrix(arrays.front(), path);
  FileFacts facts{.format = all.format, .records_estimated = arrays.front().array.rows};
  std::vector<std::string> names;
  for (const SourceArray& source : arrays) {
    names.push_back(source.name);
    if (names.back().ends_with(".npy")) names.back().resize(names.back().size() - 4);
  }
  const auto index_of = [&](const std::string& name) {
    return size_t(std::ranges::find(names, name) - names.begin());
  };
  const auto is_single = [&](const std::string& name) {
    const size_t i = index_of(name);
    return i < names.size() && arrays[i].array.row_elements == 1;
  };
  const auto is_array = [&](const std::string& name) { return index_of(name) < names.size(); };
  const bool known = !present(file.roles().targets, is_array).empty();
  std::vector<Roles::Target> targets = present(file.roles().targets, is_single);
  if (!known) {
    std::string guess;
    for (const std::string& name : names) {
      if (is_single(name) && target_rank(name) < target_rank(guess)) guess = name;
    }
    if (!guess.empty()) targets = {{guess, ""}};
  }
  std::string said_target = no_target(known, "array");
  std::string list, note;
  for (size_t i = 0; i < arrays.size(); ++i) {
    list += (i > 0 ? ", " : "") + names[i];
    if (names_target(targets, names[i])) continue;
    DP_TRY(FieldSpec field, field_of_array(names[i], arrays[i]));
    rename_field(field, field.path);
    take_weight(file.roles(), field);
    facts.fields.push_back(std::move(field));
  }
  for (const Roles::Target& target : targets) {
    const SourceArray& source = arrays[index_of(target.name)];
    DP_TRY(const Column column, look_at(source, 0));
    describe_target(target, column, facts, note);
    if (!source.array.type.is_integer()) facts.fields.back().type = FieldType::kFloat32;
  }
  if (!targets.empty()) {
    said_target = str("; target \"", facts.target, "\" (by ", known ? "the job; " : "its name; ",
                      said(facts.classes), ")");
  }
  facts.reason =
      str(traits_of(format).name, ": ", arrays.front().array.rows, " rows of ", list, said_target);
  return facts;
}

}  // namespace

std::optional<Sniffed> sniff_arrays(FileSample& file) {
  if (!names_arrays(DataSpec{}, file.path())) return std::nullopt;
  const DataFormat format = file.path().ends_with(".npz") ? DataFormat::kNpz : DataFormat::kNpy;
  return Sniffed{format, array_facts(file, format)};
}

}  // namespace downpour::data
