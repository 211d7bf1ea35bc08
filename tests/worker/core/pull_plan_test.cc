#include "worker/core/pull_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "shared/base/hash.h"
#include "shared/base/rng.h"

namespace downpour::worker {
namespace {

std::vector<TableSpec> two_tables_and_a_kernel() {
  TableSpec deep{.name = "emb",
                 .table_variables = {{.name = "emb", .dim = 16}, {.name = "wide", .dim = 1}}};
  TableSpec other{.name = "tags", .table_variables = {{.name = "tags", .dim = 4}}};
  TableSpec kernel{.name = "kernel",
                   .kind = TableKind::kDense,
                   .table_variables = {{.name = "kernel", .shape = {100, 100}}}};
  return {deep, kernel, other};
}

wire::View view_of(uint32_t owners, uint32_t partitions) {
  wire::View view{.id = {1, 1}};
  for (uint32_t o = 0; o < owners; ++o)
    view.owners.push_back({.index = o, .incarnation = Incarnation{o + 10}});
  for (uint32_t p = 0; p < partitions; ++p)
    view.partitions.push_back({p * owners / partitions, {1, 1}});
  return view;
}

Batch batch_of(size_t keys, uint64_t seed) {
  Rng rng(seed);
  Batch batch;
  batch.tables = {{TableId{0}, {}}, {TableId{2}, {}}};
  for (size_t i = 0; i < keys; ++i) batch.tables[0].keys.push_back(rng.next());
  for (size_t i = 0; i < keys / 3; ++i) batch.tables[1].keys.push_back(rng.next());
  for (uint32_t t = 0; t < 2; ++t) {
    BagColumn bag{.table_index = t};
    for (size_t i = 0; i < 2 * keys; ++i)
      bag.keys.push_back(uint32_t(rng.below(std::max<size_t>(batch.tables[t].keys.size(), 1))));
    if (!batch.tables[t].keys.empty()) batch.bags.push_back(std::move(bag));
  }
  return batch;
}

std::vector<uint64_t> bag_keys(const Batch& batch) {
  std::vector<uint64_t> keys;
  for (const BagColumn& bag : batch.bags) {
    for (const uint32_t k : bag.keys) keys.push_back(batch.tables[bag.table_index].keys[k]);
  }
  return keys;
}

void check_plan(const std::vector<TableSpec>& tables, const PullPlan& plan, const Batch& batch,
                uint64_t bytes_max) {
  const uint32_t bits = plan.placements->partition_bits;
  std::map<uint32_t, std::multiset<uint64_t>> sent;
  std::map<uint32_t, int> covered;  // partition -> number of groups that cover it
  for (const PartMessage& message : plan.messages) {
    uint64_t at = 0;
    uint64_t bytes = 0;
    for (const SectionRange& section : message.sections) {
      for (uint32_t i = 0; i < section.count; ++i, ++at) {
        const auto key = message.keys.load<uint64_t>(at);
        const PartitionId p =
            partition_of(row_hash(section.table, key, tables[raw(section.table)].group), bits);
        REQUIRE(message.covered.contains(p));
        REQUIRE(plan.placements->view.partitions[raw(p)].owner == message.owner);
        for (size_t m = 0; m < tables[raw(section.table)].table_variables.size(); ++m)
          bytes += 4 * tables[raw(section.table)].row_floats(m, key);
        sent[raw(section.table)].insert(key);
      }
    }
    CHECK(bytes == message.value_bytes);
    CHECK(bytes <= bytes_max);
    CHECK(message.keys.size() <= bytes_max);
    CHECK(message.keys.count<uint64_t>() == at);
    if (message.fragment == 0) message.covered.for_each([&](PartitionId p) { ++covered[raw(p)]; });
  }
  for (uint32_t p = 0; p < plan.placements->view.partitions.size(); ++p) CHECK(covered[p] == 1);
  for (const TableKeys& table : batch.tables) {
    CHECK(sent[raw(table.table)] == std::multiset<uint64_t>(table.keys.begin(), table.keys.end()));
  }
  CHECK(sent[1].size() == tables[1].block_count());
}

TEST_CASE("with one owner and one frame nothing moves", "[worker]") {
  const auto tables = two_tables_and_a_kernel();
  Batch batch = batch_of(100, 1);
  const auto before = batch.tables[0].keys;
  const PullPlan plan = make_pull_plan(tables, Placements::of(view_of(1, 16)), 1 << 20, batch);
  REQUIRE(plan.messages.size() == 1);
  CHECK(batch.tables[0].keys == before);
  check_plan(tables, plan, batch, 1 << 20);
}

TEST_CASE("with groups, each message has keys and partitions of one of them", "[worker]") {
  auto tables = two_tables_and_a_kernel();
  for (TableSpec& table : tables)
    table.group = table.kind == TableKind::kDense ? RowGroup::kSync : RowGroup::kAsync;
  for (const uint32_t owners : {1U, 2U, 7U}) {
    for (const uint64_t bytes_max : {uint64_t{64} << 10, uint64_t{1} << 20}) {
      Batch batch = batch_of(500, owners);
      const auto before = bag_keys(batch);
      const auto ordered = batch.tables[0].keys;
      const PullPlan plan =
          make_pull_plan(tables, Placements::of(view_of(owners, 64)), bytes_max, batch);
      check_plan(tables, plan, batch, bytes_max);
      CHECK(bag_keys(batch) == before);
      for (const PartMessage& message : plan.messages) {
        message.covered.for_each(
            [&](PartitionId p) { CHECK(message.of_step == (group_of(p, 64) == RowGroup::kSync)); });
        for (const SectionRange& section : message.sections)
          CHECK(message.of_step == (tables[raw(section.table)].group == RowGroup::kSync));
      }
      if (owners > 1 || bytes_max < uint64_t{1} << 20) continue;
      CHECK(plan.messages.size() == 2);
      CHECK(batch.tables[0].keys == ordered);  // nothing moves
    }
  }
}

TEST_CASE("every key travels once, to its owner, in a message that covers it, and bags follow",
          "[worker]") {
  const auto tables = two_tables_and_a_kernel();
  for (const uint32_t owners : {1U, 2U, 3U, 7U}) {
    for (const size_t keys : {size_t{0}, size_t{1}, size_t{50}, size_t{5000}}) {
      Batch batch = batch_of(keys, keys + owners);
      const auto before = bag_keys(batch);
      // 64 KiB: blocks of 16 KB must fit, and 5,000 keys need several messages per owner.
      const PullPlan plan =
          make_pull_plan(tables, Placements::of(view_of(owners, 64)), 64 << 10, batch);
      check_plan(tables, plan, batch, 64 << 10);
      CHECK(bag_keys(batch) == before);
    }
  }
}

TEST_CASE("a partition larger than a frame travels in fragments of one covered set", "[worker]") {
  const auto tables = two_tables_and_a_kernel();
  Batch batch = batch_of(20000, 3);
  const auto before = bag_keys(batch);
  const PullPlan plan = make_pull_plan(tables, Placements::of(view_of(2, 2)), 64 << 10, batch);
  check_plan(tables, plan, batch, 64 << 10);
  CHECK(bag_keys(batch) == before);
  CHECK(std::all_of(plan.messages.begin(), plan.messages.end(),
                    [](const PartMessage& m) { return m.fragments > 1 && m.covered.size() == 1; }));
}

TEST_CASE("a plan can be made again for another view", "[worker]") {
  const auto tables = two_tables_and_a_kernel();
  Batch batch = batch_of(3000, 4);
  const auto before = bag_keys(batch);
  (void)make_pull_plan(tables, Placements::of(view_of(3, 64)), 64 << 10, batch);
  const PullPlan plan = make_pull_plan(tables, Placements::of(view_of(2, 64)), 64 << 10, batch);
  check_plan(tables, plan, batch, 64 << 10);
  CHECK(bag_keys(batch) == before);
}

TEST_CASE("an invalid view gives no placements", "[worker]") {
  CHECK(Placements::of(wire::View{}) == nullptr);
  wire::View odd = view_of(2, 16);
  odd.partitions.resize(15);
  CHECK(Placements::of(odd) == nullptr);
  wire::View nobody = view_of(2, 16);
  nobody.partitions[3].owner = UINT32_MAX;
  CHECK(Placements::of(nobody) == nullptr);
}

}  // namespace
}  // namespace downpour::worker
