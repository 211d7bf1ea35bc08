// CompletionRound: asks every partition, under one view, how far an epoch is. Only its outcome can
// declare an epoch complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// A shard that some partition lacks, with the smallest watermark over all partitions.
struct LackingShard {
  uint32_t shard = 0;
  uint32_t first_batch = 0;
  bool begun = false;  // some partition has begun it
  bool operator==(const LackingShard&) const = default;
};

/// The shards of an epoch, as far as the chief knows them.
struct EpochExtent {
  uint32_t shards = 0;
  // The data are an open stream (pass.h): partitions may have ended shards beyond `shards`, which
  // lie after the end of the stream and have no records.
  bool open = false;
  // The end of the stream is not known. The epoch then includes all shards that partitions have
  // begun, and one more.
  bool length_unknown = false;
};

/// Result of a valid round.
struct RoundOutcome {
  uint32_t shards = 0;                            // number of shards of the epoch
  std::vector<LackingShard> lacking;              // ascending; empty: the epoch is complete
  std::vector<wire::PartitionStatus> partitions;  // all partitions, ascending
  std::vector<OutputSums> metrics;                // summed in the order of the owners
  std::vector<wire::QuarantineMarker>
      markers;  // ascending; a flag is true if some partition has it
};

class CompletionRound {
 public:
  CompletionRound(uint64_t round, uint32_t epoch, const EpochExtent& extent,
                  const wire::View& view);
  CompletionRound() = default;

  /// Returns the request for every owner.
  wire::StatusRequest request(std::vector<wire::QuarantineMarker> markers,
                              bool markers_known) const {
    return {.round = round_,
            .epoch = epoch_,
            .shards = extent_.shards,
            .markers = std::move(markers),
            .markers_known = markers_known};
  }

  enum class Verdict : uint8_t {
    kIgnored,  // belongs to another round, or this owner has answered already
    kTaken,
    kVoid,    // view or partitions differ from the chief's (see `why`): repeat the round
    kFailed,  // the owner reports a failure (`why`) that fails the job
  };
  Verdict take(uint32_t owner, wire::StatusReply&& reply, std::string& why);

  bool all_in() const { return replies_.size() == answered_; }
  uint64_t round() const { return round_; }
  /// Returns the outcome; requires all_in(). Error kBug if a core's intervals contradict the counts
  /// of its partitions.
  Result<RoundOutcome> judge() const;

 private:
  std::string fault(uint32_t owner, const wire::StatusReply& reply) const;
  std::string interval_fault(const char* which, const std::vector<wire::Interval>& intervals) const;
  uint32_t shards_told() const;

  uint64_t round_ = 0;
  uint32_t epoch_ = 0;
  EpochExtent extent_;
  wire::View view_;
  std::vector<std::optional<wire::StatusReply>> replies_;  // by owner number
  size_t answered_ = 0;
};

}  // namespace downpour::chief
