#include "chief/runtime/job_setup.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include "chief/runtime/classes.h"
#include "chief/runtime/run_lock.h"
#include "shared/base/error_text.h"
#include "shared/base/number_text.h"
#include "shared/base/object_scheme.h"
#include "shared/checkpoint/paths.h"
#include "shared/data/bytes/file.h"
#include "shared/data/formats/parser.h"
#include "shared/data/formats/sniff.h"
#include "shared/data/formats/sniff_columns.h"
#include "shared/data/formats/text/table_columns.h"
#include "shared/data/reading/dataset.h"
#include "shared/data/values/label_texts.h"
#include "shared/env/storage.h"
#include "shared/job/field_output.h"
#include "shared/job/file_job.h"
#include "shared/job/formats.h"
#include "shared/job/losses.h"
#include "shared/job/number_inputs.h"
#include "shared/job/preset.h"
#include "shared/job/presets.h"
#include "shared/job/runs.h"

extern char** environ;  // NOLINT: POSIX

namespace downpour::chief {
namespace {

namespace fs = std::filesystem;

// Takes the facts found in the file, if the job leaves them open.
void fill_from(const FileFacts& found, DataSpec& data) {
  if (data.format == DataFormat::kAuto) data.format = found.format;
  if (data.format != found.format) return;
  if (data.record.empty()) data.record = found.record;
  if (data.columns.empty()) {
    data.columns = found.columns;
    if (!found.columns.empty()) {
      data.header = found.header;
      data.skip_lines = std::max(data.skip_lines, found.skip_lines);
    }
  }
  if (data.delimiter.empty()) data.delimiter = found.delimiter;
  if (data.fields.empty()) {
    data.fields = found.fields;
    add_scaled_fields(data);
    data.trim = data.trim || found.trim;
    data.quoted_newlines = data.quoted_newlines || found.quoted_newlines;
    if (data.missing.empty()) data.missing = found.missing;
    // Bad records are skipped already.
    if (data.filter.empty() && data.bad_records == BadRecords::kFail) data.filter = found.filter;
  }
}

/// Returns the target of a preset.
std::string target_of(const PresetOptions& options) {
  return options.target.empty() ? "label" : options.target;
}

/// Returns the targets and weights of a model that is not yet complete.
data::Roles roles_of(const ModelSpec& model) {
  data::Roles roles;
  if (!model.preset.empty()) {
    const PresetOptions& options = model.options;
    const PresetInfo* const preset = find_preset(model.preset);
    data::Roles::Target target{target_of(options), options.loss};
    if (target.loss.empty() && preset != nullptr)
      target.loss = preset->loss, target.may_be_class = preset->has_classes;
    roles.targets = {target};
    if (!model.options.weights.empty()) roles.weights = {model.options.weights};
  }
  for (const OutputSpec& output : model.outputs) {
    if (std::ranges::find(roles.targets, output.target, &data::Roles::Target::name) ==
        roles.targets.end())
      roles.targets.push_back({output.target, output.loss});
    if (!output.weights.empty()) roles.weights.push_back(output.weights);
  }
  return roles;
}

bool needs_a_look(const DataSpec& data) {
  if (data.format == DataFormat::kAuto) return true;
  if (data.fields.empty()) return has_named_columns(data.format) || traits_of(data.format).typed;
  return has_named_columns(data.format) && data.columns.empty();
}

// Only the holder of the run's lock may create or replace files that its workers read.
Result<void> take_sources(Job& job, const JobUse& use, GivenJob& given) {
  std::error_code ignored;
  const bool leftovers = use.fresh && fs::exists(job.run_dir + "/sources", ignored);
  if (!has_spooled_sources(job) && !(use.begins && leftovers)) return {};
  if (!use.begins) return spool_sources(job, Spooling::kUse, given.notes);
  PosixStorage storage;
  DP_TRY(given.lock, lock_run(storage, job.run_dir, use.takeover));
  return spool_sources(job, use.fresh ? Spooling::kAnew : Spooling::kMake, given.notes,
                       use.progress);
}

/// Completes a target whose texts are known from a sample: takes the classes of an earlier run, or
/// finds them in all records. With a `loss` for two classes and more texts, the most frequent one
/// is predicted against all others.
Result<void> complete_classes(const DataSpec& data, const std::string& base_dir,
                              const std::vector<std::string>& run_dirs, const std::string& loss,
                              FieldSpec& target) {
  if (target.classes.empty()) return {};
  target.classes = known_classes(run_dirs, target.name);
  if (!target.classes.empty()) return {};
  DP_TRY(LabelClasses found, find_classes(data, target.name, base_dir));
  const LossInfo* const info = find_loss(loss);
  if (info != nullptr && info->target == TargetType::kBinary && found.texts.size() > 2) {
    target.positive = {std::move(found.most_frequent)};
  } else {
    target.classes = std::move(found.texts);
  }
  return {};
}

/// Returns an error if the target has texts that are no classes.
Result<void> check_target(const FileFacts& facts) {
  const auto target = std::ranges::find(facts.fields, facts.target, &FieldSpec::name);
  if (target == facts.fields.end() || !is_sparse(*target)) return {};
  return Error{ErrorCode::kConfig,
               str("the target `", facts.target, "` has too many different texts for classes"),
               facts.path, "name the column to predict: --target NAME", "DP-2107"};
}

/// Returns the text of an override's value, a bare word or a TOML string.
std::string unquoted(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == value.back() &&
                      (value.front() == '"' || value.front() == '\'');
  return quoted ? value.substr(1, value.size() - 2) : value;
}

/// Returns the model settings among the overrides.
ModelSpec model_of(std::span<const Override> overrides) {
  ModelSpec model;
  for (const auto& [key, value, origin, if_absent] : overrides) {
    if (key == "model.preset") model.preset = unquoted(value);
    if (key == "model.target") model.options.target = unquoted(value);
    if (key == "model.loss") model.options.loss = unquoted(value);
    if (key == "model.weights") model.options.weights = unquoted(value);
    if (key == "model.classes")
      model.options.classes = uint32_t(std::strtoul(value.c_str(), nullptr, 10));
  }
  return model;
}

/// Returns the settings among the overrides that decide how a data file is detected.
Result<DataSpec> data_of(std::span<const Override> overrides, const std::string& here,
                         data::Roles& roles) {
  std::vector<Override> settings;
  for (const Override& override : overrides) {
    for (const char* key : {"delimiter", "header", "missing", "quoted_newlines", "skip_lines",
                            "bad_records", "bad_records_max"})
      if (override.key == str("data.", key)) settings.push_back(override);
    if (override.key == "data.header") roles.header_decided = true;
    if (override.key == "data.missing") roles.missing_decided = true;
    if (override.key == "data.quoted_newlines") roles.breaks_decided = true;
  }
  if (settings.empty()) return DataSpec{};
  const JobSource rest{
      here + "/job.toml",
      "data.source = \"-\"\ndata.format = \"csv\"\nmodel.preset = \"wide_deep\"\n"};
  DP_TRY(LoadedJob loaded, load_job(rest, settings, process_environment()));
  return std::move(loaded.job.data);
}

/// Returns the loss that the user has decided; empty if the data decide it. A preset decides it if
/// it has no option `loss`.
std::string given_loss(const ModelSpec& model) {
  const PresetInfo* const preset = find_preset(model.preset);
  const bool open = preset == nullptr || preset->has_loss;
  return open ? model.options.loss : preset->loss;
}

/// Removes the settings of the chosen job that contradict the overrides.
void drop_conflicts(std::span<const Override> overrides, const ModelSpec& given, Job& chosen) {
  const auto sets = [&](const char* key, const auto& wanted) {
    return std::ranges::any_of(overrides, [&](const Override& override) {
      return override.key == key && wanted(unquoted(override.value));
    });
  };
  const bool other_type = sets("optimizer.type", [](const auto& type) { return type != "ftrl"; });
  const bool other_preset = !given.preset.empty() && given.preset != chosen.model.preset;
  const PresetInfo* const preset = find_preset(given.preset);
  if (other_preset && preset != nullptr) {
    PresetOptions& options = chosen.model.options;
    if (preset->has_classes && chosen.model.preset == "softmax_mlp") {
      options.loss = "softmax_cross_entropy", options.classes = options.units.back();
      options.units.pop_back();  // the others are hidden layers
    }
    // The chosen preset's own loss fits the target.
    if (options.loss.empty()) options.loss = find_preset(chosen.model.preset)->loss;
    // The others were chosen for a preset with hidden layers.
    if (!preset->has_units) options.units.clear(), options.dropout = 0;
    if (!preset->has_units || !preset->has_dim) options.dim = 0;
    if (!preset->has_bins) options.bins = 0;
    if (!preset->has_loss) options.loss.clear();
    if (!preset->has_classes) options.classes = 0;
  }
  if (other_type || other_preset) {
    // The optimizer fits no other preset, and another type of optimizer has other options.
    chosen.optimizer = {.schedule = chosen.optimizer.schedule};
    chosen.optimizer_rules.clear();
    chosen.model.options.own_optimizer = true;
  }
  const auto is_zero = [](const auto& text) { return std::strtod(text.c_str(), nullptr) == 0; };
  const auto is_given = [](const auto& text) { return !text.empty(); };
  const bool no_evaluations = sets("eval.holdout", is_zero) && !sets("eval.source", is_given);
  const bool other_schedule = std::ranges::any_of(overrides, [](const Override& override) {
    return override.key.starts_with("optimizer.schedule");
  });
  if (no_evaluations || other_schedule) chosen.optimizer.schedule = {};
  if (sets("eval.source", is_given)) chosen.eval.holdout = 0;
}

/// With a learning rate and nothing else of the optimizer among the overrides, writes down the
/// optimizers that the preset chooses, their rates multiplied by the same factor. Otherwise the
/// rate would replace them all by the default optimizer.
void scale_rates(std::span<const Override> overrides, const std::string& here, Job& chosen) {
  std::vector<Override> others;
  double rate = 0;
  for (const Override& override : overrides) {
    const bool kept = override.key.starts_with("optimizer.schedule") ||
                      override.key.starts_with("optimizer.clip") || override.key == "optimizer.ema";
    if (override.key == "optimizer.learning_rate") {
      rate = std::strtod(override.value.c_str(), nullptr);
    } else if (override.key.starts_with("optimizer") && !kept) {
      return;
    } else {
      others.push_back(override);
    }
  }
  if (!(rate > 0) || !chosen.model.options.own_optimizer) return;
  const auto loaded = load_job(JobSource{here + "/job.toml", job_to_toml(chosen)}, others, {});
  if (!loaded || !loaded->job.model.options.own_optimizer) return;  // an error is reported later
  Job complete = loaded->job;
  if (!complete_job(complete)) return;
  // The decimal numbers, so that a tenth of 0.02 is printed as 0.002.
  const auto decimal = [](float number) { return std::stod(number_text(number)); };
  const double factor = rate / decimal(complete.optimizer.learning_rate);
  for (OptimizerRule& rule : complete.optimizer_rules)
    rule.optimizer.learning_rate = float(decimal(rule.optimizer.learning_rate) * factor);
  chosen.optimizer = complete.optimizer;
  chosen.optimizer_rules = complete.optimizer_rules;
  chosen.train.reduction = complete.train.reduction;
  chosen.model.options.own_optimizer = chosen.model.options.own_reduction = false;
}

bool is_job_file(const std::string& path) { return path.ends_with(".toml"); }

}  // namespace

Result<Override> parse_set(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{ErrorCode::kUsage, str("--set needs KEY=VALUE, not `", text, "`"), "",
                 "for example --set optimizer.learning_rate=0.1", ""};
  }
  return Override{text.substr(0, equals), text.substr(equals + 1), "--set"};
}

