// Strong types for ids. Passing an id of the wrong kind is a compile error.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <type_traits>

namespace downpour {

enum class TableId : uint32_t {};      // index into a model's tables
enum class PartitionId : uint32_t {};  // one of the P hash partitions
enum class Incarnation : uint64_t {};  // one run of one process (random); 0 = none
enum class RequestId : uint64_t {};    // never reused within an incarnation; 0 = none

template <typename Id>
requires std::is_enum_v<Id>
constexpr auto raw(Id id) { return static_cast<std::underlying_type_t<Id>>(id); }

template <typename Id>
requires std::is_enum_v<Id> &&(!std::is_convertible_v<Id, int>)std::ostream& operator<<(
    std::ostream& out, Id id) {
  return out << +raw(id);
}

/// A data shard of an epoch: the unit of leasing.
struct ShardId {
  uint32_t epoch = 0;
  uint32_t shard = 0;
  auto operator<=>(const ShardId&) const = default;
};

/// A batch of a shard. The same id always names the same records.
struct BatchId {
  uint32_t epoch = 0;
  uint32_t shard = 0;
  uint32_t batch = 0;
  auto operator<=>(const BatchId&) const = default;
  ShardId shard_id() const { return {epoch, shard}; }
};

/// The number of a view: (term of the chief, n within the term). Every view of a new chief is above
/// all views of the old one.
struct ViewId {
  uint32_t term = 0;
  uint32_t n = 0;
  auto operator<=>(const ViewId&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, ShardId id) {
  return out << id.epoch << '/' << id.shard;
}
inline std::ostream& operator<<(std::ostream& out, BatchId id) {
  return out << id.epoch << '/' << id.shard << '/' << id.batch;
}
inline std::ostream& operator<<(std::ostream& out, ViewId id) {
  return out << id.term << '.' << id.n;
}

}  // namespace downpour
