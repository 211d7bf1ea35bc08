#include "chief/runtime/average_images.h"

#include <array>

#include "shared/optim/optimizer.h"
#include "tests/shared/checkpoint/support.h"

namespace downpour::chief {
namespace {

using namespace checkpoint;  // NOLINT: images and their test data

using Catch::Matchers::Contains;
constexpr std::array kShares = {0.75, 0.25};

/// Returns an image with these embedding rows. Weight i of a row is `weight` + i; slots are 9.
PartitionImage image_of(const std::vector<uint64_t>& keys, float weight) {
  PartitionImage image{.partition = PartitionId(3), .version = 7, .sealed_epochs = 2};
  TableImage table{.table = TableId{0}, .keys = {keys.begin(), keys.end()}};
  table.table_variables.resize(2);
  for (size_t r = 0; r < keys.size(); ++r) {
    for (const float value : {weight, 9.0F, 9.0F}) table.table_variables[0].push_back(value);
    for (int i = 0; i < 8; ++i)
      table.table_variables[1].push_back(i < 4 ? weight + float(i) : 9.0F);
  }
  image.tables.push_back(std::move(table));
  return image;
}

}  // namespace

TEST_CASE("average_images: a weight is the mean of the models that have its row", "[chief]") {
  const std::array images = {image_of({1, 5, 8}, 10), image_of({2, 5}, 20)};
  const PartitionImage mean = average_images(images, kShares, test_tables()).value();
  REQUIRE(mean.tables.size() == 1);
  const TableImage& table = mean.tables[0];
  CHECK(table.keys == PageVector<uint64_t>{1, 2, 5, 8});
  const auto deep = [&](size_t row, size_t i) { return table.table_variables[1][row * 8 + i]; };
  for (size_t i = 0; i < 4; ++i) {
    CHECK(deep(0, i) == 10 + float(i));
    CHECK(deep(1, i) == 20 + float(i));
    CHECK(deep(2, i) == 12.5F + float(i));  // .75 x 10 + .25 x 20
    CHECK(deep(3, i) == 10 + float(i));
  }
}

TEST_CASE("average_images: the slots and the state of training start anew", "[chief]") {
  const std::array images = {image_of({5}, 10), image_of({5}, 20)};
  const std::vector<TableSpec> tables = test_tables();
  const PartitionImage mean = average_images(images, kShares, tables).value();
  CHECK(mean.partition == PartitionId(3));
  CHECK(mean.version == 0);
  CHECK(mean.sealed_epochs == 0);
  for (size_t m = 0; m < 2; ++m) {
    const VariableSpec& variable = tables[0].table_variables[m];
    std::vector<float> row(optim::stored_floats(variable.optimizer, variable.dim));
    for (uint32_t i = 0; i < variable.dim; ++i) row[i] = 12.5F + float(i);
    optim::start_slots(variable.optimizer, variable.dim, row.data());
    CHECK(std::vector<float>(mean.tables[0].table_variables[m].begin(),
                             mean.tables[0].table_variables[m].end()) == row);
  }
}

TEST_CASE("average_images: blocks of a dense variable, also the short last one", "[chief]") {
  const std::array images = {random_image(0, 50, 1), random_image(0, 70, 2)};
  const PartitionImage mean = average_images(images, kShares, test_tables()).value();
  const auto dense = [](const PartitionImage& image) -> const TableImage& {
    return image.tables.back();
  };
  for (size_t k = 0, at = 0; k < dense(mean).keys.size(); ++k) {
    const uint64_t key = dense(mean).keys[k];
    const uint32_t floats = test_tables()[1].row_floats(0, key);
    double wanted = 0, total = 0;
    for (size_t i = 0; i < images.size(); ++i) {
      size_t begin = 0;
      for (const uint64_t other : dense(images[i]).keys) {
        if (other == key) {
          wanted += kShares[i] * double(dense(images[i]).table_variables[0][begin]);
          total += kShares[i];
        }
        begin += test_tables()[1].row_floats(0, other);
      }
    }
    CHECK(dense(mean).table_variables[0][at] == Approx(wanted / total).margin(1e-6));
    at += floats;
  }
}

TEST_CASE("average_images: rows with the slots of another optimizer are refused", "[chief]") {
  std::array images = {image_of({1, 5}, 10), image_of({2, 5}, 20)};
  PageVector<float>& wide = images[1].tables[0].table_variables[0];
  wide.resize(4);  // 2 floats per weight; FTRL has 3
  const auto mean = average_images(images, kShares, test_tables());
  REQUIRE_FALSE(mean);
  CHECK(mean.error().code == ErrorCode::kBadData);
  CHECK_THAT(mean.error().what, Contains("variable wide stores 2 floats per weight"));
}

}  // namespace downpour::chief
