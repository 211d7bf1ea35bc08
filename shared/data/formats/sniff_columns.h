// Column analysis of a sample: derives the field to declare for each column, and finds the target.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/data/formats/file_sample.h"
#include "shared/job/file_job.h"

namespace downpour::data {

constexpr size_t kDistinctMax = 2'000;  // distinct texts tracked per column
constexpr size_t kClassesMax = 1'000;
constexpr size_t kFewestToJudge = 20;  // cells that say that all of a column differ

/// Statistics of the cells of a column.
struct Column {
  std::vector<double> numbers;
  std::map<std::string, size_t> texts;  // counts of distinct texts, at most kDistinctMax
  std::map<std::string, size_t> marks;  // counts of known marks for missing values
  size_t empty = 0, cells = 0, words = 0;
  bool numeric = true;

  /// Adds a value, and its number if the text is one.
  void add_text(const std::string& text, std::optional<double> number);
  void add_number(double number);
  bool is_numeric() const { return numeric && !numbers.empty(); }
  bool lacks_values() const { return empty > 0 || !marks.empty(); }
  /// Returns whether numbers of different texts, such as 1600000000.5 and 1600000001, are often the
  /// same 32-bit float.
  bool loses_differences() const;
  /// Returns the number of missing values.
  size_t missing() const {
    size_t sum = empty;
    for (const auto& [mark, count] : marks) sum += count;
    return sum;
  }
  /// Returns true for texts of several words that are seldom repeated.
  bool is_text() const {
    const size_t tracked = std::min(cells, kDistinctMax);
    const bool differ = texts.size() == tracked && cells >= kFewestToJudge;
    return !is_numeric() && cells > 0 && texts.size() * 2 > tracked &&
           (words > 4 * cells || (differ && words >= 2 * cells));
  }
};

/// Returns the number of classes of a numeric target: 2, the number of classes 0, 1, 2 ..., or 0
/// for other numbers.
uint32_t classes_of(const std::set<double>& values, size_t records);
/// The same, with what the name says: a rating is a number, and more than ten classes have the name
/// of classes (docs/models.md).
uint32_t numbered_classes(const std::string& name, const std::set<double>& values, size_t records);
/// Returns "binary", "10 classes" or "regression".
std::string said(uint32_t classes);

/// Adds a warning for a column of which loses_differences() is true. `what`: "column" or "target".
void warn_of_rounding(const char* what, const std::string& name, FileFacts& facts);

/// What a column that is not the target is good for.
enum class ColumnUse : uint8_t {
  kValues,
  kIds,     // its integers are names, such as a user's number
  kTime,    // a moment: no later record has the same
  kUnique,  // ids or texts of one word, another one in each record
};
/// Decides by the name and the values.
ColumnUse use_of(const std::string& name, const Column& column);
/// Returns why a column is left out, for example "a time"; empty if it is not. A sample weight is
/// never left out.
std::string_view why_left_out(const Roles& roles, const std::string& name, const Column& column);

/// Returns the field for a column: quantiles of numbers, hashed texts and ids, or bags of words for
/// long texts.
FieldSpec field_of(const std::string& name, const Column& column);
/// Returns a second field for an integer column with few values: the same values as ids. None for
/// another column. The field's name is "NAME_id".
std::optional<FieldSpec> id_field_of(const std::string& name, const Column& column);
/// Returns a second field for a column of numbers that lacks values: 1 where the value is missing,
/// otherwise 0. None for another column. The field's name is "NAME_missing".
std::optional<FieldSpec> missing_field_of(const std::string& name, const Column& column);
/// Returns how usual the name is for a target, 0 for the most usual one; kNoTargetName if it is
/// none.
constexpr size_t kNoTargetName = SIZE_MAX;
size_t target_rank(const std::string& name);
/// Returns those targets of the job for which `has(name)`.
template <typename Has>
std::vector<Roles::Target> present(const std::vector<Roles::Target>& targets, Has&& has) {
  std::vector<Roles::Target> found;
  std::ranges::copy_if(targets, std::back_inserter(found), has, &Roles::Target::name);
  return found;
}
/// Returns true if `name` is one of these targets.
bool names_target(const std::vector<Roles::Target>& targets, const std::string& name);
/// Gives a field that is named as in the data a name that fields can have. `place` is the member of
/// the field that then has its name in the data.
void rename_field(FieldSpec& field, std::string& place);
/// Leaves out records without a target, of which the sample has `missing`. Returns the words for
/// the reason, or none if no filter can name the target.
std::string leave_out_unlabelled(size_t missing, size_t records, FileFacts& facts);
/// Returns the end of the reason for a file without a target. `known`: the job names a `part` of
/// the file, for example a "member", that can't be one.
std::string no_target(bool known, std::string_view part);
/// Makes `field` that of a sample weight, if the job has one of this name.
void take_weight(const Roles& roles, FieldSpec& field);
/// Returns the index of the column to predict, if the job names none. `why` gets the reason. Ids,
/// times and row numbers are chosen only by their name.
size_t choose_target(std::span<const std::string> names, std::span<const Column> columns,
                     bool header, std::string& why);
/// Adds the field of a target to `facts`. The first call sets the target and its number of classes.
/// `note` gets the meaning of its values. A known loss decides the type of the field.
void describe_target(const Roles::Target& target, const Column& column, FileFacts& facts,
                     std::string& note);

/// The columns of a table of single values.
struct TableColumns {
  std::span<const std::string> titles;  // the names that say what the columns are good for
  std::span<const Column> columns;
  bool named = true;     // the names are those of the data
  bool filters = false;  // records without a target are left out
};
/// Adds the fields of all columns to `facts`, and finds the target if the job names none. The guess
/// of an unnamed column renames it in `names` to "label". Returns the reason.
std::string describe_columns(const Roles& roles, const TableColumns& table,
                             std::vector<std::string>& names, FileFacts& facts);

/// The fields that add_fields() has added, for the reason of a guess.
struct AddedFields {
  size_t numeric = 0, keys = 0;
  std::string left_out;  // names without a field, separated by commas
};
/// Adds the field of each member of a record to `facts`, except the targets and columns that are
/// left out. `is_single(name)` returns whether a member has one value in a record. `field_of(name,
/// member)` returns the field of a member, or nothing if no field can hold it.
template <typename Members, typename IsSingle, typename FieldOf>
AddedFields add_fields(const Roles& roles, const std::vector<Roles::Target>& targets,
                       const Members& members, IsSingle&& is_single, FieldOf&& field_of,
                       FileFacts& facts) {
  AddedFields added;
  for (const auto& [name, member] : members) {
    if (names_target(targets, name)) continue;
    std::string_view why_not;
    if (is_single(name)) why_not = why_left_out(roles, name, member.column);
    std::optional<FieldSpec> field;
    if (targets.empty() && name == "label") why_not = "not one value in most records";
    if (why_not.empty()) field = field_of(name, member);
    if (!field) {
      added.left_out += (added.left_out.empty() ? "" : ", ") + name;
      if (!why_not.empty()) added.left_out += " (" + std::string(why_not) + ")";
      continue;
    }
    take_weight(roles, *field);
    (field->type == FieldType::kFloat32 ? added.numeric : added.keys) += 1;
    facts.fields.push_back(*field);
  }
  return added;
}

/// Adds the fields of targets and other members to `facts`, as add_fields() does. Returns what they
/// are, for the reason of a guess. `part`: what the format calls a member. `known`: the job names a
/// target; `why`: how the target was found. If some of the `records` have no target, they are left
/// out.
template <typename Members, typename IsSingle, typename FieldOf>
std::string describe_members(const Roles& roles, const std::vector<Roles::Target>& targets,
                             bool known, std::string_view why, std::string_view part,
                             const Members& members, size_t records, IsSingle&& is_single,
                             FieldOf&& field_of, FileFacts& facts) {
  const AddedFields added = add_fields(roles, targets, members, is_single, field_of, facts);
  std::string note;
  for (const Roles::Target& target : targets)
    describe_target(target, members.at(target.name).column, facts, note);
  if (!targets.empty()) {
    const size_t cells = members.at(targets[0].name).column.cells;
    if (cells > 0 && cells < records) note += leave_out_unlabelled(records - cells, records, facts);
  }
  return str(added.numeric, " numeric ", part, "s, ", added.keys, " key ", part, "s",
             added.left_out.empty() ? "" : str(", ignored: ", added.left_out),
             targets.empty() ? no_target(known, part)
                             : str("; target \"", facts.target, "\" (", why, "; ",
                                   said(facts.classes), note, ")"));
}

// The functions Format::sniff of the layouts.
std::optional<Sniffed> sniff_arrays(FileSample& file);
std::optional<Sniffed> sniff_frames(FileSample& file);
std::optional<Sniffed> sniff_json_lines(FileSample& file);
std::optional<Sniffed> sniff_sparse_lines(FileSample& file);
std::optional<Sniffed> sniff_table(FileSample& file);

/// Describes the columns of a table in memory.
Sniffed sniff_memory(const std::string& path, const Roles& roles);

}  // namespace downpour::data
