// Trace: the events of a simulated run, as lines of text and as a file for Perfetto and
// chrome://tracing.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace downpour::wire {
struct Message;
}

namespace downpour::sim {

class Trace {
 public:
  /// With `all` it keeps every event for json(); otherwise it keeps only the last lines.
  explicit Trace(bool all) : all_(all) {}

  /// Adds an event of one process, or of all processes if `process` is 0.
  void add(int64_t now_ns, uint32_t process, std::string what);
  /// Sets the name of a process.
  void name(uint32_t process, std::string name);

  /// Returns the last events as one line each, oldest first.
  const std::deque<std::string>& tail() const { return tail_; }
  /// Returns all events in Trace Event Format: a JSON object with an array of instant events, one
  /// track per process.
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

/// Returns the index into wire::Body of a message name such as "View" or "StatusReply".
std::optional<size_t> body_index(std::string_view name);
/// Summarizes a message: "Push 0/3/1 12 partitions", "PushReply 0/3/1: 3 gap".
std::string describe(const wire::Message& message);

}  // namespace downpour::sim
