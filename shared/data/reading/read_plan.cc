#include "shared/data/reading/read_plan.h"

#include <algorithm>
#include <utility>

#include "shared/base/human.h"
#include "shared/base/str.h"
#include "shared/data/reading/scratch.h"
#include "shared/data/values/declared_fields.h"
#include "shared/job/losses.h"

namespace downpour::data {

std::shared_ptr<ScratchPool> make_scratch_pool() { return std::make_shared<ScratchPool>(); }

namespace {

TargetKind kind_of(const DataSpec& data, const std::string& loss) {
  if (data.negatives.given()) return TargetKind::kPositive;
  const LossInfo* const info = find_loss(loss);
  switch (info == nullptr ? TargetType::kNumber : info->target) {
    case TargetType::kBinary:
      return TargetKind::kBinary;
    case TargetType::kClass:
      return TargetKind::kClass;
    case TargetType::kCount:
      return TargetKind::kCount;
    case TargetType::kNumber:
      break;
  }
  return TargetKind::kAny;
}

}  // namespace

std::shared_ptr<const ReadPlan> make_read_plan(const Job& job, const InputLayout& layout,
                                               const std::vector<uint32_t>& widths,
                                               const SourceSpec& source,
                                               std::vector<plan::FileInfo> files, double holdout) {
  auto plan = std::make_shared<ReadPlan>();
  plan->source = source;
  plan->base_dir = job.base_dir;
  plan->data = for_source(job.data, source);
  plan->layout = layout;
  plan->seed = job.seed;
  plan->batch_size = job.train.part_records();
  plan->drop_remainder = job.train.drop_remainder;
  plan->batches_max = job.train.steps_per_epoch;
  plan->replicas = job.train.replicas.value_or(1);
  plan->holdout = holdout;
  plan->skips_unknown_labels = job.eval.unknown_labels == "skip";
  plan->shares = joining_of(job.data, files, job.train.shares()).shares;
  plan->files = std::move(files);
  for (size_t o = 0; o < job.model.outputs.size(); ++o) {
    const OutputSpec& output = job.model.outputs[o];
    if (output.target.empty()) continue;  // with data.negatives
    plan->targets.push_back(
        {.field = output.target, .kind = kind_of(job.data, output.loss), .classes = widths[o]});
  }
  return plan;
}

std::shared_ptr<const ReadPlan> for_evaluation(const ReadPlan& plan, const SourceSpec& source,
                                               std::vector<plan::FileInfo> files) {
  auto out = std::make_shared<ReadPlan>(plan);
  out->data = for_source(out->data, source);
  out->source = source;
  out->files = std::move(files);
  out->holdout = 0;
  out->batches_max = 0;
  out->drop_remainder = false;
  out->training = false;
  out->cache.reset();  // the cache has records of other files
  return out;
}

namespace {

bool has_streamed(const std::vector<plan::FileInfo>& files) {
  return std::any_of(files.begin(), files.end(),
                     [](const plan::FileInfo& file) { return file.is_streamed(); });
}

}  // namespace

plan::ShardRecipe joining_of(const DataSpec& data, const std::vector<plan::FileInfo>& files,
                             uint32_t shares) {
  const bool stream = is_stream(data.source) || has_streamed(files);
  plan::ShardRecipe joining{.cycle = data.interleave.cycle,
                            .in_order = stream && data.sharding == Sharding::kAuto};
  // Each stream belongs to one replica. Without streams, a shard does.
  if (!joining.in_order) joining.shares = data.sharding == Sharding::kAuto ? shares : shares > 0;
  if (!files.empty() && files.front().is_open()) joining.open_piece = files.front().cuts.front();
  if (!data.source.is_mix()) return joining;
  for (const SourcePart& part : data.source.parts)
    joining.mix.push_back({part.files, part.weight, part.record_bytes});
  return joining;
}

Result<void> check_kinds(const SourceSpec& source, const std::vector<plan::FileInfo>& files) {
  for (const plan::FileInfo& file : files) {
    if (file.is_program() == source.is_program()) continue;
    return Error{ErrorCode::kMalformed,
                 file.is_program() ? "the chief sent a program, but the job's source is files"
                                   : "the chief sent a file, but the job's source is a program"};
  }
  return {};
}

Result<void> check_parts(const DataSpec& data, const std::vector<plan::FileInfo>& files) {
  const bool open = std::any_of(files.begin(), files.end(),
                                [](const plan::FileInfo& file) { return file.is_open(); });
  const bool may_be_open = open && files.size() == 1 && files.front().is_program() &&
                           is_stream(data.source) && data.source.records == 0 &&
                           data.sharding == Sharding::kAuto && data.interleave.cycle == 1 &&
                           files.front().cuts.front() <= kOpenPieceMax;
  if (open && !may_be_open)
    return Error{ErrorCode::kMalformed,
                 "the chief sent an open-ended stream, but the job's source has a known length"};
  if (!data.source.is_mix() || files.empty()) return {};
  uint64_t noted = 0;
  bool each = std::ranges::none_of(files, &plan::FileInfo::leaves_out);  // ranges cover all files
  for (const SourcePart& part : data.source.parts) {
    noted += part.files;
    each = each && part.files > 0 && part.weight > 0;
  }
  if (each && noted == files.size()) return {};
  return Error{ErrorCode::kMalformed, str("the sources of the job's mix have ", noted,
                                          " files, but the chief sent ", files.size())};
}

plan::ShardMap map_shards(const Job& job, const std::vector<plan::FileInfo>& files,
                          std::vector<plan::ShardRange> ranges) {
  return {std::move(ranges), job.seed, joining_of(job.data, files, job.train.shares())};
}

plan::StreamSpec stream_spec(const DataSpec& data) {
  const uint32_t count = std::max(data.streams, 1U);
  switch (data.sharding) {
    case Sharding::kAuto:
      break;
    case Sharding::kFile:
      return {plan::StreamPolicy::kFiles, count};
    case Sharding::kData:
      return {plan::StreamPolicy::kRecords, count};
    case Sharding::kOff:
      return {plan::StreamPolicy::kCopies, count};
  }
  return {};
}

std::string sharding_text(const DataSpec& data, const std::vector<plan::FileInfo>& files,
                          std::optional<uint64_t> replicas) {
  if (replicas && data.sharding == Sharding::kAuto) {
    return str("synchronous steps: shard i of an epoch belongs to replica i mod ", *replicas,
               "; every record counts once per epoch");
  }
  const std::string reader =
      replicas ? "stream r by replica r; " : "each read by one worker at a time; ";
  const auto streams = [&](const char* what) {
    return str("sharding = \"", what, "\": ", data.streams, " stream", data.streams == 1 ? "" : "s",
               ", ", reader);
  };
  switch (data.sharding) {
    case Sharding::kAuto:
      if (has_streamed(files) && !files.front().is_program())
        return "sharding = \"auto\": the compressed file is read once per epoch, by one worker at "
               "a time or by an input process for all workers; every record counts once per epoch";
      if (!is_stream(data.source)) break;
      return "sharding = \"auto\": the program runs once per epoch, for one worker at a time or in "
             "an input process for all workers; every record counts once per epoch";
    case Sharding::kFile:
      return streams("file") + str("file i belongs to stream i mod ", data.streams,
                                   "; every record counts once per epoch");
    case Sharding::kData:
      return streams("data") + str("record i belongs to stream i mod ", data.streams,
                                   "; every record counts once per epoch, but is read ",
                                   data.streams, " times");
    case Sharding::kOff:
      return streams("off") + str("each stream is the whole data set: EVERY RECORD COUNTS ",
                                  data.streams, " TIMES PER EPOCH");
  }
  return "sharding = \"auto\": the next free worker gets the next shard; every record counts once "
         "per epoch";
}

std::string text_of(const std::vector<plan::FileInfo>& files) {
  if (!files.empty() && files.front().is_program()) {
    const uint64_t records = files.front().is_open() ? 0 : files.front().bytes;
    return records > 1 ? str("a program, ", records, " records per epoch")
                       : "a program of unknown length";
  }
  uint64_t bytes = 0;
  for (const plan::FileInfo& file : files) bytes += file.bytes;
  return str(files.size(), files.size() == 1 ? " file, " : " files, ", human_bytes(bytes));
}

bool chooses_by_number(const SourceSpec& source, const plan::StreamSpec& streams) {
  return !source.takes_all() ||
         (streams.policy == plan::StreamPolicy::kRecords && streams.count > 1);
}

std::shared_ptr<const ReadPlan> for_prediction(const ReadPlan& plan,
                                               const std::vector<OutputSpec>& outputs) {
  auto out = std::make_shared<ReadPlan>(plan);
  out->data.shuffle = "off";
  out->data.filter.clear();
  out->data.bad_records = BadRecords::kFail;  // otherwise the predictions of others would move up
  out->drop_remainder = false;
  out->batches_max = 0;
  out->training = false;
  out->targets_optional = true;
  out->cache.reset();  // prediction reads each record once
  for (TargetRule& rule : out->targets) {
    rule.kind = TargetKind::kAny;
    rule.any_text = true;
  }
  for (const OutputSpec& output : outputs) {
    if (!output.weights.empty() && find_target(*out, output.weights) == nullptr)
      out->targets.push_back({.field = output.weights});
  }
  return out;
}

}  // namespace downpour::data
