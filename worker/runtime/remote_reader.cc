#include "worker/runtime/remote_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/hash.h"
#include "shared/base/str.h"
#include "shared/data/reading/batch_check.h"
#include "shared/data/reading/program.h"
#include "shared/wire/batch_codec.h"

namespace downpour::worker {
namespace {

constexpr uint32_t kWindow = 16;                 // unacknowledged batches, if they are small
constexpr int64_t kSliceNs = 50 * kMillisecond;  // longest time until a stop is noticed
constexpr int64_t kAskNs = kSecond;              // silence after which the input process is asked
constexpr int64_t kSilenceNs = 5 * kSecond;      // silence after which it counts as failed
constexpr int64_t kNoInputNs = 30 * kSecond;  // longest wait of a worker that may not read itself
constexpr uint32_t kTriesMax = 4;             // tries without a batch; then it is read here

/// Hash of the work that goes to one input process: a shard, or a whole epoch if its shards are
/// pieces of one stream.
uint64_t hash_of(const wire::Lease& lease, const LeasedShard& shard) {
  const uint64_t pass = hash_combine(uint64_t(lease.purpose), lease.shard.epoch);
  return hash_combine(pass, data::is_piece(*shard.plan, shard.ranges[0]) ? 0 : lease.shard.shard);
}

}  // namespace

RemoteReader::RemoteReader(RemoteShardRead remote, LeasedShard shard, wire::Lease lease,
                           uint32_t first_batch, uint32_t batches_max)
    : remote_(std::move(remote)),
      shard_(std::move(shard)),
      lease_(std::move(lease)),
      first_(first_batch),
      next_(first_batch),
      window_(std::min(batches_max, kWindow)) {}

RemoteReader::~RemoteReader() { leave(false); }

const data::ShardTotals& RemoteReader::totals() const {
  if (here_ != nullptr) return here_->totals();
  DP_CHECK(totals_.has_value());
  return *totals_;
}

std::optional<uint32_t> RemoteReader::failed_batch() const {
  return here_ != nullptr ? here_->failed_batch() : failed_batch_;
}

Result<bool> RemoteReader::next(Batch& batch) {
  for (;;) {
    DP_TRY(const std::optional<bool> more, poll(batch, kSliceNs));
    if (more) return *more;
  }
}

Result<std::optional<bool>> RemoteReader::poll(Batch& batch, int64_t timeout_ns) {
  if (!waiting_ && at_) {
    // Time in which the caller did not wait does not count as silence.
    heard_ns_ = remote_.link->now_ns();
  }
  Result<std::optional<bool>> more = advance(batch, timeout_ns);
  waiting_ = more && !*more;
  return more;
}

Result<std::optional<bool>> RemoteReader::advance(Batch& batch, int64_t timeout_ns) {
  while (here_ == nullptr) {
    if (remote_.stopped()) return Error{ErrorCode::kInterrupted, "reading was stopped"};
    if (!at_) {
      DP_TRY_VOID(begin());
      if (at_ || here_ != nullptr) continue;
      // A message that comes now belongs to a shard read that has ended.
      if (!remote_.link->receive(timeout_ns)) return std::optional<bool>();
      continue;
    }
    if (lost_its_reader()) continue;
    if (remote_.link->now_ns() - asked_ns_ > kAskNs) ask();
    auto message = remote_.link->receive(timeout_ns);
    if (!message) return std::optional<bool>();
    switch (take(std::move(*message), batch)) {
      case Got::kNothing:
      case Got::kElsewhere:
        break;
      case Got::kBatch:
        return std::optional(true);
      case Got::kEnd:
        return std::optional(false);
      case Got::kFailed:
        return *error_;
    }
  }
  DP_TRY(const bool more, here_->next(batch));
  return std::optional(more);
}

/// Leaves an input process that is gone or silent. Returns whether it did.
bool RemoteReader::lost_its_reader() {
  if (!remote_.inputs->lives(at_->incarnation)) {
    const std::string endpoint = at_->endpoint;
    leave(false);
    remote_.link->close(endpoint);
    return true;
  }
  if (remote_.link->now_ns() - heard_ns_ <= kSilenceNs) return false;
  (void)suspect("does not answer");
  return true;
}

/// Requests the shard from an input process, or opens it here if no input process may be awaited
/// any more. If it does neither, it is called again.
Result<void> RemoteReader::begin() {
  InputDirectory& inputs = *remote_.inputs;
  const int64_t now_ns = remote_.link->now_ns();
  if (!searching_ns_) {
    searching_ns_ = now_ns;
    remote_.link->keep_only(inputs.endpoints());  // closes connections to processes that have gone
  }
  // The limit matters if the shard kills every process that reads it: it must not kill them
  // forever.
  if (tries_ < kTriesMax) at_ = inputs.choose(now_ns, hash_of(lease_, shard_), without_);
  if (!at_) {
    const bool told = failure_ && failure_->code != ErrorCode::kUnavailable;
    const bool patient = !inputs.options().reads_here && tries_ < kTriesMax && !told &&
                         now_ns - *searching_ns_ < kNoInputNs;
    if (!patient && !inputs.is_early(now_ns)) return read_here();
    return {};
  }
  ++tries_;
  searching_ns_.reset();
  shard_read_ = remote_.link->next_shard_read();
  heard_ns_ = asked_ns_ = now_ns;
  came_ = false;
  wire::ReadShard request{
      .shard_read = shard_read_, .lease = lease_, .first_batch = next_, .window = window_};
  // The hash of the worker's plan, also for evaluation: both processes must have the same plan.
  request.lease.plan_hash = inputs.options().plan_hash;
  send(std::move(request));
  return {};
}

Result<void> RemoteReader::read_here() {
  if (!remote_.inputs->options().reads_here) {
    if (failure_) return *failure_;
    return Error{
        ErrorCode::kUnavailable,
        "no input process can read the shard, and this worker may not start the job's program",
        shard_.place(), "start input processes or workers with --allow-exec"};
  }
  remote_.inputs->note_reads_here();
  DP_TRY(here_, open_leased(shard_, lease_, next_));
  return {};
}

void RemoteReader::send(wire::Body body) {
  wire::Message message;
  message.envelope.run = remote_.inputs->options().run;
  message.body = std::move(body);
  remote_.link->send(at_->endpoint, std::move(message));
}

void RemoteReader::ask(bool stop) {
  asked_ns_ = remote_.link->now_ns();
  send(wire::ReadMore{.shard_read = shard_read_, .next = next_, .stop = stop});
}

/// Ends the shard read there. `for_good`: does not ask it again for this shard.
void RemoteReader::leave(bool for_good) {
  if (!at_) return;
  ask(/*stop=*/true);
  remote_.inputs->left(at_->incarnation);
  if (for_good) without_.push_back(at_->incarnation);
  at_.reset();
  drop_pieces();
}

void RemoteReader::drop_pieces() {
  pieces_.clear();
  piece_bytes_ = 0;
}

RemoteReader::Got RemoteReader::suspect(const std::string& why) {
  remote_.inputs->suspect(remote_.link->now_ns(), at_->incarnation, why);
  const std::string endpoint = at_->endpoint;
  leave(true);
  remote_.link->close(endpoint);
  return Got::kElsewhere;
}

RemoteReader::Got RemoteReader::take(wire::Message&& message, Batch& batch) {
  if (message.envelope.run != remote_.inputs->options().run) return Got::kNothing;
  const auto is_ours = [&](uint64_t shard_read) {
    if (shard_read != shard_read_) return false;  // from an earlier shard read
    heard_ns_ = remote_.link->now_ns();
    return true;
  };
  if (const auto* piece = std::get_if<wire::ReadBatch>(&message.body))
    return is_ours(piece->shard_read) ? take_piece(*piece, std::move(message.values), batch)
                                      : Got::kNothing;
  if (const auto* end = std::get_if<wire::ReadEnd>(&message.body))
    return is_ours(end->shard_read) ? take_end(*end) : Got::kNothing;
  if (auto* failed = std::get_if<wire::ReadFailed>(&message.body))
    return is_ours(failed->shard_read) ? take_failure(std::move(*failed)) : Got::kNothing;
  if (const auto* more = std::get_if<wire::ReadMore>(&message.body))
    (void)is_ours(more->shard_read);
  return Got::kNothing;
}

RemoteReader::Got RemoteReader::take_piece(const wire::ReadBatch& piece, Bytes&& bytes,
                                           Batch& batch) {
  if (piece.batch != next_ || piece.piece != pieces_.size()) {
    // A message in between was lost with a connection.
    leave(!came_);
    return Got::kElsewhere;
  }
  piece_bytes_ += bytes.size();
  pieces_.push_back(std::move(bytes));
  if (piece_bytes_ > wire::kBatchBytesMax)
    return suspect("sends a batch that exceeds the size limit");
  if (pieces_.size() < piece.pieces) return Got::kNothing;
  Result<void> decoded;
  if (pieces_.size() == 1) {
    decoded = wire::decode_batch(pieces_[0].span(), batch);
  } else {
    std::vector<uint8_t> whole;
    for (const Bytes& part : pieces_)
      whole.insert(whole.end(), part.data(), part.data() + part.size());
    decoded = wire::decode_batch(whole, batch);
  }
  drop_pieces();
  if (decoded) {
    decoded =
        data::check_batch(*shard_.plan, {lease_.shard.epoch, lease_.shard.shard, next_}, batch);
  }
  if (decoded && batch.quarantined != std::binary_search(lease_.quarantined_batches.begin(),
                                                         lease_.quarantined_batches.end(), next_)) {
    decoded = Error{ErrorCode::kMalformed,
                    "the lease and the data disagree whether the batch is quarantined"};
  }
  if (!decoded) return suspect(str("sent an invalid batch (", decoded.error().what, ")"));
  ++next_;
  if (!std::exchange(came_, true)) remote_.inputs->delivered(at_->incarnation, false);
  tries_ = 0;
  forgot_.reset();
  ask();
  return Got::kBatch;
}

RemoteReader::Got RemoteReader::take_end(const wire::ReadEnd& end) {
  // A shard that is requested beyond its end has fewer batches than requested, but then no batch
  // came.
  if (end.counts.batches > next_ || (next_ > first_ && end.counts.batches < next_)) {
    leave(!came_);
    return Got::kElsewhere;
  }
  totals_ = totals_of(end.counts, end.records_hash);
  remote_.inputs->delivered(at_->incarnation, true);
  at_.reset();
  return Got::kEnd;
}

/// The failure of a record is final, because every reader would report the same. If the input
/// process did not know the shard read or has dropped it, it may be asked again. Any other failure
/// may concern only that process (a file that it cannot see, memory, another plan). Then the shard
/// is read elsewhere, and only a failure in this process counts.
RemoteReader::Got RemoteReader::take_failure(wire::ReadFailed&& failed) {
  Error error{failed.code, std::move(failed.what), std::move(failed.where), std::move(failed.hint),
              std::move(failed.id)};
  // An input process that loses the shard read twice is not asked again.
  const bool again = failed.code == ErrorCode::kPeersLost && forgot_ != at_->incarnation;
  if (failed.code == ErrorCode::kPeersLost) {
    forgot_ = at_->incarnation;
    error.code = ErrorCode::kUnavailable;
  }
  if (!came_ && !again) without_.push_back(at_->incarnation);
  remote_.inputs->left(at_->incarnation);
  at_.reset();
  drop_pieces();
  if (failed.of_record) {
    error_ = std::move(error);
    failed_batch_ = failed.batch;
    return Got::kFailed;
  }
  failure_ = std::move(error);
  return Got::kElsewhere;
}

}  // namespace downpour::worker
