// Saving: the checkpoint that is being written while training continues, and the schedule of the
// next one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/outbox.h"
#include "shared/base/ids.h"
#include "shared/job/job.h"
#include "shared/wire/member_messages.h"

namespace downpour::chief {

/// The current checkpoint, or the last one. At most one is written at a time.
struct Saving {
  enum class State : uint8_t {
    kIdle,
    kWriting,     // the ps copy and write their partitions
    kPublishing,  // the shell writes the manifest
  };

  explicit Saving(int64_t resend_ns) : outbox(resend_ns) {}

  bool under_way() const { return state != State::kIdle; }
  /// Begins the next checkpoint of this term.
  void begin(int64_t now_ns, uint32_t term, const std::string& root, uint32_t sealed, size_t owners,
             ViewId builds_on) {
    state = State::kWriting;
    base = builds_on;
    id = {term, id.n + 1};
    folder = str(root, "/", id.term, "-", id.n);
    begun_ns = now_ns;
    sealed_epochs = sealed;
    images.assign(owners, {});
    rows = 0;
    outbox.clear();
  }
  void end() {
    state = State::kIdle;
    images.clear();
    chains.clear();
    outbox.clear();
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& of_owner : images) {
      for (const wire::ImageRef& image : of_owner) sum += image.bytes;
    }
    return sum;
  }

  State state = State::kIdle;
  ViewId id;
  std::string folder;
  int64_t begun_ns = 0;
  ViewId base;  // published checkpoint that images may build on; {}: all images are whole
  uint32_t sealed_epochs = 0;  // epochs that were complete when it began; every image holds them
  std::vector<std::vector<wire::ImageRef>> images;  // by owner number
  std::vector<std::vector<wire::ImageRef>>
      chains;  // kPublishing: by partition, each with its base images
  uint64_t rows = 0;
  Outbox outbox;  // unanswered Save requests; other requests have their own outbox
};

/// Decides when a checkpoint is due: by time, by steps, on request (the end of an epoch or of the
/// job), or again after a failed one.
class SaveSchedule {
 public:
  SaveSchedule(const Interval& every, int64_t retry_ns) : every_(every), retry_ns_(retry_ns) {}

  /// Restarts the intervals, because training begins or a checkpoint has begun.
  void start(int64_t now_ns, uint64_t steps) {
    begun_ns_ = now_ns;
    begun_steps_ = steps;
  }
  void want() { wanted_ = true; }
  bool wanted() const { return wanted_; }

  bool due(int64_t now_ns, uint64_t steps) const {
    if (wanted_ || (retry_at_ns_ > 0 && now_ns >= retry_at_ns_)) return true;
    const uint64_t moved = steps - std::min(steps, begun_steps_);
    if (moved == 0) return false;  // nothing has changed since the last one
    return (every_.ns > 0 && now_ns - begun_ns_ >= every_.ns) ||
           (every_.steps > 0 && moved >= every_.steps);
  }
  void begun(int64_t now_ns, uint64_t steps) {
    start(now_ns, steps);
    wanted_ = false;
    retry_at_ns_ = 0;
  }
  void failed(int64_t now_ns) { retry_at_ns_ = now_ns + retry_ns_; }

 private:
  Interval every_;
  int64_t retry_ns_;
  bool wanted_ = false;
  int64_t retry_at_ns_ = 0;  // > 0: time to retry after a failure
  int64_t begun_ns_ = 0;     // when the newest checkpoint, or the training, began
  uint64_t begun_steps_ = 0;
};

}  // namespace downpour::chief
