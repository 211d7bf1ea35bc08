// MemberNode: what the nodes of a ps, a worker and an input process have in common.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "shared/transport/outbox.h"
#include "shared/transport/reactor.h"

namespace downpour::transport {

/// Keeps the messages that can't be sent yet, and ends with an exit code and a reason.
class MemberNode : public Node {
 public:
  /// Does nothing: the transport counts malformed messages, and a peer without an answer repeats
  /// its request.
  void on_malformed(int64_t, PortId, PeerId, const Error&) override {}
  /// Returns true when the node has ended and its last messages are sent.
  bool finished() const override { return finished_ && outbox_.empty(); }

  /// Reports a stop signal to the chief, which ends this node or stops the job. Any thread may call
  /// it; wake the loop afterwards.
  void leave(int signal) { leave_signal_ = signal; }
  int32_t exit_code() const { return exit_code_; }
  const std::string& exit_reason() const { return exit_reason_; }

 protected:
  explicit MemberNode(Transport& transport) : transport_(transport), outbox_(transport) {}

  void exit(int32_t code, std::string reason) {
    finished_ = true;
    exit_code_ = code;
    exit_reason_ = std::move(reason);
  }
  /// Sends the messages that were kept. Returns false if the node has ended; the caller must
  /// then do nothing.
  bool flush(int64_t now_ns) {
    if (finished_) {
      outbox_.drain(now_ns);
    } else {
      outbox_.flush();
    }
    return !finished_;
  }

  Transport& transport_;
  Outbox outbox_;
  std::atomic<int> leave_signal_{0};
  bool finished_ = false;

 private:
  int32_t exit_code_ = 0;
  std::string exit_reason_;
};

}  // namespace downpour::transport
