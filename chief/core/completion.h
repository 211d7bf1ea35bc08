// CompletionRound: asking every partition, under one view, how far an epoch is. The only thing that
// says "complete".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// A shard that some partition lacks, and the smallest watermark of it.
struct LackingShard {
  uint32_t shard = 0;
  uint32_t first_batch = 0;
  bool begun = false;  // some partition holds something of it
  bool operator==(const LackingShard&) const = default;
};

/// The shards of an epoch, as far as they are known.
struct EpochExtent {
  uint32_t shards = 0;
  bool open = false;  // partitions may have ended others behind them, which have no records
  bool length_unknown =
      false;  // its end is not known: what they have begun, and one more, is of it
};

/// What a valid round found.
struct RoundOutcome {
  uint32_t shards = 0;                            // of the epoch
  std::vector<LackingShard> lacking;              // ascending; empty: the epoch is complete
  std::vector<wire::PartitionStatus> partitions;  // ascending, all of them
  std::vector<OutputSums> metrics;                // summed in the order of the owners
  std::vector<wire::QuarantineMarker> markers;  // ascending; `had`, `withdrawn`: at some partition
};

class CompletionRound {
 public:
  CompletionRound(uint64_t round, uint32_t epoch, const EpochExtent& extent,
                  const wire::View& view);
  CompletionRound() = default;

  /// What to ask every owner.
  wire::StatusRequest request(std::vector<wire::QuarantineMarker> markers,
                              bool markers_known) const {
    return {.round = round_,
            .epoch = epoch_,
            .shards = extent_.shards,
            .markers = std::move(markers),
            .markers_known = markers_known};
  }

  enum class Verdict : uint8_t {
    kIgnored,  // of another round, or this owner has answered
    kTaken,
    kVoid,    // the owner does not stand where the view says: `why` tells; ask anew
    kFailed,  // the owner says that the job must fail: `why` tells
  };
  Verdict take(uint32_t owner, wire::StatusReply&& reply, std::string& why);

  bool all_in() const { return replies_.size() == answered_; }
  uint64_t round() const { return round_; }
  /// Needs all_in(). Error kBug: a core's intervals and its partitions contradict each other.
  Result<RoundOutcome> judge() const;

 private:
  std::string fault(uint32_t owner, const wire::StatusReply& reply) const;
  std::string interval_fault(const char* which, const std::vector<wire::Interval>& intervals) const;
  uint32_t shards_told() const;

  uint64_t round_ = 0;
  uint32_t epoch_ = 0;
  EpochExtent extent_;
  wire::View view_;
  std::vector<std::optional<wire::StatusReply>> replies_;  // by owner
  size_t answered_ = 0;
};

}  // namespace downpour::chief
