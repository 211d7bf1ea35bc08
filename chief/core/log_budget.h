// LogBudget: how many lines of a log peers may cause, each of them and all together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "chief/core/events.h"

namespace downpour::chief {

/// Token buckets: a burst of lines, then a steady rate. One bucket for each peer, so that one noisy
/// peer does not hide what others do, and one for all peers, which bounds the log.
class LogBudget {
 public:
  struct Limits {
    double peer_burst = 64, peer_per_s = 1;
    double burst = 2048, per_s = 8;
    size_t peers_max = 4096;  // with a bucket of their own; above it only the common bucket counts
    int64_t report_ns = 10 * kSecond;
  };
  LogBudget() : LogBudget(Limits{}) {}
  explicit LogBudget(const Limits& limits) : limits_(limits) {}

  /// Takes one line from both buckets. False: the line is withheld, and counted.
  bool allows(int64_t now_ns, PeerKey peer) {
    if (all_.ns < 0) all_ = {limits_.burst, now_ns};
    Bucket* own = nullptr;
    if (auto at = peers_.find(peer); at != peers_.end()) {
      own = &at->second;
    } else if (peers_.size() < limits_.peers_max) {
      own = &peers_.emplace(peer, Bucket{limits_.peer_burst, now_ns}).first->second;
    }
    all_.refill(now_ns, limits_.burst, limits_.per_s);
    if (own != nullptr) own->refill(now_ns, limits_.peer_burst, limits_.peer_per_s);
    if (all_.lines < 1 || (own != nullptr && own->lines < 1)) {
      ++withheld_;
      return false;
    }
    all_.lines -= 1;
    if (own != nullptr) own->lines -= 1;
    return true;
  }

  /// How many lines were withheld since the last report, at most once an interval; none: none were.
  std::optional<uint64_t> report(int64_t now_ns) {
    if (now_ns < report_at_ns_) return std::nullopt;
    report_at_ns_ = now_ns + limits_.report_ns;
    for (auto at = peers_.begin(); at != peers_.end();) {
      at->second.refill(now_ns, limits_.peer_burst, limits_.peer_per_s);
      const bool unused = at->second.lines >= limits_.peer_burst;  // as if never seen
      at = unused ? peers_.erase(at) : std::next(at);
    }
    if (withheld_ == 0) return std::nullopt;
    return std::exchange(withheld_, 0);
  }

 private:
  struct Bucket {
    double lines = 0;
    int64_t ns = -1;
    void refill(int64_t now_ns, double burst, double per_s) {
      lines = std::min(burst, lines + double(now_ns - ns) / double(kSecond) * per_s);
      ns = now_ns;
    }
  };
  Limits limits_;
  Bucket all_;
  std::map<PeerKey, Bucket> peers_;
  uint64_t withheld_ = 0;
  int64_t report_at_ns_ = 0;
};

}  // namespace downpour::chief
