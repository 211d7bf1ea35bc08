#include "chief/runtime/average.h"

#include <ctime>
#include <filesystem>

#include "chief/runtime/average_images.h"
#include "chief/runtime/warm_start.h"
#include "shared/base/version.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "shared/env/process.h"
#include "shared/job/job_file.h"

namespace downpour::chief {
namespace {

constexpr const char* kMeanFileName = "average.ckpt";

/// The model of one run.
struct RunModel {
  std::string run_dir;
  checkpoint::Manifest manifest;
  std::vector<std::vector<wire::ImageRef>> chains;  // by partition
  Job job;
  uint64_t records = 0;
};

Error differs_from(const RunModel& part, const RunModel& first, std::string what,
                   std::string hint) {
  return Error{ErrorCode::kConfig, str(std::move(what), " differs from that of ", first.run_dir),
               part.run_dir, std::move(hint), "DP-2110"};
}

Result<RunModel> open_part(Storage& storage, const std::string& run_dir,
                           std::vector<std::string>& notes) {
  DP_TRY(checkpoint::Manifest manifest, checkpoint::load_model(storage, run_dir, &notes));
  DP_TRY(Job job, job_from_toml(manifest.job, run_dir));
  uint64_t records = 0;
  for (const checkpoint::EpochRecord& epoch : manifest.epochs) records += epoch.counts.applied;
  if (records == 0) {
    const bool begun = manifest.id == kWarmStartCheckpoint;
    return Error{ErrorCode::kNoInput,
                 begun ? "the run is a start or an average, without an epoch of its own"
                       : "the checkpoint contains no complete epoch",
                 run_dir, "train the run for an epoch, or leave it out"};
  }
  auto chains = checkpoint::chains_of(manifest);
  return RunModel{run_dir, std::move(manifest), std::move(chains), std::move(job), records};
}

/// Returns the layers of a model without the settings that matter only in training.
std::vector<LayerSpec> layers_of(const Job& job) {
  std::vector<LayerSpec> layers = job.model.layers;
  for (LayerSpec& layer : layers) {
    if (layer.type != "dropout") layer.dropout = 0;
    layer.init.reset();
  }
  return layers;
}

/// Checks that corresponding weights of both models have the same meaning.
Result<void> check_same(const RunModel& part, const RunModel& first) {
  if (auto same = check_warm_start(part.manifest, first.manifest.tables, first.manifest.partitions,
                                   /*slots=*/true);
      !same) {
    return Error{ErrorCode::kConfig, same.error().what, part.run_dir,
                 str("average only runs of one job; `this job` is that of ", first.run_dir),
                 "DP-2110"};
  }
  const std::vector<OutputSpec>& outputs = part.job.model.outputs;
  if (layers_of(part.job) != layers_of(first.job) ||
      outputs.size() != first.job.model.outputs.size())
    return differs_from(part, first, "the model", "average only runs of one job");
  if (traits_of(part.job.train.mode).has_groups != traits_of(first.job.train.mode).has_groups)
    return differs_from(part, first, "`train.mode`",
                        "runs in mode \"mixed\" have their rows in other partitions");
  if (part.job.seed != first.job.seed)
    return differs_from(part, first, "`seed`", "train all runs with the same seed");
  const char* const same_start =
      "set train.warm_start to the same run in all of them: they then use its statistics";
  for (const FieldSpec& field : first.job.data.fields) {
    const FieldSpec* other = part.job.data.find_field(field.name);
    if (other == nullptr || !(*other == field))
      return differs_from(part, first, str("field `", field.name, "`"), same_start);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    OutputSpec is = outputs[o];
    const OutputSpec& was = first.job.model.outputs[o];
    is.offset = was.offset;
    is.metrics = was.metrics;
    if (!(is == was)) return differs_from(part, first, str("output `", was.name, "`"), same_start);
  }
  return {};
}

/// Returns the job of the mean.
Job job_of(const std::vector<RunModel>& parts, const std::vector<double>& shares,
           const std::string& run_dir) {
  Job job = parts.front().job;
  job.run_dir = run_dir;
  job.name = std::filesystem::path(run_dir).filename().string();
  job.train.warm_start = {};
  for (size_t o = 0; o < job.model.outputs.size(); ++o) {
    double offset = 0;
    for (size_t i = 0; i < parts.size(); ++i)
      offset += shares[i] * double(parts[i].job.model.outputs[o].offset.value);
    job.model.outputs[o].offset.value = float(offset);
  }
  return job;
}

}  // namespace

Result<Averaged> average_runs(Storage& storage, std::span<const std::string> runs,
                              const std::string& run_dir) {
  DP_TRY(const bool taken, storage.exists(checkpoint::run_path(run_dir)));
  if (taken) {
    return Error{ErrorCode::kCannotCreate, "a run is in this folder", run_dir,
                 "choose another folder, or remove this one"};
  }
  Averaged averaged;
  std::vector<RunModel> parts;
  uint64_t records = 0;
  for (const std::string& run : runs) {
    DP_TRY(RunModel part, open_part(storage, run, averaged.notes));
    if (!parts.empty()) DP_TRY_VOID(check_same(part, parts.front()));
    records += part.records;
    parts.push_back(std::move(part));
  }
  std::vector<double> shares;
  for (const RunModel& part : parts) {
    shares.push_back(double(part.records) / double(records));
    averaged.parts.push_back({str(part.manifest.id), part.records, shares.back()});
  }

  // Of an attempt that was interrupted.
  DP_TRY_VOID(storage.remove(checkpoint::manifest_path(run_dir, kWarmStartCheckpoint)));
  checkpoint::Manifest mean = parts.front().manifest;
  DP_TRY(checkpoint::ImageFileWriter writer,
         checkpoint::ImageFileWriter::create(
             storage, checkpoint::checkpoint_folder(run_dir, kWarmStartCheckpoint), kMeanFileName,
             mean.tables));
  for (uint32_t p = 0; p < mean.partitions; ++p) {
    std::vector<checkpoint::PartitionImage> images;
    for (const RunModel& part : parts) {
      const auto folder = checkpoint::checkpoint_folder(part.run_dir, part.manifest.id);
      DP_TRY(checkpoint::PartitionImage image,
             checkpoint::read_partition(storage, folder, part.chains[p], part.manifest.tables));
      images.push_back(std::move(image));
    }
    DP_TRY(const checkpoint::PartitionImage image,
           average_images(images, shares, mean.tables).context("partition ", p));
    for (const checkpoint::TableImage& table : image.tables) {
      if (mean.tables[raw(table.table)].kind == TableKind::kEmbedding)
        averaged.rows += table.keys.size();
    }
    DP_TRY_VOID(writer.add(image));
  }
  DP_TRY(std::vector<wire::ImageRef> images, writer.finish());

  const std::string job = job_to_toml(job_of(parts, shares, run_dir));
  const checkpoint::RunFile run{.id = random_id(),
                                .job = job,
                                .build = kBuildVersion,
                                .created_unix_s = int64_t(std::time(nullptr))};
  mean = {.id = kWarmStartCheckpoint,
          .run = run.id,
          .job = job,
          .partitions = mean.partitions,
          .tables = mean.tables,
          .images = std::move(images),
          .rows = averaged.rows,
          .build = run.build,
          .created_unix_s = run.created_unix_s};
  DP_TRY_VOID(checkpoint::publish(storage, run_dir, mean));
  DP_TRY_VOID(storage.write_file_atomic(checkpoint::job_path(run_dir), as_bytes(job)));
  DP_TRY_VOID(checkpoint::write_run(storage, run_dir, run));
  return averaged;
}

}  // namespace downpour::chief
