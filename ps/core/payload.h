// The payload of pulls and pushes: sections of keys and, for each key, the floats of its row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/core/bits.h"
#include "ps/core/partition.h"
#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/wire/push_messages.h"

namespace downpour::ps {

/// Checked pointers into the payload of one push message, ready to be applied.
struct Piece {
  const std::vector<wire::Section>* sections = nullptr;
  const uint8_t* keys = nullptr;   // unaligned
  const uint32_t* rows = nullptr;  // null: look up the keys
  const uint8_t* values = nullptr;
  const std::vector<uint64_t>* versions = nullptr;  // at the pull; null: not known
  bool versions_of_owned = false;                   // otherwise of the covered partitions
  const Bytes* key_frame = nullptr;                 // the memory of `keys` and `values`
  const Bytes* value_frame = nullptr;
};

/// Returns an error for a message that does not follow the protocol.
Error malformed(std::string what);

/// Returns the number of floats of a section's rows (blocks) in a message. The keys may be
/// unaligned. Error kMalformed: a block that the variable does not have.
Result<uint64_t> section_floats(const TableSpec& spec, const wire::Section& section,
                                const uint8_t* keys);
/// Returns the size of the values that belong to these keys. Error kMalformed: the sections do not
/// match the keys frame or the tables.
Result<uint64_t> value_bytes(const Partitions& partitions,
                             const std::vector<wire::Section>& sections, const Bytes& keys);
/// Returns whether all keys lie in partitions whose byte in `mask` is 1.
bool keys_in(const Partitions& partitions, const std::vector<wire::Section>& sections,
             const uint8_t* keys, const uint8_t* mask);
/// Applies the gradients of a piece whose keys and size are checked. `admitted` and
/// `rate_reductions`: as in ApplyOptions.
void apply(Partitions& partitions, const Piece& piece, const uint8_t* admitted,
           uint32_t rate_reductions);
/// Returns one byte per partition, 1 for those in `bits`. The pointer is valid until `scratch` or
/// the set of served partitions changes.
const uint8_t* bytes_of(const Partitions& partitions, const Bits& bits,
                        std::vector<uint8_t>& scratch);

}  // namespace downpour::ps
