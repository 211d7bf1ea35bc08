#include "worker/runtime/input_directory.h"

#include <algorithm>

#include "shared/base/hash.h"
#include "shared/base/str.h"

namespace downpour::worker {

void InputDirectory::update(std::vector<wire::InputProcess> inputs) {
  const std::lock_guard lock(mutex_);
  inputs_ = std::move(inputs);
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

std::optional<wire::InputProcess> InputDirectory::choose(
    int64_t now_ns, uint64_t shard, const std::vector<Incarnation>& without) const {
  const std::lock_guard lock(mutex_);
  const wire::InputProcess* best = nullptr;
  uint64_t best_weight = 0;
  for (const wire::InputProcess& input : inputs_) {
    const auto suspected = [&](const auto& suspect) {
      return suspect.first == input.incarnation && now_ns < suspect.second;
    };
    if (std::count(without.begin(), without.end(), input.incarnation) > 0 ||
        std::any_of(suspects_.begin(), suspects_.end(), suspected)) {
      continue;
    }
    // By its index: one that was started anew gets the same shards.
    const uint64_t weight = hash_combine(shard, input.index);
    if (best != nullptr && weight <= best_weight) continue;
    best = &input;
    best_weight = weight;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

bool InputDirectory::is_early(int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (!asked_ns_) asked_ns_ = now_ns;
  return options_.wanted && !had_some_ && now_ns - *asked_ns_ < options_.first_wait_ns;
}

void InputDirectory::suspect(int64_t now_ns, Incarnation input, const std::string& why) {
  const std::lock_guard lock(mutex_);
  std::erase_if(suspects_, [&](const auto& suspect) {
    return suspect.second <= now_ns || suspect.first == input;
  });
  suspects_.emplace_back(input, now_ns + options_.suspicion_ns);
  if (!options_.say) return;
  const auto at = std::find_if(inputs_.begin(), inputs_.end(),
                               [&](const auto& one) { return one.incarnation == input; });
  if (at != inputs_.end())
    options_.say(str("input ", at->index, " ", why, ": its shards are read elsewhere for a while"));
}

void InputDirectory::note_reads_here() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(said_reads_here_, true) || !options_.say) return;
  options_.say(inputs_.empty() ? "no input process is here: this worker reads for itself"
                               : "no input process reads this: this worker does so itself");
}

}  // namespace downpour::worker
