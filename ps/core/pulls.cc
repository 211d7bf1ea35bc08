#include "ps/core/pulls.h"

#include <algorithm>
#include <utility>

#include "ps/core/payload.h"
#include "shared/base/defence.h"
#include "shared/base/hash.h"

namespace downpour::ps {

void Pulls::on_pull(int64_t now_ns, PeerKey from, const wire::Message& message,
                    const wire::Pull& pull, Turn& turn) {
  const wire::Envelope& envelope = message.envelope;
  Result<uint64_t> bytes = value_bytes(partitions_, pull.sections, message.keys);
  if (bytes && *bytes > wire::kFrameBytesMax) {
    bytes = malformed(str("a pull of ", *bytes, " bytes; at most ", wire::kFrameBytesMax,
                          " fit into a frame: split the pull"));
  }
  if (!bytes) return turn.reject(from, envelope.request, std::move(bytes).error());

  wire::PullReply reply{
      .status = wire::PullStatus::kOk, .view = session_.view().id, .versions = {}};
  const uint8_t* served = partitions_.serving_bytes();
  if (envelope.view < partitions_.ownership_generation_max()) {
    Bits current = partitions_.serving();
    for_each(partitions_.serving(), [&](PartitionId p) {
      if (envelope.view < partitions_.ownership_generation(p)) erase(current, p);
    });
    served = bytes_of(partitions_, current, served_bytes_);
  }
  const bool known = keys_in(partitions_, pull.sections, message.keys.data(), served);
  const uint64_t next_step = pull.step == 0 ? 0 : partitions_.next_step();
  if (known && waits(pull, next_step)) {
    // A worker asks for the step after the next one at most.
    if (pull.step == next_step + 1 && keep(from, message)) return;
    defended(Defence::kPsPullOverloaded);
    reply.status = wire::PullStatus::kOverloaded;
    return turn.send(from, envelope.request, std::move(reply));
  }
  BufferPool::Buffer buffer;
  if (!known) {
    defended(Defence::kPsPullRefused);
    reply.status = wire::PullStatus::kWrongView;
    reply.view = session_.view_to_reach();
  } else if (buffer = buffers_.take(*bytes, from); buffer.memory == nullptr) {
    defended(Defence::kPsPullOverloaded);
    reply.status = wire::PullStatus::kOverloaded;
  }
  if (reply.status != wire::PullStatus::kOk) {
    return turn.send(from, envelope.request, std::move(reply));
  }

  partitions_.versions(partitions_.owned(), reply.versions);
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
  // In a job with groups, a worker learns from the versions at which step the core is.
  if (partitions_.stepped() != partitions_.owned())
    partitions_.versions(partitions_.stepped(), reply.versions);
  const uint8_t* keys = message.keys.data();
  uint8_t* values = buffer.memory.get();
  const Weights weights =
      pull.purpose == wire::Purpose::kTrain ? Weights::kTrained : Weights::kOfModel;
  for (const wire::Section& section : pull.sections) {
    partitions_.table(section.table).pull(keys, section.keys, values, rows, weights);
    // The total size was checked above.
    values += *section_floats(partitions_.spec(section.table), section, keys) * sizeof(float);
    keys += section.keys * sizeof(uint64_t);
    if (rows != nullptr) rows += section.keys;
  }
  stats_.pulled_bytes += *bytes;
  if (load_meter_.looks()) count_load(pull, message.keys);
  turn.send(from, envelope.request, std::move(reply), buffer.bytes(*bytes));
}

bool Pulls::waits(const wire::Pull& pull, uint64_t next_step) const {
  return pull.step > next_step && config_.steps && !none(partitions_.stepped());
}

/// Keeps a pull until its step. Returns false if too much waits already.
bool Pulls::keep(PeerKey from, const wire::Message& message) {
  const uint64_t bytes = message.keys.size();
  const PsLimits& limits = config_.limits;
  if (waiting_.size() >= limits.pulls_waiting_max ||
      waiting_bytes_ + bytes > limits.pulls_waiting_bytes_max)
    return false;
  waiting_.push_back({from, message});
  waiting_bytes_ += bytes;
  return true;
}

bool Pulls::answer_next(int64_t now_ns, const std::function<bool(PeerKey)>& takes, Turn& turn) {
  if (waiting_.empty()) return false;
  const uint64_t next_step = partitions_.next_step();
  const auto due = std::ranges::find_if(waiting_, [&](const Waiting& waiting) {
    return !waits(waiting.pull(), next_step) && takes(waiting.from);
  });
  if (due == waiting_.end()) return false;
  const Waiting waiting = std::move(*due);
  waiting_bytes_ -= waiting.message.keys.size();
  waiting_.erase(due);
  on_pull(now_ns, waiting.from, waiting.message, waiting.pull(), turn);
  return true;
}

void Pulls::on_view(ViewId view) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const bool earlier = waiting.message.envelope.view < view;
    if (earlier) waiting_bytes_ -= waiting.message.keys.size();
    return earlier;
  });
}

void Pulls::count_load(const wire::Pull& pull, const Bytes& keys) {
  const uint64_t times = pull.purpose == wire::Purpose::kTrain ? 2 : 1;  // its push will follow
  uint64_t at = 0;
  for (const wire::Section& section : pull.sections) {
    const TableSpec& spec = partitions_.spec(section.table);
    for (uint32_t i = 0; i < section.keys; ++i) {
      const uint64_t key = keys.load<uint64_t>(at++);
      uint64_t floats = 0;
      for (size_t m = 0; m < spec.table_variables.size(); ++m) floats += spec.row_floats(m, key);
      load_meter_.count(
          partition_of(row_hash(section.table, key, spec.group), config_.partition_bits),
          floats * sizeof(float), times);
    }
  }
}

}  // namespace downpour::ps
