// Readers of the structs that bodies consist of. Each checks the Cap'n Proto data while it reads
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/wire.capnp.h"
#include "shared/base/error_text.h"
#include "shared/wire/codec.h"
#include "shared/wire/control_messages.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/member_messages.h"
#include "shared/wire/push_messages.h"

namespace downpour::wire {

/// The first error found in a body. Reading continues after it, and the caller discards the result.
class Checks {
 public:
  void require(bool holds, const char* what) {
    if (!holds && what_ == nullptr) what_ = what;
  }
  const char* what() const { return what_; }

  /// Returns true if a list of this size may be read. Returns false after any earlier error, too.
  bool fits(uint32_t size, uint32_t max, const char* what) {
    require(size <= max, what);
    return what_ == nullptr;
  }

 private:
  const char* what_ = nullptr;
};

inline std::string text(capnp::Text::Reader value) { return {value.begin(), value.size()}; }

/// Returns text for people (an error, a reason) in a form that is safe in a log, an event and a
/// terminal: of bounded length, and without control characters except line breaks and tabs.
inline std::string prose(capnp::Text::Reader value) {
  return printable_lines({value.begin(), value.size()});
}
/// Returns a name in the same form, on one line.
inline std::string name(capnp::Text::Reader value) {
  return printable_line({value.begin(), value.size()});
}

/// Converts a schema enum, which has `unset` before the plain values. `last` is the highest valid
/// one.
template <typename Plain, typename Schema>
Plain enum_in(Schema value, Plain last, const char* what, Checks& checks) {
  const auto number = uint16_t(value);
  const bool known = number >= 1 && number <= uint16_t(raw(last)) + 1;
  checks.require(known, what);
  return known ? Plain(number - 1) : Plain{};
}

inline ErrorCode read(schema::ErrorCode in, Checks& checks) {
  return enum_in(in, ErrorCode::kPeersLost, "error code is unset or unknown", checks);
}

inline PartitionId read_partition(uint32_t in, Checks& checks) {
  checks.require(in < kPartitionsMax, "partition out of range");
  return PartitionId(in);
}

template <typename T, typename List>
void read_words(List in, uint32_t max, const char* what, std::vector<T>& out, Checks& checks) {
  const uint32_t n = in.size();
  if (!checks.fits(n, max, what)) return;
  out.resize(n);
  for (uint32_t i = 0; i < n; ++i) out[i] = in[i];
}

template <typename T, typename List, typename ReadOne>
void read_list(List in, uint32_t max, const char* what, std::vector<T>& out, Checks& checks,
               ReadOne&& read_one) {
  const uint32_t n = in.size();
  if (!checks.fits(n, max, what)) return;
  out.resize(n);
  for (uint32_t i = 0; i < n && checks.what() == nullptr; ++i) read_one(in[i], out[i]);
}

void read(schema::FileInfo::Reader in, plan::FileInfo& out, Checks& checks);
void read(schema::OutputSums::Reader in, OutputSums& out);
void read(capnp::List<schema::OutputSums>::Reader in, std::vector<OutputSums>& out, Checks& checks);
void read(schema::OutputMetrics::Reader in, OutputMetrics& out, Checks& checks);
void read(capnp::List<schema::OutputMetrics>::Reader in, std::vector<OutputMetrics>& out,
          Checks& checks);
void read(schema::Owner::Reader in, Owner& out, Checks& checks);
void read(schema::Images::Reader in, std::vector<ImageRef>& out, Checks& checks);
void read(schema::Lease::Reader in, Lease& out, Checks& checks);
void read(capnp::List<schema::QuarantineMarker>::Reader in, std::vector<QuarantineMarker>& out,
          Checks& checks);
void read(schema::ShardCounts::Reader in, ShardCounts& out);
void read(schema::PartitionStatus::Reader in, PartitionStatus& out, Checks& checks);
void read(capnp::List<schema::Section>::Reader in, std::vector<Section>& out, Checks& checks);

}  // namespace downpour::wire
