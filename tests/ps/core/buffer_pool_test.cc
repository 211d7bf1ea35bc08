#include "ps/core/buffer_pool.h"

#include <algorithm>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

namespace downpour::ps {
namespace {

TEST_CASE("a pool makes no more buffers than are in flight at once", "[ps][core]") {
  BufferPool pool(256);
  std::set<const void*> used;
  for (int i = 0; i < 100; ++i) {
    const BufferPool::Buffer first = pool.take(100, 1), second = pool.take(5000, 1);
    used.insert(first.memory.get());
    used.insert(second.memory.get());
  }
  CHECK(used.size() <= 3);  // the first buffer grows once
  BufferPool::Buffer held = pool.take(100, 1);
  const void* const memory = held.memory.get();
  CHECK(pool.take(100, 1).memory.get() != memory);
  held = {};
  CHECK(pool.take(100, 1).memory.get() == memory);
}

TEST_CASE("no taker gets more buffers than are left for the others", "[ps][core]") {
  BufferPool pool(8);
  std::vector<BufferPool::Buffer> held;
  for (int i = 0; i < 8; ++i) held.push_back(pool.take(10, 1));
  const auto refused =
      std::ranges::count_if(held, [](const auto& buffer) { return buffer.memory == nullptr; });
  CHECK(refused >= 3);
  CHECK(pool.take(10, 2).memory != nullptr);
}

}  // namespace
}  // namespace downpour::ps
