// The C interface: columns, training, models and errors, as a C program uses them.
#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tools/capi/downpour.h"

// As the specification gives them (https://arrow.apache.org/docs/format/CDataInterface.html).
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  ArrowSchema **children, *dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray **children, *dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

namespace {

using Catch::Contains;

dp_column numbers(const char* name, const std::vector<float>& values) {
  dp_column column{};
  column.struct_size = sizeof column;
  column.name = name;
  column.kind = DP_NUMBERS;
  column.type = "<f4";
  column.values = values.data();
  column.stride = 4;
  column.width = 1;
  return column;
}

std::string last_what() {
  dp_error error{};
  error.struct_size = sizeof error;
  dp_last_error(&error);
  return error.what;
}

struct Data {
  explicit Data(size_t rows) {
    for (size_t i = 0; i < rows; ++i) {
      x.push_back(float(i % 100) / 100);
      label.push_back(i % 100 >= 50 ? 1.0F : 0.0F);
    }
    const dp_column columns[] = {numbers("x", x), numbers("label", label)};
    REQUIRE(dp_table_create(rows, columns, 2, &table) == 0);
  }
  ~Data() { dp_table_free(table); }
  std::vector<float> x, label;
  dp_table* table = nullptr;
};

dp_training training_for(const Data& data, const std::vector<const char*>& settings) {
  dp_training training{};
  training.struct_size = sizeof training;
  training.data = data.table;
  training.settings = settings.data();
  training.setting_count = settings.size();
  training.threads = 1;
  return training;
}

TEST_CASE("capi: trains, describes, predicts, and stores a model", "[capi]") {
  const Data data(2'000);
  CHECK(dp_table_rows(data.table) == 2'000);
  CHECK_THAT(dp_table_name(data.table), Catch::StartsWith("memory:"));
  const std::vector<const char*> settings = {"eval.holdout=0", "train.epochs=20"};
  dp_training training = training_for(data, settings);
  struct Seen {
    int calls = 0;
    std::string last;
  } seen;
  training.user = &seen;
  training.on_progress = [](const char* json, void* user) {
    auto* const to = static_cast<Seen*>(user);
    ++to->calls;
    to->last = json;
    return 0;
  };
  dp_model* model = nullptr;
  if (dp_train(&training, &model) != 0) FAIL(last_what());
  CHECK(seen.calls > 0);
  CHECK_THAT(seen.last, Contains("\"records_per_second\""));
  const std::string about = dp_model_describe(model);
  CHECK_THAT(about, Contains("\"columns\":[{\"name\":\"x\",\"field\":\"x\",\"type\":\"number\"}"));
  CHECK_THAT(about, Contains("\"loss\":\"logistic\""));
  CHECK_THAT(about, Contains("\"epoch\":20"));
  REQUIRE(dp_model_row_floats(model) == 1);
  std::vector<float> out(2'000), again(2'000);
  REQUIRE(dp_predict(model, data.table, 1, out.data(), out.size()) == 0);
  CHECK(out[10] < 0.2F);
  CHECK(out[90] > 0.8F);

  void* bytes = nullptr;
  size_t size = 0;
  REQUIRE(dp_model_to_bytes(model, &bytes, &size) == 0);
  dp_model* copy = nullptr;
  REQUIRE(dp_model_from_bytes(bytes, size, &copy) == 0);
  REQUIRE(dp_predict(copy, data.table, 2, again.data(), again.size()) == 0);
  CHECK(std::memcmp(out.data(), again.data(), out.size() * sizeof(float)) == 0);
  CHECK(dp_model_from_bytes(bytes, size - 1, &copy) == 65);
  CHECK(dp_predict(model, data.table, 1, out.data(), out.size() - 1) == 64);
  dp_free(bytes);
  dp_model_free(copy);
  dp_model_free(model);
}

TEST_CASE("capi: errors say what is wrong with a column or a setting", "[capi]") {
  const std::vector<float> values = {1, 2};
  dp_table* table = nullptr;
  dp_column column = numbers("x", values);
  column.type = "<c8";
  CHECK(dp_table_create(2, &column, 1, &table) == 65);
  CHECK_THAT(last_what(), Contains("column `x`") && Contains("<c8"));
  column = numbers("x", values);
  column.kind = 9;
  CHECK(dp_table_create(2, &column, 1, &table) == 65);
  column = numbers("x", values);
  column.values = nullptr;
  CHECK(dp_table_create(2, &column, 1, &table) == 65);
  CHECK(dp_table_create(0, nullptr, 0, &table) == 65);
  CHECK(table == nullptr);

  const Data data(200);
  dp_model* model = nullptr;
  const std::vector<const char*> typo = {"train.epoch=3"};
  const dp_training wrong = training_for(data, typo);
  CHECK(dp_train(&wrong, &model) == 78);
  CHECK_THAT(last_what(), Contains("epoch"));
  CHECK(dp_model_load("/no/such/folder", &model) == 66);
  CHECK(model == nullptr);
}

/// A record batch of one column of floats, whose structs count their releases.
struct Batch {
  std::vector<float> values = {1, 2, 3};
  uint8_t valid = 0b101;
  const void* column_buffers[2] = {nullptr, values.data()};
  const void* batch_buffers[1] = {nullptr};
  int released = 0;
  ArrowSchema float_schema{.format = "f", .name = "x", .release = [](ArrowSchema*) {}};
  ArrowSchema* schemas[1] = {&float_schema};
  ArrowSchema schema{.format = "+s",
                     .n_children = 1,
                     .children = schemas,
                     .release = [](ArrowSchema* s) { ++*static_cast<int*>(s->private_data); },
                     .private_data = &released};
  ArrowArray column{
      .length = 3, .n_buffers = 2, .buffers = column_buffers, .release = [](ArrowArray*) {}};
  ArrowArray* columns[1] = {&column};
  ArrowArray array{.length = 3,
                   .n_buffers = 1,
                   .n_children = 1,
                   .buffers = batch_buffers,
                   .children = columns,
                   .release = [](ArrowArray* a) { ++*static_cast<int*>(a->private_data); },
                   .private_data = &released};
};

TEST_CASE("capi: takes a record batch, and says what is wrong with one", "[capi]") {
  dp_table* table = nullptr;
  Batch good;
  REQUIRE(dp_table_from_arrow(&good.schema, &good.array, &table) == 0);
  CHECK(dp_table_rows(table) == 3);
  dp_table* again = nullptr;
  CHECK(dp_table_from_arrow(&good.schema, &good.array, &again) == 65);
  CHECK_THAT(last_what(), Contains("have been released"));
  CHECK(good.released == 0);
  dp_table_free(table);
  CHECK(good.released == 2);

  Batch null_row;
  null_row.batch_buffers[0] = &null_row.valid;
  null_row.array.null_count = -1;  // not counted
  CHECK(dp_table_from_arrow(&null_row.schema, &null_row.array, &again) == 65);
  CHECK_THAT(last_what(), Contains("row 1") && Contains("null as a whole"));
  CHECK(null_row.released == 2);
  Batch shorter;
  shorter.column.length = 2;
  CHECK(dp_table_from_arrow(&shorter.schema, &shorter.array, &again) == 65);
  CHECK_THAT(last_what(), Contains("2 rows of 3"));
  CHECK(again == nullptr);
}

}  // namespace
