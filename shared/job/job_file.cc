#include "shared/job/job_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "shared/base/object_scheme.h"
#include "shared/job/job_tree.h"
#include "shared/job/preset.h"
#include "shared/job/toml_limits.h"
#include "shared/job/validate.h"

namespace downpour {
namespace {

constexpr size_t kJobBytesMax = 16U << 20;
constexpr size_t kListItemsMax = 1024;     // a larger index of an override is a mistake
constexpr size_t kShownKeyBytesMax = 200;  // of a key that is too deep; the rest is cut

Error config_error(std::string what, std::string where, std::string hint, const char* id) {
  return Error{ErrorCode::kConfig, std::move(what), std::move(where), std::move(hint), id};
}

/// Expands ${NAME}, ${NAME:-default} and $${ in one string. Appends to `names` where values came
/// from.
Result<std::string> expand_text(const std::string& text, const Environment& environment,
                                std::string& names) {
  std::string expanded;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 3, "$${") == 0) {
      expanded += "${";
      i += 3;
      continue;
    }
    if (text.compare(i, 2, "${") != 0) {
      expanded += text[i++];
      continue;
    }
    const size_t end = text.find('}', i);
    if (end == std::string::npos) {
      return config_error("`${` without a closing `}`", {}, "write $${ for a literal ${",
                          "DP-2109");
    }
    const std::string inside = text.substr(i + 2, end - i - 2);
    const size_t split = inside.find(":-");
    const std::string name = inside.substr(0, split);
    auto value = name.empty() ? std::nullopt : environment(name);
    const bool by_default = split != std::string::npos && (!value || value->empty());
    if (by_default) value = inside.substr(split + 2);
    if (!value) {
      return config_error(str("the environment variable `", name, "` is not set"), {},
                          str("export ", name, "=..., or write ${", name, ":-default}"), "DP-2109");
    }
    expanded += *value;
    if (!by_default) names += str(names.empty() ? "environment " : ", ", name);
    i = end + 1;
  }
  return expanded;
}

/// Replaces $${ by ${ in the strings of a job that job_to_toml() has printed.
void take_literally(TomlNode& node) {
  if (node.kind == TomlNode::Kind::kString) {
    for (size_t at = 0; (at = node.text.find("$${", at)) != std::string::npos; at += 2)
      node.text.erase(at, 1);
  }
  for (TomlNode& item : node.items) take_literally(item);
  for (auto& [key, value] : node.entries) take_literally(value);
}

Result<void> expand_environment(TomlNode& node, const Environment& environment) {
  if (node.kind == TomlNode::Kind::kString && node.text.find("${") != std::string::npos) {
    std::string names;
    auto expanded = expand_text(node.text, environment, names);
    if (!expanded) {
      expanded.error().where = node.where;
      return std::move(expanded).error();
    }
    node.text = std::move(*expanded);
    node.loose = true;
    if (!names.empty()) node.origin += str(" (", names, ")");
  }
  for (TomlNode& item : node.items) DP_TRY_VOID(expand_environment(item, environment));
  for (auto& [key, value] : node.entries) DP_TRY_VOID(expand_environment(value, environment));
  return {};
}

struct Step {
  std::string name;
  std::optional<size_t> index;  // index into a list
};

/// Splits "model.layers[1].units" or "data.fields.\"a b\".type" into steps.
std::optional<std::vector<Step>> split_key(std::string_view key) {
  std::vector<Step> steps;
  size_t i = 0;
  while (true) {
    std::string name;
    if (i < key.size() && key[i] == '"') {
      const size_t end = key.find('"', i + 1);
      if (end == std::string_view::npos) return std::nullopt;
      name = key.substr(i + 1, end - i - 1);
      i = end + 1;
    } else {
      while (i < key.size() && key[i] != '[') {
        const bool run = key.compare(i, 2, "..") == 0 && !name.empty();
        if (key[i] == '.' && !run) break;
        name += key.substr(i, run ? 2 : 1);
        i += run ? 2 : 1;
      }
    }
    if (name.empty()) return std::nullopt;
    steps.push_back({std::move(name), {}});
    while (i < key.size() && key[i] == '[') {
      size_t index = 0;
      const char* begin = key.data() + i + 1;
      const auto parsed = std::from_chars(begin, key.data() + key.size(), index);
      if (parsed.ec != std::errc() || parsed.ptr == key.data() + key.size() || *parsed.ptr != ']') {
        return std::nullopt;
      }
      i = size_t(parsed.ptr - key.data()) + 1;
      steps.push_back({{}, index});
    }
    if (i == key.size()) return steps;
    if (key[i++] != '.') return std::nullopt;
  }
}

