// The visitor of keys.h that reads a job.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <span>

#include "shared/job/interval.h"
#include "shared/job/job_tree.h"
#include "shared/job/keys.h"
#include "shared/job/reader_support.h"
#include "shared/job/runs.h"
#include "shared/job/source_form.h"
#include "shared/job/table_reader.h"

namespace downpour {
namespace {

class Reader : private TableReader {
 public:
  static constexpr bool kReads = true;
  using TableReader::finish;
  using TableReader::TableReader;
  using TableReader::unavailable;

  void text(const char* name, std::string& value) {
    if (const TomlNode* node = take(name)) read_text(*node, name, value);
  }

  void optional_text(const char* name, std::optional<std::string>& value) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    std::string text;
    if (node->kind == Kind::kArray && node->items.empty()) {
      value = "";
    } else if (read_scalar_text(*node, name, text)) {
      value = std::move(text);
    }
  }

  void flag(const char* name, bool& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    if (node.kind != Kind::kBoolean) return wrong_type(node, name, "true or false");
    value = node.boolean;
  }

  template <std::unsigned_integral T>
  void number(const char* name, T& value, double min, double max) {
    if (const TomlNode* node = take(name)) read_number(*node, name, value, min, max);
  }

  /// Reads "10m", "epoch", or a number of steps.
  void interval(const char* name, Interval& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    if (node.kind == Kind::kInteger) {
      uint64_t steps = 0;
      if (read_number(node, name, steps, 1, 1e15)) value = Interval{.steps = steps};
      return;
    }
    if (node.kind != Kind::kString) {
      return wrong_type(node, name, "a time as in \"10m\", a number of steps, or \"epoch\"");
    }
    const auto read = parse_interval(node.text);
    if (!read) {
      return bad_value(node, name, toml_quoted(node.text),
                       "a time as in \"30s\", \"10m\" or \"1h\", a number of steps, or \"epoch\"");
    }
    value = *read;
  }

  /// Reads a time above 0: "500ms", "30s", "10m".
  void duration(const char* name, int64_t& ns) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    if (node->kind != Kind::kString) return wrong_type(*node, name, "a time as in \"30s\"");
    const auto read = parse_duration(node->text);
    if (!read || *read <= 0) {
      return bad_value(*node, name, toml_quoted(node->text),
                       "a time above 0, as in \"500ms\", \"30s\" or \"10m\"");
    }
    ns = *read;
  }

