// Implicit feedback in one process: models that learn from positives in memory.
#include <memory>
#include <sstream>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/rng.h"
#include "shared/base/str.h"
#include "shared/data/formats/memory/memory_table.h"
#include "tools/embedded/training.h"

namespace downpour::tools {
namespace {

/// Pairs of users and items. A user takes only items of the own taste, of which there are ten, and
/// all items are equally popular.
struct Pairs {
  Pairs(uint64_t rows, uint64_t seed) {
    Rng rng(seed);
    for (uint64_t i = 0; i < rows; ++i) {
      user.push_back(int32_t(rng.below(300)));
      item.push_back(int32_t(10 * rng.below(20)) + user.back() % 10);
    }
    const auto column = [](const char* name, const std::vector<int32_t>& values) {
      return data::MemoryColumn{.name = name,
                                .type = {'i', 4},
                                .values = reinterpret_cast<const char*>(values.data()),
                                .stride = 4};
    };
    shared = std::make_unique<data::SharedTable>(std::make_shared<data::MemoryTable>(
        data::MemoryTable{rows, {column("user", user), column("item", item)}}));
  }
  std::vector<int32_t> user, item;
  std::unique_ptr<data::SharedTable> shared;
};

struct Outcome {
  double auc = 0, loss = 0, records = 0;
  std::vector<float> predictions;
};

Outcome trained(const Pairs& pairs, const Pairs& others, const std::string& model,
                uint32_t threads = 1) {
  const std::string job = str(
      "[data]\nfields = { user = { type = \"int64\", transform = [\"hash\"] }, item = { type = "
      "\"int64\", transform = [\"hash\"] } }\n"
      "negatives = { fields = [\"item\"], per_record = 4 }\n[model]\n",
      model,
      "\n[optimizer]\ntype = \"adagrad\"\nlearning_rate = 0.2\n"
      "[train]\nepochs = 5\nbatch_size = 100\nreduction = \"sum\"\nmode = \"sync\"\nreplicas = 1\n"
      "[eval]\nsource = \"",
      others.shared->path(), "\"\n");
  const auto trained = train({.job = job, .data = pairs.shared->path(), .threads = threads});
  if (!trained) FAIL(trained.error().what << " " << trained.error().where);
  std::istringstream lines(std::string(trained->model.history()));
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  const auto epoch = nlohmann::json::parse(last);
  Outcome result{.auc = epoch["eval"]["auc"],
                 .loss = epoch["eval"].value("loss", 0.0),
                 .records = epoch["eval_records"]};
  const auto scorer = Scorer::open(trained->model.storage(), trained->model.run_dir());
  if (!scorer) FAIL(scorer.error().what);
  result.predictions.resize(others.user.size());
  REQUIRE((*scorer)->predict(others.shared->path(), 1, result.predictions));
  return result;
}

TEST_CASE("embedded: matrix factorization learns tastes from positives, popularity does not",
          "[embedded]") {
  const Pairs pairs(9'000, 1), others(3'000, 2);
  const std::string machine = "preset = \"matrix_factorization\"\ndim = 8\nloss = ";
  for (const char* const loss : {"\"bpr\"", "\"sampled_softmax\"", "\"logistic\""}) {
    CAPTURE(loss);
    const Outcome result = trained(pairs, others, machine + loss);
    // Two random items are of the same taste in a tenth of the draws. Then no model knows the
    // positive.
    CHECK(result.auc > 0.92);
    CHECK(result.auc < 0.97);
    if (loss != std::string("\"logistic\"")) CHECK(result.records == 3'000);
  }
  const Outcome popularity = trained(
      pairs, others, "preset = \"logistic_regression\"\nloss = \"bpr\"\ninputs = [\"item\"]");
  CHECK(popularity.auc < 0.6);
  CHECK(popularity.loss > 0.6);
}

TEST_CASE("embedded: threads change no bit of a model of implicit feedback", "[embedded]") {
  const Pairs pairs(3'000, 1), others(500, 2);
  const std::string machine = "preset = \"matrix_factorization\"\nloss = \"bpr\"";
  const Outcome one = trained(pairs, others, machine), three = trained(pairs, others, machine, 3);
  CHECK(one.predictions == three.predictions);
  CHECK(one.auc == three.auc);
}

}  // namespace
}  // namespace downpour::tools
