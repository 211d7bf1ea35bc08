#include "ps/core/table.h"

#include <cmath>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "shared/optim/initializer.h"

namespace downpour::ps {
namespace {

constexpr uint32_t kBits = 3;  // 8 partitions
constexpr uint64_t kSeed = 42;
using Keys = std::vector<uint64_t>;
using Floats = std::vector<float>;

VariableSpec variable(const std::string& name, uint32_t dim, OptimizerType type,
                      float rate = 0.1F) {
  VariableSpec v{.name = name, .dim = dim};
  v.init = {.type = InitType::kNormal, .scale = 0.5F};
  v.optimizer.type = type;
  v.optimizer.learning_rate = rate;
  return v;
}
TableSpec two_members() {
  return {.name = "ids",
          .table_variables = {variable("emb", 16, OptimizerType::kAdagrad),
                              variable("wide", 1, OptimizerType::kFtrl)}};
}
TableSpec dense(uint32_t elements, OptimizerType type = OptimizerType::kSgd) {
  VariableSpec v = variable("kernel", 0, type, 1.0F);
  v.shape = {elements};
  return {.name = "kernel", .kind = TableKind::kDense, .table_variables = {v}};
}

Floats pull(const Table& table, const Keys& keys, std::vector<uint32_t>* rows = nullptr) {
  Floats values(table.value_floats(keys.data(), keys.size()));
  if (rows != nullptr) rows->resize(keys.size());
  table.pull(keys.data(), keys.size(), values.data(), rows == nullptr ? nullptr : rows->data());
  return values;
}
void apply(Table& table, const Keys& keys, const Floats& gradients,
           const ApplyOptions& options = {}, const uint32_t* rows = nullptr) {
  REQUIRE(gradients.size() == table.value_floats(keys.data(), keys.size()));
  table.apply(keys.data(), keys.size(), rows, gradients.data(), options);
}
Keys random_keys(size_t n, uint64_t seed) {
  Rng rng(seed);
  Keys keys(n);
  for (uint64_t& key : keys) key = rng.next();
  return keys;
}
Floats random_floats(size_t n, uint64_t seed) {
  Rng rng(seed);
  Floats floats(n);
  for (float& f : floats) f = rng.uniform() - 0.5F;
  return floats;
}
PartitionId home_of(const Table& table, uint64_t key) {
  return partition_of(row_hash(table.id(), key), kBits);
}

}  // namespace

TEST_CASE("a pull of unknown keys reads the initializer and stores nothing", "[ps][table]") {
  Table table(TableId{1}, two_members(), kSeed, kBits);
  const Keys keys = {0, UINT64_MAX, 77};
  std::vector<uint32_t> rows;
  const Floats values = pull(table, keys, &rows);
  CHECK(table.rows() == 0);
  CHECK(rows == std::vector<uint32_t>(3, kNoRow));
  Floats want(3 * 17);
  for (size_t i = 0; i < 3; ++i) {
    optim::fill_initial({InitType::kNormal, 0.5F}, optim::variable_seed(kSeed, "emb"), keys[i], 16,
                        &want[i * 16]);
    optim::fill_initial({InitType::kNormal, 0.5F}, optim::variable_seed(kSeed, "wide"), keys[i], 1,
                        &want[48 + i]);
  }
  CHECK(values == want);
  for (uint32_t p = 0; p < 8; ++p) CHECK(table.export_partition(PartitionId(p)).keys.empty());
}

TEST_CASE("the order and the grouping of applies do not change the table", "[ps][table]") {
  Table whole(TableId{1}, two_members(), kSeed, kBits);
  Table pieces(TableId{1}, two_members(), kSeed, kBits);
  const Keys keys = random_keys(500, 1);
  const Floats gradients = random_floats(500 * 17, 2);
  apply(whole, keys, gradients);
  pull(pieces, random_keys(100, 3));  // stores nothing
  for (size_t i = 500; i-- > 0;) {
    Floats one(gradients.begin() + ptrdiff_t(i * 16), gradients.begin() + ptrdiff_t(i * 16 + 16));
    one.push_back(gradients[500 * 16 + i]);
    apply(pieces, {keys[i]}, one);
  }
  CHECK(pull(whole, keys) == pull(pieces, keys));
  for (uint32_t p = 0; p < 8; ++p) {
    CHECK(whole.export_partition(PartitionId(p)) == pieces.export_partition(PartitionId(p)));
  }
}

TEST_CASE("rows are updated as the optimizer says, at any width and any address", "[ps][table]") {
  for (const uint32_t dim : {1U, 5U, 16U, 100U}) {
    Table table(TableId{2},
                {.name = "t", .table_variables = {variable("t", dim, OptimizerType::kSgd, 0.5F)}},
                kSeed, kBits);
    const size_t n = 333;
    const Keys keys = random_keys(n, dim);
    const Floats gradients = random_floats(n * dim, 9);
    Floats want = pull(table, keys);
    for (size_t i = 0; i < want.size(); ++i) want[i] -= 0.5F * gradients[i];
    std::vector<uint8_t> key_bytes(n * 8 + 3), gradient_bytes(n * dim * 4 + 1),
        value_bytes(n * dim * 4 + 2);
    std::memcpy(key_bytes.data() + 3, keys.data(), n * 8);
    std::memcpy(gradient_bytes.data() + 1, gradients.data(), n * dim * 4);
    table.apply(key_bytes.data() + 3, n, nullptr, gradient_bytes.data() + 1, {});
    table.pull(key_bytes.data() + 3, n, value_bytes.data() + 2, nullptr);
    Floats got(n * dim);
    std::memcpy(got.data(), value_bytes.data() + 2, n * dim * 4);
    for (size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == Approx(want[i]).margin(1e-6));
    CHECK(table.rows() == n);
  }
}

TEST_CASE("a model predicts with averages, and training reads weights", "[ps][table]") {
  const auto model_of = [](const Table& table, const Keys& keys) {
    Floats values(table.value_floats(keys.data(), keys.size()));
    table.pull(keys.data(), keys.size(), values.data(), nullptr, Weights::kOfModel);
    return values;
  };
  TableSpec spec = two_members();
  spec.table_variables[1].optimizer.type = OptimizerType::kSgd;
  for (VariableSpec& v : spec.table_variables) v.optimizer.ema = 0.5F;
  TableSpec blocks = dense(5000);
  blocks.table_variables[0].optimizer.ema = 0.5F;
  for (const TableSpec& averaged : {spec, blocks}) {
    Table table(TableId{1}, averaged, kSeed, kBits);
    const Keys keys = averaged.kind == TableKind::kDense ? Keys{1, 0} : random_keys(200, 5);
    const Floats start = pull(table, keys);
    CHECK(model_of(table, keys) == start);
    CHECK(table.rows() == 0);
    apply(table, keys, random_floats(start.size(), 6));
    const Floats first = pull(table, keys);
    apply(table, keys, random_floats(start.size(), 7));
    const Floats second = pull(table, keys);
    const Floats model = model_of(table, keys);
    for (size_t i = 0; i < model.size(); ++i) {
      // The decay of the first update is 2 / 11, and that of the second one 3 / 12.
      const float one = start[i] + 9.0F / 11 * (first[i] - start[i]);
      CHECK(model[i] == Approx(one + 0.75F * (second[i] - one)).margin(1e-6));
    }
    CHECK(model != second);
    Table restored(TableId{1}, averaged, kSeed, kBits);
    for (uint32_t p = 0; p < 8; ++p)
      REQUIRE(restored.import_partition(PartitionId(p), table.export_partition(PartitionId(p))));
    CHECK(model_of(restored, keys) == model);
    CHECK(pull(restored, keys) == second);
    // Without `ema`, a model has the weights themselves.
    TableSpec plain = averaged;
    for (VariableSpec& v : plain.table_variables) v.optimizer.ema = 0;
    Table without(TableId{1}, plain, kSeed, kBits);
    apply(without, keys, random_floats(start.size(), 6));
    CHECK(model_of(without, keys) == first);
  }
}

TEST_CASE("a key that occurs several times in one push gets every gradient", "[ps][table]") {
  Table table(TableId{2},
              {.name = "t", .table_variables = {variable("t", 1, OptimizerType::kSgd, 1.0F)}},
              kSeed, kBits);
  const float start = pull(table, {7})[0];
  apply(table, {7, 8, 7, 7}, {1.0F, 0.0F, 2.0F, 4.0F});
  CHECK(table.rows() == 2);
  CHECK(pull(table, {7})[0] == Approx(start - 7.0F));
}

TEST_CASE("an apply with the rows of a pull has the same result as one with keys", "[ps][table]") {
  Table by_key(TableId{1}, two_members(), kSeed, kBits);
  Table by_row(TableId{1}, two_members(), kSeed, kBits);
  const Keys old_keys = random_keys(300, 5);
  const Floats first = random_floats(300 * 17, 6);
  apply(by_key, old_keys, first);
  apply(by_row, old_keys, first);
  Keys keys = random_keys(200, 7);  // half of the keys have no row yet
  keys.insert(keys.end(), old_keys.begin(), old_keys.begin() + 200);
  keys.push_back(keys[0]);
  std::vector<uint32_t> rows;
  pull(by_row, keys, &rows);
  apply(by_row, random_keys(40'000, 8),
        Floats(40'000 * 17));  // the index and the arenas grow in the meantime
  const Floats second = random_floats(keys.size() * 17, 9);
  apply(by_key, keys, second);
  apply(by_row, keys, second, {}, rows.data());
  CHECK(pull(by_key, keys) == pull(by_row, keys));
}

TEST_CASE("keys of partitions that are not admitted are skipped", "[ps][table]") {
  Table table(TableId{1}, two_members(), kSeed, kBits);
  const Keys keys = random_keys(200, 5);
  const Floats before = pull(table, keys);
  const uint8_t admitted[8] = {0, 1, 1, 0, 1, 0, 0, 1};
  apply(table, keys, Floats(200 * 17, 1.0F), {.admitted = admitted});
  std::vector<uint32_t> rows;
  const Floats after = pull(table, keys, &rows);
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool was = admitted[raw(home_of(table, keys[i]))] != 0;
    REQUIRE((rows[i] != kNoRow) == was);
    REQUIRE((after[i * 16] != before[i * 16]) == was);
    REQUIRE((after[200 * 16 + i] != before[200 * 16 + i]) == was);
  }
}

TEST_CASE("Adam uses each partition's own step number", "[ps][table]") {
  Table table(TableId{1},
              {.name = "t", .table_variables = {variable("t", 16, OptimizerType::kAdam, 0.01F)}},
              kSeed, kBits);
  const Keys keys = random_keys(100, 5);
  const Floats before = pull(table, keys);
  const uint64_t steps[8] = {1, 2, 3, 4, 5, 100, 1000, 17};
  apply(table, keys, Floats(1600, 1.0F), {.steps = steps});
  const Floats after = pull(table, keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    const double t = double(steps[raw(home_of(table, keys[i]))]);
    const double rate = 0.01 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
    const double want = double(before[i * 16]) - rate * 0.1 / (std::sqrt(0.001) + 1e-7);
    REQUIRE(double(after[i * 16]) == Approx(want).margin(1e-5));
  }
}

TEST_CASE("keys_in is true only where every key's partition is owned", "[ps][table]") {
  const Table table(TableId{1}, two_members(), kSeed, kBits);
  const Keys keys = random_keys(64, 5);
  uint8_t owned[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  CHECK(table.keys_in(keys.data(), 64, owned));
  CHECK(table.keys_in(nullptr, 0, owned));
  owned[raw(home_of(table, keys[63]))] = 0;
  CHECK_FALSE(table.keys_in(keys.data(), 64, owned));
  CHECK_FALSE(table.keys_in(&keys[63], 1, owned));
}

TEST_CASE("an imported partition equals the exported one, bit for bit", "[ps][table]") {
  Table source(TableId{1}, two_members(), kSeed, kBits);
  Table target(TableId{1}, two_members(), 99, kBits);  // another seed: no value may come from it
  const Keys keys = random_keys(5000, 5);
  apply(source, keys, random_floats(5000 * 17, 6));
  apply(target, random_keys(1000, 77), random_floats(1000 * 17, 6));  // will be replaced
  for (uint32_t p = 0; p < 8; ++p) {
    const auto image = source.export_partition(PartitionId(p));
    REQUIRE(image.keys.size() > 400);
    REQUIRE(image.table_variables[0].size() == image.keys.size() * 32);
    REQUIRE(image.table_variables[1].size() == image.keys.size() * 3);
    REQUIRE(target.import_partition(PartitionId(p), image));
    REQUIRE(target.export_partition(PartitionId(p)) == image);
  }
  CHECK(target.rows() == 5000);
  apply(source, keys, random_floats(5000 * 17, 8));
  apply(target, keys, random_floats(5000 * 17, 8));
  CHECK(pull(source, keys) == pull(target, keys));
}

TEST_CASE("a dropped partition is empty, its rows are reused, and other partitions keep theirs",
          "[ps][table]") {
  Table table(TableId{1}, two_members(), kSeed, kBits);
  const Keys keys = random_keys(4000, 5);
  const Floats fresh = pull(table, keys);
  apply(table, keys, random_floats(4000 * 17, 6));
  const auto kept = table.export_partition(PartitionId{2});
  const uint64_t bytes = table.memory().row_bytes;
  table.drop_partition(PartitionId{5});
  CHECK(table.export_partition(PartitionId{5}).keys.empty());
  CHECK(table.export_partition(PartitionId{2}) == kept);
  CHECK(table.rows() < 4000);
  std::vector<uint32_t> rows;
  const Floats after = pull(table, keys, &rows);
  Keys dropped;
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool gone = home_of(table, keys[i]) == PartitionId{5};
    REQUIRE((rows[i] == kNoRow) == gone);
    if (gone) REQUIRE(after[i * 16] == fresh[i * 16]);
    if (gone) dropped.push_back(keys[i]);
  }
  apply(table, dropped, Floats(dropped.size() * 17, 1.0F));
  CHECK(table.rows() == 4000);
  CHECK(table.memory().row_bytes == bytes);
}

TEST_CASE("an image that does not fit the table is refused and changes nothing", "[ps][table]") {
  Table table(TableId{1}, two_members(), kSeed, kBits);
  apply(table, random_keys(500, 5), random_floats(500 * 17, 6));
  const PartitionId partition{3};
  const auto good = table.export_partition(partition);
  const auto refused = [&](checkpoint::TableImage image, const std::string& why) {
    const auto result = table.import_partition(partition, image);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == ErrorCode::kBadData);
    CHECK_THAT(result.error().what, Catch::Contains("ids") && Catch::Contains(why));
    CHECK(table.export_partition(partition) == good);
  };
  auto image = good;
  image.table = TableId{2};
  refused(image, "table 2");
  image = good;
  std::swap(image.keys[0], image.keys[1]);
  refused(image, "out of order");
  image = good;
  image.keys[1] = image.keys[0];
  refused(image, "out of order");
  image = good;
  image.table_variables[1].pop_back();
  refused(image, "wide has");
  image = good;
  image.table_variables.pop_back();
  refused(image, "variables");
  refused(table.export_partition(PartitionId{4}), "another partition");
}

TEST_CASE("a dense variable is pulled and updated block by block", "[ps][table]") {
  const uint32_t elements = 2 * kDenseBlockFloats + 10;
  Table table(TableId{6}, dense(elements), kSeed, kBits);
  const Keys keys = {2, 0, 1};
  CHECK(table.value_floats(keys.data(), 3) == elements);
  std::vector<uint32_t> rows;
  Floats want = pull(table, keys, &rows);
  CHECK(table.rows() == 0);
  CHECK(rows == std::vector<uint32_t>(3, kNoRow));
  CHECK(want[0] != want[10]);
  const Floats gradients = random_floats(10 + kDenseBlockFloats, 3);
  apply(table, {2, 0}, gradients);
  for (size_t i = 0; i < gradients.size(); ++i) want[i] -= gradients[i];
  CHECK(pull(table, keys) == want);
  CHECK(table.rows() == 2);  // block 1 was not applied to
  uint8_t owned[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  const Keys outside = {0, 3};
  CHECK(table.keys_in(keys.data(), 3, owned));
  CHECK_FALSE(table.keys_in(outside.data(), 2, owned));
}

TEST_CASE("dense blocks are exported, imported and dropped with their partition", "[ps][table]") {
  const uint32_t blocks = 40;
  const uint32_t elements = blocks * kDenseBlockFloats - 100;
  Table source(TableId{6}, dense(elements, OptimizerType::kAdam), kSeed, kBits);
  Table target(TableId{6}, dense(elements, OptimizerType::kAdam), 1, kBits);
  const uint64_t steps[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  Keys keys(blocks);
  for (uint32_t k = 0; k < blocks; ++k) keys[k] = blocks - 1 - k;
  uint8_t admitted[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  apply(source, keys, random_floats(elements, 3), {.steps = steps});
  uint64_t stored = 0;
  for (uint32_t p = 0; p < 8; ++p) {
    const auto image = source.export_partition(PartitionId(p));
    stored += image.keys.size();
    REQUIRE(target.import_partition(PartitionId(p), image));
    REQUIRE(target.export_partition(PartitionId(p)) == image);
    auto bad = image;
    if (bad.keys.empty()) continue;
    bad.table_variables[0].push_back(0);
    REQUIRE_FALSE(target.import_partition(PartitionId(p), bad).has_value());
    bad = image;
    bad.keys.back() = blocks;
    REQUIRE_FALSE(target.import_partition(PartitionId(p), bad).has_value());
  }
  CHECK(stored == blocks);
  CHECK(pull(source, keys) == pull(target, keys));
  target.drop_partition(home_of(target, 4));
  CHECK(target.rows() == blocks - source.export_partition(home_of(source, 4)).keys.size());
  admitted[raw(home_of(target, 4))] = 0;
  apply(target, {4}, Floats(kDenseBlockFloats, 1.0F), {.admitted = admitted, .steps = steps});
  CHECK(target.export_partition(home_of(target, 4)).keys.empty());
}

}  // namespace downpour::ps
