#include "shared/job/validate.h"

#include <algorithm>
#include <bit>

#include "shared/base/names.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"
#include "shared/job/metric_names.h"
#include "shared/job/toml_tree.h"
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
    return wrong(str("field `", field.name, "` has `", key, "`, which the data's format has not"),
                 str(where, ".", key),
                 "`column` is for tables, `feature` and `encoding` for tfrecord, `path` for npy, "
                 "npz and jsonl");
  }
  return {};
}

Result<void> check_top(const Job& job) {
  if (!can_be_named(job.name)) {
    return wrong(str("`", job.name, "` can't name a run"), "name",
                 "a name becomes a folder: no `/`");
  }
  if (!std::has_single_bit(job.partitions)) {
    return wrong(str("`partitions` can't be ", job.partitions), "partitions",
                 "it wants a power of two");
  }
  if (job.partitions < 2 || job.partitions > 4096) {
    return wrong(str("`partitions` can't be ", job.partitions), "partitions", "it wants 2 to 4096");
  }
  if (job.cluster.ps > job.partitions) {
    return wrong(str(job.cluster.ps, " ps share ", job.partitions, " partitions"), "cluster.ps",
                 "raise `partitions` before the first run");
  }
  return {};
}

/// Checks keys that count batches. Batches are counted as they are read. So an epoch can end at a
/// given number only if one reader reads all of it, and `steps` can only stop between shards.
Result<void> check_steps(const Job& job) {
  const SourceSpec& source = job.data.source;
  const bool whole = source.is_program() && source.replay == Replay::kEpoch;
  if (job.train.steps_per_epoch > 0 && job.data.sharding != Sharding::kAuto) {
    return wrong("`steps_per_epoch` of several streams", "train.steps_per_epoch",
                 "each stream would end by itself: sharding = \"auto\"");
  }
  if (job.train.steps_per_epoch > 0 && source.is_program() && !whole) {
    return wrong("`steps_per_epoch` over a program that is cut would need a count first",
                 "train.steps_per_epoch", "leave it out, or replay = \"epoch\"");
  }
  if (job.train.steps > 0 && whole && job.train.steps_per_epoch == 0 && !gives_pieces(job)) {
    return wrong("`steps` stop between shards, and this program's epoch is one", "train.steps",
                 "say how many batches an epoch has: steps_per_epoch = 1000");
  }
  return {};
}

Result<void> check_parts(const Job& job) {
  const SourceSpec& source = job.data.source;
  const bool repeats = std::any_of(source.parts.begin(), source.parts.end(),
                                   [](const SourcePart& part) { return part.repeat > 1; });
  if (repeats && job.eval.holdout > 0) {
    return wrong("records that count several times can't be held out", "eval.holdout",
                 "name an eval.source");
  }
  if (!job.eval.source.parts.empty()) {
    return wrong("`weight` and `repeat` are for training", "eval.source",
                 "an evaluation reads each record once: list the paths");
  }
  if (!source.is_mix()) return {};
  if (job.data.sharding != Sharding::kAuto) {
    return wrong("sources with weights in streams", "data.sharding",
                 "\"auto\": a mix is one stream for all workers");
  }
  if (job.data.interleave.cycle > 1) {
    return wrong("`interleave` of sources with weights", "data.interleave",
                 "leave it out: each shard of a mix joins ranges of all its sources");
  }
  if (job.eval.holdout > 0) {
    return wrong("of a mix, which leaves records unread, none can be held out", "eval.holdout",
                 "name an eval.source");
  }
  return {};
}

