// PsCore: pulls and pushes, the hot path.
#include <algorithm>
#include <utility>

#include "ps/core/ps_core.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::ps {
namespace {

#ifdef DP_BENCH_NO_WATERMARKS
constexpr bool kWatermarks = false;  // bench-push-unchecked only: measures the cost of watermarks
#else
constexpr bool kWatermarks = true;
#endif

Error malformed(std::string what) { return Error{ErrorCode::kMalformed, std::move(what)}; }

/// Number of floats of a section's rows (blocks) in a message. The keys may be unaligned.
Result<uint64_t> section_floats(const TableSpec& spec, const wire::Section& section,
                                const uint8_t* keys) {
  uint64_t floats = 0;
  if (spec.kind == TableKind::kEmbedding) {
    for (size_t m = 0; m < spec.table_variables.size(); ++m) floats += spec.row_floats(m, 0);
    return floats * section.keys;
  }
  const uint32_t blocks = spec.block_count();
  for (uint32_t i = 0; i < section.keys; ++i) {
    uint64_t block = 0;
    std::memcpy(&block, keys + size_t{i} * sizeof(block), sizeof(block));
    if (block >= blocks) {
      return malformed(str("block ", block, " of ", spec.name, ", which has ", blocks));
    }
    floats += spec.row_floats(0, block);
  }
  return floats;
}

}  // namespace

Result<uint64_t> PsCore::value_bytes(const std::vector<wire::Section>& sections,
                                     const Bytes& keys) const {
  uint64_t left = keys.size() / sizeof(uint64_t);
  uint64_t floats = 0;
  const uint8_t* at = keys.data();
  for (const wire::Section& section : sections) {
    if (raw(section.table) >= partitions_.table_count()) {
      return malformed(str("there is no table ", section.table));
    }
    if (section.keys > left) return malformed("more keys in the sections than in the keys frame");
    DP_TRY(const uint64_t here, section_floats(partitions_.spec(section.table), section, at));
    floats += here;
    left -= section.keys;
    at += section.keys * sizeof(uint64_t);
  }
  if (left != 0 || keys.size() % sizeof(uint64_t) != 0) {
    return malformed("more bytes in the keys frame than the sections' keys");
  }
  return floats * sizeof(float);
}

bool PsCore::keys_in(const std::vector<wire::Section>& sections, const uint8_t* keys,
                     const uint8_t* mask) const {
  for (const wire::Section& section : sections) {
    if (!partitions_.table(section.table).keys_in(keys, section.keys, mask)) return false;
    keys += section.keys * sizeof(uint64_t);
  }
  return true;
}

const uint8_t* PsCore::bytes_of(const Bits& bits, std::vector<uint8_t>& scratch) const {
  if (bits == partitions_.serving()) return partitions_.serving_bytes();
  scratch.assign(partitions_.count(), 0);
  for_each(bits, [&](PartitionId p) { scratch[raw(p)] = 1; });
  return scratch.data();
}

// ---- pulls ----

