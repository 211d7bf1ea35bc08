// Turn: the handling of one event by a ps core: the effects so far, and what every message carries.
#pragma once

#include <cstdint>
#include <utility>

#include "ps/core/events.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace downpour::ps {

/// Appends effects to those of the current event. The order of the calls is the order of the
/// effects.
class Turn {
 public:
  /// `run` and `view` name the run and the newest view in every message that is sent.
  Turn(uint64_t run, const wire::View& view, Effects& effects)
      : run_(run), view_(view), effects_(effects) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Effects& effects() { return effects_; }
  void send(PeerKey to, RequestId request, wire::Body body, Bytes values = {}) {
    effects_.sends.push_back(
        {to, wire::Message{.envelope = {.run = run_, .view = view_.id, .request = request},
                           .body = std::move(body),
                           .keys = {},
                           .values = std::move(values)}});
  }
  void reject(PeerKey to, RequestId request, Error error) {
    send(to, request, wire::Reject{.code = error.code, .what = std::move(error.what)});
  }

 private:
  uint64_t run_;
  const wire::View& view_;
  Effects& effects_;
};

}  // namespace downpour::ps