std::vector<Override> environment_overrides() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return overrides_from_environment(entries);
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

namespace {

/// Completes the classes of the fields that were taken from the data.
Result<void> fill_classes(const FileFacts& found, bool fresh, Job& job) {
  PresetOptions& options = job.model.options;
  const std::vector<std::string> runs = {fresh ? "" : job.run_dir, job.train.warm_start.source()};
  for (FieldSpec& field : job.data.fields) {
    if (std::ranges::find(found.fields, field) == found.fields.end()) continue;
    const auto roles = roles_of(job.model).targets;
    const auto role = std::ranges::find(roles, field.name, &data::Roles::Target::name);
    const bool may_be_class = role != roles.end() && role->may_be_class;
    DP_TRY_VOID(complete_classes(job.data, job.base_dir, runs,
                                 role == roles.end() || may_be_class ? "" : role->loss, field));
    if (may_be_class && field.classes.size() > 2) options.loss = "softmax_cross_entropy";
    if (field.name == target_of(options) && options.loss == "softmax_cross_entropy" &&
        options.classes == 0)
      options.classes = uint32_t(field.classes.size());
  }
  return {};
}

}  // namespace

Result<void> complete_from_data(Job& job, std::string& sniffed, bool fresh,
                                const Origins* origins) {
  if (needs_a_look(job.data) && !job.data.source.is_program() && job.data.program.empty()) {
    DP_TRY_VOID(expand_runs(job.data.columns).context("data.columns"));
    DP_TRY(const auto files, data::list_files(job.data, job.data.source, job.base_dir));
    data::Roles roles = roles_of(job.model);
    roles.header_decided = origins != nullptr && origins->contains("data.header");
    roles.missing_decided = origins != nullptr && origins->contains("data.missing");
    roles.breaks_decided = origins != nullptr && origins->contains("data.quoted_newlines");
    auto found = data::sniff(files.front().path, job.data, roles);
    if (found) {
      // The job itself says what it reads.
      const bool declared = !job.data.fields.empty();
      sniffed = found->reason.substr(0, declared ? found->reason.find(": ") : std::string::npos);
      for (const std::string& warning : found->warnings) sniffed += "; " + warning;
      if (origins != nullptr && origins->contains("data.trim")) found->trim = job.data.trim;
      fill_from(*found, job.data);
      DP_TRY_VOID(fill_classes(*found, fresh, job));
    } else if (has_named_columns(job.data.format) && job.data.header && !job.data.fields.empty()) {
      // The lines may give no facts, but the job has them.
      DP_TRY(job.data.columns, data::columns_of(job.data, files.front().path));
    } else {
      return std::move(found).error();
    }
  }
  return complete_job(job);
}

