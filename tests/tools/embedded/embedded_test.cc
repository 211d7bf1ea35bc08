// Training and scoring in one process: the model, its files, determinism, stopping, and errors.
#include <cmath>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "shared/data/formats/memory/memory_table.h"
#include "tests/support/scratch_dir.h"
#include "tools/embedded/training.h"

namespace downpour::tools {
namespace {

using Catch::Contains;
using data::MemoryColumn;
using data::MemoryTable;
using data::SharedTable;

/// Records whose label is 1 if x > 0 and the colour is even.
struct Records {
  explicit Records(uint64_t rows, uint64_t seed = 1) {
    Rng rng(seed);
    for (uint64_t i = 0; i < rows; ++i) {
      x.push_back(float(int64_t(rng.below(2001)) - 1000) / 1000);
      colour.push_back(int32_t(rng.below(6)));
      label.push_back(x.back() > 0 && colour.back() % 2 == 0 ? 1.0F : 0.0F);
    }
    const auto column = [&](const char* name, data::NpyType type, const auto& values) {
      return MemoryColumn{.name = name,
                          .type = type,
                          .values = reinterpret_cast<const char*>(values.data()),
                          .stride = type.bytes};
    };
    shared = std::make_unique<SharedTable>(std::make_shared<MemoryTable>(
        MemoryTable{rows,
                    {column("x", {'f', 4}, x), column("colour", {'i', 4}, colour),
                     column("label", {'f', 4}, label)}}));
  }
  std::vector<float> x, label;
  std::vector<int32_t> colour;
  std::unique_ptr<SharedTable> shared;
};

TrainingRequest request_for(const Records& records, uint32_t threads = 1) {
  TrainingRequest request{.data = records.shared->path(), .threads = threads};
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"eval.holdout", "0"},
                                                        {"train.epochs", "4"},
                                                        {"train.mode", "sync"},
                                                        {"train.replicas", "1"}})
    request.overrides.push_back({key, value, "the test"});
  return request;
}

std::vector<float> predict(const ModelFiles& model, const Records& records, uint32_t threads = 1) {
  const auto scorer = Scorer::open(model.storage(), model.run_dir());
  if (!scorer) FAIL(scorer.error().what);
  std::vector<float> out(records.x.size() * (*scorer)->row_floats());
  const auto done = (*scorer)->predict(records.shared->path(), threads, out);
  if (!done) FAIL(done.error().what);
  return out;
}

double share_right(const std::vector<float>& predictions, const Records& records) {
  size_t right = 0;
  for (size_t i = 0; i < predictions.size(); ++i)
    right += (predictions[i] > 0.5F) == (records.label[i] > 0.5F);
  return double(right) / double(predictions.size());
}

TEST_CASE("embedded: a model learns from columns in memory", "[embedded]") {
  const Records records(4'000), others(1'000, 2);
  const auto trained = train(request_for(records));
  if (!trained) FAIL(trained.error().what << " " << trained.error().where);
  CHECK_THAT(trained->reason, Contains("target \"label\""));
  CHECK(share_right(predict(trained->model, others), others) > 0.97);
  CHECK_THAT(trained->model.history(), Contains("\"epoch\":4"));
}

TEST_CASE("embedded: threads change no bit of a synchronous model or of its predictions",
          "[embedded]") {
  const Records records(20'000);
  const auto one = train(request_for(records, 1));
  const auto two = train(request_for(records, 2));
  REQUIRE(one);
  REQUIRE(two);
  const std::vector<float> wanted = predict(one->model, records);
  CHECK(predict(two->model, records) == wanted);
  CHECK(predict(one->model, records, 3) == wanted);
}

TEST_CASE("embedded: the prediction of a record does not depend on the other records",
          "[embedded]") {
  const Records records(1'500), others(1'500, 2);
  const auto trained = train(request_for(records));
  REQUIRE(trained);
  const std::vector<float> wanted = predict(trained->model, others);
  Records first(7, 2);  // the same as the first of `others`
  const std::vector<float> few = predict(trained->model, first);
  for (size_t i = 0; i < few.size(); ++i) CHECK(few[i] == Approx(wanted[i]).epsilon(1e-6));
}

TEST_CASE("embedded: a model survives as bytes and as a run folder", "[embedded]") {
  const testing::ScratchDir dir;
  const Records records(1'000);
  const auto trained = train(request_for(records));
  REQUIRE(trained);
  const std::vector<float> wanted = predict(trained->model, records);
  const std::vector<uint8_t> bytes = trained->model.bytes();
  const auto again = ModelFiles::of_bytes(bytes);
  REQUIRE(again);
  CHECK(predict(*again, records) == wanted);
  const std::string folder = dir.path() + "/run";
  PosixStorage disk;
  // What a save that failed has left behind, for example on a full disk.
  REQUIRE(disk.make_dirs(folder + "/checkpoints"));
  REQUIRE(trained->model.save(disk, folder));
  const auto loaded = ModelFiles::of_run(disk, folder);
  REQUIRE(loaded);
  CHECK(predict(*loaded, records) == wanted);
  CHECK(trained->model.save(disk, folder).error().code == ErrorCode::kCannotCreate);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{20}, bytes.size() / 2, bytes.size() - 1})
    CHECK(ModelFiles::of_bytes({bytes.data(), size}).error().code == ErrorCode::kBadData);
}

TEST_CASE("embedded: progress is reported, and can end the training", "[embedded]") {
  const Records records(50'000);
  TrainingRequest request = request_for(records);
  request.overrides.push_back({"train.epochs", "1000", "the test"});
  int calls = 0;
  request.on_progress = [&](const TrainingProgress&) { return ++calls < 3; };
  const auto trained = train(request);
  if (!trained) FAIL(trained.error().what);
  CHECK(trained->stopped);
  CHECK(calls == 3);
  CHECK(predict(trained->model, records).size() == records.x.size());
}

TEST_CASE("embedded: errors name the setting or the row", "[embedded]") {
  Records records(1'000);
  TrainingRequest request = request_for(records);
  request.overrides.push_back({"train.epoch", "3", "the test"});
  CHECK_THAT(train(request).error().hint, Contains("epochs"));
  records.label[17] = NAN;
  CHECK_THAT(train(request_for(records)).error().where, Contains("row 17"));
  CHECK(train({.data = "memory:0"}).error().code == ErrorCode::kNoInput);
}

}  // namespace
}  // namespace downpour::tools
