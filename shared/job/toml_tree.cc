#include "shared/job/toml_tree.h"

#include <algorithm>
#include <tuple>

#include <toml++/toml.h>

#include "shared/base/enum_text.h"
#include "shared/base/str.h"
#include "shared/job/toml_limits.h"

namespace downpour {
namespace {

std::string position(const std::string& path, const toml::source_region& source) {
  return str(path, ":", source.begin.line, ":", source.begin.column);
}

TomlNode convert(const toml::node& node, const std::string& path) {
  TomlNode result;
  result.where = position(path, node.source());
  result.origin = str(path, ":", node.source().begin.line);
  const auto take = [&result](const auto* value, TomlNode::Kind kind, auto& out) {
    if (value == nullptr) return false;
    result.kind = kind;
    out = value->get();
    return true;
  };
  if (const auto* table = node.as_table()) {
    std::vector<std::tuple<uint32_t, uint32_t, size_t>> order;
    for (const auto& [key, value] : *table) {
      result.entries.emplace_back(std::string(key.str()), convert(value, path));
      result.entries.back().second.key_where = position(path, key.source());
      order.emplace_back(key.source().begin.line, key.source().begin.column, order.size());
    }
    std::sort(order.begin(), order.end());
    std::vector<std::pair<std::string, TomlNode>> sorted;
    for (const auto& place : order) sorted.push_back(std::move(result.entries[std::get<2>(place)]));
    result.entries = std::move(sorted);
  } else if (const auto* array = node.as_array()) {
    result.kind = TomlNode::Kind::kArray;
    for (const toml::node& item : *array) result.items.push_back(convert(item, path));
  } else if (!take(node.as_string(), TomlNode::Kind::kString, result.text) &&
             !take(node.as_integer(), TomlNode::Kind::kInteger, result.integer) &&
             !take(node.as_floating_point(), TomlNode::Kind::kFloat, result.real) &&
             !take(node.as_boolean(), TomlNode::Kind::kBoolean, result.boolean)) {
    result.kind = TomlNode::Kind::kOther;
  }
  return result;
}

}  // namespace

const TomlNode* TomlNode::find(std::string_view name) const {
  for (const auto& [key, value] : entries) {
    if (key == name) return &value;
  }
  return nullptr;
}

TomlNode* TomlNode::find(std::string_view name) {
  return const_cast<TomlNode*>(std::as_const(*this).find(name));
}

const char* TomlNode::kind_name() const {
  return enum_text<Kind::kOther>(kind,
                                 {"a table", "a list", "a string", "an integer", "a number",
                                  "true or false", "a date or time"},
                                 "?");
}

Result<TomlNode> parse_toml(std::string_view text, const std::string& path) {
  DP_TRY_VOID(check_toml_limits(text, path));
  try {
    const toml::table table = toml::parse(text, std::string_view(path));
    return convert(table, path);
  } catch (const toml::parse_error& error) {
    return Error{ErrorCode::kConfig, str("not TOML: ", error.description()),
                 position(path, error.source()), "see https://toml.io for the TOML syntax",
                 "DP-2102"};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kConfig, str("not TOML: ", error.what()), path, {}, "DP-2102"};
  }
}

TomlNode parse_loose_value(std::string_view text) {
  TomlNode node;
  node.kind = TomlNode::Kind::kString;
  if (text.find('\n') == std::string_view::npos) {
    auto parsed = parse_toml(str("v = ", text), "");
    if (parsed && parsed->entries.size() == 1 && parsed->entries[0].first == "v") {
      node = std::move(parsed->entries[0].second);
    }
  }
  if (node.kind != TomlNode::Kind::kString || node.text.empty()) node.text = text;
  if (text == "\"\"" || text == "''") node.text.clear();
  node.loose = true;
  return node;
}

std::string toml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        if (uint8_t(c) < 0x20 || c == 0x7f) {
          constexpr char kHex[] = "0123456789ABCDEF";
          quoted += str("\\u00", kHex[uint8_t(c) >> 4], kHex[c & 15]);
        } else {
          quoted += c;
        }
    }
  }
  return quoted + '"';
}

std::string toml_key(std::string_view name) {
  const auto bare = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (!name.empty() && std::all_of(name.begin(), name.end(), bare)) return std::string(name);
  return toml_quoted(name);
}

}  // namespace downpour
