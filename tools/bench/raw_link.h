// Raw link: the limit of every exchange between two processes: the same bytes over a bare socket.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tools/bench/measure.h"

namespace downpour::tools {

/// What goes there and what comes back.
struct RawExchange {
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
};

/// Two processes and one stream socket; the other end reads what it is sent and answers.
class RawLink {
 public:
  enum class Kind : uint8_t { kTcp, kUnix };
  explicit RawLink(Kind kind);
  ~RawLink();
  RawLink(const RawLink&) = delete;
  RawLink& operator=(const RawLink&) = delete;

  /// Seconds for all of `exchanges`, `repeats` times over, with at most `window` in flight.
  double seconds(std::span<const RawExchange> exchanges, uint64_t repeats, uint32_t window);

 private:
  int fd_ = -1;
  std::unique_ptr<Child> peer_;
  std::vector<uint8_t> out_, in_;
};

}  // namespace downpour::tools