/// Returns the child that a step leads to. Creates it as a copy of `like` if it is missing. Returns
/// null if that is impossible.
TomlNode* descend(TomlNode& node, const Step& step, const TomlNode& like) {
  using enum TomlNode::Kind;
  if (step.index) {
    if (node.kind == kTable && node.entries.empty()) node.kind = kArray;
    if (node.kind != kArray || *step.index > node.items.size()) return nullptr;
    if (*step.index >= kListItemsMax) return nullptr;
    if (*step.index == node.items.size()) node.items.push_back(like);
    return &node.items[*step.index];
  }
  if (node.kind != kTable) return nullptr;
  if (TomlNode* found = node.find(step.name)) return found;
  node.entries.emplace_back(step.name, like);
  return &node.entries.back().second;
}

bool is_set(const TomlNode& root, const std::vector<Step>& steps) {
  const TomlNode* node = &root;
  for (const Step& step : steps) {
    if (step.index)
      node = *step.index < node->items.size() ? &node->items[*step.index] : nullptr;
    else
      node = node->find(step.name);
    if (node == nullptr) return false;
  }
  return true;
}

Result<void> apply_override(TomlNode& root, const Override& override) {
  const std::string where =
      override.origin == "--set" ? str("--set ", override.key) : override.origin;
  const auto steps = split_key(override.key);
  if (!steps) {
    return config_error(str("`", override.key, "` is not a key"), where,
                        "write a dotted key, as in --set optimizer.learning_rate=0.1", "DP-2111");
  }
  if (steps->size() > kTomlDepthMax) {
    return config_error(
        str("a key of ", steps->size(), " levels; at most ", kTomlDepthMax, " are allowed"),
        where.substr(0, kShownKeyBytesMax), "use a key of the job: --dry-run prints them",
        "DP-2111");
  }
  if (override.if_absent && is_set(root, *steps)) return {};
  TomlNode like;  // a new, empty table
  like.where = like.key_where = where;
  like.origin = override.origin;
  TomlNode* node = &root;
  for (const Step& step : *steps) {
    node = descend(*node, step, like);
    if (node != nullptr) continue;
    return config_error(str("`", override.key, "` is not a path into the job"), where,
                        "--dry-run prints the keys of the job", "DP-2111");
  }
  *node = parse_loose_value(override.value);
  const auto mark = [&](auto& self, TomlNode& marked) -> void {
    marked.where = marked.key_where = where;
    marked.origin = override.origin;
    for (TomlNode& item : marked.items) self(self, item);
    for (auto& [key, value] : marked.entries) self(self, value);
  };
  mark(mark, *node);
  return {};
}

