#include "chief/core/work/rounds.h"

namespace downpour::chief {

void Rounds::begin(Turn& turn, uint32_t epoch, const EpochExtent& extent, const wire::View& view) {
  round_ = CompletionRound(++last_round_, epoch, extent, view);
  turn.log(turn.event("round").add("round", last_round_).add("epoch", epoch));
}

void Rounds::interrupt(Turn& turn) {
  round_ = CompletionRound();
  at_ns_ = 0;
  turn.outbox().drop<wire::StatusRequest>();
}

bool Rounds::repeat(Turn& turn, const std::string& why) {
  turn.log(turn.event("round_void").add("round", round_.round()).add("why", why));
  turn.outbox().drop<wire::StatusRequest>();
  if (++void_rounds_ >= config_.void_rounds_max) return false;
  at_ns_ = turn.now_ns() + config_.resend_ns / 10 + 1;
  return true;
}

}  // namespace downpour::chief
