// What happened in a simulated run, for people: lines of text, and the format that Perfetto and
// chrome://tracing open.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/wire/messages.h"

namespace downpour::sim {

class Trace {
 public:
  /// `all`: keeps every event for json(); else only the last lines.
  explicit Trace(bool all) : all_(all) {}

  /// Something happened at a process, or (`process` 0) to all of them.
  void add(int64_t now_ns, uint32_t process, std::string what);
  /// A process has a name from now on.
  void name(uint32_t process, std::string name);

  /// One line an event, the last ones, oldest first.
  const std::deque<std::string>& tail() const { return tail_; }
  /// Trace Event Format: a JSON object with an array of instant events, one track a process.
  std::string json() const;

 private:
  struct Event {
    int64_t at_ns = 0;
    uint32_t process = 0;
    std::string what;
  };
  bool all_;
  std::deque<std::string> tail_;
  std::vector<Event> events_;
  std::vector<std::pair<uint32_t, std::string>> names_;
};

/// Which of wire::Body this is: "View", "StatusReply".
std::optional<size_t> body_index(std::string_view name);
/// A message in a few words: "Push 0/3/1 12 partitions", "PushReply 0/3/1: 3 gap".
std::string describe(const wire::Message& message);

}  // namespace downpour::sim