std::string absolute_path(const std::string& path, const std::string& base) {
  const std::filesystem::path joined = std::filesystem::path(base) / path;
  std::string normal = joined.lexically_normal().string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

/// Sets own_optimizer and own_reduction: what the job does not set, its preset may choose. A
/// schedule, `clip` or `ema` alone leaves the choice of the optimizer to the preset.
void note_own_optimizer(const TomlNode& root, Job& job) {
  const TomlNode* optimizer = root.find("optimizer");
  const TomlNode* train = root.find("train");
  job.model.options.own_reduction = train == nullptr || train->find("reduction") == nullptr;
  const bool chosen =
      optimizer != nullptr && (optimizer->kind != TomlNode::Kind::kTable ||
                               std::ranges::any_of(optimizer->entries, [](const auto& entry) {
                                 return entry.first != "schedule" && entry.first != "clip" &&
                                        entry.first != "ema";
                               }));
  job.model.options.own_optimizer = job.model.layers.empty() && !chosen;
}

/// Divides the global batch size among the replicas.
Result<void> settle_batch(TrainSpec& train, const Origins& origins) {
  const uint32_t global = std::exchange(train.global_batch_size, 0);
  if (global == 0) return {};
  const auto wrong = [](std::string what, std::string hint) {
    return config_error(std::move(what), "train.global_batch_size", std::move(hint), "DP-2106");
  };
  if (!traits_of(train.mode).has_replicas) {
    return wrong(str("mode \"", traits_of(train.mode).name, "\" has no steps of several batches"),
                 "set train.mode = \"sync\", or set train.batch_size instead");
  }
  // An override wins over a key of the file.
  const auto in_file = [&](const char* key) {
    const auto origin = origins.find(key);
    return origin != origins.end() && origin->second.from.find(':') != std::string::npos;
  };
  if (const auto batch = origins.find("train.batch_size"); batch != origins.end()) {
    if (in_file("train.batch_size") == in_file("train.global_batch_size"))
      return wrong("`batch_size` and `global_batch_size` are both given", "remove one of them");
    if (in_file("train.global_batch_size")) return {};
  }
  const uint64_t replicas = train.replicas.value_or(0);
  if (replicas == 0) return {};  // validate_given() reports it
  if (global % replicas != 0 || global / replicas > kBatchSizeMax) {
    return wrong(str(global, " records can't be divided evenly among ", replicas, " replicas"),
                 "set a multiple of train.replicas, or set train.batch_size instead");
  }
  train.batch_size = uint32_t(global / replicas);
  return {};
}

/// Sets the values that depend on the place of the file: name, base_dir, run_dir and relative
/// paths.
void settle_paths(Job& job, const std::string& base_dir, const std::string& stem) {
  if (job.name.empty()) job.name = stem;
  job.base_dir = absolute_path(job.base_dir.empty() ? "." : job.base_dir, base_dir);
  job.run_dir = absolute_path(job.run_dir.empty() ? "runs/" + job.name : job.run_dir, job.base_dir);
  for (std::string* const warm : {&job.train.warm_start.run, &job.train.warm_start.file})
    if (!warm->empty()) *warm = absolute_path(*warm, job.base_dir);
  for (FieldSpec& field : job.data.fields) {
    for (TransformSpec& op : field.transform) {
      auto* const vocabulary = std::get_if<ops::Vocabulary>(&op);
      if (vocabulary == nullptr || vocabulary->file.empty()) continue;
      if (is_object_path(vocabulary->file)) continue;
      vocabulary->file = absolute_path(vocabulary->file, job.base_dir);
    }
  }
}

/// Moves a format that the training source gives to data.format.
Result<void> settle_format(Job& job) {
  const DataFormat said = std::exchange(job.data.source.format, DataFormat::kAuto);
  if (said == DataFormat::kAuto || said == job.data.format) return {};
  if (job.data.format != DataFormat::kAuto) {
    return Error{ErrorCode::kConfig, "`data.source.format` and `data.format` differ",
                 "data.source.format", "remove one of them", "DP-2106"};
  }
  job.data.format = said;
  return {};
}

}  // namespace

Result<LoadedJob> load_job(const std::string& path, std::span<const Override> overrides,
                           const Environment& environment) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (exists(status) && !is_regular_file(status)) {
    return Error{ErrorCode::kNoInput, str("the job file `", path, "` is not a regular file"), path,
                 "write the job to a file: each process of a job may read it", "DP-2101"};
  }
  if (!exists(status)) {
    return Error{
        ErrorCode::kNoInput, str("there is no job file `", path, "`"), path,
        "use downpour train JOB.toml, or downpour train DATAFILE to generate a job for a data file",
        "DP-2101"};
  }
  std::ifstream file(path, std::ios::binary);
  JobSource source{path, std::string(std::istreambuf_iterator<char>(file), {})};
  if (!file) return Error{ErrorCode::kIo, str("can't read `", path, "`"), path, {}, "DP-2101"};
  return load_job(source, overrides, environment);
}

