#include "chief/core/run/ending.h"

#include <utility>

namespace downpour::chief {

namespace {

constexpr int kInterruptSignal = 2;
constexpr int kTerminateSignal = 15;

Error interrupted(int signal, bool saved) {
  Error error{ErrorCode::kInterrupted, signal == 15  ? "stopped by SIGTERM"
                                       : signal == 2 ? "stopped by SIGINT"
                                                     : str("stopped by signal ", signal)};
  if (saved) error.hint = "run the same command again to resume from here";
  return error;
}

}  // namespace

int stop_signal_from(uint32_t reported) {
  return reported == uint32_t(kInterruptSignal) ? kInterruptSignal : kTerminateSignal;
}

const char* signal_name(int signal) { return signal == kInterruptSignal ? "SIGINT" : "SIGTERM"; }

void Ending::request_stop(Turn& turn, int signal, const std::string& receiver) {
  signal_ = signal;
  requested_ns_ = turn.now_ns();
  turn.log(turn.event("stop_requested").add("signal", signal).add("who", receiver));
}

void Ending::fail(Turn& turn, Error error) {
  turn.log(turn.event("failed")
               .add("code", exit_code(error.code))
               .add("what", error.what)
               .add("where", error.where));
  set(std::move(error));
}

void Ending::set(Error error) {
  code_ = exit_code(error.code);
  error_ = std::move(error);
}

void Ending::interrupt(bool saved) {
  error_ = interrupted(signal_, saved);
  code_ = 128 + signal_;
}

}  // namespace downpour::chief
