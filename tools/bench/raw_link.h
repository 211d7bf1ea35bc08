// RawLink: exchanges bytes with another process over a bare socket. Its speed is an upper bound
// for every transport.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tools/bench/measure.h"

namespace downpour::tools {

/// The sizes of a request and of its reply.
struct RawExchange {
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
};

/// A stream socket to a child process, which reads requests and sends replies.
class RawLink {
 public:
  enum class Kind : uint8_t { kTcp, kUnix };
  explicit RawLink(Kind kind);
  ~RawLink();
  RawLink(const RawLink&) = delete;
  RawLink& operator=(const RawLink&) = delete;

  /// Makes all `exchanges` `repeats` times with at most `window` in flight. Returns the seconds.
  double seconds(std::span<const RawExchange> exchanges, uint64_t repeats, uint32_t window);

 private:
  int fd_ = -1;
  std::unique_ptr<Child> peer_;
  std::vector<uint8_t> out_, in_;
};

}  // namespace downpour::tools
