// sniff of JSON lines: derives a field from each member of the first objects, and finds the target.
#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "shared/base/units.h"
#include "shared/data/formats/sniff_columns.h"

namespace downpour::data {
namespace {

using Json = nlohmann::json;

constexpr DataFormat kJsonFormat = DataFormat::kJsonl;

/// Longer lines are not parsed, because a parse tree takes up to a hundred times the bytes of its
/// line.
constexpr size_t kLookedAtBytesMax = kMiB;

/// Statistics of one member over all lines.
struct Member {
  Column column;                       // statistics of its values
  size_t lines = 0;                    // lines with a value
  size_t numbers = 0, texts = 0;       // lines with values of this type
  size_t fewest = SIZE_MAX, most = 0;  // minimum and maximum number of values in a line
  bool list = false, odd = false;      // has arrays; has values of other types
};

void look_at(const Json& value, Member& member) {
  std::vector<const Json*> values = {&value};
  if (value.is_array()) {
    member.list = true;
    values.clear();
    for (const Json& element : value) values.push_back(&element);
  }
  bool number = false, text = false;
  for (const Json* one : values) {
    if (one->is_boolean()) {
      number = true;
      member.column.add_number(one->get<bool>() ? 1 : 0);
    } else if (one->is_number_integer()) {
      number = true;
      member.column.add_text(one->dump(), one->get<double>());
    } else if (one->is_number()) {
      number = true;
      member.column.add_number(one->get<double>());
    } else if (one->is_string()) {
      text = true;
      member.column.add_text(one->get<std::string>(), std::nullopt);
    } else {
      member.odd = true;
    }
  }
  member.numbers += number;
  member.texts += text;
  member.lines += !values.empty();
  member.fewest = std::min(member.fewest, values.size());
  member.most = std::max(member.most, values.size());
}

void walk(const Json& object, const std::string& prefix, std::map<std::string, Member>& members) {
  for (const auto& [name, value] : object.items()) {
    const std::string path = prefix + name;
    if (value.is_object() && prefix.size() < 200) {
      walk(value, path + ".", members);
    } else if (!value.is_null()) {
      look_at(value, members[path]);
    }
  }
}

std::optional<FieldSpec> field_of_member(const std::string& path, const Member& member,
                                         size_t lines) {
  std::string name = path;
  std::replace(name.begin(), name.end(), '/', '_');
  const bool mixed = member.numbers > 0 && member.texts > 0;
  if (member.odd || mixed || member.lines == 0 || name.empty() || name[0] == '.')
    return std::nullopt;
  FieldSpec field{.name = name};
  if (!member.list) {
    field = field_of(name, member.column);
    if (member.column.is_text()) field.transform = {ops::Tokens{}, ops::Hash{}};
  } else if (member.texts > 0) {
    field.type = FieldType::kString;
    field.shape = {-1};
    field.transform = {ops::Hash{}};
  } else if (member.fewest == member.most && member.lines == lines) {
    field.shape = {int64_t(member.most)};
  } else {
    return std::nullopt;
  }
  if (name != path) field.path = path;
  rename_field(field, field.path);
  return field;
}

Result<FileFacts> json_facts(FileSample& file) {
  const std::vector<std::string_view>& lines = file.lines();
  const std::string& path = file.path();
  std::map<std::string, Member> members;
  size_t objects = 0;
  bool has_long_lines = false;
  for (const std::string_view line : lines) {
    has_long_lines = has_long_lines || line.size() > kLookedAtBytesMax;
    if (line.size() > kLookedAtBytesMax) continue;
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) continue;
    ++objects;
    walk(object, "", members);
  }
  if (objects == 0 && has_long_lines) {
    return Error{ErrorCode::kBadData,
                 str("looks like JSON, but its lines are longer than 1 MiB: ", path), path,
                 "set data.format = \"jsonl\" and data.fields in a job: fields are detected from "
                 "shorter lines only"};
  }
  if (objects == 0 || members.empty()) {
    return Error{ErrorCode::kBadData, str("looks like JSON, but no line is an object: ", path),
                 path, "write one object per line: {\"label\": 1, ...}"};
  }
  FileFacts facts{.format = kJsonFormat};
  const auto is_single = [&](const std::string& name) {
    const auto member = members.find(name);
    return member != members.end() && !member->second.list && !member->second.odd;
  };
  const auto is_member = [&](const std::string& name) { return members.contains(name); };
  const bool known = !present(file.roles().targets, is_member).empty();
  std::vector<Roles::Target> targets = present(file.roles().targets, is_single);
  if (!known) {
    std::string guess;
    for (const auto& [name, member] : members) {
      if (is_single(name) && 2 * member.lines > objects && target_rank(name) < target_rank(guess))
        guess = name;
    }
    if (!guess.empty()) targets = {{guess, ""}};
  }
  const auto field_of_one = [&](const std::string& name, const auto& member) {
    return field_of_member(name, member, objects);
  };
  facts.reason = str("jsonl: ", describe_members(file.roles(), targets, known,
                                                 known ? "by the job" : "by its name", "member",
                                                 members, objects, is_single, field_of_one, facts));
  return facts;
}

}  // namespace

std::optional<Sniffed> sniff_json_lines(FileSample& file) {
  if (file.lines().empty() || file.lines()[0].front() != '{') return std::nullopt;
  return Sniffed{kJsonFormat, json_facts(file)};
}

}  // namespace downpour::data
