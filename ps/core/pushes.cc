#include "ps/core/pushes.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"

namespace downpour::ps {
namespace {

#ifdef DP_BENCH_NO_WATERMARKS
constexpr bool kWatermarks = false;  // bench-push-unchecked only: measures the cost of watermarks
#else
constexpr bool kWatermarks = true;
#endif

/// Returns the rows that the pull of a piece has found; none if they are not known.
std::vector<uint32_t> rows_of(const Piece& piece) {
  if (piece.rows == nullptr) return {};
  return {piece.rows, piece.rows + piece.key_frame->count<uint64_t>()};
}

void sort_by_partition(std::vector<wire::PartReply>& replies) {
  std::ranges::sort(replies, {}, &wire::PartReply::partition);
}

}  // namespace

void Pushes::on_push(int64_t now_ns, PeerKey from, const wire::Message& message,
                     const wire::Push& push, Turn& turn) {
  if (is_full_) return;
  stats_.pushed_bytes += message.keys.size() + message.values.size();
  admission_.from = from;
  admission_.request = message.envelope.request;
  admission_.waits = admission_.no_room = false;
  Result<void> done = check_push(push, message.keys, message.values);
  if (done) {
    admit(message.envelope.view, push);
    admission_.of_step =
        commits_.enabled() && !push.end && !partitions_.apply_on_arrival(admission_.covered);
    if (admission_.of_step) admit_step(push);
    if (none(admission_.apply)) {
      if (push.fragments > 1) staging_.erase(push.worker, push.batch, admission_.covered);
      if (admission_.gaps == 0) handles_.erase(push.worker, push.handle);
    } else if (admission_.of_step && commits_.has(push, admission_.apply)) {
      done = stage(push, {}, turn);
    } else if (push.fragments > 1) {
      done = apply_fragment(now_ns, message, push, turn);
    } else {
      pieces_.resize(1);
      Result<bool> ready = resolve(push, message.keys, message.values, pieces_[0]);
      if (!ready) {
        done = std::move(ready).error();
      } else if (!*ready) {
        answer_others(wire::PartStatus::kUnknownPull, push.batch.batch);
      } else {
        done = apply_whole(push, pieces_, turn);
        if (done && is_over()) handles_.erase(push.worker, push.handle);
      }
    }
  }
  if (is_full_) {  // No answer, because a reject would fail the shard; the chief ends the job.
    return turn.send(kChiefPeer, RequestId{}, session_.heartbeat());
  }
  if (!done) {
    return turn.reject(from, message.envelope.request,
                       std::move(done).error().with_context("batch ", push.batch));
  }
  if (admission_.waits) {  // the staged parts are answered after their step
    if (admission_.others.empty()) return;
    std::fill(admission_.apply.begin(), admission_.apply.end(), uint64_t{0});
  }
  turn.send(
      from, message.envelope.request,
      wire::PushReply{.batch = push.batch,
                      .applied = {admission_.apply},
                      .others = admission_.others,
                      .view = admission_.refused ? session_.view_to_reach() : session_.view().id});
}

/// Returns an error if the job does not have the batch, or if its epoch cannot be open. At most
/// epochs_open_max epochs are unsealed at a time. The check keeps a peer from using up that limit
/// with later epochs.
Result<void> Pushes::check_planned(BatchId batch) const {
  const PlanExtent& plan = config_.plan;
  if (batch.shard >= plan.shards || batch.epoch >= plan.epochs) {
    return malformed(str("the job has ", plan.epochs, " epochs of ", plan.shards, " shards"));
  }
  if (none(partitions_.owned())) return {};  // the number of sealed epochs is not known
  const uint32_t sealed = partitions_.sealed_max();
  if (batch.epoch >= sealed && batch.epoch - sealed >= config_.limits.epochs_open_max) {
    return Error{ErrorCode::kUnavailable,
                 str("more than ", config_.limits.epochs_open_max,
                     " epochs are unsealed: only the epochs below ", sealed, " are sealed")};
  }
  return {};
}

Result<void> Pushes::check_push(const wire::Push& push, const Bytes& keys, const Bytes& values) {
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
    return malformed("the push covers no partition, or an unknown one");
  if (push.batch.batch >= wire::kShardEnded - 1)
    return malformed("the batch number is out of range");
  DP_TRY_VOID(check_planned(push.batch));
  if (push.fragments == 0 || push.fragments > config_.limits.fragments_max ||
      push.fragment >= push.fragments) {
    return malformed(str("fragment ", push.fragment, " of ", push.fragments));
  }
  if (push.metrics.size() > config_.limits.outputs_max) return malformed("too many metrics");
  if (commits_.enabled()) DP_TRY_VOID(commits_.check(push));
  if (!push.end && partitions_.are_mixed(covered))
    return malformed("the push covers partitions of both groups");
  if (!push.pulled_versions.empty() && push.pulled_versions.size() != count(covered)) {
    return malformed(
        str(push.pulled_versions.size(), " pulled versions for ", count(covered), " partitions"));
  }
  if (raw(push.handle) != 0 && !keys.empty())
    return malformed("the push has both keys and a handle");
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
    return malformed(str("a shard-end marker whose account has ", push.counts.batches, " batches"));
  }
  return {};
}

