// The visitor of keys.h that reads a job.
#include <algorithm>

#include "shared/job/job_tree.h"
#include "shared/job/keys.h"
#include "shared/job/reader_support.h"
#include "shared/job/runs.h"
#include "shared/job/source_form.h"
#include "shared/job/value_reader.h"

namespace downpour {
namespace {

class Reader : public ValueReader {
 public:
  static constexpr bool kReads = true;
  using ValueReader::ValueReader;

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
