#include "ps/core/payload.h"

#include <cstring>
#include <utility>

namespace downpour::ps {

Error malformed(std::string what) { return Error{ErrorCode::kMalformed, std::move(what)}; }

Result<uint64_t> section_floats(const TableSpec& spec, const wire::Section& section,
                                const uint8_t* keys) {
  uint64_t floats = 0;
  if (spec.kind == TableKind::kEmbedding) {
    for (size_t m = 0; m < spec.table_variables.size(); ++m) floats += spec.row_floats(m, 0);
    return floats * section.keys;
  }
  const uint32_t blocks = spec.block_count();
  for (uint32_t i = 0; i < section.keys; ++i) {
    uint64_t block = 0;
    std::memcpy(&block, keys + size_t{i} * sizeof(block), sizeof(block));
    if (block >= blocks) {
      return malformed(
          str("block ", block, " of ", spec.name, ", which has only this many blocks: ", blocks));
    }
    floats += spec.row_floats(0, block);
  }
  return floats;
}

Result<uint64_t> value_bytes(const Partitions& partitions,
                             const std::vector<wire::Section>& sections, const Bytes& keys) {
  uint64_t left = keys.size() / sizeof(uint64_t);
  uint64_t floats = 0;
  const uint8_t* at = keys.data();
  for (const wire::Section& section : sections) {
    if (raw(section.table) >= partitions.table_count()) {
      return malformed(str("unknown table ", section.table));
    }
    if (section.keys > left)
      return malformed("the sections declare more keys than the keys frame contains");
    DP_TRY(const uint64_t here, section_floats(partitions.spec(section.table), section, at));
    floats += here;
    left -= section.keys;
    at += section.keys * sizeof(uint64_t);
  }
  if (left != 0 || keys.size() % sizeof(uint64_t) != 0) {
    return malformed("the keys frame contains more bytes than the sections declare");
  }
  return floats * sizeof(float);
}

bool keys_in(const Partitions& partitions, const std::vector<wire::Section>& sections,
             const uint8_t* keys, const uint8_t* mask) {
  for (const wire::Section& section : sections) {
    if (!partitions.table(section.table).keys_in(keys, section.keys, mask)) return false;
    keys += section.keys * sizeof(uint64_t);
  }
  return true;
}

const uint8_t* bytes_of(const Partitions& partitions, const Bits& bits,
                        std::vector<uint8_t>& scratch) {
  if (bits == partitions.serving()) return partitions.serving_bytes();
  scratch.assign(partitions.count(), 0);
  for_each(bits, [&](PartitionId p) { scratch[raw(p)] = 1; });
  return scratch.data();
}

void apply(Partitions& partitions, const Piece& piece, const uint8_t* admitted,
           uint32_t rate_reductions) {
  const ApplyOptions options{.admitted = admitted,
                             .steps = partitions.next_steps(),
                             .steps_before = partitions.steps_before(),
                             .rate_reductions = rate_reductions};
  const uint8_t* keys = piece.keys;
  const uint32_t* rows = piece.rows;
  const uint8_t* values = piece.values;
  for (const wire::Section& section : *piece.sections) {
    partitions.table(section.table).apply(keys, section.keys, rows, values, options);
    values += *section_floats(partitions.spec(section.table), section, keys) * sizeof(float);
    keys += section.keys * sizeof(uint64_t);
    if (rows != nullptr) rows += section.keys;
  }
}

}  // namespace downpour::ps
