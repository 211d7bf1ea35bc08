#include "worker/runtime/input_directory.h"

#include <algorithm>

#include "shared/base/hash.h"
#include "shared/base/str.h"

namespace downpour::worker {

void InputDirectory::update(std::vector<wire::InputProcess> inputs) {
  const std::lock_guard lock(mutex_);
  inputs_ = std::move(inputs);
  std::map<Incarnation, Record> records;
  for (const wire::InputProcess& input : inputs_)
    records[input.incarnation] = records_[input.incarnation];
  records_ = std::move(records);
  if (!inputs_.empty()) {
    had_some_ = true;
    said_reads_here_ = false;
  }
}

bool InputDirectory::in_use() const {
  const std::lock_guard lock(mutex_);
  return options_.wanted || !inputs_.empty();
}

bool InputDirectory::lives(Incarnation input) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(inputs_.begin(), inputs_.end(),
                     [&](const auto& one) { return one.incarnation == input; });
}

std::vector<std::string> InputDirectory::endpoints() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const wire::InputProcess& input : inputs_) all.push_back(input.endpoint);
  return all;
}

InputDirectory::Record* InputDirectory::record_of(Incarnation input) {
  const auto at = records_.find(input);
  return at == records_.end() ? nullptr : &at->second;
}

std::optional<wire::InputProcess> InputDirectory::choose(int64_t now_ns, uint64_t shard,
                                                         const std::vector<Incarnation>& without) {
  constexpr int64_t kTrialNsMax = 60 * kSecond;  // after that, its reader is assumed to be gone
  const std::lock_guard lock(mutex_);
  const bool some_failed = std::any_of(records_.begin(), records_.end(), [](const auto& entry) {
    return entry.second.failures > 0 && !entry.second.delivered;
  });
  if (trial_ && now_ns - trial_begun_ns_ > kTrialNsMax) trial_.reset();
  const bool may_try = !some_failed || !options_.reads_here || (!trial_ && now_ns >= trial_at_ns_);
  const wire::InputProcess* best = nullptr;
  uint64_t best_weight = 0;
  for (const wire::InputProcess& input : inputs_) {
    const Record& record = records_[input.incarnation];
    if (std::count(without.begin(), without.end(), input.incarnation) > 0 ||
        now_ns < record.retry_ns || (!record.delivered && !may_try)) {
      continue;
    }
    // The weight depends on the index, so that a restarted process gets the same shards.
    const uint64_t weight = hash_combine(shard, input.index);
    if (best != nullptr && weight <= best_weight) continue;
    best = &input;
    best_weight = weight;
  }
  if (best == nullptr) return std::nullopt;
  if (some_failed && !records_[best->incarnation].delivered) {
    trial_ = best->incarnation;
    trial_begun_ns_ = now_ns;
  }
  return *best;
}

void InputDirectory::delivered(Incarnation input, bool whole) {
  const std::lock_guard lock(mutex_);
  if (trial_ == input) trial_.reset();
  Record* record = record_of(input);
  if (record == nullptr) return;
  record->delivered = true;
  if (whole) record->failures /= 2;
}

void InputDirectory::left(Incarnation input) {
  const std::lock_guard lock(mutex_);
  if (trial_ == input) trial_.reset();
}

bool InputDirectory::is_early(int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (!asked_ns_) asked_ns_ = now_ns;
  return options_.wanted && !had_some_ && now_ns - *asked_ns_ < options_.first_wait_ns;
}

void InputDirectory::suspect(int64_t now_ns, Incarnation input, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (trial_ == input) {
    trial_.reset();
    trial_at_ns_ = now_ns + (options_.trial_share - 1) * (now_ns - trial_begun_ns_);
  }
  if (Record* record = record_of(input)) {
    record->delivered = false;
    const uint32_t doublings = std::min(record->failures++, 16U);
    record->retry_ns =
        now_ns + std::min(options_.suspicion_ns << doublings, options_.suspicion_ns_max);
  }
  if (!options_.say) return;
  const auto at = std::find_if(inputs_.begin(), inputs_.end(),
                               [&](const auto& one) { return one.incarnation == input; });
  if (at != inputs_.end())
    options_.say(str("input ", at->index, " ", why, ": other processes read its shards for now"));
}

void InputDirectory::note_reads_here() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(said_reads_here_, true) || !options_.say) return;
  options_.say(inputs_.empty()
                   ? "no input process has joined: this worker reads its shards itself"
                   : "no input process can read this shard: this worker reads it itself");
}

}  // namespace downpour::worker