void Pushes::admit(ViewId worker_view, const wire::Push& push) {
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
      push.batch.epoch >= partitions_.sealed_max() && within(a.covered, partitions_.serving())) {
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

void Pushes::admit_one_by_one(ViewId worker_view, const wire::Push& push) {
  Admission& a = admission_;
  a.apply.assign(a.covered.size(), 0);
  for_each(a.covered, [&](PartitionId p) {
    if (!partitions_.serves(p) || contains(partitions_.awaiting_markers(), p) ||
        worker_view < partitions_.ownership_generation(p)) {
      a.refused = true;
      defended(!partitions_.serves(p)                        ? Defence::kPsPartNotServed
               : contains(partitions_.awaiting_markers(), p) ? Defence::kPsPartAwaitsMarkers
                                                             : Defence::kPsPartOldView);
      a.others.push_back({p, wire::PartStatus::kViewMismatch, 0});
      return;
    }
    const bool sealed = push.batch.epoch < partitions_.sealed(p);
    const uint32_t watermark =
        sealed ? wire::kShardEnded : partitions_.watermarks().watermark(push.batch.shard_id(), p);
    if (watermark == push.batch.batch) {
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

/// Leaves only the parts whose values were pulled for the next step.
void Pushes::admit_step(const wire::Push& push) {
  Admission& a = admission_;
  for_each(a.apply, [&](PartitionId p) {
    if (commits_.is_next(push, p)) return;
    erase(a.apply, p);
    a.others.push_back({p, wire::PartStatus::kOtherStep, push.batch.batch});
  });
  sort_by_partition(a.others);
}

/// Whether the sender and the partition know the same quarantined batches of the shard. Comparing
/// only this batch is not enough. Records of a quarantined batch are not parsed, so a filter cannot
/// drop them, and the batches after it begin at other records.
bool Pushes::agrees(const wire::Push& push, PartitionId p) const {
  const QuarantineMarkers& markers = partitions_.markers();
  if (markers.quarantined_count(push.batch.shard_id(), p) != push.batches_quarantined) return false;
  return push.end || markers.quarantines(push.batch, p) == push.quarantined;
}

Result<bool> Pushes::resolve(const wire::Push& push, const Bytes& keys, const Bytes& values,
                             Piece& piece) {
  piece = {.sections = &push.sections,
           .keys = keys.data(),
           .values = values.data(),
           .key_frame = &keys,
           .value_frame = &values};
  const Bytes* found = &keys;
  if (raw(push.handle) != 0) {
    const Handle* handle = handles_.find(push.worker, push.handle);
    if (handle == nullptr) return false;
    if (handle->sections != push.sections) {
      return malformed(str("sections that differ from those of pull ", push.handle));
    }
    found = &handle->keys;
    piece.keys = handle->keys.data();
    piece.key_frame = found;
    piece.rows = handle->rows.data();
    piece.versions = &handle->versions;
    piece.versions_of_owned = true;
  } else if (!push.pulled_versions.empty()) {
    piece.versions = &push.pulled_versions;
  }
  DP_TRY(const uint64_t bytes, value_bytes(partitions_, push.sections, *found));
  if (bytes != values.size()) {
    return malformed(str(values.size(), " bytes of gradients for ", bytes, " bytes of values"));
  }
  // The pull checked that its keys lie in owned partitions. Its handle would be gone if the owned
  // partitions had changed.
  const bool known = piece.rows != nullptr && admission_.covered == partitions_.owned();
  if (!known && !keys_in(partitions_, push.sections, piece.keys,
                         bytes_of(partitions_, admission_.covered, covered_bytes_))) {
    return malformed("a key of a partition that the push does not cover");
  }
  return true;
}

Result<void> Pushes::apply_fragment(int64_t now_ns, const wire::Message& message,
                                    const wire::Push& push, Turn& turn) {
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
                 "its fragments need more memory than the ps allows for one worker"};
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
    done = apply_whole(fragments[0].push, pieces_, turn);
    if (done && is_over()) {
      for (const Fragment& f : fragments) handles_.erase(f.push.worker, f.push.handle);
    }
  } else if (done) {
    answer_others(wire::PartStatus::kUnknownPull, push.batch.batch);
  }
  staging_.erase(push.worker, push.batch, covered);
  return done;
}

Result<void> Pushes::apply_whole(const wire::Push& push, const std::vector<Piece>& pieces,
                                 Turn& turn) {
  const Bits& parts = admission_.apply;
  Watermarks& watermarks = partitions_.watermarks();
  if (kWatermarks || push.end) {
    DP_TRY_VOID(watermarks.room_for(push.batch.shard_id(), parts, push.end, admission_.from));
  }
  if (admission_.of_step) return stage(push, pieces, turn);
  if (push.end) {
    check_sums(push);
    watermarks.end(push.batch.shard_id(), parts, push.counts, push.records_hash);
    if (commits_.enabled()) commits_.on_shard_end(turn);
  } else {
    if (Result<void> room = memory_.make_room(pieces); !room) {
      is_full_ = true;
      stats_.failure = room.error();
      return room;
    }
    const uint8_t* const admitted =
        parts == admission_.covered ? nullptr : bytes_of(partitions_, parts, admitted_bytes_);
    for (const Piece& piece : pieces) apply(partitions_, piece, admitted, push.rate_reductions);
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

Result<void> Pushes::stage(const wire::Push& push, const std::vector<Piece>& pieces, Turn& turn) {
  std::vector<StagedPush::Payload> payloads;
  for (const Piece& piece : pieces)
    payloads.push_back({*piece.sections, *piece.key_frame, *piece.value_frame, rows_of(piece)});
  DP_TRY(const StepStage::Added added,
         commits_.stage(admission_.from, admission_.request, push, admission_.covered,
                        admission_.apply, std::move(payloads), turn));
  if (added == StepStage::Added::kOtherBatch) {
    answer_others(wire::PartStatus::kOtherStep, push.batch.batch);
  } else {
    admission_.waits = true;
    admission_.no_room = added == StepStage::Added::kRefused;
  }
  return {};
}

void Pushes::check_sums(const wire::Push& push) {
  const ShardRow* row = partitions_.watermarks().find(push.batch.shard_id());
  for_each(admission_.apply, [&](PartitionId p) {
    const uint64_t records = row == nullptr ? 0 : row->records[raw(p)];
    const uint64_t hash = row == nullptr ? 0 : row->hashes[raw(p)];
    if (stats_.failure) return;
    if (records == push.counts.applied && hash == push.records_hash) return;
    defended(Defence::kPsSumsDiffer);
    stats_.failure =
        Error{.code = ErrorCode::kBadData,
              .what = str("the input is not replayable: shard ", push.batch.shard_id(),
                          " ended with ", push.counts.applied, " records (hash ", push.records_hash,
                          "), but partition ", p, " applied ", records, " (hash ", hash,
                          "); a second read of the shard returned different records")};
  });
}

void Pushes::count_staleness(const Piece& piece) {
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

void Pushes::answer_others(wire::PartStatus status, uint32_t watermark) {
  Admission& a = admission_;
  if (status == wire::PartStatus::kStaged) defended(Defence::kPsFragmentStaged);
  if (status == wire::PartStatus::kUnknownPull) defended(Defence::kPsPullUnknown);
  for_each(a.apply, [&](PartitionId p) { a.others.push_back({p, status, watermark}); });
  sort_by_partition(a.others);
  std::fill(a.apply.begin(), a.apply.end(), uint64_t{0});
}

}  // namespace downpour::ps