/// Checks a source that is a program. Its output cannot be inspected before the run, so the job
/// must describe it.
Result<void> check_program(const SourceSpec& source, const DataSpec& all, const char* where) {
  const DataSpec data = for_source(all, source);
  if (!source.is_program()) {
    if (source.records == 0 && source.replay == Replay::kEpoch) return {};
    return wrong("`replay` and `records` are of a program's", where, "leave them out");
  }
  if (data.format == DataFormat::kAuto) {
    return wrong(
        "a program's format is not known", "data.format",
        "say what it writes: \"csv\", \"tsv\", \"jsonl\", \"libsvm\", \"npy\", \"tfrecord\"",
        "DP-2107");
  }
  if (!traits_of(data.format).writable) {
    return wrong("a program can't write this format", "data.format",
                 "let it write csv, tsv, jsonl, libsvm, npy or tfrecord");
  }
  if (data.header || data.skip_lines > 0) {
    return wrong("a program's output has neither a header nor lines to skip",
                 data.header ? "data.header" : "data.skip_lines",
                 "list the names in data.columns, and let it write records only");
  }
  if (has_named_columns(data.format) && data.columns.empty()) {
    return wrong("the columns that the program writes are not known", "data.columns",
                 "list their names, in order", "DP-2107");
  }
  if (source.replay == Replay::kNone && source.records > 0) {
    return wrong("`records` with replay = \"none\"", where,
                 "leave it out: what the program writes is counted when it has ended");
  }
  if (source.replay == Replay::kNone && data.format == DataFormat::kNpy) {
    return wrong("arrays of a program that runs once", where,
                 "let it write them to files, with np.save, and name those");
  }
  if (source.replay == Replay::kShard && source.records == 0) {
    return wrong("replay = \"shard\" without `records`", where,
                 "records = N: how many there are, to cut them by number");
  }
  return {};
}

/// Checks data.program. Its output cannot be inspected before the run, so the job must describe it.
Result<void> check_transform(const DataSpec& all, const SourceSpec& source) {
  if (all.program.empty()) return {};
  const DataSpec data = for_source(all, source);
  if (data.program[0].empty()) {
    return wrong("the program has no name", "data.program",
                 "program = [\"python3\", \"enrich.py\"]");
  }
  if (data.format == DataFormat::kAuto) {
    return wrong("the format of what the program writes is not known", "data.format",
                 "say what it reads and writes: \"csv\", \"tsv\", \"criteo\", \"jsonl\", "
                 "\"libsvm\", \"libffm\" or \"tfrecord\"",
                 "DP-2107");
  }
  if (!traits_of(data.format).filterable) {
    return wrong("arrays and images do not go through a program", "data.program",
                 "it reads and writes lines or TFRecords; leave it out");
  }
  if (has_named_columns(data.format) && data.columns.empty() && !data.header) {
    return wrong("the columns that the program writes are not known", "data.columns",
                 "list their names, in order", "DP-2107");
  }
  return {};
}

Result<void> check_data_given(const DataSpec& data) {
  if (data.source.empty()) {
    return wrong("the job names no data", "data.source", "data.source = \"train.csv\"", "DP-2107");
  }
  DP_TRY_VOID(check_program(data.source, data, "data.source"));
  DP_TRY_VOID(check_transform(data, data.source));
  if (const std::string* name = first_repeated(data.columns)) {
    return wrong(str("the column `", *name, "` stands twice"), "data.columns", "each name once",
                 "DP-2108");
  }
  const std::string& delimiter = data.delimiter;
  if (delimiter.size() > 1 || delimiter == "\n" || delimiter == "\r" || delimiter == "\"") {
    return wrong(str("`data.delimiter` can't be \"", delimiter, "\""), "data.delimiter",
                 "one character, as in \",\" or \"\\t\"");
  }
  if (data.sharding == Sharding::kAuto && data.streams > 1) {
    return wrong(
        "`streams` without a way to make them", "data.streams",
        "sharding = \"file\", \"data\" or \"off\"; \"auto\" is one stream for all workers");
  }
  if (data.interleave.cycle == 1 && data.interleave.block > 1) {
    return wrong("`interleave` of one range", "data.interleave",
                 "cycle = 8: how many places of the data set a shard joins");
  }
  if (data.bad_records_max > 0 && data.bad_records == BadRecords::kFail) {
    return wrong("`bad_records_max` without bad_records = \"skip\"", "data.bad_records_max",
                 "the first bad record fails the job otherwise");
  }
  if (!data.record.empty() && data.format != DataFormat::kAuto && !is_frames(data.format)) {
    return wrong("only tfrecord data has `record`", "data.record", "leave it out");
  }
  if (data.quoted_newlines && !traits_of(data.format).quotes) {
    return wrong("only csv data have line breaks in quotes", "data.quoted_newlines",
                 "say data.format = \"csv\", or leave it out");
  }
  const bool table = data.format == DataFormat::kAuto || is_table(data.format);
  const bool arrays = data.format == DataFormat::kNpy && data.source.is_program();
  if (arrays && !delimiter.empty()) {
    return wrong("arrays have no delimiter", "data.delimiter", "leave it out");
  }
  if (!table && !arrays && (!data.columns.empty() || data.header || !delimiter.empty())) {
    return wrong("only csv, tsv and criteo data have columns, a header and a delimiter",
                 "data.format", "leave these keys out");
  }
  return {};
}

