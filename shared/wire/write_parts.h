// Writers of the structs that bodies consist of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/wire.capnp.h"
#include "shared/wire/control_messages.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/member_messages.h"
#include "shared/wire/push_messages.h"

namespace downpour::wire {

inline capnp::Text::Reader text_out(const std::string& value) {
  return {value.c_str(), value.size()};
}

/// Schema enums begin with `unset`; then they have the order of the plain enums.
template <typename Schema, typename Plain>
Schema enum_out(Plain value) {
  return Schema(uint16_t(raw(value)) + 1);
}

/// Writes the list that init(size) creates. An empty vector leaves the field absent.
template <typename T, typename Init>
void write_words(const std::vector<T>& in, Init&& init) {
  if (in.empty()) return;
  auto list = init(uint32_t(in.size()));
  for (uint32_t i = 0; i < in.size(); ++i) list.set(i, in[i]);
}

template <typename T, typename Init, typename WriteOne>
void write_list(const std::vector<T>& in, Init&& init, WriteOne&& write_one) {
  if (in.empty()) return;
  auto list = init(uint32_t(in.size()));
  for (uint32_t i = 0; i < in.size(); ++i) write_one(in[i], list[i]);
}

void write(const plan::FileInfo& in, schema::FileInfo::Builder out);
void write(const OutputSums& in, schema::OutputSums::Builder out);
void write(const OutputMetrics& in, schema::OutputMetrics::Builder out);
void write(const Owner& in, schema::Owner::Builder out);
/// The images of a core lie in few files, so each file is named only once.
void write(const std::vector<ImageRef>& in, schema::Images::Builder out);
void write(const Lease& in, schema::Lease::Builder out);
void write(const ShardCounts& in, schema::ShardCounts::Builder out);
void write(const PartitionStatus& in, schema::PartitionStatus::Builder out);

/// Writes the id of a view or of a checkpoint.
template <typename Id, typename Builder>
void write_id(const Id& id, Builder& out) {
  out.setTerm(id.term);
  out.setN(id.n);
}

template <typename Builder>
void write_generation(const ViewId& generation, Builder& out) {
  out.setGenerationTerm(generation.term);
  out.setGenerationN(generation.n);
}

/// Writes the list of partitions of a message.
template <typename Builder>
void write_partitions(const std::vector<PartitionId>& in, Builder& out) {
  auto partitions = out.initPartitions(uint32_t(in.size()));
  for (uint32_t i = 0; i < in.size(); ++i) partitions.set(i, raw(in[i]));
}

template <typename Builder>
void write_markers(const std::vector<QuarantineMarker>& in, Builder& out) {
  write_list(
      in, [&](uint32_t n) { return out.initMarkers(n); },
      [](const QuarantineMarker& line, auto to) {
        to.setEpoch(line.batch.epoch);
        to.setShard(line.batch.shard);
        to.setBatch(line.batch.batch);
        to.setWithdrawn(line.withdrawn);
        to.setHad(line.had);
        to.setPassed(line.passed);
      });
}

template <typename Builder>
void write_sections(const std::vector<Section>& in, Builder& out) {
  write_list(
      in, [&](uint32_t n) { return out.initSections(n); },
      [](const Section& section, auto to) {
        to.setTable(raw(section.table));
        to.setKeys(section.keys);
      });
}

}  // namespace downpour::wire
