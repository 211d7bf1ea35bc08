#include "ps/core/status.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ps/core/interval_set.h"

namespace downpour::ps {
namespace {

/// Shortens the shard lists of a reply until it fits a message. An ended shard that is left out is
/// leased again, and its parts are already applied. A shard that is wrongly listed as begun is only
/// leased. An open shard is only a hint.
void bound_shards(const PsLimits& limits, wire::StatusReply& reply) {
  reply.ended.resize(std::min<size_t>(reply.ended.size(), limits.ended_told_max));
  reply.open.resize(std::min<size_t>(reply.open.size(), limits.open_told_max));
  if (reply.begun.size() <= limits.begun_told_max) return;
  const uint32_t end = reply.begun.back().end;
  reply.begun.resize(limits.begun_told_max);
  reply.begun.back().end = end;
}

}  // namespace

wire::StatusReply status_reply(const wire::StatusRequest& status, const Partitions& partitions,
                               const PsLimits& limits, ViewId view,
                               const std::optional<Error>& failure) {
  wire::StatusReply reply{.round = status.round,
                          .epoch = status.epoch,
                          .view = view,
                          .partitions = {},
                          .ended = {},
                          .open = {},
                          .metrics = {},
                          .failure = failure ? failure->what : std::string()};
  const Watermarks& watermarks = partitions.watermarks();
  std::optional<IntervalSet> ended;
  IntervalSet begun;  // at some partition
  for_each(partitions.owned(), [&](PartitionId p) {
    wire::PartitionStatus partition{.partition = p,
                                    .ownership_generation = partitions.ownership_generation(p),
                                    .version = partitions.version(p)};
    IntervalSet here;
    if (status.epoch < partitions.sealed(p)) {  // the manifest holds its counts now
      partition.shards_ended = status.shards;
      if (status.shards > 0) here.assign({{0, status.shards}});
    } else if (const Watermarks::Sums* sums = watermarks.sums(status.epoch, p)) {
      partition.shards_ended = uint32_t(sums->ended.size());
      partition.counts = sums->counts;
      partition.records_hash = sums->known_hash();
      here = sums->ended;
      if (reply.metrics.size() < sums->metrics.size()) reply.metrics.resize(sums->metrics.size());
      for (size_t i = 0; i < sums->metrics.size(); ++i) reply.metrics[i] += sums->metrics[i];
    }
    reply.partitions.push_back(partition);
    begun.unite(here);
    if (ended) {
      ended->intersect(here);
    } else {
      ended = std::move(here);
    }
  });
  if (ended) reply.ended = ended->intervals();
  reply.open = watermarks.open(status.epoch, partitions.owned());
  IntervalSet open;
  for (const wire::ShardWatermark& shard : reply.open) open.insert(shard.shard);
  begun.unite(open);
  reply.begun = begun.intervals();
  bound_shards(limits, reply);
  reply.markers = partitions.reported_markers();
  return reply;
}

}  // namespace downpour::ps