namespace {

/// Returns about how many records a file has, from its size and the length of its first records.
Result<uint64_t> estimated_records(const DataSpec& data, const std::string& path) {
  DP_TRY(const data::File file, data::File::open(path));
  DP_TRY(const uint64_t record_bytes, data::mean_record_bytes(data, path));
  return std::max<uint64_t>(file.bytes() / std::max<uint64_t>(record_bytes, 1), 1);
}

/// Returns the files that the arguments of `train` name: paths, folders and globs.
Result<std::vector<plan::FileInfo>> data_files(std::span<const std::string> paths,
                                               const DataSpec& data, const std::string& here) {
  std::error_code ignored;
  for (const std::string& path : paths) {
    if (is_job_file(path) && paths.size() > 1) {
      return Error{ErrorCode::kUsage, "a job file must be the only argument", path,
                   "name more data files in the job: data.source = [\"a.csv\", \"b.csv\"]", ""};
    }
    const bool is_glob = path.find_first_of("*?[") != std::string::npos;
    if (is_object_path(path) || is_memory_path(path) || is_glob || fs::exists(path, ignored))
      continue;
    return Error{ErrorCode::kNoInput, "the job or data file does not exist", path,
                 "a job file ends in .toml; see downpour train --help", ""};
  }
  SourceSpec source;
  source.paths.assign(paths.begin(), paths.end());
  return data::list_files(data, source, here);
}

bool is_number(const std::string& text) {
  double ignored = 0;
  return data::number_of(text, ignored);
}

double number_in(const std::string& text) {
  double number = 0;
  data::number_of(text, number);
  return number;
}

/// Judges a target of numbers by all records, because a sample of a sorted file has only some.
Result<void> judge_all_numbers(const DataSpec& data, const std::string& base_dir, FieldSpec& field,
                               FileFacts& facts) {
  DP_TRY(LabelNumbers found, find_numbers(data, field.name, base_dir));
  const uint32_t in_sample = facts.classes;
  if (found.values.empty()) return {};
  facts.classes = found.all_known
                      ? data::numbered_classes(field.source_name(), found.values, found.records)
                      : 0;
  const size_t classes = found.values.size();
  const bool two = classes == 2 && (facts.classes > 2 || !field.classes.empty());  // 1 and 2
  const bool gaps = facts.classes > 2 && facts.classes > classes;  // grades from 3 to 9
  if (found.texts.size() == classes && (two || gaps)) {
    // Numbered classes would begin at 0. A sample may have only some of the texts.
    std::ranges::sort(found.texts, {}, number_in);
    const std::string last = str('"', printable(found.texts.back()), '"');
    if (!two) {
      facts.reason += str("; by all records ", classes, " classes from \"",
                          printable(found.texts.front()), "\" to ", last);
    } else if (field.classes != found.texts) {
      facts.reason += str("; by all records 1 means ", last);
    }
    facts.classes = uint32_t(classes);
    field.type = FieldType::kString;
    field.classes = std::move(found.texts);
    return {};
  }
  field.classes.clear();
  field.type = facts.classes > 2 ? FieldType::kInt64 : FieldType::kFloat32;
  if (facts.classes != in_sample)
    facts.reason += str("; by all records ", data::said(facts.classes));
  return {};
}

/// Replaces the classes of the target in the sample by those of all records, or of the first of
/// these runs that has some. Changes the reason accordingly.
Result<void> take_all_classes(const DataSpec& data, const std::string& base_dir,
                              const std::vector<std::string>& run_dirs, const std::string& loss,
                              FileFacts& facts) {
  constexpr uint64_t kScannedMax = 10'000'000;  // records of which the labels are read in seconds
  const auto target = std::ranges::find(facts.fields, facts.target, &FieldSpec::name);
  if (target == facts.fields.end()) return {};
  FieldSpec& field = *target;
  const bool numbers = field.classes.empty() ? facts.classes > 0 && field.positive.empty()
                                             : std::ranges::all_of(field.classes, is_number);
  std::vector<std::string> known = known_classes(run_dirs, field.name);
  if (numbers && known.empty()) {
    const bool open = loss.empty() && traits_of(facts.format).layout == RecordLayout::kTable;
    if (!open || facts.records_estimated > kScannedMax) return {};
    return judge_all_numbers(data, base_dir, field, facts);
  }
  const std::vector<std::string> in_sample = field.classes;
  const char* const of = known.empty() ? " classes in all records" : " classes, as in that run";
  if (numbers) field.type = FieldType::kString, field.classes = std::move(known);
  DP_TRY_VOID(complete_classes(data, base_dir, run_dirs, loss, field));
  if (!field.positive.empty()) {
    facts.reason += str("; 1 means \"", printable(field.positive[0]), "\" and 0 all others");
  } else if (field.classes.size() != in_sample.size()) {
    facts.classes = uint32_t(field.classes.size());
    facts.reason += str("; ", facts.classes, of);
  } else if (field.classes.size() == 2 && field.classes != in_sample) {
    facts.reason += str("; by all records 1 means \"", printable(field.classes[1]), '"');
  }
  return {};
}

}  // namespace

