// LogBudget: limits the log lines that peers can cause, per peer and in total.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "chief/core/events.h"

namespace downpour::chief {

/// Token buckets that allow a burst of lines, then a steady rate. Each peer has one, so that a
/// noisy peer does not suppress the lines of others. One bucket for all peers bounds the log.
class LogBudget {
 public:
  struct Limits {
    double peer_burst = 64, peer_per_s = 1;
    double burst = 2048, per_s = 8;
    size_t peers_max =
        4096;  // peers with a bucket of their own; further peers use only the common bucket
    int64_t report_ns = 10 * kSecond;
  };
  LogBudget() : LogBudget(Limits{}) {}
  explicit LogBudget(const Limits& limits) : limits_(limits) {}

  /// Takes one line from both buckets. Returns false if the line is withheld; it is counted then.
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

  /// Returns the number of lines withheld since the last report, at most once per interval. Returns
  /// none if no line was withheld.
  std::optional<uint64_t> report(int64_t now_ns) {
    if (now_ns < report_at_ns_) return std::nullopt;
    report_at_ns_ = now_ns + limits_.report_ns;
    for (auto at = peers_.begin(); at != peers_.end();) {
      at->second.refill(now_ns, limits_.peer_burst, limits_.peer_per_s);
      const bool unused =
          at->second.lines >= limits_.peer_burst;  // a full bucket is equal to a new one
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