void PsCore::on_pull(int64_t now_ns, PeerKey from, const wire::Message& message,
                     const wire::Pull& pull, Effects& effects) {
  const wire::Envelope& envelope = message.envelope;
  Result<uint64_t> bytes = value_bytes(pull.sections, message.keys);
  if (bytes && *bytes > wire::kFrameBytesMax) {
    bytes = malformed(str("a pull of ", *bytes, " bytes; at most ", wire::kFrameBytesMax,
                          " fit a frame: cut it"));
  }
  if (!bytes) return reject(from, envelope.request, std::move(bytes).error(), effects);

  wire::PullReply reply{
      .status = wire::PullStatus::kOk, .view = session_.view().id, .versions = {}};
  const uint8_t* served = partitions_.serving_bytes();
  if (envelope.view < partitions_.ownership_generation_max()) {
    Bits current = partitions_.serving();
    for_each(partitions_.serving(), [&](PartitionId p) {
      if (envelope.view < partitions_.ownership_generation(p)) erase(current, p);
    });
    served = bytes_of(current, covered_bytes_);
  }
  BufferPool::Buffer buffer;
  if (!keys_in(pull.sections, message.keys.data(), served)) {
    defended(Defence::kPsPullRefused);
    reply.status = wire::PullStatus::kWrongView;
    reply.view = session_.view_to_reach();
  } else if (buffer = buffers_.take(*bytes, from); buffer.memory == nullptr) {
    defended(Defence::kPsPullOverloaded);
    reply.status = wire::PullStatus::kOverloaded;
  }
  if (reply.status != wire::PullStatus::kOk) {
    return send(from, envelope.request, std::move(reply), {}, effects);
  }

  partitions_.versions(reply.versions);
  Handle* handle = nullptr;
  if (pull.keep_handle && pull.purpose == wire::Purpose::kTrain) {
    handle = handles_.add(pull.worker, envelope.request, message.keys.count<uint64_t>(),
                          message.keys.size(), reply.versions.size(), now_ns);
  }
  uint32_t* rows = nullptr;
  if (handle != nullptr) {
    handle->keys = message.keys;
    handle->sections = pull.sections;
    handle->versions = reply.versions;
    rows = handle->rows.data();
  }
  const uint8_t* keys = message.keys.data();
  uint8_t* values = buffer.memory.get();
  for (const wire::Section& section : pull.sections) {
    partitions_.table(section.table).pull(keys, section.keys, values, rows);
    // The total size was checked above.
    values += *section_floats(partitions_.spec(section.table), section, keys) * sizeof(float);
    keys += section.keys * sizeof(uint64_t);
    if (rows != nullptr) rows += section.keys;
  }
  stats_.pulled_bytes += *bytes;
  if (load_meter_.looks()) count_load(pull, message.keys);
  send(from, envelope.request, std::move(reply), buffer.bytes(*bytes), effects);
}

void PsCore::count_load(const wire::Pull& pull, const Bytes& keys) {
  const uint64_t times = pull.purpose == wire::Purpose::kTrain ? 2 : 1;  // its push will follow
  uint64_t at = 0;
  for (const wire::Section& section : pull.sections) {
    const TableSpec& spec = partitions_.spec(section.table);
    for (uint32_t i = 0; i < section.keys; ++i) {
      const uint64_t key = keys.load<uint64_t>(at++);
      uint64_t floats = 0;
      for (size_t m = 0; m < spec.table_variables.size(); ++m) floats += spec.row_floats(m, key);
      load_meter_.count(partition_of(row_hash(section.table, key), config_.partition_bits),
                        floats * sizeof(float), times);
    }
  }
}

// ---- pushes ----

void PsCore::on_push(int64_t now_ns, PeerKey from, const wire::Message& message,
                     const wire::Push& push, Effects& effects) {
  if (is_full_) return;
  stats_.pushed_bytes += message.keys.size() + message.values.size();
  admission_.from = from;
  Result<void> done = check_push(push, message.keys, message.values);
  if (done) {
    admit(message.envelope.view, push);
    if (none(admission_.apply)) {
      if (push.fragments > 1) staging_.erase(push.worker, push.batch, admission_.covered);
      if (admission_.gaps == 0) handles_.erase(push.worker, push.handle);
    } else if (push.fragments > 1) {
      done = apply_fragment(now_ns, message, push);
    } else {
      pieces_.resize(1);
      Result<bool> ready = resolve(push, message.keys, message.values, pieces_[0]);
      if (!ready) {
        done = std::move(ready).error();
      } else if (!*ready) {
        answer_others(wire::PartStatus::kUnknownPull, push.batch.batch);
      } else {
        done = apply_whole(push, pieces_);
        if (done && admission_.gaps == 0) handles_.erase(push.worker, push.handle);
      }
    }
  }
  if (is_full_) {  // No answer, because a reject would fail the shard; the chief ends the job.
    return send(kChiefPeer, RequestId{}, session_.heartbeat(), {}, effects);
  }
  if (!done) {
    return reject(from, message.envelope.request,
                  std::move(done).error().with_context("batch ", push.batch), effects);
  }
  send(from, message.envelope.request,
       wire::PushReply{.batch = push.batch,
                       .applied = {admission_.apply},
                       .others = admission_.others,
                       .view = admission_.refused ? session_.view_to_reach() : session_.view().id},
       {}, effects);
}

