// Arena: growth of sparsely touched rows far beyond the first reservation, and with limited address
// space.
#include "ps/core/arena.h"

#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "ps/core/table.h"
#include "shared/base/hash.h"
#include "shared/base/units.h"
#include "tests/support/seeds.h"

namespace downpour::ps {
namespace {

// A row of 1 MiB. Few rows are touched.
constexpr uint32_t kRowFloats = uint32_t(kMiB / sizeof(float));

/// Advises huge pages for the middle of each large range, which cuts the mapping into many.
struct Advising final : Prefault {
  size_t advised = 0, forgotten = 0;
  void ask(void* begin, size_t bytes, bool huge_pages) override {
    if (huge_pages && bytes > 4 * kMiB) {
      ++advised;
      ::madvise(static_cast<uint8_t*>(begin) + 2 * kMiB, bytes - 4 * kMiB, MADV_HUGEPAGE);
    }
  }
  void forget(void*, size_t) override { ++forgotten; }
};

/// Writes one number into each of a few rows of [begin, end), and remembers the rows.
struct Sparse {
  Arena& arena;
  std::vector<uint32_t> rows = {};
  void write(uint64_t begin, uint64_t end) {
    for (uint64_t row = begin; row < end; row += 197) {
      arena.row(uint32_t(row))[row % kRowFloats] = float(row + 1);
      rows.push_back(uint32_t(row));
    }
  }
  bool all_there() const {
    for (const uint32_t row : rows) {
      if (arena.row(row)[row % kRowFloats] != float(row + 1)) return false;
    }
    return true;
  }
};

/// Runs `body` in a child process. Returns true if it returned true there.
bool in_child(const std::function<bool()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Limits the address space of this process to `free_bytes` more than it uses now.
void limit_address_space(uint64_t free_bytes) {
  uint64_t pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const uint64_t bytes = pages * uint64_t(::sysconf(_SC_PAGESIZE)) + free_bytes;
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST_CASE("an arena keeps its rows while it grows past 8 GiB", "[ps][arena]") {
  Advising advising;
  for (Prefault* const prefault : std::initializer_list<Prefault*>{&advising, nullptr}) {
    Arena arena(kRowFloats);
    arena.configure({.prefault = prefault});
    Sparse sparse{arena};
    uint64_t rows = 0;
    // The arena reserves 4 GiB first, then 128 GiB, then 4 TiB.
    for (const uint64_t end : {100, 1000, 3000, 4000, 5000, 9000, 12'000, 140'000}) {
      arena.ensure(end);
      if (end <= 12'000) sparse.write(rows, end);
      rows = end;
      REQUIRE(sparse.all_there());
    }
  }
  CHECK(advising.advised > 4);
  CHECK(advising.forgotten >= 2);
}

TEST_CASE("an arena keeps its rows when the system refuses more memory", "[ps][arena]") {
  if (testing::kSanitized) return;  // the sanitizer reserves address space beyond any limit
  Advising advising;
  for (const bool reserves : {false, true}) {
    CHECK(in_child([&] {
      Arena arena(kRowFloats);
      arena.configure({.prefault = &advising, .reserves = reserves});
      Sparse sparse{arena};
      limit_address_space(kGiB);
      // Without reservations 7/8 of the limit are usable. With them, growth needs room for the old
      // and the new mapping.
      const uint64_t fits = reserves ? 300 : 890;
      for (uint64_t rows = 1; rows <= fits; ++rows) {
        if (!arena.reserve(rows)) return false;
        arena.ensure(rows);
      }
      sparse.write(0, fits);
      return !arena.reserve(1100) && !arena.reserve(100'000) && sparse.all_there() &&
             arena.reserve(fits);
    }));
  }
}

TEST_CASE("with limited address space a table grows until reserve() refuses", "[ps][arena]") {
  if (testing::kSanitized) return;
  CHECK(in_child([] {
    VariableSpec variable{.name = "v", .dim = 16};
    variable.optimizer.type = OptimizerType::kAdagrad;
    Table table(TableId{1}, {.name = "t", .table_variables = {variable}}, 1, 8,
                {.reserves = false});
    constexpr uint64_t kKeys = 10'000;
    const std::vector<float> gradients(kKeys * 16, 1.0F);
    std::vector<uint64_t> keys(kKeys);
    limit_address_space(256 * kMiB);
    uint64_t key = 0;
    while (table.reserve(kKeys) && key < 100'000'000) {
      for (uint64_t& k : keys) k = mix64(key++);
      table.apply(keys.data(), kKeys, nullptr, gradients.data(), {});
    }
    const TableMemory memory = table.memory();
    return table.rows() == key && memory.row_bytes + memory.index_bytes > 160 * kMiB;
  }));
}

}  // namespace
}  // namespace downpour::ps
