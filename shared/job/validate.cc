#include "shared/job/validate.h"

#include <algorithm>
#include <bit>

#include "shared/base/names.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"
#include "shared/job/metric_names.h"
#include "shared/job/toml_tree.h"
#include "shared/job/validate_mode.h"
#include "shared/job/validate_model.h"
#include "shared/job/validate_support.h"

namespace downpour {

bool gives_pieces(const Job& job) {
  const SourceSpec& source = job.data.source;
  if (!source.is_program() || source.replay != Replay::kEpoch) return false;
  if (job.data.sharding != Sharding::kAuto || job.data.interleave.cycle > 1 ||
      job.train.steps_per_epoch > 0)
    return false;
  // A cache identifies a piece by its length. If the end is only found by reading, a piece has no
  // length.
  return source.records > 0 || job.data.cache == Cache::kOff;
}

namespace {

constexpr const char* kModelHint =
    "set model.preset = \"wide_deep\", for example, or model.layers; downpour init DATAFILE writes "
    "a job with a model";

Result<void> check_warm_start(const WarmStartSpec& start) {
  if (!start.run.empty() && !start.file.empty()) {
    return wrong("`warm_start` has both `run` and `file`", "train.warm_start", "keep one of them");
  }
  if (start.file.empty() || start.file.ends_with(".npz") || start.file.ends_with(".safetensors"))
    return {};
  return wrong(str("`file` is ", toml_quoted(start.file), ", which is not a file of arrays"),
               "train.warm_start.file",
               "name a file that ends in .npz or .safetensors; for a run folder set `run`");
}

Result<void> check_classes(const FieldSpec& field, const std::string& where) {
  if (field.classes.empty()) return {};
  const std::string key = where + ".classes";
  const auto complain = [&](std::string what, std::string hint) {
    return wrong(str("`classes` in field `", field.name, "`", what), key, std::move(hint));
  };
  if (!field.shape.empty())
    return complain(", which is not a scalar", "remove the shape: a label is a scalar");
  if (field.type != FieldType::kString)
    return complain(" needs texts", "set type = \"string\", or remove `classes`");
  if (!field.positive.empty()) return complain(" and `positive`", "keep one of them");
  if (!field.transform.empty())
    return complain(" and `transform`", "remove the transform: a class is a number");
  if (field.classes.size() == 1)
    return complain(" has only one text", "list the texts of all classes");
  if (const std::string* const twice = first_repeated(field.classes))
    return complain(str(" has the text ", toml_quoted(*twice), " twice"), "list each text once");
  return {};
}

/// Checks the keys of a field that only some formats have.
Result<void> check_place(const DataSpec& data, const FieldSpec& field, const std::string& where) {
  const bool tfrecord = is_frames(data.format);
  const bool tensors = tfrecord && data.record == "tensor";
  const std::pair<const char*, bool> wrong_keys[] = {
      {"feature", !field.feature.empty() && (!tfrecord || tensors)},
      {"path", !field.path.empty() && !traits_of(data.format).has_paths},
      {"encoding", !field.encoding.empty() && !tfrecord},
      {"column", !field.column.empty() && tfrecord && !tensors},
  };
  for (const auto& [key, is_wrong] : wrong_keys) {
    if (!is_wrong) continue;
    return wrong(str("field `", field.name, "` has `", key,
                     "`, which the format of the data does not support"),
                 str(where, ".", key),
                 "use `column` for tables, `feature` and `encoding` for tfrecord, and `path` for "
                 "npy, npz and jsonl");
  }
  return {};
}

Result<void> check_top(const Job& job) {
  if (!can_be_named(job.name)) {
    return wrong(str("`", job.name, "` is not a valid name of a run"), "name",
                 "the name becomes the name of a folder, so it can't contain `/`");
  }
  if (!std::has_single_bit(job.partitions)) {
    return wrong(str("`partitions` can't be ", job.partitions), "partitions",
                 "use a power of two from 2 to 4096");
  }
  if (job.partitions < 2 || job.partitions > 4096) {
    return wrong(str("`partitions` can't be ", job.partitions), "partitions",
                 "use a power of two from 2 to 4096");
  }
  if (job.cluster.ps > job.partitions) {
    const bool in_workers = job.cluster.ps_in_workers;
    return wrong(str(job.cluster.ps, " ps can't share ", job.partitions, " partitions"),
                 in_workers ? "cluster.workers" : "cluster.ps",
                 str("use fewer ", in_workers ? "workers" : "ps",
                     ", or start a new run with more `partitions`"));
  }
  const ClusterSpec& cluster = job.cluster;
  if (cluster.ps_in_workers && job.model.is_custom()) {
    return wrong("`model.variables` has no workers that a ps could run in", "cluster.ps",
                 "set the number of ps, for example cluster.ps = 2");
  }
  if (cluster.ps_in_workers && job.train.backups > 0) {
    return wrong(
        "the batch of a slow worker can be left out, but not the variables of a ps that runs in it",
        "train.backups", "set it to 0, or set cluster.ps to a number");
  }
  if (cluster.workers == 0 && !job.model.is_custom() &&
      (cluster.ps > 1 || cluster.input_workers > 0)) {
    return wrong("`workers = 0` trains in one process, which has one ps and no input processes",
                 cluster.ps > 1 ? "cluster.ps" : "cluster.input_workers",
                 cluster.ps > 1
                     ? "set cluster.ps_threads instead, or set cluster.workers to 1 or more"
                     : "leave it out, or set cluster.workers to 1 or more");
  }
  return {};
}

/// Checks keys that count batches. Batches are counted as they are read. So an epoch can end at a
/// given number only if one reader reads all of it, and `steps` can only stop between shards.
Result<void> check_steps(const Job& job) {
  const SourceSpec& source = job.data.source;
  const bool whole = source.is_program() && source.replay == Replay::kEpoch;
  if (job.train.steps_per_epoch > 0 && job.data.sharding != Sharding::kAuto) {
    return wrong("`steps_per_epoch` does not support several streams", "train.steps_per_epoch",
                 "set sharding = \"auto\", because each stream would end by itself");
  }
  if (job.train.steps_per_epoch > 0 && source.is_program() && !whole) {
    return wrong("`steps_per_epoch` does not support a program that is split into shards",
                 "train.steps_per_epoch", "remove it, or set replay = \"epoch\"");
  }
  if (job.train.steps > 0 && whole && job.train.steps_per_epoch == 0 && !gives_pieces(job)) {
    return wrong(
        "`steps` can stop only between shards, but an epoch of this program is a single shard",
        "train.steps", "set the number of batches of an epoch, for example steps_per_epoch = 1000");
  }
  return {};
}

Result<void> check_parts(const Job& job) {
  const SourceSpec& source = job.data.source;
  const bool repeats = std::any_of(source.parts.begin(), source.parts.end(),
                                   [](const SourcePart& part) { return part.repeat > 1; });
  if (repeats && job.eval.holdout > 0) {
    return wrong("`holdout` does not support a source with `repeat`", "eval.holdout",
                 "set eval.source instead");
  }
  if (!job.eval.source.parts.empty()) {
    return wrong("`weight` and `repeat` are for training sources only", "eval.source",
                 "list the paths without them: an evaluation reads each record once");
  }
  if (!source.is_mix()) return {};
  if (job.data.sharding != Sharding::kAuto) {
    return wrong("sources with weights do not support streams", "data.sharding",
                 "set sharding = \"auto\": sources with weights are one stream for all workers");
  }
  if (job.data.interleave.cycle > 1) {
    return wrong("`interleave` does not support sources with weights", "data.interleave",
                 "remove it: each shard already joins ranges of all sources");
  }
  if (job.eval.holdout > 0) {
    return wrong("`holdout` does not support sources with weights, which leave records unread",
                 "eval.holdout", "set eval.source instead");
  }
  return {};
}

/// Checks a source that is a program. Its output cannot be inspected before the run, so the job
/// must describe it.
Result<void> check_program(const SourceSpec& source, const DataSpec& all, const char* where) {
  const DataSpec data = for_source(all, source);
  if (!source.is_program()) {
    if (source.records == 0 && source.replay == Replay::kEpoch) return {};
    return wrong("`replay` and `records` are for programs only", where, "remove them");
  }
  if (data.format == DataFormat::kAuto) {
    return wrong("the format of the program's output is not known", "data.format",
                 "set the format that the program writes: \"csv\", \"tsv\", \"jsonl\", \"libsvm\", "
                 "\"npy\" or \"tfrecord\"",
                 "DP-2107");
  }
  if (!traits_of(data.format).writable) {
    return wrong("a program as source can't write this format", "data.format",
                 "use csv, tsv, jsonl, libsvm, npy or tfrecord");
  }
  if (data.header || data.skip_lines > 0) {
    return wrong("the output of a program must not have a header or lines to skip",
                 data.header ? "data.header" : "data.skip_lines",
                 "list the names in data.columns, and make the program write records only");
  }
  if (has_named_columns(data.format) && data.columns.empty()) {
    return wrong("the names of the columns that the program writes are not known", "data.columns",
                 "list the names in order", "DP-2107");
  }
  if (source.replay == Replay::kNone && source.records > 0) {
    return wrong("replay = \"none\" does not support `records`", where,
                 "remove `records`: Downpour counts the records when the program has ended");
  }
  if (source.replay == Replay::kNone && data.format == DataFormat::kNpy) {
    return wrong("replay = \"none\" does not support npy", where,
                 "make the program write files with np.save, and use these files as the source");
  }
  if (source.replay == Replay::kShard && source.records == 0) {
    return wrong("replay = \"shard\" needs `records`", where,
                 "set records = N, the number of records of an epoch, so that shards are ranges of "
                 "record numbers");
  }
  return {};
}

/// Checks data.program. Its output cannot be inspected before the run, so the job must describe it.
Result<void> check_transform(const DataSpec& all, const SourceSpec& source) {
  if (all.program.empty()) return {};
  const DataSpec data = for_source(all, source);
  if (data.program[0].empty()) {
    return wrong("data.program does not name a program", "data.program",
                 "for example program = [\"python3\", \"enrich.py\"]");
  }
  if (data.format == DataFormat::kAuto) {
    return wrong("the format of the program's input and output is not known", "data.format",
                 "set the format that the program reads and writes: \"csv\", \"tsv\", \"criteo\", "
                 "\"jsonl\", \"libsvm\", \"libffm\" or \"tfrecord\"",
                 "DP-2107");
  }
  if (!traits_of(data.format).filterable) {
    return wrong("data.program does not support arrays and images", "data.program",
                 "remove it: a program reads and writes lines or TFRecords");
  }
  if (has_named_columns(data.format) && data.columns.empty() && !data.header) {
    return wrong("the names of the columns that the program writes are not known", "data.columns",
                 "list the names in order", "DP-2107");
  }
  return {};
}

Result<void> check_data_given(const DataSpec& data) {
  if (data.source.empty()) {
    return wrong("the job has no data source", "data.source",
                 "for example data.source = \"train.csv\"", "DP-2107");
  }
  DP_TRY_VOID(check_program(data.source, data, "data.source"));
  DP_TRY_VOID(check_transform(data, data.source));
  if (const std::string* name = first_repeated(data.columns)) {
    return wrong(str("the column `", *name, "` is listed twice"), "data.columns",
                 "list each name once", "DP-2108");
  }
  const std::string& delimiter = data.delimiter;
  if (delimiter.size() > 1 || delimiter == "\n" || delimiter == "\r" || delimiter == "\"") {
    return wrong(str("`data.delimiter` can't be \"", delimiter, "\""), "data.delimiter",
                 "use one character, as in \",\" or \"\\t\"");
  }
  if (data.sharding == Sharding::kAuto && data.streams > 1) {
    return wrong(
        "`streams` needs another `sharding` than \"auto\"", "data.streams",
        "set sharding = \"file\", \"data\" or \"off\"; \"auto\" is one stream for all workers");
  }
  if (data.interleave.cycle == 1 && data.interleave.block > 1) {
    return wrong("`interleave.block` needs an `interleave.cycle` above 1", "data.interleave",
                 "set the number of ranges that a shard joins, for example cycle = 8");
  }
  if (data.bad_records_max > 0 && data.bad_records == BadRecords::kFail) {
    return wrong(
        "`bad_records_max` needs bad_records = \"skip\"", "data.bad_records_max",
        "remove it, or set bad_records = \"skip\": by default, the first bad record fails the job");
  }
  if (!data.record.empty() && data.format != DataFormat::kAuto && !is_frames(data.format)) {
    return wrong("`record` is for tfrecord data only", "data.record", "remove it");
  }
  if (data.quoted_newlines && !traits_of(data.format).quotes) {
    return wrong("`quoted_newlines` is for csv data only", "data.quoted_newlines",
                 "set data.format = \"csv\", or remove it");
  }
  const bool table = data.format == DataFormat::kAuto || is_table(data.format);
  const bool arrays = data.format == DataFormat::kNpy && data.source.is_program();
  if (arrays && !delimiter.empty()) {
    return wrong("`delimiter` does not apply to arrays", "data.delimiter", "remove it");
  }
  if (!table && !arrays && (!data.columns.empty() || data.header || !delimiter.empty())) {
    return wrong("`columns`, `header` and `delimiter` are for csv, tsv and criteo data only",
                 "data.format", "remove these keys");
  }
  return {};
}

Result<void> check_fields(const DataSpec& data) {
  std::vector<std::string> names;
  for (const FieldSpec& field : data.fields) {
    const std::string where = str("data.fields.", toml_key(field.name));
    names.push_back(field.name);
    if (!can_be_named(field.name)) {
      return wrong(str("`", field.name, "` is not a valid name of a field"), where,
                   "use a name without `/` that does not start with a dot");
    }
    DP_TRY_VOID(check_place(data, field, where));
    if (auto output = field_output(data, field); !output) return std::move(output).error();
    if (!field.positive.empty() && !field.shape.empty()) {
      return wrong(str("`positive` in field `", field.name, "`, which is not a scalar"),
                   where + ".positive", "remove `positive` or the shape: a label is a scalar");
    }
    DP_TRY_VOID(check_classes(field, where));
    if (data.format == DataFormat::kNpy && !is_cross(field) && !data.columns.empty()) {
      const std::string& array = field.path.empty() ? field.name : field.path;
      if (!contains(data.columns, array))
        return unknown_name("array", array, field.path.empty() ? where : where + ".path",
                            data.columns);
    }
    const std::string& column = field.column.empty() ? field.name : field.column;
    if (is_table(data.format) && !is_cross(field) && !data.columns.empty() &&
        !contains(data.columns, column)) {
      return unknown_name("column", column, field.column.empty() ? where : where + ".column",
                          data.columns);
    }
  }
  if (data.fields.empty()) {
    return wrong("the job declares no fields", "data.fields",
                 "add data.fields.NAME = { type = \"float32\" } for each column to read",
                 "DP-2107");
  }
  if (const std::string* name = first_repeated(names)) {
    return wrong(str("the field `", *name, "` is listed twice"), "data.fields",
                 "list each name once", "DP-2108");
  }
  return {};
}

Result<void> check_eval(const Job& job) {
  if (!job.eval.source.empty() && job.eval.holdout > 0) {
    return wrong("`eval` has both a source and a holdout", "eval.holdout",
                 "keep either eval.source or eval.holdout");
  }
  if (job.data.source.is_program() && job.data.source.replay != Replay::kNone &&
      job.eval.holdout > 0) {
    return wrong("`holdout` does not support a program as source", "eval.holdout",
                 "set eval.source to a file or another program");
  }
  if (!job.eval.source.empty())
    DP_TRY_VOID(check_program(job.eval.source, job.data, "eval.source"));
  DP_TRY_VOID(check_transform(job.data, job.eval.source));
  std::vector<std::string> all;
  for (const OutputSpec& output : job.model.outputs)
    for (const std::string& name : selectable_metrics(output.loss)) all.push_back(name);
  if (all.empty()) return {};  // the job has no model yet
  for (const std::string& metric : job.eval.metrics) {
    if (!contains(all, metric))
      return unknown_name("metric of these outputs", metric, "eval.metrics", all);
  }
  const std::string& decides = job.eval.early_stop.metric;
  if (!decides.empty() && decides != "loss" && !contains(all, decides))
    return unknown_name("metric of these outputs", decides, "eval.early_stop.metric", all);
  return {};
}

Result<void> check_rules(const Job& job) {
  for (size_t i = 0; i < job.optimizer_rules.size(); ++i) {
    if (!job.optimizer_rules[i].variables.empty()) continue;
    return wrong("an optimizer rule needs `variables`", str("optimizer.rules[", i, "]"),
                 "for example variables = \"wide/*\", a glob over names of variables", "DP-2107");
  }
  return {};
}

Result<void> check_schedule(const Job& job, const ScheduleSpec& schedule,
                            const std::string& where) {
  const std::string name(info_of(schedule.type).name);
  if (info_of(schedule.type).needs_decay_steps && schedule.decay_steps == 0) {
    return wrong(str("the schedule `", name, "` has no `decay_steps`"), where,
                 "set the number of batches after which the decay ends or repeats, for example "
                 "decay_steps = 10000",
                 "DP-2107");
  }
  if (schedule.type == ScheduleType::kInverseSqrt && schedule.decay_steps == 0 &&
      schedule.warmup_steps == 0) {
    return wrong("the schedule `inverse_sqrt` has neither `warmup_steps` nor `decay_steps`", where,
                 "set one of them, for example warmup_steps = 1000", "DP-2107");
  }
  if (schedule.type != ScheduleType::kPlateau) return {};
  if (job.eval.source.empty() && job.eval.holdout == 0) {
    return wrong("the schedule `plateau` needs evaluations, but the job has none", where,
                 "set eval.holdout = 0.1 or eval.source, or choose another type of schedule",
                 "DP-2107");
  }
  return {};
}

/// Checks the schedules of all optimizers. The chief decides about the reductions of all of them
/// together.
Result<void> check_schedules(const Job& job) {
  const ScheduleSpec* plateau = nullptr;
  const auto check = [&](const ScheduleSpec& schedule, const std::string& where) -> Result<void> {
    DP_TRY_VOID(check_schedule(job, schedule, where));
    if (schedule.type != ScheduleType::kPlateau) return {};
    if (plateau != nullptr &&
        (plateau->patience != schedule.patience || plateau->min_delta != schedule.min_delta)) {
      return wrong(str("`patience` is ", schedule.patience, " and `min_delta` ", schedule.min_delta,
                       ", but ", plateau->patience, " and ", plateau->min_delta,
                       " in another `plateau` of the job"),
                   where, "use the same values in every `plateau` schedule");
    }
    plateau = &schedule;
    return {};
  };
  DP_TRY_VOID(check(job.optimizer.schedule, "optimizer.schedule"));
  for (size_t i = 0; i < job.optimizer_rules.size(); ++i) {
    DP_TRY_VOID(
        check(job.optimizer_rules[i].optimizer.schedule, str("optimizer.rules[", i, "].schedule")));
  }
  return {};
}

}  // namespace

Result<void> validate_given(const Job& job, const Origins& origins) {
  const ModelSpec& model = job.model;
  const auto check = [&]() -> Result<void> {
    DP_TRY_VOID(check_top(job));
    DP_TRY_VOID(check_data_given(job.data));
    DP_TRY_VOID(check_steps(job));
    DP_TRY_VOID(check_warm_start(job.train.warm_start));
    DP_TRY_VOID(validate_mode(job));
    DP_TRY_VOID(check_parts(job));
    DP_TRY_VOID(check_rules(job));
    DP_TRY_VOID(check_schedules(job));
    DP_TRY_VOID(check_eval(job));
    if (model.preset.empty() && model.layers.empty() && !model.is_custom()) {
      return wrong("the job has no model", "model", kModelHint, "DP-2107");
    }
    DP_TRY_VOID(check_custom(job));
    PresetOptions options = model.options;
    options.own_optimizer = options.own_reduction = false;
    if (!model.layers.empty() && options != PresetOptions{}) {
      return wrong("options of a preset can't be combined with `layers`", "model.layers",
                   "keep either the preset with its options, or the layers");
    }
    if (model.layers.empty() && !model.is_custom() && !model.outputs.empty()) {
      return wrong("a preset can't be combined with `outputs`", "model.outputs",
                   "write model.layers too (--dry-run prints the layers of the preset)");
    }
    return {};
  };
  if (auto result = check(); !result) return located(std::move(result).error(), origins);
  return {};
}

Result<void> validate(const Job& job) {
  DP_TRY_VOID(check_top(job));
  DP_TRY_VOID(check_data_given(job.data));
  DP_TRY_VOID(check_steps(job));
  DP_TRY_VOID(validate_mode_of_preset(job));
  DP_TRY_VOID(check_parts(job));
  if (job.data.format == DataFormat::kAuto) {
    return wrong("the format of the data is not known", "data.format",
                 "for example data.format = \"csv\"; docs/job-file.md lists the formats",
                 "DP-2107");
  }
  DP_TRY_VOID(check_fields(job.data));
  DP_TRY_VOID(check_custom(job));
  if (job.model.layers.empty() && !job.model.is_custom()) {
    return wrong("the model has no layers", "model.layers", kModelHint, "DP-2107");
  }
  DP_TRY_VOID(validate_model(job));
  DP_TRY_VOID(check_rules(job));
  DP_TRY_VOID(check_schedules(job));
  return check_eval(job);
}

}  // namespace downpour