/// Returns an error if the job does not have the batch, or if its epoch cannot be open. At most
/// epochs_open_max epochs are unsealed at a time. The check keeps a peer from using up that limit
/// with later epochs.
Result<void> PsCore::check_planned(BatchId batch) const {
  const PlanExtent& plan = config_.plan;
  if (batch.shard >= plan.shards || batch.epoch >= plan.epochs) {
    return malformed(str("the job has ", plan.epochs, " epochs of ", plan.shards, " shards"));
  }
  if (none(partitions_.owned())) return {};  // the number of sealed epochs is not known
  const uint32_t sealed = partitions_.sealed_max();
  if (batch.epoch >= sealed && batch.epoch - sealed >= config_.limits.epochs_open_max) {
    return Error{ErrorCode::kUnavailable,
                 str("more than ", config_.limits.epochs_open_max,
                     " epochs not yet sealed: only those below ", sealed, " are")};
  }
  return {};
}

Result<void> PsCore::check_push(const wire::Push& push, const Bytes& keys, const Bytes& values) {
  Bits& covered = admission_.covered;
  covered.assign(partitions_.owned().size(), 0);
  bool within_range = true;
  for (size_t w = 0; w < push.covered.words.size(); ++w) {
    if (w < covered.size()) {
      covered[w] = push.covered.words[w];
    } else {
      within_range = within_range && push.covered.words[w] == 0;
    }
  }
  const uint32_t beyond = partitions_.count() % 64;
  if (beyond != 0) within_range = within_range && (covered.back() >> beyond) == 0;
  if (!within_range || none(covered))
    return malformed("covers no partition, or one beyond the last");
  if (push.batch.batch >= wire::kShardEnded - 1) return malformed("a batch number out of range");
  DP_TRY_VOID(check_planned(push.batch));
  if (push.fragments == 0 || push.fragments > config_.limits.fragments_max ||
      push.fragment >= push.fragments) {
    return malformed(str("fragment ", push.fragment, " of ", push.fragments));
  }
  if (push.metrics.size() > config_.limits.outputs_max) return malformed("too many metrics");
  if (!push.pulled_versions.empty() && push.pulled_versions.size() != count(covered)) {
    return malformed(
        str(push.pulled_versions.size(), " pulled versions for ", count(covered), " partitions"));
  }
  if (raw(push.handle) != 0 && !keys.empty()) return malformed("both keys and a handle");
  if (push.quarantined &&
      (push.end || push.records != 0 || push.records_hash != 0 || !push.sections.empty() ||
       !push.metrics.empty() || !keys.empty() || !values.empty() || push.fragments != 1)) {
    return malformed("a quarantined batch with records");
  }
  if (!push.end) return {};
  if (!push.sections.empty() || !keys.empty() || !values.empty() || push.fragments != 1 ||
      raw(push.handle) != 0) {
    return malformed("a shard-end marker with a payload");
  }
  if (push.counts.batches != push.batch.batch) {
    return malformed(str("a shard-end marker whose counts say ", push.counts.batches, " batches"));
  }
  return {};
}