  /// Reads a count whose 0 is written "auto".
  template <std::unsigned_integral T>
  void automatic(const char* name, T& value, double max) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    if (node->kind == Kind::kString && node->text == "auto") {
      value = 0;
    } else {
      read_number(*node, name, value, 0, max);
    }
  }

  /// Reads a number, or "auto".
  void learned(const char* name, Learned& value, Range range) {
    std::optional<Learned> read;
    optional_learned(name, read, range);
    if (read) value = *read;
  }
  void optional_learned(const char* name, std::optional<Learned>& value, Range range) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    value = Learned{.open = node->kind == Kind::kString && node->text == "auto"};
    if (!value->open) real(name, value->value, range);
  }

  /// Reads "512MiB", "2GB", or a number of bytes. 0 is written "auto".
  void bytes(const char* name, uint64_t& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    if (node.kind == Kind::kString && node.text == "auto") {
      value = 0;
      return;
    }
    if (node.kind != Kind::kString) return (void)read_number(node, name, value, 1, 1e15);
    const auto read = parse_bytes(node.text);
    if (!read || *read == 0) {
      return bad_value(node, name, toml_quoted(node.text),
                       "a size as in \"512MiB\" or \"2GB\", a number of bytes, or \"auto\"");
    }
    value = *read;
  }

  template <std::floating_point T>
  void real(const char* name, T& value, Range range) {
    double read = 0;
    const TomlNode* node = take(name);
    if (node == nullptr || !read_real(*node, name, read)) return;
    const T rounded = T(read);
    const bool low = range.above ? !(double(rounded) > range.min) : !(read >= range.min);
    if (low || !(read <= range.max)) {
      const std::string min = number_text(range.min), max = number_text(range.max);
      const std::string wanted = range.max >= 3e38
                                     ? str(range.above ? "more than " : "at least ", min)
                                 : range.above ? str("more than ", min, " and at most ", max)
                                               : str("from ", min, " to ", max);
      return bad_value(*node, name, number_text(read), str("it must be ", wanted));
    }
    value = rounded;
  }

  void optional_real(const char* name, std::optional<double>& value) {
    double read = 0;
    const TomlNode* node = take(name);
    if (node != nullptr && read_real(*node, name, read)) value = read;
  }

  /// `zero`: how 0 is written; null: as a number.
  void optional_number(const char* name, std::optional<uint64_t>& value, double max,
                       const char* zero = nullptr) {
    uint64_t read = 0;
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    const bool word = zero != nullptr && loosened(*node).kind == Kind::kString;
    if (word && node->text == zero) {
      value = 0;
    } else if (word) {
      bad_value(*node, name, toml_quoted(node->text), str("a number, or \"", zero, "\""));
    } else if (read_number(*node, name, read, zero == nullptr ? 0 : 1, max)) {
      value = read;
    }
  }

  /// Returns the list, or nothing if the job has none or, after an error, if it is not a list.
  std::optional<TomlNode> list(const char* name, const char* wanted) {
    const TomlNode* found = take(name);
    if (found == nullptr) return {};
    TomlNode node = loosened(*found);
    if (node.kind == Kind::kArray) return node;
    wrong_type(node, name, wanted);
    return {};
  }

  void reals(const char* name, std::vector<double>& value) {
    const std::optional<TomlNode> node = list(name, "a list of numbers");
    if (!node) return;
    value.clear();
    for (const TomlNode& item : node->items) {
      if (!read_real(item, name, value.emplace_back())) return;
    }
  }

  /// Reads one of `choices`. The values in `unavailable` are known but not implemented. "*" in it
  /// adds all tables and all values that are or start with a number.
  void choice(const char* name, std::string& value, std::initializer_list<const char*> choices,
              std::initializer_list<const char*> unavailable) {
    choice(name, value, std::span(choices.begin(), choices.size()),
           std::span(unavailable.begin(), unavailable.size()));
  }
  void choice(const char* name, std::string& value, std::span<const char* const> choices,
              std::span<const char* const> unavailable) {
    const TomlNode* node = take(name);
    if (node == nullptr) return;
    const std::vector<std::string> names(choices.begin(), choices.end());
    const std::vector<std::string> others(unavailable.begin(), unavailable.end());
    const bool any_other = !others.empty() && others[0] == "*";
    const TomlNode read = node->kind == Kind::kString ? *node : loosened(*node);
    if (any_other && (read.kind == Kind::kInteger || read.kind == Kind::kTable)) {
      return not_available(*node, name, read.kind == Kind::kInteger ? str(read.integer) : "{...}",
                           names);
    }
    std::string text;
    if (!read_text(*node, name, text)) return;
    if (std::find(names.begin(), names.end(), text) != names.end()) {
      value = std::move(text);
    } else if (std::find(others.begin(), others.end(), text) != others.end() ||
               (any_other && !text.empty() && text[0] >= '0' && text[0] <= '9')) {
      not_available(*node, name, toml_quoted(text), names);
    } else {
      bad_value(*node, name, toml_quoted(text), hint_for(text, names, "use one of: "));
    }
  }

  /// Reads "shard", "off", or the size of a window in records.
  void shuffle(const char* name, std::string& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    uint64_t records = 0;
    if (node.kind == Kind::kInteger) {
      if (read_number(node, name, records, 1, kShuffleRecordsMax)) value = str(records);
    } else if (node.kind != Kind::kString) {
      wrong_type(node, name, "\"shard\", \"off\" or a number of records");
    } else if (node.text != "shard" && node.text != "off") {
      bad_value(node, name, toml_quoted(node.text),
                hint_for(node.text, {"shard", "off"},
                         "use a number of records, as in 10000, or one of: "));
    } else {
      value = node.text;
    }
  }

  template <typename E, size_t N>
  void enumeration(const char* name, E& value, const std::array<EnumName<E>, N>& names,
                   std::initializer_list<const char*> unavailable) {
    const TomlNode* node = take(name);
    std::string text;
    if (node == nullptr || !read_text(*node, name, text)) return;
    std::vector<std::string> choices;
    for (const auto& [word, meaning] : names) {
      if (word == text) {
        value = meaning;
        return;
      }
      choices.emplace_back(word);
    }
    if (std::find(unavailable.begin(), unavailable.end(), text) != unavailable.end()) {
      return not_available(*node, name, toml_quoted(text), choices);
    }
    bad_value(*node, name, toml_quoted(text), hint_for(text, choices, "use one of: "));
  }

  void strings(const char* name, std::vector<std::string>& value, bool runs = false) {
    const std::optional<TomlNode> node = list(name, "a list of strings");
    if (!node) return;
    value.clear();
    for (const TomlNode& item : node->items) {
      if (item.kind != Kind::kString) return wrong_type(item, name, "a list of strings");
      value.push_back(item.text);
    }
    if (!runs) return;
    if (auto expanded = expand_runs(value); !expanded) fail_at(*node, std::move(expanded).error());
  }

  /// Reads a list of counts, or a single count as a list of one.
  void counts(const char* name, std::vector<uint32_t>& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    value.clear();
    const std::vector<TomlNode> single{node};
    for (const TomlNode& item : node.kind == Kind::kArray ? node.items : single) {
      uint32_t count = 0;
      if (!read_number(item, name, count, 1, 1 << 20)) return;
      value.push_back(count);
    }
  }

  void shape(const char* name, std::vector<int64_t>& value) {
    const std::optional<TomlNode> node = list(name, "a list of integers");
    if (!node) return;
    value.clear();
    for (const TomlNode& item : node->items) {
      if (item.kind != Kind::kInteger) return wrong_type(item, name, "a list of integers");
      if (item.integer != -1 && (item.integer < 1 || item.integer > (1 << 24))) {
        return bad_value(item, name, str(item.integer),
                         "a dimension is at least 1, or -1 for any length");
      }
      value.push_back(item.integer);
    }
    if (value.size() > 1 && std::count(value.begin(), value.end(), -1) > 0) {
      bad_value(*node, name, "a list of several dimensions that contains -1",
                "use -1 alone: [-1] is a bag of keys");
    }
  }

  void source(const char* name, SourceSpec& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    value = {};
    if (node.kind == Kind::kTable) {
      source_table(node, name, value);
      if (value.is_mix())
        bad_value(node, name, "a single source with a weight",
                  "give a list of sources, each with a weight");
      return;
    }
    const std::vector<TomlNode> single{node};
    for (const TomlNode& item : node.kind == Kind::kArray ? node.items : single) {
      SourceSpec one;
      if (item.kind == Kind::kTable) {
        source_table(item, name, one);
      } else {
        source_path(item, name, one);
      }
      if (context_.error) return;
      if (const auto wrong = complaint_of(one, value))
        return bad_value(item, name, wrong->what, wrong->hint);
      value.format = one.format;
      value.paths.insert(value.paths.end(), one.paths.begin(), one.paths.end());
      value.parts.push_back(one.parts.empty() ? SourcePart{.paths = uint32_t(one.paths.size())}
                                              : one.parts[0]);
      if ((value.parts.back().weight > 0) != value.is_mix()) {
        return bad_value(
            item, name, "a list in which only some have a weight",
            "set the weight of every source or of none; without weights, all records are read");
      }
    }
    if (value.parts.size() == 1) value.parts[0].weight = 0;
    const auto plain = [](const SourcePart& part) { return part.weight == 0 && part.repeat == 1; };
    if (std::all_of(value.parts.begin(), value.parts.end(), plain)) value.parts.clear();
  }

  void source_table(const TomlNode& node, const char* name, SourceSpec& value) {
    Reader inner(node, path_of(name), context_);
    if (const TomlNode* found = inner.take("path")) {
      const TomlNode path = loosened(*found);
      const std::vector<TomlNode> single{path};
      for (const TomlNode& item : path.kind == Kind::kArray ? path.items : single) {
        inner.source_path(item, "path", value);
      }
    }
    visit_source(inner, value);
    SourcePart part{.paths = uint32_t(value.paths.size())};
    visit_source_part(inner, part);
    if (part.weight > 0 || part.repeat > 1) value.parts = {part};
    inner.table("shard", [&](Reader& shard) { visit_source_shard(shard, value); });
    inner.finish();
    if (context_.error) return;
    if (const auto wrong = complaint_of(value)) bad_value(node, name, wrong->what, wrong->hint);
  }

  void source_path(const TomlNode& node, const char* name, SourceSpec& value) {
    if (node.kind != Kind::kString) {
      return wrong_type(node, name, "a path, a list of paths, or a table with a path");
    }
    const std::string& path = node.text;
    for (const char* scheme : {"gs://", "http://", "https://"}) {
      if (path.starts_with(scheme))
        return not_available(node, name, toml_quoted(path), {"a path or a glob"});
    }
    if (const std::string hint = hint_for_source_path(path); !hint.empty())
      return bad_value(node, name, toml_quoted(path), hint);
    if (path.empty()) return bad_value(node, name, "\"\"", "give the path of a file");
    value.paths.push_back(path);
  }

  void transforms(const char* name, std::vector<TransformSpec>& value) {
    const std::optional<TomlNode> node = list(name, "a list of ops, as in [\"log1p\"]");
    if (!node) return;
    value.clear();
    for (const TomlNode& item : node->items) {
      const std::string path = str(path_of(name), "[", value.size(), "]");
      context_.origins[path] = {item.origin, item.where};
      TomlNode table = item;
      if (item.kind == Kind::kString) {  // "log1p" is short for { op = "log1p" }
        table.kind = Kind::kTable;
        table.entries = {{"op", item}};
      } else if (item.kind != Kind::kTable) {
        return wrong_type(item, name, "a list of ops or of tables with an op");
      }
      TransformSpec spec;
      Reader inner(table, path, context_);
      if (table.find("op") == nullptr) {
        return bad_value(item, name, "without an op", "{ op = \"hash\", buckets = 1024 }");
      }
      visit_transform(inner, spec);
      inner.unavailable({});
      inner.finish();
      if (context_.error) return;
      value.push_back(spec);
    }
  }

  void init(const char* name, std::optional<InitSpec>& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    if (node.kind != Kind::kTable) {
      return wrong_type(node, name, "a table, as in { type = \"normal\", scale = 0.01 }");
    }
    InitSpec spec;
    Reader inner(node, path_of(name), context_);
    inner.enumeration("type", spec.type, kInitNames, {"glorot", "he", "orthogonal", "constant"});
    inner.real("scale", spec.scale, Range{});
    inner.finish();
    if (!context_.error) value = spec;
  }

  /// Reads a schedule. "plateau" is short for { type = "plateau" }.
  void schedule(const char* name, ScheduleSpec& value) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    TomlNode node = loosened(*found);
    if (node.kind == Kind::kString) {
      const TomlNode type = node;
      node.kind = Kind::kTable;
      node.entries = {{"type", type}};
    } else if (node.kind != Kind::kTable) {
      return wrong_type(node, name, "a table, as in { type = \"cosine\", decay_steps = 10000 }");
    }
    ScheduleSpec spec{.type = ScheduleType::kConstant};
    Reader inner(node, path_of(name), context_);
    visit_schedule(inner, spec);
    inner.finish();
    if (!context_.error) value = spec;
  }

  template <typename F>
  void table(const char* name, F&& visit) {
    const TomlNode* found = take(name);
    const TomlNode empty;
    const TomlNode node = found == nullptr ? empty : loosened(*found);
    if (node.kind != Kind::kTable) return wrong_type(node, name, "a table");
    Reader inner(node, path_of(name), context_);
    visit(inner);
    inner.finish();
  }

  /// With `first`, "x" is short for the table { FIRST = "x" }.
  template <typename T, typename F>
  void tables(const char* name, std::vector<T>& values, F&& visit, const char* first = nullptr) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    const char* const wanted = first == nullptr ? "a list of tables" : "a list of names or tables";
    if (node.kind != Kind::kArray) return wrong_type(node, name, wanted);
    values.clear();
    for (size_t i = 0; i < node.items.size() && !context_.error; ++i) {
      TomlNode item = node.items[i];
      if (item.kind == Kind::kString && first != nullptr) {
        const TomlNode text = item;
        item.kind = Kind::kTable;
        item.entries = {{first, text}};
      }
      if (item.kind != Kind::kTable) return wrong_type(item, name, wanted);
      const std::string path = str(path_of(name), "[", i, "]");
      context_.origins[path] = {item.origin, item.where};
      Reader inner(item, path, context_);
      visit(inner, values.emplace_back());
      inner.finish();
    }
  }

  /// Reads fields. A key may be a run of names. A field that is also named by itself overrides the
  /// run, key by key.
  void fields(const char* name, std::vector<FieldSpec>& values) {
    const TomlNode* found = take(name);
    if (found == nullptr) return;
    const TomlNode node = loosened(*found);
    if (node.kind != Kind::kTable) return wrong_type(node, name, "a table of fields");
    TomlNode merged;
    for (const bool runs : {true, false}) {
      for (const auto& [key, field] : node.entries) {
        if (is_run(key) == runs && !merge_field(merged, key, field, name)) return;
      }
    }
    values.clear();
    for (const auto& [key, field] : merged.entries) {
      FieldSpec& spec = values.emplace_back();
      spec.name = key;
      Reader inner(field, path_of(name) + "." + toml_key(key), context_);
      context_.origins[inner.path_] = {field.origin, field.key_where};
      visit_field(inner, spec);
      inner.finish();
      if (spec.path == spec.name) spec.path.clear();
      if (spec.column == spec.name) spec.column.clear();
      if (spec.feature == spec.name) spec.feature.clear();
      if (context_.error) return;
    }
  }

 private:
  bool merge_field(TomlNode& merged, const std::string& key, const TomlNode& field,
                   const char* name) {
    if (field.kind != Kind::kTable) return wrong_type(field, name, "a table for each field"), false;
    std::vector<std::string> names{key};
    if (auto expanded = expand_runs(names); !expanded) {
      return fail_at(field, std::move(expanded).error()), false;
    }
    for (const std::string& one : names) {
      TomlNode* before = merged.find(one);
      if (before == nullptr) {
        merged.entries.emplace_back(one, field);
      } else if (is_run(key)) {
        return bad_value(field, name, str("two name ranges that both contain ", toml_quoted(one)),
                         {}),
               false;
      } else {
        for (const auto& [inner_key, value] : field.entries) {
          if (TomlNode* old = before->find(inner_key)) {
            *old = value;
          } else {
            before->entries.emplace_back(inner_key, value);
          }
        }
      }
      if (merged.entries.size() > kRunNamesMax) {
        return bad_value(field, name, str("more than ", kRunNamesMax, " fields"), {}), false;
      }
    }
    return true;
  }
};

}  // namespace

Result<void> read_job(const TomlNode& root, Job& job, Origins& origins) {
  Context context{origins, {}};
  Reader reader(root, {}, context);
  visit_job(reader, job);
  reader.finish();
  if (context.error) return std::move(*context.error);
  return {};
}

}  // namespace downpour
