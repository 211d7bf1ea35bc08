// Ending: why the job ends: a stop signal, an error, or because it is done.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "chief/core/turn.h"
#include "shared/base/result.h"

namespace downpour::chief {

/// Returns SIGINT (2) or SIGTERM (15) for the signal number that a peer reports. A peer may report
/// any number, but only these two request a stop.
int stop_signal_from(uint32_t reported);
/// Returns "SIGINT" or "SIGTERM".
const char* signal_name(int signal);

/// Stores the first stop request, and the exit status with its reason.
class Ending {
 public:
  explicit Ending(const ChiefConfig& config) : config_(config) {}

  /// Records a stop request. `receiver` names the process that received the signal.
  void request_stop(Turn& turn, int signal, const std::string& receiver);
  /// Returns true after request_stop().
  bool stop_requested() const { return signal_ != 0; }
  /// Returns true if saving after the request takes too long.
  bool stop_overdue(const Turn& turn) const {
    return stop_requested() && turn.now_ns() - requested_ns_ > config_.stop_save_ns;
  }

  /// Logs an error and makes it the reason.
  void fail(Turn& turn, Error error);
  /// Makes an error the reason.
  void set(Error error);
  /// Makes the stop signal the reason. `saved`: a checkpoint was published after the request.
  void interrupt(bool saved);

  int32_t code() const { return code_; }
  /// Returns the reason, if the exit status is not 0.
  const std::optional<Error>& error() const { return error_; }

 private:
  const ChiefConfig& config_;
  int signal_ = 0;
  int64_t requested_ns_ = 0;
  int32_t code_ = 0;
  std::optional<Error> error_;
};

}  // namespace downpour::chief