Result<void> check_fields(const DataSpec& data) {
  std::vector<std::string> names;
  for (const FieldSpec& field : data.fields) {
    const std::string where = str("data.fields.", toml_key(field.name));
    names.push_back(field.name);
    if (!can_be_named(field.name)) {
      return wrong(str("`", field.name, "` can't name a field"), where, "no `/`, no leading dot");
    }
    DP_TRY_VOID(check_place(data, field, where));
    if (auto output = field_output(data, field); !output) return std::move(output).error();
    if (!field.positive.empty() && !field.shape.empty()) {
      return wrong(str("`positive` in field `", field.name, "`, which is no scalar"),
                   where + ".positive", "labels are scalars");
    }
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
                 "data.fields.NAME = { type = \"float32\" } for each column to read", "DP-2107");
  }
  if (const std::string* name = first_repeated(names)) {
    return wrong(str("the field `", *name, "` stands twice"), "data.fields", "each name once",
                 "DP-2108");
  }
  return {};
}

Result<void> check_eval(const Job& job) {
  if (!job.eval.source.empty() && job.eval.holdout > 0) {
    return wrong("`eval` has both a source and a holdout", "eval.holdout", "keep one of them");
  }
  if (job.data.source.is_program() && job.data.source.replay != Replay::kNone &&
      job.eval.holdout > 0) {
    return wrong("of a program's records none can be held out", "eval.holdout",
                 "name an eval.source: a file, or a program for it");
  }
  if (!job.eval.source.empty())
    DP_TRY_VOID(check_program(job.eval.source, job.data, "eval.source"));
  DP_TRY_VOID(check_transform(job.data, job.eval.source));
  for (const std::string& metric : job.eval.metrics) {
    bool known = job.model.outputs.empty();
    std::vector<std::string> all;
    for (const OutputSpec& output : job.model.outputs) {
      for (const std::string& name : selectable_metrics(output.loss)) all.push_back(name);
    }
    known = known || contains(all, metric);
    if (!known) return unknown_name("metric of these outputs", metric, "eval.metrics", all);
  }
  return {};
}

Result<void> check_rules(const Job& job) {
  for (size_t i = 0; i < job.optimizer_rules.size(); ++i) {
    if (!job.optimizer_rules[i].variables.empty()) continue;
    return wrong("an optimizer rule without `variables`", str("optimizer.rules[", i, "]"),
                 "variables = \"wide/*\": a glob over variables' names", "DP-2107");
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
    DP_TRY_VOID(check_parts(job));
    DP_TRY_VOID(check_rules(job));
    DP_TRY_VOID(check_eval(job));
    if (model.preset.empty() && model.layers.empty()) {
      return wrong("the job names no model", "model",
                   "model.preset = \"wide_deep\", or model.layers = [...]", "DP-2107");
    }
    PresetOptions options = model.options;
    options.own_optimizer = false;
    if (!model.layers.empty() && options != PresetOptions{}) {
      return wrong("options of a preset together with `layers`", "model.layers",
                   "keep the preset with its options, or the layers");
    }
    if (model.layers.empty() && !model.outputs.empty()) {
      return wrong("a preset has its own outputs", "model.outputs",
                   "write model.layers too (--dry-run prints the preset's)");
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
  DP_TRY_VOID(check_parts(job));
  if (job.data.format == DataFormat::kAuto) {
    return wrong("the data's format is not known", "data.format",
                 "data.format = \"csv\", say; docs/job-file.md lists them", "DP-2107");
  }
  DP_TRY_VOID(check_fields(job.data));
  if (job.model.layers.empty()) {
    return wrong("the model has no layers", "model.layers",
                 "model.preset = \"wide_deep\", or layers", "DP-2107");
  }
  DP_TRY_VOID(validate_model(job));
  DP_TRY_VOID(check_rules(job));
  return check_eval(job);
}

}  // namespace downpour
