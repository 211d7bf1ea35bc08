#include "worker/runtime/connections.h"

#include "shared/transport/endpoint.h"
#include "tests/shared/transport/mailbox.h"
#include "worker/core/pull_plan.h"

namespace downpour::worker {
namespace {

TEST_CASE("a worker reaches the ps of its process without a socket, and others at their endpoints",
          "[worker]") {
  const Incarnation own{7};
  transport::Mailbox beside, elsewhere, self;
  wire::View view{.id = {1, 1}};
  for (const uint32_t thread : {0U, 1U}) {
    transport::bound(beside, transport::thread_endpoint(own, thread));
    // A process cannot reach its own ps here.
    view.owners.push_back({.thread = thread, .incarnation = own, .endpoint = "tcp://127.0.0.1:1"});
  }
  view.owners.push_back({.index = 1,
                         .incarnation = Incarnation{8},
                         .endpoint = transport::bound(elsewhere, "tcp://127.0.0.1:*")});
  Connections connections(*self.transport, "tcp://127.0.0.1:2", own, {});
  connections.connect_owners(view);
  for (const wire::Owner& owner : view.owners) {
    const transport::PeerId* const peer = connections.find_peer(address_of(owner));
    REQUIRE(peer != nullptr);
    CHECK(self.transport->send(*peer, {.body = wire::Sealed{owner.thread}}) ==
          transport::SendStatus::kSent);
  }
  const auto poll_all = [&](transport::Mailbox& mailbox, size_t count) {
    return mailbox.wait_until([&] {
      self.poll(0);
      return mailbox.received.size() >= count;
    });
  };
  CHECK(poll_all(beside, 2));
  CHECK(poll_all(elsewhere, 1));
}

TEST_CASE("a ps that is asked and never answers is reported once", "[worker]") {
  constexpr int64_t kLater = 2 * Connections::kSilentNs;
  transport::Mailbox self;
  wire::View view{.id = {1, 1}};
  for (const uint64_t ps : {8U, 9U, 10U})
    view.owners.push_back({.index = uint32_t(ps),
                           .incarnation = Incarnation{ps},
                           .endpoint = str("tcp://127.0.0.1:", ps)});
  std::vector<std::string> lines;
  Connections connections(*self.transport, "tcp://127.0.0.1:2", {},
                          [&](const std::string& line) { lines.push_back(line); });
  connections.connect_owners(view);
  connections.on_sent(0, address_of(view.owners[0]));
  connections.on_sent(kLater, address_of(view.owners[0]));
  connections.on_sent(0, address_of(view.owners[1]));
  connections.on_received(address_of(view.owners[1]));
  connections.report_silent(Connections::kSilentNs - 1);
  CHECK(lines.empty());
  connections.report_silent(kLater);
  connections.report_silent(2 * kLater);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("ps 8 at tcp://127.0.0.1:8 has not answered for 15 s"));
}

}  // namespace
}  // namespace downpour::worker
