// Handshake: introduces a ps core to the chief until the chief has welcomed it, and again when the
// chief does not know it any more.
#pragma once

#include <cstdint>
#include <string>

#include "ps/core/events.h"
#include "ps/core/ps_core.h"
#include "shared/wire/messages.h"

namespace downpour::ps {

/// Begins before the PsCore exists, because the core needs the job in the Welcome. `core` in the
/// calls below is null until then.
class Handshake {
 public:
  /// What the shell must do with a message of the chief.
  enum class Event : uint8_t {
    kNone,
    kWelcome,       // create the core from the job in the message
    kWelcomeAgain,  // a restarted chief: check that its job means the same
  };

  /// `hello` has everything that does not change. `chief` is the chief's endpoint, for errors.
  Handshake(wire::Hello hello, std::string chief, int64_t connect_timeout_ns)
      : hello_(std::move(hello)),
        chief_(std::move(chief)),
        connect_timeout_ns_(connect_timeout_ns) {}

  void start(int64_t now_ns, Effects& effects);
  /// Handles a message of the chief. Ends the process if the chief refuses this ps.
  Event on_message(int64_t now_ns, const wire::Message& message, const PsCore* core,
                   Effects& effects);
  /// Accepts a Welcome of run `run`.
  void accept(const wire::Welcome& welcome, uint64_t run);
  /// Sends the Hello that is due. Ends the process if no Welcome comes in time.
  void on_tick(int64_t now_ns, const PsCore* core, Effects& effects);
  /// Time at which on_tick() has work to do next, until a Welcome comes.
  int64_t next_deadline_ns() const { return hello_at_ns_; }

  /// Returns the index that the chief has given.
  uint32_t index() const { return hello_.index; }
  /// Returns the endpoint in the Hello.
  const std::string& endpoint() const { return hello_.endpoint; }

 private:
  void hello(int64_t now_ns, const PsCore* core, Effects& effects);

  wire::Hello hello_;
  std::string chief_;
  int64_t connect_timeout_ns_;
  uint64_t run_ = 0;
  int64_t started_ns_ = 0;
  bool awaits_welcome_ = false;
  int64_t hello_at_ns_ = 0;  // when the next one is due, until a Welcome comes
  uint64_t last_hello_ = 0;
};

}  // namespace downpour::ps
