#include "chief/runtime/warm_start.h"

#include <algorithm>
#include <filesystem>

#include "chief/runtime/average_images.h"
#include "chief/runtime/same_meaning.h"
#include "chief/runtime/start_weights.h"
#include "chief/runtime/weights_file.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "shared/job/job_file.h"
#include "shared/optim/optimizer.h"

namespace downpour::chief {
namespace {

constexpr const char* kFileName = "warm-start.ckpt";

std::string shape_text(const TableSpec& table, const VariableSpec& variable) {
  if (table.kind == TableKind::kEmbedding) return str("rows of ", variable.dim);
  std::string text;
  for (const uint32_t d : variable.shape) text += str(text.empty() ? "shape " : " x ", d);
  return text;
}

Error differs(const std::string& what, const std::string& there, const std::string& here,
              std::string hint) {
  return Error{ErrorCode::kConfig,
               str(what, " is ", there, " in the other run, but ", here, " in this job"),
               "train.warm_start", std::move(hint), "DP-2110"};
}

/// Returns an error for the first of these tables that `others` does not have. `has`: whose it is.
Result<void> check_names(const std::vector<TableSpec>& others, const std::vector<TableSpec>& tables,
                         const char* has) {
  for (const TableSpec& table : tables) {
    if (std::ranges::find(others, table.name, &TableSpec::name) != others.end()) continue;
    return Error{ErrorCode::kConfig, str("only ", has, " the variables `", table.name, "`"),
                 "train.warm_start",
                 "a warm start from a run needs the same model; for another one, write the run's "
                 "variables with `downpour export RUN --out w.npz`, and set "
                 "train.warm_start.file = \"w.npz\"",
                 "DP-2110"};
  }
  return {};
}

Result<void> check_table(const TableSpec& there, const TableSpec& here, bool slots) {
  const char* const same_model =
      "a warm start needs the same model; change this job to match the other run";
  if (there.name != here.name) return differs("a table's name", there.name, here.name, same_model);
  for (size_t m = 0; m < std::max(there.table_variables.size(), here.table_variables.size()); ++m) {
    const std::string was =
        m < there.table_variables.size() ? there.table_variables[m].name : "(none)";
    const std::string is =
        m < here.table_variables.size() ? here.table_variables[m].name : "(none)";
    if (was != is)
      return differs(str("variable ", m, " of table ", here.name), was, is, same_model);
    const std::string was_shape = shape_text(there, there.table_variables[m]);
    const std::string is_shape = shape_text(here, here.table_variables[m]);
    if (was_shape != is_shape)
      return differs(str("variable ", is), was_shape, is_shape, same_model);
    const OptimizerType was_type = there.table_variables[m].optimizer.type;
    const OptimizerType is_type = here.table_variables[m].optimizer.type;
    if (slots && was_type != is_type) {
      return differs(
          str("the optimizer of ", is), std::string(name_of(was_type)),
          std::string(name_of(is_type)),
          "set slots = false to load only the variables, or use the optimizer of the other run");
    }
    const bool had_averages = there.table_variables[m].optimizer.averages();
    const bool has_averages = here.table_variables[m].optimizer.averages();
    if (slots && had_averages != has_averages) {
      return differs("`optimizer.ema`", had_averages ? "given" : "not given",
                     has_averages ? "given" : "not given",
                     "set slots = false to load only the variables, or set it as in the other run");
    }
  }
  if (there.name != here.name)
    return differs("the table of keys", there.name, here.name, same_model);
  return {};
}

/// Gives all rows the slots of a new row with the weights that the other run's model predicts with.
void start_anew(const TableSpec& from, const TableSpec& to, checkpoint::TableImage& image) {
  for (size_t m = 0; m < image.table_variables.size(); ++m) {
    const OptimizerSpec& optimizer = to.table_variables[m].optimizer;
    const OptimizerSpec& old_optimizer = from.table_variables[m].optimizer;
    PageVector<float> rows;
    const float* at = image.table_variables[m].data();
    for (const uint64_t key : image.keys) {
      const uint32_t dim =
          to.kind == TableKind::kEmbedding ? to.table_variables[m].dim : to.row_floats(m, key);
      const float* const weights = at + optim::model_weights_at(old_optimizer, dim);
      rows.insert(rows.end(), weights, weights + dim);
      rows.resize(rows.size() - dim + optim::stored_floats(optimizer, dim));
      optim::start_slots(optimizer, dim,
                         rows.data() + rows.size() - optim::stored_floats(optimizer, dim));
      at += optim::stored_floats(old_optimizer, dim);
    }
    image.table_variables[m] = std::move(rows);
  }
}

/// Checks that both runs have their rows in the same partitions.
Result<void> check_groups(const checkpoint::Manifest& from, const std::string& run,
                          const std::vector<TableSpec>& tables) {
  DP_TRY(const Job job, job_from_toml(from.job, run));
  const bool had = traits_of(job.train.mode).has_groups;
  const bool has = !tables.empty() && tables[0].group != RowGroup::kAll;
  if (had == has) return {};
  return differs("`train.mode`", str('"', traits_of(job.train.mode).name, '"'),
                 has ? "\"mixed\"" : "another mode",
                 "with mode \"mixed\" other partitions have the rows: only a run in this mode can "
                 "start from another one");
}

/// Returns the checkpoint of another run that its predictions use, if its keys, classes and inputs
/// mean the same as in `job`.
Result<checkpoint::Manifest> load_other(Storage& storage, const std::string& run, const Job& job,
                                        std::vector<std::string>* notes) {
  DP_TRY(const checkpoint::Manifest newest, checkpoint::load_newest(storage, run, notes));
  DP_TRY(const Job was, job_from_toml(newest.job, run));
  DP_TRY_VOID(check_meaning(was, job));
  return checkpoint::load_used(storage, run, newest, notes);
}

/// Checks that a file of arrays does not come from a run whose keys, classes or inputs mean
/// something else.
Result<void> check_file(const std::string& path, const Job& job) {
  DP_TRY(const WeightsFile file, WeightsFile::open(path));
  if (file.job().empty()) return {};
  DP_TRY(const Job was, job_from_toml(file.job(), path));
  return check_meaning(was, job);
}

/// Removes the files of an earlier attempt. A run that has begun is never cleared.
Result<void> clear(Storage& storage, const std::string& run_dir) {
  DP_TRY_VOID(storage.remove(checkpoint::manifest_path(run_dir, kWarmStartCheckpoint)));
  return storage.remove(checkpoint::checkpoint_folder(run_dir, kWarmStartCheckpoint) + "/" +
                        kFileName);
}

}  // namespace

Result<void> check_warm_start(const checkpoint::Manifest& from,
                              const std::vector<TableSpec>& tables, uint32_t partitions,
                              bool slots) {
  if (from.partitions != partitions) {
    return differs("`partitions`", str(from.partitions), str(partitions),
                   "set it to the value of the other run");
  }
  DP_TRY_VOID(check_names(from.tables, tables, "this job has"));
  DP_TRY_VOID(check_names(tables, from.tables, "the other run has"));
  for (size_t t = 0; t < tables.size(); ++t)
    DP_TRY_VOID(check_table(from.tables[t], tables[t], slots));
  return {};
}

namespace {

/// Copies the images of another run.
Result<std::vector<wire::ImageRef>> copy_images(Storage& storage, const WarmStartSpec& from,
                                                const checkpoint::Manifest& manifest,
                                                const std::vector<TableSpec>& tables,
                                                checkpoint::ImageFileWriter writer) {
  const std::string source = checkpoint::checkpoint_folder(from.run, manifest.id);
  for (const std::vector<wire::ImageRef>& chain : checkpoint::chains_of(manifest)) {
    DP_TRY(checkpoint::PartitionImage image,
           checkpoint::read_partition(storage, source, chain, manifest.tables));
    checkpoint::PartitionImage start{.partition = image.partition};
    start.tables = std::move(image.tables);
    // A ps rejects an image whose sum is invalid.
    if (from.slots) start.steps_before = image.steps_before + image.version;
    if (!from.slots) {
      for (checkpoint::TableImage& table : start.tables) {
        const TableSpec& spec = manifest.tables[raw(table.table)];
        DP_TRY_VOID(check_slots(spec, table));
        start_anew(spec, tables[raw(table.table)], table);
      }
    }
    DP_TRY_VOID(writer.add(start));
  }
  return writer.finish();
}

}  // namespace

Result<checkpoint::Manifest> make_warm_start(Storage& storage, const WarmStartSpec& from,
                                             const WarmStart& to,
                                             const std::vector<TableSpec>& tables,
                                             uint32_t partitions, std::vector<std::string>* notes) {
  DP_TRY(const Job job, job_from_toml(to.job, to.run_dir));
  checkpoint::Manifest manifest;
  if (from.file.empty()) {
    DP_TRY(manifest, load_other(storage, from.run, job, notes));
    DP_TRY_VOID(check_warm_start(manifest, tables, partitions, from.slots));
    DP_TRY_VOID(check_groups(manifest, from.run, tables));
  }
  DP_TRY_VOID(clear(storage, to.run_dir));
  DP_TRY(checkpoint::ImageFileWriter writer,
         checkpoint::ImageFileWriter::create(
             storage, checkpoint::checkpoint_folder(to.run_dir, kWarmStartCheckpoint), kFileName,
             tables));
  if (from.file.empty()) {
    DP_TRY(manifest.images, copy_images(storage, from, manifest, tables, std::move(writer)));
  } else {
    DP_TRY_VOID(check_file(from.file, job));
    DP_TRY(const StartWeights start, StartWeights::read(from.file, job, tables, partitions));
    DP_TRY(manifest.images, start.write(std::move(writer)));
    manifest.rows = start.rows();
    manifest.partitions = partitions;
    if (notes != nullptr && !start.note().empty()) notes->push_back(start.note());
  }
  manifest.bases.clear();
  manifest.ownership_generations.clear();
  manifest.given = {};
  manifest.best = {};  // a checkpoint of the other run
  manifest.id = kWarmStartCheckpoint;
  manifest.run = to.run;
  manifest.plan_hash = to.plan_hash;
  manifest.job = to.job;
  manifest.tables = tables;
  manifest.completed_epochs = manifest.sealed_epochs = 0;
  manifest.epochs.clear();
  manifest.build = to.build;
  manifest.created_unix_s = to.created_unix_s;
  DP_TRY_VOID(checkpoint::publish(storage, to.run_dir, manifest));
  return manifest;
}

Result<void> check_warm_start(Storage& storage, const Job& job, const std::string& run_dir,
                              const std::vector<TableSpec>& tables) {
  const WarmStartSpec& from = job.train.warm_start;
  if (!from.file.empty()) {
    DP_TRY_VOID(check_file(from.file, job));
    DP_TRY_VOID(StartWeights::read(from.file, job, tables, job.partitions));
    return {};
  }
  if (from.run.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::equivalent(from.run, run_dir, ignored)) {
    return Error{ErrorCode::kUsage, "--fresh would remove the run to start from", from.run,
                 "set run_dir to another folder, or leave --fresh out to continue the run"};
  }
  std::vector<std::string> notes;
  DP_TRY(const checkpoint::Manifest manifest, load_other(storage, from.run, job, &notes));
  DP_TRY_VOID(check_warm_start(manifest, tables, job.partitions, from.slots));
  return check_groups(manifest, from.run, tables);
}

}  // namespace downpour::chief