void PsCore::admit(ViewId worker_view, const wire::Push& push) {
  Admission& a = admission_;
  a.others.clear();
  a.gaps = 0;
  a.refused = false;
  if constexpr (!kWatermarks) {
    a.apply = a.covered;
    return;
  }
  const bool of_lines =
      push.quarantined || push.batches_quarantined > 0 ||
      (!partitions_.markers().empty() && partitions_.markers().concerns(push.batch.shard_id()));
  if (!of_lines && none(partitions_.awaiting_markers()) &&
      worker_view >= partitions_.ownership_generation_max() &&
      push.batch.epoch >= partitions_.sealed_max() && within(a.covered, partitions_.serving()) &&
      !DP_MUTATE("dedupe-by-sender")) {
    const ShardRow* row = partitions_.watermarks().find(push.batch.shard_id());
    if (row != nullptr) {
      const uint32_t* const watermarks = row->watermarks.data();
      uint32_t differ = 0;
      for_each_word(a.covered, partitions_.count(),
                    [&](uint32_t begin, uint32_t end, uint64_t word) {
                      for (uint32_t p = begin; p < end; ++p) {
                        const auto mask = uint32_t(0 - lane(word, begin, p));
                        differ |= (watermarks[p] ^ push.batch.batch) & mask;
                      }
                    });
      if (differ == 0) {
        a.apply = a.covered;
        return;
      }
    }
  }
  admit_one_by_one(worker_view, push);
}

void PsCore::admit_one_by_one(ViewId worker_view, const wire::Push& push) {
  Admission& a = admission_;
  a.apply.assign(a.covered.size(), 0);
  for_each(a.covered, [&](PartitionId p) {
    if (!partitions_.serves(p) || contains(partitions_.awaiting_markers(), p) ||
        (worker_view < partitions_.ownership_generation(p) && !DP_MUTATE("old-view-served"))) {
      a.refused = true;
      defended(!partitions_.serves(p)                        ? Defence::kPsPartNotServed
               : contains(partitions_.awaiting_markers(), p) ? Defence::kPsPartAwaitsMarkers
                                                             : Defence::kPsPartOldView);
      a.others.push_back({p, wire::PartStatus::kViewMismatch, 0});
      return;
    }
    const bool sealed =
        push.batch.epoch < partitions_.sealed(p) && !DP_MUTATE("late-part-after-seal");
    const uint32_t watermark =
        sealed ? wire::kShardEnded : partitions_.watermarks().watermark(push.batch.shard_id(), p);
    const bool ended = watermark == wire::kShardEnded;
    const bool first_from_sender =
        DP_MUTATE("dedupe-by-sender") && !ended && !push.end &&
        mutant_sees_first({raw(config_.incarnation), raw(push.worker), raw(p), push.batch.epoch,
                           push.batch.shard, push.batch.batch});
    if (watermark == push.batch.batch || (first_from_sender && watermark > push.batch.batch) ||
        (DP_MUTATE("no-watermark-check") && !ended && !push.end) ||
        (DP_MUTATE("watermark-jumps-over-a-gap") && watermark < push.batch.batch && !push.end) ||
        (DP_MUTATE("watermarks-dropped-when-the-shard-is-done") && ended && push.batch.batch == 0 &&
         !push.end)) {
      if (agrees(push, p)) return insert(a.apply, p);
      defended(Defence::kPsPartQuarantine);
      a.others.push_back({p, wire::PartStatus::kQuarantined, watermark});
    } else if (watermark > push.batch.batch) {
      ++stats_.duplicate_parts;
      defended(sealed ? Defence::kPsPartSealed : Defence::kPsPartAlreadyApplied);
      a.others.push_back({p, wire::PartStatus::kAlreadyApplied, watermark});
    } else {
      ++stats_.gaps;
      defended(Defence::kPsPartGap);
      ++a.gaps;
      a.others.push_back({p, wire::PartStatus::kGap, watermark});
    }
  });
}

/// Whether the sender and the partition know the same quarantined batches of the shard. Comparing
/// only this batch is not enough. Records of a quarantined batch are not parsed, so a filter cannot
/// drop them, and the batches after it begin at other records.
bool PsCore::agrees(const wire::Push& push, PartitionId p) const {
  const QuarantineMarkers& markers = partitions_.markers();
  if (DP_MUTATE("quarantine-without-a-line")) return true;
  if (markers.quarantined_count(push.batch.shard_id(), p) != push.batches_quarantined) return false;
  return push.end || markers.quarantines(push.batch, p) == push.quarantined;
}

