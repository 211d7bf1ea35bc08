// job_for_file(): the model and the training of a data file without a job.
#include "shared/job/file_job.h"

#include <utility>

#include <catch2/catch.hpp>

#include "shared/job/job_file.h"
#include "shared/job/preset.h"

namespace downpour {
namespace {

FileFacts facts_of(DataFormat format, uint32_t classes) {
  FileFacts facts;
  facts.path = "data/clicks.csv.gz";
  facts.format = format;
  facts.classes = classes;
  return facts;
}

TEST_CASE("the model for a file without a job depends on the file's contents", "[job][preset]") {
  Job libsvm = job_for_file(facts_of(DataFormat::kLibsvm, 2), "/home");
  REQUIRE(complete_job(libsvm));
  CHECK(libsvm.name == "clicks");
  CHECK(libsvm.run_dir == "/home/runs/clicks");
  CHECK(libsvm.optimizer.type == OptimizerType::kFtrl);
  CHECK(libsvm.model.preset == "factorization_machine");
  CHECK(libsvm.model.outputs[0].offset.open);
  CHECK(libsvm.train.reduction == "sum");
  CHECK(libsvm.eval.holdout == 0.1);
  CHECK(libsvm.eval.keep_best);
  CHECK(libsvm.train.epochs == 40);
  CHECK(libsvm.data.interleave.cycle == 1);  // the file is compressed

  for (const auto& [records, batch] : {std::pair{5'000U, 32U}, {5'001U, 256U}}) {
    FileFacts facts = facts_of(DataFormat::kLibsvm, 2);
    facts.records_estimated = records;
    CHECK(job_for_file(facts, "/home").train.batch_size == batch);
  }

  FileFacts sparse = facts_of(DataFormat::kLibsvm, 2);
  sparse.pairs_per_record = 700;
  CHECK(job_for_file(sparse, "/home").optimizer.l2 == 350);
  sparse.largest_value = 11;  // pairs of values that are not scaled
  CHECK(job_for_file(sparse, "/home").model.preset == "logistic_regression");

  FileFacts big = facts_of(DataFormat::kCriteo, 2);
  big.path = "data/clicks.csv";
  big.records_estimated = 2'000'000;
  Job criteo = job_for_file(big, "/home");
  // The job is printed and read back before it is used. Then the preset still chooses the
  // optimizer.
  auto loaded = load_job(JobSource{"/home/clicks.toml", job_to_toml(criteo)}, {}, {});
  REQUIRE(loaded);
  Job& again = loaded->job;
  REQUIRE(complete_job(again));
  CHECK(again.optimizer.type == OptimizerType::kAdam);
  REQUIRE(again.optimizer_rules.size() == 2);
  CHECK(again.train.reduction == "sum");
  REQUIRE(complete_job(criteo));
  CHECK(criteo.model.preset == "wide_deep");
  CHECK(criteo.data.interleave.cycle == 64);
  CHECK(criteo.train.epochs == 5);
  CHECK(criteo.optimizer.type == OptimizerType::kAdam);

  FileFacts digits = facts_of(DataFormat::kMnist, 10);
  Job mlp = job_for_file(digits, "/home");
  REQUIRE(complete_job(mlp));
  CHECK(mlp.model.layers[0].units == std::vector<uint32_t>{128, 10});

  FileFacts houses = facts_of(DataFormat::kCsv, 0);
  houses.columns = {"rooms", "price"};
  houses.target = "price";
  houses.fields.resize(2);
  houses.fields[0].name = "rooms";
  houses.fields[1].name = "price";
  Job regression = job_for_file(houses, "/home");
  REQUIRE(complete_job(regression));
  CHECK(regression.model.outputs[0].loss == "squared");
  CHECK(regression.model.outputs[0].target == "price");
  auto back = job_from_toml(job_to_toml(regression), "/");
  REQUIRE(back);
  CHECK(*back == regression);
}

TEST_CASE("a regression without a job reduces its learning rate at a plateau", "[job][preset]") {
  FileFacts facts = facts_of(DataFormat::kLibsvm, 0);
  facts.records_estimated = 20'000;
  const Job small = job_for_file(facts, "/home");
  CHECK(small.optimizer.schedule.type == ScheduleType::kPlateau);
  CHECK(small.train.batch_size == 128);
  CHECK(small.train.in_flight == 1);
  CHECK(small.model.options.dim == 4);
  CHECK(small.model.options.dropout == 0.1F);
  CHECK(small.eval.early_stop.patience == 3);
  facts.records_estimated = 200'000;
  const Job larger = job_for_file(facts, "/home");
  CHECK((larger.train.batch_size == 512 && larger.train.in_flight == 2));
  facts.records_estimated = 20'000'000;
  CHECK_FALSE(job_for_file(facts, "/home").optimizer.schedule.given());
}

TEST_CASE("numbers that become quantiles are also read standardized", "[job][preset]") {
  FileFacts facts = facts_of(DataFormat::kCsv, 0);
  facts.columns = {"a", "b", "a_scaled", "y"};
  facts.target = "y";
  for (const std::string& name : facts.columns) facts.fields.push_back({.name = name});
  facts.fields[0].fallback = "1.5";
  facts.fields[0].transform = {ops::Log1p{}, ops::Quantile{}};
  facts.fields[1].column = "b c", facts.fields[1].transform = {ops::Quantile{}};
  const DataSpec data = job_for_file(facts, "/home").data;
  REQUIRE(data.fields.size() == 6);
  CHECK(data.fields[0] == facts.fields[0]);
  const FieldSpec& a = data.fields[1];
  CHECK((a.name == "a_scaled_" && a.column == "a"));
  CHECK(a.fallback == "1.5");
  CHECK(a.transform == std::vector<TransformSpec>{ops::Log1p{}, ops::Standardize{},
                                                  ops::Clip{.min = -30, .max = 30}});
  const FieldSpec& b = data.fields[3];
  CHECK((b.name == "b_scaled" && b.column == "b c"));
  CHECK((data.fields[4].name == "a_scaled" && data.fields[5].name == "y"));
  facts.format = DataFormat::kTfrecord;
  const FieldSpec example = job_for_file(facts, "/home").data.fields[1];
  CHECK((example.feature == "a" && example.column.empty()));
  facts.format = DataFormat::kNpz;
  const FieldSpec array = job_for_file(facts, "/home").data.fields[1];
  CHECK((array.path == "a" && array.column.empty()));
}

TEST_CASE("a small table has small batches, one after the other, and dropout", "[job][preset]") {
  for (const uint32_t classes : {2U, 5U}) {
    FileFacts facts = facts_of(DataFormat::kCriteo, classes);
    for (const auto& [records, batch] :
         {std::pair{5'000U, 32U}, {5'001U, 128U}, {50'000U, 128U}, {50'001U, 256U}}) {
      facts.records_estimated = records;
      const Job job = job_for_file(facts, "/home");
      CHECK(job.train.batch_size == batch);
      CHECK((job.train.in_flight == 1) == (records <= 50'000));
      CHECK((job.model.options.dropout > 0) == (records <= 50'000));
      CHECK(job.model.options.bins == (classes > 2 ? 32U : 16U));
    }
  }
}

}  // namespace
}  // namespace downpour