Result<ChosenJob> choose_job(std::span<const std::string> paths,
                             std::span<const Override> overrides, bool fresh,
                             const std::string& here) {
  std::error_code error;
  const ModelSpec model = model_of(overrides);
  data::Roles roles;
  const std::string loss = given_loss(model);
  if (!model.options.target.empty()) roles.targets = {{model.options.target, loss}};
  if (!model.options.weights.empty()) roles.weights = {model.options.weights};
  DP_TRY(const DataSpec declared, data_of(overrides, here, roles));
  DP_TRY(const std::vector<plan::FileInfo> files,
         data_files(paths, declared, fs::current_path(error).string()));
  const std::string& path = files.front().path;
  DP_TRY(FileFacts facts, data::sniff(path, declared, roles));
  if (const LossInfo* const info = find_loss(loss)) {
    if (info->is_regression()) facts.classes = 0;
    if (info->target == TargetType::kBinary) facts.classes = 2;
    if (model.options.classes > 0) facts.classes = model.options.classes;
  }
  facts.path = path;
  for (const std::string& given : paths) {
    const bool is_file = !is_object_path(given) && !is_memory_path(given);
    const fs::path whole = fs::absolute(given, error).lexically_normal();
    const fs::path& named = whole.has_filename() ? whole : whole.parent_path();  // of "folder/"
    facts.sources.push_back(is_file ? named.string() : given);
  }
  DP_TRY_VOID(check_target(facts));
  const auto run_of = [&](const char* key, const std::string& otherwise) {
    for (const auto& override : overrides)
      if (override.key == key) return fs::absolute(unquoted(override.value), error).string();
    return otherwise;
  };
  Job sampled = job_for_file(facts, here);
  sampled.data.bad_records = declared.bad_records;
  sampled.data.bad_records_max = declared.bad_records_max;
  if (facts.records_estimated == 0) {
    DP_TRY(facts.records_estimated, estimated_records(sampled.data, facts.path));
  }
  uint64_t bytes = 0;
  for (const plan::FileInfo& file : files) bytes += file.bytes;
  facts.records_estimated = uint64_t(double(facts.records_estimated) * double(bytes) /
                                     double(std::max<uint64_t>(files.front().bytes, 1)));
  DP_TRY_VOID(
      take_all_classes(sampled.data, here,
                       {fresh ? "" : run_of("run_dir", sampled.run_dir),
                        run_of("train.warm_start.run", ""), run_of("train.warm_start.file", "")},
                       loss, facts));
  const PresetInfo* const preset = find_preset(model.preset);
  const bool shares = preset != nullptr && preset->classifies && facts.classes == 0;
  if (loss.empty() && shares) facts.classes = 2;
  ChosenJob chosen{job_for_file(facts, here), std::move(facts.reason), std::move(facts.warnings)};
  drop_conflicts(overrides, model, chosen.job);
  scale_rates(overrides, here, chosen.job);
  return chosen;
}

