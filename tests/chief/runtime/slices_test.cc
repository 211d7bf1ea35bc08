// Slices: which values an evaluation shows, and how their metrics are shown and kept.
#include "chief/runtime/slices.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "chief/runtime/history.h"
#include "chief/runtime/history_file.h"
#include "chief/runtime/report_figures.h"
#include "chief/runtime/slice_figures.h"
#include "shared/env/storage.h"
#include "shared/job/job_file.h"
#include "tests/chief/runtime/support.h"

namespace downpour::chief {
namespace {

std::string job_text(const std::string& slices, const std::string& data) {
  return "data.source = \"train.csv\"\ndata.format = \"csv\"\n"
         "data.columns = [\"x\", \"y\", \"city\"]\n"
         "data.fields = { x = {}, y = {}, city = { type = \"string\" } }\n"
         "model = { preset = \"linear_regression\", target = \"y\", inputs = [\"x\"] }\n" +
         data + "\neval.slices = " + slices + "\n";
}

const std::string kEvalFile = "eval.source = \"eval.csv\"";

std::vector<std::string> chosen(const ScratchDir& dir, const std::string& slices,
                                const std::string& data = kEvalFile) {
  RunPlan plan = plan_of(dir, job_text(slices, data));
  const uint64_t hash = plan.plan_hash;
  const auto done = choose_slices(plan, wire::Purpose::kTrain);
  if (!done) FAIL(done.error().what);
  CHECK(plan.plan_hash == hash);
  const auto sent = job_from_toml(plan.job_text, dir.path());
  REQUIRE(sent);
  CHECK(sent->eval.slices == plan.job.eval.slices);
  return plan.job.eval.slices.at(0).values;
}

using Texts = std::vector<std::string>;

TEST_CASE("the most frequent values of the evaluation data become slices", "[chief][slices]") {
  const ScratchDir dir;
  dir.write("train.csv", "1,2,only here\n1,2,only here\n");
  dir.write("eval.csv", "1,2,Oslo\n3,4,Bergen\n5,6,Rome\n7,8,Rome\n9,9,\n9,9,\n9,9,\n");
  CHECK(chosen(dir, "[\"city\"]") == Texts{"Rome", "Bergen", "Oslo"});
  CHECK(chosen(dir, "[{ field = \"city\", top = 2 }]") == Texts{"Rome", "Bergen"});
  CHECK(chosen(dir, "[{ field = \"city\", values = [\"Lima\"] }]") == Texts{"Lima"});
  CHECK(chosen(dir, "[\"city\"]", "").empty());  // no evaluation
  // Values that a job file cannot hold.
  dir.write("eval.csv", "1,2,a\xff\n1,2,b\n");
  CHECK(chosen(dir, "[\"city\"]") == Texts{"b"});
}

TEST_CASE("with a holdout the values are those of the records held out", "[chief][slices]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 400; ++i) text += str(i, ",2,c", i, "\n");
  dir.write("train.csv", text);
  const Texts values = chosen(dir, "[{ field = \"city\", top = 1000 }]", "eval.holdout = 0.1");
  CHECK(values.size() > 20);
  CHECK(values.size() < 80);
}

TEST_CASE("values that cannot be counted must be listed", "[chief][slices]") {
  const ScratchDir dir;
  dir.write("train.csv", "1,2,c\n");
  std::string text;
  for (int i = 0; i < 10'001; ++i) text += str(i, ",2,c", i, "\n");
  dir.write("eval.csv", text);
  RunPlan plan = plan_of(dir, job_text("[\"city\"]", kEvalFile));
  const Error many = choose_slices(plan, wire::Purpose::kTrain).error();
  CHECK(many.what ==
        "the field `city` has more than 10000 different values in the evaluation data");
  CHECK(many.where == "eval.slices[0]");
  CHECK(many.hint == "list those to show: { field = \"city\", values = [...] }");
  CHECK(choose_slices(plan, wire::Purpose::kEval).error().hint.find("fewer values") !=
        std::string::npos);
  dir.write("eval.csv", text.substr(0, text.rfind("10000,2")));  // exactly as many as allowed
  CHECK(chosen(dir, "[\"city\"]", kEvalFile).size() == 20);
  dir.write("eval.csv", text);
  const std::string program = "data.program = [\"cat\"]\n" + kEvalFile;
  plan = plan_of(dir, job_text("[\"city\"]", program));
  CHECK(choose_slices(plan, wire::Purpose::kTrain).error().hint.find("list them") == 0);
  CHECK(chosen(dir, "[{ field = \"city\", values = [\"c\"] }]", program) == Texts{"c"});
}

/// Two outputs, and two slices of one field.
Job two_outputs() {
  Job job;
  job.model.outputs = {{.name = "click", .loss = "logistic"}, {.name = "size", .loss = "absolute"}};
  job.eval.slices = {{.field = "city", .values = {"Oslo", "Rome"}}};
  return job;
}

Evaluation evaluation_of(uint32_t id) {
  Evaluation evaluation{.id = id, .epochs_trained = id};
  evaluation.slices.resize(6);
  evaluation.slice_rankings.resize(6);
  for (size_t i = 2; i < 6; ++i) {  // the others have no records
    OutputSums& sums = evaluation.slices[i].sums;
    sums = {.weight = 4, .loss = double(i), .label = 2, .prediction = 1};
    sums.correct = 3;
    sums.absolute_error = double(i);
    sums.in_top_k = 3;
  }
  evaluation.slice_rankings[2].auc = 0.75;
  evaluation.slice_rankings[4].auc = 0.5;
  evaluation.outputs = {evaluation.slices[2], evaluation.slices[3]};
  evaluation.rankings.resize(2);
  return evaluation;
}

TEST_CASE("slices are kept in manifests and in the history, and lose nothing", "[chief][slices]") {
  const Job job = two_outputs();
  const std::vector<EpochAccount> epochs = {EpochAccount{}};
  const std::vector<Evaluation> evaluations = {evaluation_of(1)};
  const auto figures = slice_figures(job, evaluations[0]);
  REQUIRE(figures.size() == 2);
  CHECK(figures[0].field == "city");
  CHECK(figures[0].value == "Oslo");
  CHECK(figures[0].weight == 4);
  CHECK(figure_of(figures[0].figures, "click/auc") == 0.75);
  CHECK(figure_of(figures[0].figures, "size/mae") == 0.75);
  CHECK(figure_of(figures[1].figures, "size/mae") == 1.25);
  std::vector<EpochAccount> epochs_read;
  std::vector<Evaluation> evaluations_read;
  from_records(to_records(epochs, evaluations), job.model.outputs, epochs_read, evaluations_read);
  CHECK(slice_figures(job, evaluations_read.at(0)) == figures);
  const auto lines = history_lines(job, epochs, evaluations);
  CHECK(lines.at(0).slices == figures);
  CHECK(*parse_history(history_text(lines), "history.jsonl") == lines);
  Job other = job;
  other.eval.slices[0].values.push_back("Lima");
  CHECK(slice_figures(other, evaluations[0]).empty());
}

TEST_CASE("a table has the worst slices first", "[chief][slices]") {
  Job job = two_outputs();
  const auto lines = slice_tables(job, evaluation_of(1));
  REQUIRE(lines.size() == 6);
  CHECK(lines[0].find("city of click") == 0);
  CHECK(lines[0].find("records           auc       logloss   calibration") != std::string::npos);
  CHECK(lines[1].find("Rome ") == 0);
  CHECK(lines[1].find("4        0.5000        1.0000        0.5000") != std::string::npos);
  CHECK(lines[2].find("Oslo ") == 0);
  CHECK(lines[3].find("city of size") == 0);
  CHECK(lines[4].find("Rome ") == 0);
  job.eval.group_by = "user";
  CHECK(slice_tables(job, evaluation_of(1)) == lines);
  job.eval.metrics = {"gauc"};
  CHECK(slice_tables(job, evaluation_of(1))[0].find("records       logloss") != std::string::npos);
  job.eval.metrics.clear();
  job.eval.slices[0].values = {"Oslo\n", std::string(300, 'x')};
  const auto odd = slice_tables(job, evaluation_of(1));
  CHECK(odd[1].find(std::string(24, 'x') + "   ") == 0);
  CHECK(odd[2].find("Oslo\\x0a ") == 0);
  CHECK(odd[0].size() == odd[1].size());
}

TEST_CASE("metrics of groups are known with groups, and shown unless the job chooses others",
          "[chief][slices]") {
  Job job = two_outputs();
  const OutputSpec& click = job.model.outputs[0];
  CHECK(shown_metrics(job, click) == Texts{"auc", "logloss", "calibration"});
  CHECK(std::ranges::count(known_metrics(job, click), "gauc") == 0);
  job.eval.group_by = "user";
  CHECK(shown_metrics(job, click) == Texts{"auc", "logloss", "calibration", "gauc", "ndcg"});
  CHECK(std::ranges::count(known_metrics(job, click), "gauc") == 1);
  CHECK(shown_metrics(job, job.model.outputs[1]) == Texts{"mae", "rmse"});
  job.eval.metrics = {"ndcg"};
  CHECK(shown_metrics(job, click) == Texts{"ndcg"});
}

TEST_CASE("top-k accuracy is known if there are more than k classes", "[chief][slices]") {
  Job job;
  job.model.layers = {{.name = "wide", .type = "linear", .units = {6}},
                      {.name = "deep", .type = "dense", .units = {9, 6}},
                      {.name = "sum", .type = "add", .inputs = {"wide", "deep"}}};
  job.model.outputs = {{.name = "kind", .input = "sum", .loss = "softmax_cross_entropy"}};
  const auto is_known = [&] {
    return std::ranges::count(known_metrics(job, job.model.outputs[0]), "top_k_accuracy") == 1;
  };
  CHECK(is_known());
  job.eval.top_k = 6;
  CHECK_FALSE(is_known());
  job.model.layers[2].type = "concat";  // not known to have six columns
  CHECK(is_known());
  job.data.fields = {{.name = "kind", .classes = {"a", "b"}}};
  job.model.outputs[0].target = "kind";
  CHECK_FALSE(is_known());
}

TEST_CASE("a table of many values is cut off", "[chief][slices]") {
  Job job;
  job.model.outputs = {{.name = "size", .loss = "absolute"}};
  job.eval.slices = {{.field = "city"}};
  Evaluation evaluation;
  evaluation.slices.resize(31);
  evaluation.slice_rankings.resize(31);
  for (size_t i = 0; i < 30; ++i) job.eval.slices[0].values.push_back(str("c", i));
  for (size_t i = 0; i < 31; ++i)
    evaluation.slices[i].sums = {.weight = 1, .loss = 1, .absolute_error = double(i)};
  const auto lines = slice_tables(job, evaluation);
  REQUIRE(lines.size() == 12);
  CHECK(lines[1].find("c29 ") == 0);  // row 0 is that of the others
  CHECK(lines[11] == "and 21 more: --log-format json");
}

}  // namespace
}  // namespace downpour::chief
