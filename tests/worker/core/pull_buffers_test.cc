// Pulled values that share buffers with a ps in the same process.
#include <cstring>

#include "tests/worker/core/worker_harness.h"

namespace downpour::worker {
namespace {

TEST_CASE("a worker returns the buffers of a ps while it waits for an overloaded ps", "[worker]") {
  BegunHarness h;
  const auto pulls = h.pull(0);
  REQUIRE(pulls.size() == 2);
  uint32_t keys = 0;
  for (const auto& section : std::get<wire::Pull>(pulls[0].message.body).sections)
    keys += section.keys;
  auto buffer = std::make_shared<std::vector<float>>(keys, 0.5F);
  h.from(pulls[0].to, wire::PullReply{}, pulls[0].message.envelope.request,
         Bytes(buffer, reinterpret_cast<const uint8_t*>(buffer->data()), keys * sizeof(float)));
  CHECK(buffer.use_count() == 2);  // one process: the values are not copied
  h.from(pulls[1].to, wire::PullReply{.status = wire::PullStatus::kOverloaded},
         pulls[1].message.envelope.request);
  CHECK(buffer.use_count() == 1);
  h.tick(kSecond);
  h.answer_pulls(h.sends_of<wire::Pull>());
  REQUIRE(h.fx.computes.size() == 1);
  const Bytes& values = h.fx.computes[0].values[0];
  CHECK(values.size() == keys * sizeof(float));
  CHECK(std::memcmp(values.data(), buffer->data(), values.size()) == 0);
}

}  // namespace
}  // namespace downpour::worker