Result<bool> PsCore::resolve(const wire::Push& push, const Bytes& keys, const Bytes& values,
                             Piece& piece) {
  piece = {.sections = &push.sections, .keys = keys.data(), .values = values.data()};
  const Bytes* found = &keys;
  if (raw(push.handle) != 0) {
    const Handle* handle = handles_.find(push.worker, push.handle);
    if (handle == nullptr) return false;
    if (handle->sections != push.sections) {
      return malformed(str("sections that differ from those of pull ", push.handle));
    }
    found = &handle->keys;
    piece.keys = handle->keys.data();
    piece.rows = handle->rows.data();
    piece.versions = &handle->versions;
    piece.versions_of_owned = true;
  } else if (!push.pulled_versions.empty()) {
    piece.versions = &push.pulled_versions;
  }
  DP_TRY(const uint64_t bytes, value_bytes(push.sections, *found));
  if (bytes != values.size()) {
    return malformed(str(values.size(), " bytes of gradients for ", bytes, " bytes of values"));
  }
  // The pull checked that its keys lie in owned partitions. Its handle would be gone if the owned
  // partitions had changed.
  const bool known = piece.rows != nullptr && admission_.covered == partitions_.owned();
  if (!known && !keys_in(push.sections, piece.keys, bytes_of(admission_.covered, covered_bytes_))) {
    return malformed("a key of a partition that the push does not cover");
  }
  return true;
}

Result<void> PsCore::apply_fragment(int64_t now_ns, const wire::Message& message,
                                    const wire::Push& push) {
  pieces_.resize(1);
  DP_TRY(const bool known, resolve(push, message.keys, message.values, pieces_[0]));
  const Bits covered = admission_.covered;
  if (!known) {
    staging_.erase(push.worker, push.batch, covered);
    answer_others(wire::PartStatus::kUnknownPull, push.batch.batch);
    return {};
  }
  const Staging::Added added = staging_.add(push, covered, message.keys, message.values, now_ns);
  if (added.too_large) {
    return Error{ErrorCode::kUnavailable,
                 "its fragments need more room than the ps gives one worker"};
  }
  if (added.whole == nullptr) {
    answer_others(wire::PartStatus::kStaged, push.batch.batch);
    return {};
  }
  const std::vector<Fragment>& fragments = added.whole->fragments;
  pieces_.resize(fragments.size());
  Result<void> done;
  bool all_known = true;
  for (size_t i = 0; i < fragments.size() && done && all_known; ++i) {
    Result<bool> ready =
        resolve(fragments[i].push, fragments[i].keys, fragments[i].values, pieces_[i]);
    if (!ready) {
      done = std::move(ready).error();
    } else {
      all_known = *ready;
    }
  }
  if (done && all_known) {
    done = apply_whole(fragments[0].push, pieces_);
    if (done && admission_.gaps == 0) {
      for (const Fragment& f : fragments) handles_.erase(f.push.worker, f.push.handle);
    }
  } else if (done) {
    answer_others(wire::PartStatus::kUnknownPull, push.batch.batch);
  }
  staging_.erase(push.worker, push.batch, covered);
  return done;
}

