// The keys of every table of a job file, each listed once, with its range. The reader and the
// printer visit them. A visitor V has kReads and the functions used below.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <variant>

#include "shared/base/number_range.h"
#include "shared/job/enum_name.h"
#include "shared/job/formats.h"
#include "shared/job/job.h"
#include "shared/job/layers.h"
#include "shared/job/losses.h"
#include "shared/job/ops.h"
#include "shared/job/presets.h"

namespace downpour {

inline constexpr auto kFormatNames = [] {
  std::array<EnumName<DataFormat>, kFormats.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = {kFormats[i].name, kFormats[i].format};
  return names;
}();
inline constexpr auto kOptimizerNames = [] {
  std::array<EnumName<OptimizerType>, kOptimizers.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = {kOptimizers[i].name, kOptimizers[i].type};
  return names;
}();
inline constexpr auto kScheduleNames = [] {
  std::array<EnumName<ScheduleType>, kSchedules.size() - 1> names;  // without kNone
  for (size_t i = 0; i < names.size(); ++i)
    names[i] = {kSchedules[i + 1].name, kSchedules[i + 1].type};
  return names;
}();
inline constexpr auto kModeNames = [] {
  std::array<EnumName<TrainMode>, kModes.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = {kModes[i].name, kModes[i].mode};
  return names;
}();
inline constexpr std::array kFieldTypeNames{EnumName<FieldType>{"float32", FieldType::kFloat32},
                                            EnumName<FieldType>{"int64", FieldType::kInt64},
                                            EnumName<FieldType>{"string", FieldType::kString}};
inline constexpr auto kTransformNames = [] {
  std::array<EnumName<size_t>, kOps.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = {kOps[i].name, i};
  return names;
}();
inline constexpr std::array kReplayNames{EnumName<Replay>{"epoch", Replay::kEpoch},
                                         EnumName<Replay>{"shard", Replay::kShard},
                                         EnumName<Replay>{"none", Replay::kNone}};
inline constexpr std::array kBadRecordsNames{EnumName<BadRecords>{"fail", BadRecords::kFail},
                                             EnumName<BadRecords>{"skip", BadRecords::kSkip}};
inline constexpr std::array kCacheNames{EnumName<Cache>{"off", Cache::kOff},
                                        EnumName<Cache>{"memory", Cache::kMemory},
                                        EnumName<Cache>{"file", Cache::kFile}};
inline constexpr std::array kShardingNames{
    EnumName<Sharding>{"auto", Sharding::kAuto}, EnumName<Sharding>{"file", Sharding::kFile},
    EnumName<Sharding>{"data", Sharding::kData}, EnumName<Sharding>{"off", Sharding::kOff}};
inline constexpr std::array kInitNames{EnumName<InitType>{"zero", InitType::kZero},
                                       EnumName<InitType>{"uniform", InitType::kUniform},
                                       EnumName<InitType>{"normal", InitType::kNormal}};

template <typename V, typename T>
void visit_transform(V& v, T& t) {
  size_t index = t.index();
  v.enumeration("op", index, kTransformNames, {"one_hot"});
  if constexpr (V::kReads) t = op_at(index);
  std::visit(
      [&]<typename Op>(Op& op) {
        if constexpr (!std::is_empty_v<Op>) Op::visit(v, op);
      },
      t);
}

template <typename V, typename T>
void visit_field(V& v, T& t) {
  v.text("column", t.column);
  v.text("feature", t.feature);
  v.text("path", t.path);
  v.enumeration("type", t.type, kFieldTypeNames,
                {"float64", "float16", "int32", "uint8", "bool", "bytes"});
  v.shape("shape", t.shape);
  v.optional_text("default", t.fallback);
  v.strings("positive", t.positive);
  v.strings("classes", t.classes);
  v.transforms("transform", t.transform);
  v.choice("encoding", t.encoding, {"tensor", ""}, {"jpeg", "png", "raw"});
}

/// Visits the keys of a source's table, except `path`, `shard` and those of visit_source_part().
template <typename V, typename T>
void visit_source(V& v, T& t) {
  v.number("skip", t.skip, 0, 9e18);
  v.number("take", t.take, 0, 9e18);
  v.strings("exec", t.exec);
  if (V::kReads || t.format != DataFormat::kAuto)
    v.enumeration("format", t.format, kFormatNames, {"parquet", "arrow"});
  if (!V::kReads && !t.is_program()) return;
  v.enumeration("replay", t.replay, kReplayNames, {});
  v.number("records", t.records, 0, 9e15);
}

/// Visits the keys that only an entry of a list of sources may have.
template <typename V, typename T>
void visit_source_part(V& v, T& t) {
  if (V::kReads || t.weight > 0) v.real("weight", t.weight, kPositive);
  if (V::kReads || t.repeat > 1) v.number("repeat", t.repeat, 1, 1000);
  // Found by the run and stored for later readers.
  if (t.weight > 0 && (V::kReads || t.record_bytes > 0)) {
    v.number("files", t.files, 0, 4e9);
    v.number("record_bytes", t.record_bytes, 0, 9e18);
  }
}

template <typename V, typename T>
void visit_source_shard(V& v, T& t) {
  v.number("count", t.shard_count, 1, 1e9);
  v.number("index", t.shard_index, 0, 1e9);
}

template <typename V, typename T>
void visit_data(V& v, T& t) {
  v.source("source", t.source);
  v.enumeration("format", t.format, kFormatNames, {"parquet", "arrow"});
  v.choice("record", t.record, {"example", "tensor", ""}, {});
  v.strings("columns", t.columns, true);
  v.flag("header", t.header);
  v.number("skip_lines", t.skip_lines, 0, 1e6);
  v.text("delimiter", t.delimiter);
  if (V::kReads || t.quoted_newlines) v.flag("quoted_newlines", t.quoted_newlines);
  v.flag("trim", t.trim);
  v.strings("missing", t.missing);
  v.shuffle("shuffle", t.shuffle);
  if (V::kReads || t.interleave.cycle > 1) {
    v.table("interleave", [&](auto& inner) {
      inner.number("cycle", t.interleave.cycle, 1, 256);
      inner.number("block", t.interleave.block, 1, 1e9);
    });
  }
  if (V::kReads || t.negatives.given()) {
    v.table("negatives", [&](auto& inner) {
      inner.strings("fields", t.negatives.fields);
      inner.number("per_record", t.negatives.per_record, 1, kNegativesMax);
    });
  }
  v.automatic("shard_records", t.shard_records, 1e12);
  v.automatic("prefetch", t.prefetch, 4096);
  v.automatic("parallelism", t.parallelism, 1024);
  v.enumeration("bad_records", t.bad_records, kBadRecordsNames, {});
  v.number("bad_records_max", t.bad_records_max, 0, 9e18);
  v.strings("program", t.program);
  v.text("filter", t.filter);
  v.enumeration("sharding", t.sharding, kShardingNames, {});
  v.automatic("streams", t.streams, 65536);
  v.enumeration("cache", t.cache, kCacheNames, {});
  v.bytes("memory", t.memory);
  v.fields("fields", t.fields);
}

template <typename V, typename T>
void visit_layer(V& v, T& t) {
  v.text("name", t.name);
  v.choice("type", t.type, std::span(kLayerTypes), std::span(kUnavailableLayerTypes));
  v.strings("inputs", t.inputs, true);
  const LayerInfo* type = find_layer_type(t.type);
  if (type == nullptr) return;
  if (type->has_rows || type->has_vectors) v.number("dim", t.dim, 1, 4096);
  if (type->has_rows) {
    if (type->has_pool) v.choice("pool", t.pool, {"sum", "mean"}, {"max"});
    v.text("table", t.table);
  }
  if (type->has_units) v.counts("units", t.units);
  if (type->has_activation) {
    v.choice("activation", t.activation, std::span(kActivationNames), {});
    v.choice("last", t.last, std::span(kActivationNames), {});
  }
  if (type->has_bias) v.flag("bias", t.bias);
  if (type->has_init) v.init("init", t.init);
  if (type->has_bins) v.number("bins", t.bins, 1, 1024);
  if (type->has_cross) {
    v.number("depth", t.depth, 1, 64);
    v.number("rank", t.rank, 0, 4096);
  }
  if (type->has_dropout && (V::kReads || t.dropout > 0))
    v.real("dropout", t.dropout, kShareBelowOne);
  if (type->has_rate) v.real("rate", t.dropout, kShareBelowOne);
}

/// The keys that only some losses have. `t` has the members of OutputSpec.
template <typename V, typename T>
void visit_loss_option(V& v, T& t) {
  const LossInfo* const loss = find_loss(t.loss);
  const std::string_view option = loss == nullptr ? "" : loss->option;
  if (option == "delta") v.real("delta", t.delta, kPositive);
  if (option == "quantile") v.real("quantile", t.quantile, Range{0, kShareBelowOne.max, true});
  if (V::kReads || t.label_smoothing > 0)
    v.real("label_smoothing", t.label_smoothing, kShareBelowOne);
}

template <typename V, typename T>
void visit_output(V& v, T& t) {
  v.text("name", t.name);
  v.text("input", t.input);
  v.choice("loss", t.loss, std::span(kLossNames), {});
  v.text("target", t.target);
  v.real("weight", t.weight, Range{});
  v.strings("metrics", t.metrics);
  v.text("weights", t.weights);
  if (V::kReads || t.offset != Learned{0.0F}) v.learned("offset", t.offset, Range{-3e38});
  if (V::kReads || t.scale != Learned{1.0F}) v.learned("scale", t.scale, kPositive);
  visit_loss_option(v, t);
  if (V::kReads || t.width > 0) v.number("width", t.width, 1, 65536);
}

template <typename V, typename T>
void visit_model_variable(V& v, T& t) {
  v.text("name", t.name);
  v.strings("fields", t.fields, true);
  if (V::kReads || t.dim > 0) v.number("dim", t.dim, 1, 4096);
  v.counts("shape", t.shape);
  v.init("init", t.init);
}

template <typename V, typename T>
void visit_model(V& v, T& t) {
  v.choice("preset", t.preset, std::span(kPresetNames), std::span(kUnavailablePresets));
  if (V::kReads ||
      (t.layers.empty() && t.variables.empty())) {  // in a complete job the layers hold everything
    v.strings("inputs", t.options.inputs, true);
    v.text("target", t.options.target);
    v.text("weights", t.options.weights);
    v.number("dim", t.options.dim, 0, 4096);
    v.counts("units", t.options.units);
    v.number("bins", t.options.bins, 0, 1024);
    if (V::kReads || t.options.dropout > 0) v.real("dropout", t.options.dropout, kShareBelowOne);
    v.choice("loss", t.options.loss, std::span(kLossNames), {});
    visit_loss_option(v, t.options);
    v.number("classes", t.options.classes, 0, 1e6);
    v.optional_learned("offset", t.options.offset, Range{-3e38});
    v.optional_learned("scale", t.options.scale, kPositive);
  }
  v.tables("layers", t.layers, [](auto& inner, auto& layer) { visit_layer(inner, layer); });
  v.tables("variables", t.variables,
           [](auto& inner, auto& variable) { visit_model_variable(inner, variable); });
  v.tables("outputs", t.outputs, [](auto& inner, auto& output) { visit_output(inner, output); });
}

template <typename V, typename T>
void visit_schedule(V& v, T& t) {
  v.enumeration("type", t.type, kScheduleNames, {"one_cycle", "cyclic", "cosine_restarts"});
  v.number("warmup_steps", t.warmup_steps, settings::kStepsRange.min, settings::kStepsRange.max);
  for (const ScheduleSetting& setting : info_of(t.type).settings) {
    if (const auto* real = std::get_if<float ScheduleSpec::*>(&setting.member)) {
      v.real(setting.key, t.**real, setting.range);
    } else if (const auto* steps = std::get_if<uint64_t ScheduleSpec::*>(&setting.member)) {
      v.number(setting.key, t.**steps, setting.range.min, setting.range.max);
    } else {
      v.number(setting.key, t.*std::get<uint32_t ScheduleSpec::*>(setting.member),
               setting.range.min, setting.range.max);
    }
  }
}

template <typename V, typename T>
void visit_optimizer_settings(V& v, T& t) {
  v.real("learning_rate", t.learning_rate, kPositive);
  for (const OptimizerSetting& setting : info_of(t.type).settings) {
    if (const auto* number = std::get_if<float OptimizerSpec::*>(&setting.member)) {
      v.real(setting.key, t.**number, setting.range);
    } else {
      v.flag(setting.key, t.*std::get<bool OptimizerSpec::*>(setting.member));
    }
  }
}

template <typename V, typename T>
void visit_optimizer(V& v, T& t) {
  v.enumeration("type", t.type, kOptimizerNames, {"lamb", "lion", "adadelta", "average"});
  if constexpr (V::kReads) t = optimizer_defaults(t.type);
  visit_optimizer_settings(v, t);
  v.schedule("schedule", t.schedule);
}

template <typename V, typename T>
void visit_clip(V& v, T& t) {
  if (!V::kReads && !t.given()) return;
  v.table("clip", [&](auto& inner) {
    inner.real("value", t.value, Range{});
    inner.real("norm", t.norm, Range{});
    inner.real("global_norm", t.global_norm, Range{});
  });
}

template <typename V, typename T>
void visit_ema(V& v, T& ema) {
  if (V::kReads || ema > 0) v.real("ema", ema, {0, kShareBelowOne.max, true});
}

template <typename V, typename T>
void visit_rule(V& v, T& t) {
  v.text("variables", t.variables);
  visit_optimizer(v, t.optimizer);
}

template <typename V, typename T>
void visit_outer(V& v, T& t) {
  v.enumeration("type", t.type, kOptimizerNames, {});
  if constexpr (V::kReads) t = outer_defaults(t.type);
  visit_optimizer_settings(v, t);
}

template <typename V, typename T>
void visit_train(V& v, T& t) {
  if (V::kReads || t.steps > 0) v.number("steps", t.steps, 0, 9e15);
  if constexpr (V::kReads) t.epochs = t.steps > 0 ? kEpochsMax : t.epochs;
  v.number("epochs", t.epochs, 1, kEpochsMax);
  if (V::kReads || t.steps_per_epoch > 0) v.number("steps_per_epoch", t.steps_per_epoch, 0, 4e9);
  v.number("batch_size", t.batch_size, 1, kBatchSizeMax);
  if (V::kReads || t.global_batch_size > 0)
    v.number("global_batch_size", t.global_batch_size, 0, kBatchSizeMax * kReplicasMax);
  v.flag("drop_remainder", t.drop_remainder);
  v.choice("reduction", t.reduction, {"mean", "sum"}, {});
  v.enumeration("mode", t.mode, kModeNames, {});
  v.optional_number("staleness", t.staleness, 1e6);
  if constexpr (V::kReads) {
    if (traits_of(t.mode).has_staleness && !t.staleness) t.staleness = kStalenessDefault;
  }
  v.optional_number("replicas", t.replicas, kReplicasMax);
  if (V::kReads || t.backups > 0) v.number("backups", t.backups, 0, kReplicasMax);
  v.optional_number("sync_every", t.sync_every, kSyncEveryMax, "epoch");
  if constexpr (V::kReads) {
    if (traits_of(t.mode).has_rounds && !t.sync_every) t.sync_every = kSyncEveryDefault;
  }
  if (V::kReads || t.average != "all") v.choice("average", t.average, {"all", "touched"}, {});
  if (V::kReads || t.outer != outer_defaults(OptimizerType::kSgd))
    v.table("outer", [&](auto& inner) { visit_outer(inner, t.outer); });
  v.number("in_flight", t.in_flight, 1, 64);
  v.flag("quarantine", t.quarantine);
  v.choice("on_nan", t.on_nan, {"stop", "skip"}, {});
  v.unavailable({"max_time"});
  v.table("checkpoint", [&](auto& inner) {
    inner.interval("every", t.checkpoint.every);
    inner.number("keep", t.checkpoint.keep, 1, 1000);
    inner.flag("incremental", t.checkpoint.incremental);
    inner.number("full_every", t.checkpoint.full_every, 1, 1000);
    inner.flag("fall_back", t.checkpoint.fall_back);
  });
  if (V::kReads || t.warm_start != WarmStartSpec{}) {
    v.table("warm_start", [&](auto& inner) {
      if (V::kReads || t.warm_start.file.empty()) inner.text("run", t.warm_start.run);
      if (V::kReads || !t.warm_start.file.empty()) inner.text("file", t.warm_start.file);
      inner.flag("slots", t.warm_start.slots);
    });
  }
}

template <typename V, typename T>
void visit_slice(V& v, T& t) {
  v.text("field", t.field);
  v.strings("values", t.values);
  if (V::kReads || t.top != 20) v.number("top", t.top, 1, 1000);
}

template <typename V, typename T>
void visit_eval(V& v, T& t) {
  v.source("source", t.source);
  v.real("holdout", t.holdout, kShareBelowOne);
  v.choice("every", t.every, {"epoch"}, {"*"});
  v.strings("metrics", t.metrics);
  if (V::kReads || t.top_k != 5) v.number("top_k", t.top_k, 1, 65535);
  if (V::kReads || !t.group_by.empty()) v.text("group_by", t.group_by);
  if (V::kReads || t.ndcg_at != 10) v.number("ndcg_at", t.ndcg_at, 1, 1000);
  v.flag("keep_best", t.keep_best);
  if (V::kReads || t.unknown_labels != "error")
    v.choice("unknown_labels", t.unknown_labels, {"error", "skip"}, {});
  if (V::kReads || t.raw_predictions) v.flag("raw_predictions", t.raw_predictions);
  // The metric also counts without a patience: for keep_best.
  if (V::kReads || t.early_stop.patience > 0 || t.early_stop.metric != EarlyStopSpec{}.metric) {
    v.table("early_stop", [&](auto& inner) {
      inner.number("patience", t.early_stop.patience, 0, 1000);
      inner.text("metric", t.early_stop.metric);
      if (V::kReads || t.early_stop.min_delta > 0)
        inner.real("min_delta", t.early_stop.min_delta, Range{});
    });
  }
  v.tables(
      "slices", t.slices, [](auto& inner, auto& slice) { visit_slice(inner, slice); }, "field");
}

template <typename V, typename T>
void visit_cluster(V& v, T& t) {
  uint32_t ps = t.ps_in_workers ? 0 : t.ps;
  v.count_or("ps", ps, 1024, "in_workers");
  if constexpr (V::kReads) {
    t.ps_in_workers = ps == 0;
    if (ps > 0) t.ps = ps;
  }
  v.number("workers", t.workers, 0, 10000);
  v.number("input_workers", t.input_workers, 0, 4096);
  v.choice("transport", t.transport, {"ipc", "tcp"}, {"rdma"});
  v.automatic("threads", t.threads, 4096);
  v.number("ps_threads", t.ps_threads, 1, 256);
  v.bytes("ps_memory", t.ps_memory);
  v.number("restarts", t.restarts, 0, 1000);
  v.flag("rebalance", t.rebalance);
  v.duration("start_wait", t.start_wait_ns);
  v.duration("workers_wait", t.workers_wait_ns);
  v.duration("ps_wait", t.ps_wait_ns);
  v.duration("chief_silence", t.chief_silence_ns);
  v.duration("claims_wait", t.claims_wait_ns);
  v.duration("adopt_timeout", t.adopt_timeout_ns);
  v.unavailable({"chief", "discover", "keys"});
}

template <typename V, typename T>
void visit_job(V& v, T& t) {
  v.text("name", t.name);
  v.number("seed", t.seed, 0, 9e18);
  v.text("base_dir", t.base_dir);
  v.text("run_dir", t.run_dir);
  v.number("partitions", t.partitions, 2, 4096);  // a ps reports about all of them in one message
  v.table("data", [&](auto& inner) { visit_data(inner, t.data); });
  v.table("model", [&](auto& inner) { visit_model(inner, t.model); });
  // If the preset chooses the optimizer, only the schedule, the clipping and the averaging are
  // printed. Otherwise the preset could not choose again when the text is read.
  if (!V::kReads && t.model.options.own_optimizer) {
    if (t.optimizer.schedule.given() || t.clip.given() || t.ema > 0) {
      v.table("optimizer", [&](auto& inner) {
        if (t.optimizer.schedule.given()) inner.schedule("schedule", t.optimizer.schedule);
        visit_clip(inner, t.clip);
        visit_ema(inner, t.ema);
      });
    }
  } else {
    v.table("optimizer", [&](auto& inner) {
      visit_optimizer(inner, t.optimizer);
      visit_clip(inner, t.clip);
      visit_ema(inner, t.ema);
      inner.tables("rules", t.optimizer_rules,
                   [](auto& deeper, auto& rule) { visit_rule(deeper, rule); });
    });
  }
  v.table("train", [&](auto& inner) { visit_train(inner, t.train); });
  v.table("eval", [&](auto& inner) { visit_eval(inner, t.eval); });
  v.table("cluster", [&](auto& inner) { visit_cluster(inner, t.cluster); });
  if constexpr (V::kReads) {
    if (traits_of(t.train.mode).has_replicas && !t.train.replicas)
      t.train.replicas = std::min(t.cluster.workers, kReplicasMax);
    if (t.cluster.ps_in_workers) t.cluster.ps = std::max(t.cluster.workers, 1U);
  }
}

}  // namespace downpour