namespace {

/// Lets the copy of a job in a run folder continue that run, also after the folder was moved or
/// copied.
void stay_in_run_folder(const std::string& path, std::span<const Override> overrides, Job& job) {
  std::error_code ignored;
  const fs::path file = fs::absolute(path, ignored).lexically_normal();
  const std::string folder = file.parent_path().string();
  const bool is_copy = file.string() == checkpoint::job_path(folder) &&
                       fs::is_regular_file(checkpoint::run_path(folder), ignored);
  if (is_copy && std::ranges::find(overrides, "run_dir", &Override::key) == overrides.end())
    job.run_dir = folder;
}

}  // namespace

Result<GivenJob> load_given_job(std::span<const std::string> paths,
                                std::span<const Override> overrides, const JobUse& use) {
  GivenJob given;
  if (paths.size() == 1 && is_job_file(paths[0])) {
    DP_TRY(given.loaded, load_job(paths[0], overrides, process_environment()));
    Job& job = given.loaded.job;
    stay_in_run_folder(paths[0], overrides, job);
    if (auto taken = take_sources(job, use, given); !taken)
      return located(std::move(taken).error(), given.loaded.origins);
    if (auto done = complete_from_data(job, given.sniffed, use.fresh, &given.loaded.origins); !done)
      return located(std::move(done).error(), given.loaded.origins);
    return given;
  }
  std::error_code error;
  const std::string here = fs::current_path(error).string();
  DP_TRY(const ChosenJob chosen, choose_job(paths, overrides, use.fresh, here));
  given.from_data_file = true;
  // Print the generated job and load it with the overrides, like a job of the user.
  const JobSource source{here + "/" + chosen.job.name + ".toml", job_to_toml(chosen.job)};
  std::vector<Override> by_field(overrides.begin(), overrides.end());
  for (Override& override : by_field) {
    // The target and the weights may be given by their columns, whose fields have other names.
    const std::string column = unquoted(override.value);
    const FieldSpec* field = chosen.job.data.find_field(chosen.job.model.options.target);
    if (override.key == "model.weights") {
      const auto& fields = chosen.job.data.fields;
      const auto found = std::ranges::find(fields, column, &FieldSpec::source_name);
      field = found == fields.end() ? nullptr : &*found;
    } else if (override.key != "model.target") {
      continue;
    }
    if (field != nullptr && column == field->source_name())
      override.value = str('"', field->name, '"');
  }
  DP_TRY(given.loaded, load_job(source, by_field, process_environment()));
  for (auto& [key, origin] : given.loaded.origins)
    if (origin.where.starts_with(source.path)) origin = {"chosen from the data", ""};
  DP_TRY_VOID(complete_from_data(given.loaded.job, given.sniffed, use.fresh));
  given.sniffed = chosen.reason;
  given.notes.insert(given.notes.end(), chosen.warnings.begin(), chosen.warnings.end());
  return given;
}

}  // namespace downpour::chief