Result<void> PsCore::apply_whole(const wire::Push& push, const std::vector<Piece>& pieces) {
  const Bits& parts = admission_.apply;
  Watermarks& watermarks = partitions_.watermarks();
  if (kWatermarks || push.end) {
    DP_TRY_VOID(watermarks.room_for(push.batch.shard_id(), parts, push.end, admission_.from));
  }
  if (push.end) {
    check_sums(push);
    watermarks.end(push.batch.shard_id(), parts, push.counts, push.records_hash);
  } else {
    if (Result<void> room = make_room(pieces); !room) {
      is_full_ = true;
      stats_.failure = room.error();
      return room;
    }
    const uint8_t* const admitted =
        parts == admission_.covered || DP_MUTATE("admission-ignored-by-values")
            ? nullptr
            : bytes_of(parts, admitted_bytes_);
    for (const Piece& piece : pieces) apply_piece(piece, admitted);
    count_staleness(pieces[0]);
    if constexpr (kWatermarks) {
      watermarks.advance(push.batch, parts, push.records, push.records_hash, admission_.from);
    }
    partitions_.step(parts);
  }
  const PartitionId metrics_partition{push.batch.shard % partitions_.count()};
  if (!push.metrics.empty() && contains(parts, metrics_partition)) {
    watermarks.add_metrics(push.batch.epoch, metrics_partition, push.metrics);
  }
  return {};
}

void PsCore::apply_piece(const Piece& piece, const uint8_t* admitted) {
  const ApplyOptions options{.admitted = admitted, .steps = partitions_.next_steps()};
  const uint8_t* keys = piece.keys;
  const uint32_t* rows = piece.rows;
  const uint8_t* values = piece.values;
  for (const wire::Section& section : *piece.sections) {
    partitions_.table(section.table).apply(keys, section.keys, rows, values, options);
    values += *section_floats(partitions_.spec(section.table), section, keys) * sizeof(float);
    keys += section.keys * sizeof(uint64_t);
    if (rows != nullptr) rows += section.keys;
  }
}

void PsCore::check_sums(const wire::Push& push) {
  const ShardRow* row = partitions_.watermarks().find(push.batch.shard_id());
  for_each(admission_.apply, [&](PartitionId p) {
    const uint64_t records = row == nullptr ? 0 : row->records[raw(p)];
    const uint64_t hash = row == nullptr ? 0 : row->hashes[raw(p)];
    if (stats_.failure) return;
    if (records == push.counts.applied && hash == push.records_hash) return;
    if (DP_MUTATE("watermark-jumps-over-a-gap") || DP_MUTATE("no-watermark-check")) return;
    defended(Defence::kPsSumsDiffer);
    stats_.failure =
        Error{.code = ErrorCode::kBadData,
              .what = str("the input is not replayable: shard ", push.batch.shard_id(),
                          " ended with ", push.counts.applied, " records (hash ", push.records_hash,
                          "), but partition ", p, " applied ", records, " (hash ", hash,
                          "); reading it again gave other records than the first time")};
  });
}

void PsCore::count_staleness(const Piece& piece) {
  if (piece.versions == nullptr) return;
  const uint64_t* const steps = partitions_.next_steps();
  const Bits& listed = piece.versions_of_owned ? partitions_.owned() : admission_.covered;
  const uint64_t* pulled = piece.versions->data();
  const bool all = listed == admission_.apply;
  uint64_t bucket = 0, same = 0;  // neighbours mostly agree: one addition per run
  for_each(listed, [&](PartitionId p) {
    const uint64_t then = *pulled++;
    const uint64_t now = steps[raw(p)] - 1;
    if (then > now || (!all && !contains(admission_.apply, p))) return;
    const uint64_t here = std::min<uint64_t>(now - then, stats_.staleness.size() - 1);
    if (here != bucket) {
      stats_.staleness[bucket] += std::exchange(same, 0);
      bucket = here;
    }
    ++same;
  });
  stats_.staleness[bucket] += same;
}

void PsCore::answer_others(wire::PartStatus status, uint32_t watermark) {
  Admission& a = admission_;
  defended(status == wire::PartStatus::kStaged ? Defence::kPsFragmentStaged
                                               : Defence::kPsPullUnknown);
  for_each(a.apply, [&](PartitionId p) { a.others.push_back({p, status, watermark}); });
  std::sort(
      a.others.begin(), a.others.end(),
      [](const wire::PartReply& x, const wire::PartReply& y) { return x.partition < y.partition; });
  std::fill(a.apply.begin(), a.apply.end(), uint64_t{0});
}

}  // namespace downpour::ps
