#include "ps/core/handshake.h"

#include <utility>

namespace downpour::ps {
namespace {

constexpr int64_t kHelloEveryNs = 500 * kMillisecond;

}  // namespace

void Handshake::start(int64_t now_ns, Effects& effects) {
  started_ns_ = now_ns;
  hello(now_ns, nullptr, effects);
}

void Handshake::hello(int64_t now_ns, const PsCore* core, Effects& effects) {
  awaits_welcome_ = true;
  hello_at_ns_ = now_ns + kHelloEveryNs;
  wire::Message message;
  message.envelope.request = RequestId{++last_hello_};
  wire::Hello hello = hello_;
  if (core != nullptr) {
    message.envelope.run = run_;
    message.envelope.view = core->view().id;
    hello.claims = core->claims();
    hello.plan_hash = core->partitions().plan_hash();
    hello.holds_unsealed = core->partitions().hold_unsealed();
  }
  message.body = std::move(hello);
  effects.sends.push_back({kChiefPeer, std::move(message)});
}

Handshake::Event Handshake::on_message(int64_t now_ns, const wire::Message& message,
                                       const PsCore* core, Effects& effects) {
  if (const auto* refused = std::get_if<wire::Refused>(&message.body)) {
    effects.exit =
        Exit{exit_code(refused->code),
             refused->hint.empty() ? refused->what : str(refused->what, " (", refused->hint, ")")};
    return Event::kNone;
  }
  if (std::holds_alternative<wire::Welcome>(message.body)) {
    if (core == nullptr) return Event::kWelcome;
    return message.envelope.run == run_ ? Event::kWelcomeAgain : Event::kNone;
  }
  // The chief does not know this connection (any more). Introduce this ps again.
  const auto* reject = std::get_if<wire::Reject>(&message.body);
  if (core != nullptr && reject != nullptr && reject->code == ErrorCode::kUnavailable &&
      now_ns >= hello_at_ns_)
    hello(now_ns, core, effects);
  return Event::kNone;
}

void Handshake::accept(const wire::Welcome& welcome, uint64_t run) {
  hello_.index = welcome.index;
  run_ = run;
  awaits_welcome_ = false;
}

void Handshake::on_tick(int64_t now_ns, const PsCore* core, Effects& effects) {
  if (core == nullptr && now_ns - started_ns_ > connect_timeout_ns_) {
    effects.exit =
        Exit{exit_code(ErrorCode::kUnavailable), str("the chief at ", chief_, " does not answer")};
  } else if (awaits_welcome_ && now_ns >= hello_at_ns_) {
    // A restarted chief may have other epochs or data. If its Welcome is lost, this ps would reject
    // every batch that its old plan does not have.
    hello(now_ns, core, effects);
  }
}

}  // namespace downpour::ps
