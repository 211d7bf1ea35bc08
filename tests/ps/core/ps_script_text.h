// Text of ps scripts: parses the arguments of commands, and prints the replies of a core.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "shared/base/str.h"
#include "shared/wire/control_messages.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/member_messages.h"
#include "shared/wire/names.h"
#include "shared/wire/partition_set.h"
#include "shared/wire/push_messages.h"

namespace downpour::ps {

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, separator)) parts.push_back(part);
  return parts;
}

inline ViewId parse_view(const std::string& text) {
  const auto parts = split(text, '.');
  return {uint32_t(std::stoul(parts.at(0))), uint32_t(std::stoul(parts.at(1)))};
}

inline BatchId parse_batch(const std::string& text) {
  const auto parts = split(text, '/');
  return {uint32_t(std::stoul(parts.at(0))), uint32_t(std::stoul(parts.at(1))),
          uint32_t(std::stoul(parts.at(2)))};
}

inline std::vector<PartitionId> parse_partitions(const std::string& text) {
  std::vector<PartitionId> partitions;
  for (const std::string& range : split(text, ',')) {
    const auto ends = split(range, '-');
    for (uint32_t p = uint32_t(std::stoul(ends.front())); p <= std::stoul(ends.back()); ++p) {
      partitions.push_back(PartitionId(p));
    }
  }
  return partitions;
}

inline wire::PartitionSet parse_set(const std::string& text) {
  wire::PartitionSet set;
  for (const PartitionId p : parse_partitions(text)) set.insert(p);
  return set;
}

template <typename T>
std::vector<T> parse_numbers(const std::string& text) {
  std::vector<T> numbers;
  for (const std::string& number : split(text, ',')) numbers.push_back(T(std::stod(number)));
  return numbers;
}

template <typename Numbers>
std::string join(const Numbers& numbers) {
  std::string text;
  for (const auto& n : numbers) text += (text.empty() ? "" : ",") + str(n);
  return text.empty() ? "-" : text;
}

inline std::string print_set(const wire::PartitionSet& set) {
  std::vector<PartitionId> members;
  set.for_each([&](PartitionId p) { members.push_back(p); });
  return join(members);
}

inline std::string print_counts(const wire::ShardCounts& c) {
  return str("batches=", c.batches, " read=", c.read, " applied=", c.applied);
}

/// Parses markers, for example "0/1/2,0/1/3:withdrawn".
inline std::vector<wire::QuarantineMarker> parse_markers(const std::string& text) {
  std::vector<wire::QuarantineMarker> lines;
  for (const std::string& line : split(text, ',')) {
    const auto parts = split(line, ':');
    lines.push_back({parse_batch(parts.at(0)), parts.size() > 1, false});
  }
  return lines;
}

inline std::string print_marker(const wire::QuarantineMarker& line) {
  return str(" line ", line.batch, line.withdrawn ? " withdrawn" : "", line.had ? " had" : "",
             line.passed ? " passed" : "");
}

inline std::string print_status(const wire::StatusReply& reply) {
  std::string text = str("status round=", reply.round, " epoch=", reply.epoch, " ended=");
  for (const wire::Interval& i : reply.ended) text += str('[', i.begin, ',', i.end, ')');
  text += reply.ended.empty() ? "- open=" : " open=";
  for (const wire::ShardWatermark& open : reply.open)
    text += str('{', open.shard, '@', open.watermark, '}');
  if (reply.open.empty()) text += "-";
  text += reply.begun.empty() ? " begun=-" : " begun=";
  for (const wire::Interval& i : reply.begun) text += str('[', i.begin, ',', i.end, ')');
  for (const OutputSums& sums : reply.metrics) text += str(" loss=", sums.loss);
  for (const wire::QuarantineMarker& line : reply.markers) text += print_marker(line);
  if (!reply.failure.empty()) text += "\n    failure: " + reply.failure;
  for (const wire::PartitionStatus& p : reply.partitions) {
    text += str("\n    ", p.partition, ": since=", p.ownership_generation, " version=", p.version,
                " shards_ended=", p.shards_ended, ' ', print_counts(p.counts));
  }
  return text;
}

inline std::string print_push(const wire::PushReply& reply) {
  std::string text = str("push ", reply.batch, " applied=", print_set(reply.applied));
  for (const wire::PartReply& part : reply.others) {
    text += str(", ", part.partition, ": ", name_of(part.status), " (");
    text += part.watermark == wire::kShardEnded ? "ended)" : str("at ", part.watermark, ')');
  }
  return text;
}

inline std::string print_pull(const wire::PullReply& reply, const Bytes& values) {
  if (reply.status == wire::PullStatus::kWrongView)
    return str("pull: view mismatch, here it is ", reply.view);
  if (reply.status == wire::PullStatus::kOverloaded) return "pull: overloaded";
  std::vector<float> floats;
  for (size_t i = 0; i < values.count<float>(); ++i) floats.push_back(values.load<float>(i));
  return str("pull values=", join(floats), " versions=", join(reply.versions));
}

}  // namespace downpour::ps
