#include "ps/core/handles.h"

#include <iterator>

namespace downpour::ps {
namespace {

constexpr size_t kSpareHandlesMax = 64;
constexpr uint64_t kHandleOverheadBytes = 512;

}  // namespace

Handle* Handles::add(Incarnation worker_id, RequestId request, uint64_t key_count,
                     uint64_t keys_bytes, uint64_t version_count, int64_t now_ns) {
  const uint64_t bytes = kHandleOverheadBytes + keys_bytes + key_count * sizeof(uint32_t) +
                         version_count * sizeof(uint64_t);
  if (bytes > limits_.handle_bytes_per_worker_max) return nullptr;
  erase(worker_id, request);
  if (const auto known = workers_.find(worker_id); known != workers_.end()) {
    Worker& worker = known->second;
    while (!worker.handles.empty() &&
           (worker.handles.size() >= limits_.handles_per_worker_max ||
            worker.bytes + bytes > limits_.handle_bytes_per_worker_max)) {
      erase_at(worker, 0);
    }
  }
  if (limits_.handles_per_worker_max == 0 || bytes_ + bytes > limits_.handle_bytes_max) {
    return nullptr;
  }
  Worker& worker = workers_[worker_id];
  if (spare_.empty()) {
    worker.handles.emplace_back();
  } else {
    worker.handles.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  worker.bytes += bytes;
  bytes_ += bytes;
  ++size_;
  Handle& handle = worker.handles.back();
  handle.request = request;
  handle.born_ns = now_ns;
  handle.bytes = bytes;
  handle.rows.resize(key_count);
  return &handle;
}

Handle* Handles::find(Incarnation worker_id, RequestId request) {
  const auto known = workers_.find(worker_id);
  if (known == workers_.end()) return nullptr;
  for (Handle& handle : known->second.handles) {
    if (handle.request == request) return &handle;
  }
  return nullptr;
}

void Handles::erase(Incarnation worker_id, RequestId request) {
  const auto known = workers_.find(worker_id);
  if (known == workers_.end()) return;
  std::deque<Handle>& handles = known->second.handles;
  for (size_t i = 0; i < handles.size(); ++i) {
    if (handles[i].request == request) return erase_at(known->second, i);
  }
}

void Handles::expire(int64_t now_ns) {
  for (auto it = workers_.begin(); it != workers_.end();) {
    Worker& worker = it->second;
    while (!worker.handles.empty() &&
           now_ns - worker.handles.front().born_ns > limits_.handle_age_ns_max) {
      erase_at(worker, 0);
    }
    it = worker.handles.empty() ? workers_.erase(it) : std::next(it);
  }
}

void Handles::clear() {
  workers_.clear();
  bytes_ = 0;
  size_ = 0;
}

void Handles::erase_at(Worker& worker, size_t index) {
  Handle& handle = worker.handles[index];
  worker.bytes -= handle.bytes;
  bytes_ -= handle.bytes;
  --size_;
  handle.keys = {};
  handle.sections.clear();
  handle.versions.clear();
  if (spare_.size() < kSpareHandlesMax) spare_.push_back(std::move(handle));
  worker.handles.erase(worker.handles.begin() + std::ptrdiff_t(index));
}

}  // namespace downpour::ps
