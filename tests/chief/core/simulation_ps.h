// FakePs: the ps of the chief's simulation. A partition is a map of watermarks, and a checkpoint is
// a copy of it.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "shared/base/hash.h"
#include "tests/chief/core/chief_harness.h"

namespace downpour::chief {

inline constexpr uint32_t kPartitions = 4;
inline constexpr uint32_t kEnd = UINT32_MAX;

inline uint32_t batches_of(ShardId shard) {
  return uint32_t(mix64(shard.epoch * 1000 + shard.shard) % 4);
}

struct HeldShard {
  uint32_t watermark = 0;
  bool ended = false;
};
/// State of one partition. All of it is saved, lost and restored together.
struct HeldPart {
  ViewId ownership_generation;
  ViewId frozen;  // frozen until a view with this number; {0, 0}: not frozen
  uint32_t sealed = 0;
  std::map<ShardId, HeldShard> shards;
  std::map<BatchId, uint32_t> applied;  // number of times
};
/// By folder and partition.
using SavedParts = std::map<std::string, std::map<uint32_t, HeldPart>>;

struct FakePs {
  Incarnation incarnation{};
  PeerKey peer{};
  bool alive = false, welcomed = false, stopped = false, leaving = false;
  int64_t paused_until = 0;
  uint32_t term = 0;
  wire::View view;
  std::map<uint32_t, HeldPart> parts;
  std::map<ViewId, wire::Frozen> frozen;
  bool owns(uint32_t p, ViewId worker_view) const {
    const auto it = parts.find(p);
    return alive && it != parts.end() && worker_view >= it->second.ownership_generation &&
           it->second.frozen == ViewId{};
  }
  void take_in(const wire::Adopt& adopt, const SavedParts& saved) {
    for (const PartitionId p : adopt.partitions) {
      const auto held = parts.find(raw(p));
      if (held != parts.end() && held->second.ownership_generation == adopt.ownership_generation)
        continue;
      HeldPart part;
      if (!adopt.images.empty()) part = saved.at(adopt.folder).at(raw(p));
      part.ownership_generation = adopt.ownership_generation;
      part.sealed = std::max(part.sealed, adopt.sealed_epochs);
      parts[raw(p)] = std::move(part);
    }
  }
  wire::Frozen freeze(const wire::Freeze& what, SavedParts& saved) {
    if (const auto known = frozen.find(what.ownership_generation); known != frozen.end())
      return known->second;
    wire::Frozen answer{.ownership_generation = what.ownership_generation};
    const auto served = [&](PartitionId p) {
      const auto it = parts.find(raw(p));
      return it != parts.end() && it->second.frozen == ViewId{};
    };
    answer.ok = what.ownership_generation > view.id &&
                std::all_of(what.partitions.begin(), what.partitions.end(), served);
    if (!answer.ok) {
      answer.error = "not now";
      return answer;
    }
    for (const PartitionId p : what.partitions) {
      saved[what.folder].insert_or_assign(raw(p), parts.at(raw(p)));
      parts.at(raw(p)).frozen = what.ownership_generation;
      answer.images.push_back({p, "f", 0, 1, 1});
    }
    return frozen[what.ownership_generation] = answer;
  }
  void take_view(const wire::View& newer) {
    if (newer.id <= view.id) return;
    view = newer;
    for (auto it = parts.begin(); it != parts.end();) {
      HeldPart& part = it->second;
      const wire::Placement& placement = view.partitions[it->first];
      const bool mine = view.owners[placement.owner].incarnation == incarnation;
      if (part.frozen != ViewId{} && view.id >= part.frozen) {
        part.frozen = {};
        if (mine) part.ownership_generation = placement.ownership_generation;
      }
      const bool lost = view.id >= part.ownership_generation &&
                        (!mine || placement.ownership_generation != part.ownership_generation);
      it = lost ? parts.erase(it) : std::next(it);
    }
    std::erase_if(frozen, [&](const auto& entry) { return entry.first <= view.id; });
  }
  /// `counts_of` returns the counts of a shard that has ended.
  template <typename CountsOf>
  wire::StatusReply status(const wire::StatusRequest& request, CountsOf&& counts_of) {
    wire::StatusReply reply{.round = request.round, .epoch = request.epoch, .view = view.id};
    uint32_t shards = request.shards;  // and further shards that were begun
    for (const auto& [p, part] : parts) {
      for (const auto& [id, state] : part.shards) {
        if (id.epoch == request.epoch && (state.ended || state.watermark > 0))
          shards = std::max(shards, id.shard + 1);
      }
    }
    for (uint32_t shard = 0; shard < shards && !parts.empty(); ++shard) {
      uint32_t watermark = kEnd;
      bool begun = false;
      for (auto& [p, part] : parts) {
        const HeldShard state = part.shards[{request.epoch, shard}];
        if (!state.ended) watermark = std::min(watermark, state.watermark);
        begun = begun || state.ended || state.watermark > 0;
      }
      if (begun) reply.begun.push_back({shard, shard + 1});
      if (watermark == kEnd)
        reply.ended.push_back({shard, shard + 1});
      else if (watermark > 0)
        reply.open.push_back({shard, watermark});
    }
    for (auto& [p, part] : parts) {
      wire::PartitionStatus one{.partition = PartitionId(p),
                                .ownership_generation = part.ownership_generation};
      for (uint32_t shard = 0; shard < shards; ++shard) {
        if (!part.shards[{request.epoch, shard}].ended) continue;
        ++one.shards_ended;
        one.counts += counts_of({request.epoch, shard});
      }
      reply.partitions.push_back(one);
    }
    return reply;
  }
};

}  // namespace downpour::chief