Result<LoadedJob> load_job(const JobSource& source, std::span<const Override> overrides,
                           const Environment& environment) {
  if (source.text.size() > kJobBytesMax) {
    return config_error(
        str("the job file is too large: ", source.text.size(), " bytes"), source.path,
        "if this is a data file, rename it: its name must not end in .toml", "DP-2101");
  }
  DP_TRY(TomlNode root, parse_toml(source.text, source.path));
  DP_TRY_VOID(expand_environment(root, environment));
  for (const Override& override : overrides) DP_TRY_VOID(apply_override(root, override));
  LoadedJob loaded;
  DP_TRY_VOID(read_job(root, loaded.job, loaded.origins));
  note_own_optimizer(root, loaded.job);
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::absolute(source.path, ignored);
  settle_paths(loaded.job, path.parent_path().string(), path.stem().string());
  if (auto settled = settle_format(loaded.job); !settled)
    return located(std::move(settled).error(), loaded.origins);
  if (auto settled = settle_batch(loaded.job.train, loaded.origins); !settled)
    return located(std::move(settled).error(), loaded.origins);
  DP_TRY_VOID(validate_given(loaded.job, loaded.origins));
  return loaded;
}

std::vector<Override> overrides_from_environment(std::span<const std::string> entries) {
  constexpr std::string_view kPrefix = "DOWNPOUR_";
  std::vector<Override> overrides;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    std::string key = name.substr(kPrefix.size());
    if (key.find("__") == std::string::npos && !key.starts_with('_')) continue;
    std::transform(key.begin(), key.end(), key.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    if (key.starts_with('_')) key.erase(0, 1);  // DOWNPOUR__SEED: a key outside of tables
    for (size_t at = key.find("__"); at != std::string::npos; at = key.find("__", at)) {
      key.replace(at, 2, ".");
    }
    overrides.push_back({key, entry.substr(equals + 1), "environment " + name});
  }
  std::sort(overrides.begin(), overrides.end(),
            [](const Override& a, const Override& b) { return a.origin < b.origin; });
  return overrides;
}

namespace {

/// Returns where a printed value is from, for --dry-run.
std::string origin_text(const Job& job, const Origins& origins, const PrintedTable& table,
                        const std::string& key) {
  const auto exact = origins.find(table.path.empty() ? key : str(table.path, ".", key));
  if (exact != origins.end()) return exact->second.from;
  const bool made = !origins.contains(table.path);  // the file does not contain this table at all
  if (made && table.path.starts_with("model.") && !job.model.preset.empty()) {
    return "preset " + job.model.preset;
  }
  if (made && table.path.starts_with("data.fields.")) return "format";
  return "default";
}

}  // namespace

std::string job_to_toml(const Job& job, const Origins* origins) {
  constexpr size_t kCommentColumn = 48;
  std::string text;
  for (const PrintedTable& table : print_tables(job, /*compress=*/true)) {
    const bool element = table.path.ends_with(']');
    if (!table.header.empty())
      text += str(element ? "\n[[" : "\n[", table.header, element ? "]]\n" : "]\n");
    for (const auto& [key, value] : table.values) {
      std::string line = str(key, " = ", value);
      if (origins != nullptr) {
        line.resize(std::max(line.size() + 2, kCommentColumn), ' ');
        line += "# " + origin_text(job, *origins, table, key);
      }
      text += line + "\n";
    }
  }
  return text;
}

namespace {

Result<Job> read_complete_job(std::string_view text, const std::string& base_dir) {
  if (text.size() > kJobBytesMax) return config_error("the job is too large", "job", {}, "DP-2101");
  DP_TRY(TomlNode root, parse_toml(text, "job"));
  take_literally(root);
  Job job;
  Origins origins;
  DP_TRY_VOID(read_job(root, job, origins));
  note_own_optimizer(root, job);
  settle_paths(job, base_dir, "job");
  DP_TRY_VOID(settle_format(job));
  // The job is already complete. This call validates it and restores the order of the fields, which
  // TOML tables do not keep.
  if (auto done = complete_job(job); !done) return located(std::move(done).error(), origins);
  return job;
}

}  // namespace

Result<Job> job_from_toml(std::string_view text, const std::string& base_dir) {
  // All roles of one process read the same text, and in a simulation also each restarted process.
  struct Last {
    std::string text, base_dir;
    Job job;
  };
  thread_local std::optional<Last> last;
  if (!last || last->text != text || last->base_dir != base_dir) {
    DP_TRY(Job job, read_complete_job(text, base_dir));
    last = Last{std::string(text), base_dir, std::move(job)};
  }
  return last->job;
}

}  // namespace downpour
