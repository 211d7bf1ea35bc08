// Turn: the handling of one event: its time, and the effects so far.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "chief/core/effects.h"
#include "chief/core/json_line.h"
#include "chief/core/log_budget.h"
#include "chief/core/membership.h"
#include "chief/core/outbox.h"

namespace downpour::chief {

/// The part of a turn that outlives the event.
struct TurnState {
  const ChiefConfig& config;
  const wire::View& view;  // the newest published view, which every message names
  LogBudget log_budget;
  Outbox outbox;
  int64_t start_ns = 0;       // when the job began
  int64_t now_ns = 0;         // time of the newest event
  uint64_t last_request = 0;  // number of the newest request
};

/// Appends effects to those of the current event. The order of the calls is the order of the
/// effects.
class Turn {
 public:
  Turn(TurnState& state, int64_t now_ns, Effects& effects) : state_(state), effects_(effects) {
    state_.now_ns = std::max(state_.now_ns, now_ns);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Returns the time of this event, which is never less than that of an earlier one.
  int64_t now_ns() const { return state_.now_ns; }
  int64_t start_ns() const { return state_.start_ns; }
  /// Returns the requests that wait for an answer.
  Outbox& outbox() { return state_.outbox; }
  const Outbox& outbox() const { return state_.outbox; }
  RequestId next_request() { return RequestId{++state_.last_request}; }

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  /// Returns the beginning of a line of the event file.
  JsonLine event(std::string_view name) const { return JsonLine(now_ns() - start_ns(), name); }
  void log(const JsonLine& line) { emit(AppendEvent{line.str()}); }
  /// Logs and shows a text.
  void notice(NoticeLevel level, std::string text) {
    log(event("notice").add("text", text));
    emit(Notice{level, std::move(text)});
  }
  /// Log and show events that a peer can cause as often as it likes, within the log budget.
  void log_of(PeerKey peer, const JsonLine& line) {
    if (state_.log_budget.allows(now_ns(), peer)) log(line);
  }
  void notice_of(PeerKey peer, NoticeLevel level, std::string text) {
    if (state_.log_budget.allows(now_ns(), peer)) notice(level, std::move(text));
  }

  void send(PeerKey peer, wire::Body body, RequestId request = {}, Bytes values = {}) {
    Send effect{.peer = peer, .message = {}};
    effect.message.envelope = {
        .run = state_.config.run, .view = state_.view.id, .request = request};
    effect.message.body = std::move(body);
    effect.message.values = std::move(values);
    emit(std::move(effect));
  }
  void send(const Member& member, wire::Body body, RequestId request = {}) {
    send(member.peer, std::move(body), request);
  }
  /// Sends a request to a ps core or a stopping member, and repeats it until it is answered.
  /// `values` are the bytes that travel with it.
  void ask(const Member& member, wire::Body body, Bytes values = {}) {
    state_.outbox.put(now_ns(), member, body, values);
    send(member.peer, std::move(body), next_request(), std::move(values));
  }
  /// Sends a pending request once more.
  void send_again(const Member& member, const Outbox::Request& request) {
    send(member.peer, request.body, next_request(), request.values);
  }
  /// Repeats the requests that are due.
  void repeat(Outbox& outbox, Membership& members) {
    outbox.tick(now_ns(), [&](wire::Role role, Incarnation to, uint32_t thread,
                              const Outbox::Request& request) {
      const Member* member = members.find(role, to, thread);
      if (member != nullptr) send_again(*member, request);
    });
  }
  /// Repeats the request to one member, if there is one, because the member has said Hello again.
  void repeat_to(const Member& member, const Outbox& outbox) {
    if (const Outbox::Request* request = outbox.find(member)) send_again(member, *request);
  }
  /// Answers a peer that may not be a member. Only a peer that names the run learns the run and the
  /// view.
  void reply(PeerKey peer, const wire::Envelope& to, wire::Body body) {
    if (to.run == state_.config.run) return send(peer, std::move(body), to.request);
    emit(Send{.peer = peer,
              .message = {.envelope = {.request = to.request}, .body = std::move(body)}});
  }
  /// Logs how many lines the log budget has withheld, from time to time.
  void log_withheld() {
    if (const auto withheld = state_.log_budget.report(now_ns()))
      log(event("lines_withheld").add("lines", *withheld));
  }

 private:
  TurnState& state_;
  Effects& effects_;
};

}  // namespace downpour::chief
