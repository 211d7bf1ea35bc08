// Handles: the rows that a pull found, kept for the push that follows it. This is only a cache:
// without a handle, the worker sends the keys again.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "ps/core/events.h"
#include "shared/base/bytes.h"
#include "shared/base/ids.h"

namespace downpour::ps {

/// The rows that one pull found. A handle is valid only until a partition of the core is adopted,
/// dropped or loaded.
struct Handle {
  RequestId request{};
  int64_t born_ns = 0;
  uint64_t bytes = 0;
  Bytes keys;
  std::vector<wire::Section> sections;
  std::vector<uint32_t> rows;      // one per key
  std::vector<uint64_t> versions;  // at the pull: of every owned partition, ascending
};

/// Handles by (worker, request id), bounded by PsLimits.
class Handles {
 public:
  explicit Handles(const PsLimits& limits) : limits_(limits) {}

  /// Returns a handle to fill in, with `key_count` rows, or null if the limits leave no room.
  Handle* add(Incarnation worker, RequestId request, uint64_t key_count, uint64_t keys_bytes,
              uint64_t version_count, int64_t now_ns);
  Handle* find(Incarnation worker, RequestId request);
  void erase(Incarnation worker, RequestId request);
  /// Drops handles that are older than the limit.
  void expire(int64_t now_ns);
  void clear();

  uint64_t bytes() const { return bytes_; }
  size_t size() const { return size_; }

 private:
  struct Worker {
    std::deque<Handle> handles;  // in order of creation, roughly the order of use
    uint64_t bytes = 0;
  };
  void erase_at(Worker& worker, size_t index);

  PsLimits limits_;
  std::unordered_map<Incarnation, Worker> workers_;  // never iterated into output
  std::vector<Handle> spare_;                        // reused for their vectors
  uint64_t bytes_ = 0;
  size_t size_ = 0;
};

}  // namespace downpour::ps
