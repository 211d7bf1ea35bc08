#include "tools/cli/tf_config.h"

#include <catch2/catch.hpp>

namespace downpour::tools {
namespace {

// As Kubeflow's TFJob controller writes it.
constexpr const char* kTfJob =
    R"({"cluster":{"chief":["downpour-chief-0.ml.svc:2222"],)"
    R"("evaluator":["downpour-evaluator-0.ml.svc:2222"],)"
    R"("ps":["downpour-ps-0.ml.svc:7000","downpour-ps-1.ml.svc:7000"],)"
    R"("worker":["downpour-worker-0.ml.svc:2222","downpour-worker-1.ml.svc:2222"]},)"
    R"("task":{"type":"worker","index":1},"environment":"cloud"})";
// The same with enableDynamicWorker (SparseTFConfig): each worker sees itself and the ps, a ps only
// itself, and a chief neither.
constexpr const char* kDynamic =
    R"({"sparseCluster":{"worker":{"1":"downpour-worker-1.ml.svc.cluster.local:2222"},)"
    R"("ps":["downpour-ps-0.ml.svc.cluster.local:7000",)"
    R"("downpour-ps-1.ml.svc.cluster.local:7000"]},)"
    R"("task":{"type":"worker","index":1}})";

NodePlan planned(const std::string& text, const std::string& chief = "") {
  const auto config = parse_tf_config(text);
  if (!config) FAIL(config.error().what);
  const auto plan = plan_node(*config, chief, "0.0.0.0");
  if (!plan) FAIL(plan.error().what);
  return *plan;
}

Error refused(const std::string& text, const std::string& chief = "") {
  const auto config = parse_tf_config(text);
  if (!config) return config.error();
  const auto plan = plan_node(*config, chief, "0.0.0.0");
  REQUIRE_FALSE(plan);
  return plan.error();
}

std::string with_task(const std::string& task) {
  return R"({"cluster":{"chief":["a:1"],"ps":["b:2","c:3"],"worker":["d:4"]},"task":)" + task + "}";
}

TEST_CASE("a cluster with a chief, as TFJob describes it", "[tf_config]") {
  const NodePlan worker = planned(kTfJob);
  CHECK(worker.role == wire::Role::kWorker);
  CHECK(worker.index == 1);
  CHECK(worker.chief == "downpour-chief-0.ml.svc:2222");
  CHECK_FALSE(worker.with_chief);

  const NodePlan chief = planned(with_task(R"({"type":"chief","index":0})"));
  CHECK(chief.role == wire::Role::kChief);
  CHECK(chief.bind == "0.0.0.0:1");
  CHECK(chief.ps == 2);
  CHECK(chief.workers == 1);
  const NodePlan ps = planned(with_task(R"({"type":"ps","index":"1"})"));  // a string, too
  CHECK(ps.role == wire::Role::kPs);
  CHECK(ps.index == 1);
  CHECK(ps.chief == "a:1");
  CHECK(ps.bind == "0.0.0.0:3");
  CHECK(ps.host == "c");
}

TEST_CASE("a process on the loopback interface listens only there", "[tf_config]") {
  const NodePlan chief = planned(R"({"cluster":{"master":["127.0.0.1:5"],"ps":["localhost:6"]},)"
                                 R"("task":{"type":"master","index":0}})");
  CHECK(chief.bind == "127.0.0.1:5");
}

TEST_CASE("worker 0 also runs the chief of a cluster without one", "[tf_config]") {
  const std::string cluster = R"({"cluster":{"ps":["p:9"],"worker":["d:4","e:5"]},"task":)";
  const NodePlan first = planned(cluster + R"({"type":"worker","index":0}})");
  CHECK(first.with_chief);
  CHECK(first.chief == "d:4");
  CHECK(first.bind == "0.0.0.0:4");
  CHECK(first.workers == 2);
  const NodePlan second = planned(cluster + R"({"type":"worker","index":1}})");
  CHECK_FALSE(second.with_chief);
  CHECK(second.chief == "d:4");
}

TEST_CASE("without ps in the cluster each worker runs one", "[tf_config]") {
  const std::string cluster = R"({"cluster":{"worker":["d:4","127.0.0.1:5"]},"task":)";
  const NodePlan first = planned(cluster + R"({"type":"worker","index":0}})");
  CHECK(first.with_chief);
  CHECK(first.ps_in_workers);
  CHECK(first.bind == "0.0.0.0:4");
  CHECK(first.ps_bind == "0.0.0.0:*");
  CHECK(first.host == "d");
  CHECK(first.ps == 2);
  CHECK(first.workers == 2);
  const NodePlan second = planned(cluster + R"({"type":"worker","index":1}})");
  CHECK_FALSE(second.with_chief);
  CHECK(second.ps_in_workers);
  CHECK(second.chief == "d:4");
  CHECK(second.ps_bind == "127.0.0.1:*");
  const NodePlan chief = planned(
      R"({"cluster":{"chief":["c:3"],"worker":["d:4"]},"task":{"type":"chief","index":0}})");
  CHECK(chief.ps_in_workers);
  CHECK(chief.ps == 1);
  CHECK_FALSE(planned(kDynamic, "boss:7").ps_in_workers);
}

TEST_CASE("with dynamic workers the chief's address comes from DOWNPOUR_CHIEF", "[tf_config]") {
  CHECK(planned(kDynamic, "boss:7").chief == "boss:7");
  CHECK(planned(kDynamic, "boss:7").index == 1);
  const Error error = refused(kDynamic);
  CHECK(error.what.find("neither a chief nor worker 0") != std::string::npos);
  CHECK(error.hint.find("DOWNPOUR_CHIEF") != std::string::npos);
  CHECK(exit_code(error.code) == 78);
}

TEST_CASE("a ps and a chief with dynamic workers see only themselves", "[tf_config]") {
  const std::string ps = R"({"sparseCluster":{"worker":{},"ps":["ps-1:2222"]},)"
                         R"("task":{"type":"ps","index":1}})";
  const NodePlan second = planned(ps, "boss:7");
  CHECK(second.role == wire::Role::kPs);
  CHECK(second.index == 1);
  CHECK(second.bind == "0.0.0.0:2222");
  CHECK(second.host == "ps-1");
  CHECK(refused(ps).hint.find("DOWNPOUR_CHIEF") != std::string::npos);

  const std::string chief =
      R"({"sparseCluster":{"worker":{},"ps":[]},"task":{"type":"chief","index":0}})";
  const NodePlan boss = planned(chief, "boss:7");
  CHECK(boss.role == wire::Role::kChief);
  CHECK(boss.bind == "0.0.0.0:7");
  CHECK(boss.ps == 0);  // as the job says
  CHECK_FALSE(boss.ps_in_workers);
  CHECK(refused(chief).hint.find("DOWNPOUR_CHIEF") != std::string::npos);
}

TEST_CASE("dynamic worker 0 runs the chief if DOWNPOUR_CHIEF names it", "[tf_config]") {
  const std::string first = R"({"sparseCluster":{"worker":{"0":"w0:2222"},"ps":["p:3"]},)"
                            R"("task":{"type":"worker","index":0}})";
  CHECK(planned(first).with_chief);
  CHECK(planned(first, "w0:2222").with_chief);
  CHECK_FALSE(planned(first, "boss:7").with_chief);
  // A job without ps.
  const NodePlan alone = planned(R"({"sparseCluster":{"worker":{"0":"w0:2222"},"ps":null},)"
                                 R"("task":{"type":"worker","index":0}})");
  CHECK(alone.ps_in_workers);
  CHECK(refused(R"({"sparseCluster":[],"task":{"type":"worker","index":0}})")
            .what.find("`sparseCluster` is missing") != std::string::npos);
}

TEST_CASE("an error quotes the part that is wrong", "[tf_config]") {
  const auto says = [](const std::string& text, const std::string& what, const std::string& where) {
    const Error error = refused(text);
    CAPTURE(text, error.what, error.where);
    CHECK(error.what.find(what) != std::string::npos);
    CHECK(error.where == where);
    CHECK(exit_code(error.code) == 78);
  };
  says(R"({"cluster": {"ps": [})", "at byte 20: `}`", "TF_CONFIG");
  says("{", "the text ends there", "TF_CONFIG");
  says("[]", "`cluster` is missing", "TF_CONFIG: cluster");
  says(R"({"cluster":{}})", "`task` is missing", "TF_CONFIG: task");
  says(with_task(R"({"type":"boss","index":0})"), R"("boss" is not a type)",
       "TF_CONFIG: task.type");
  says(with_task(R"({"index":0})"), "type of this task is missing", "TF_CONFIG: task.type");
  says(with_task(R"({"type":"ps"})"), "index of this task is missing", "TF_CONFIG: task.index");
  says(with_task(R"({"type":"ps","index":-1})"), "-1 is not an index", "TF_CONFIG: task.index");
  says(with_task(R"({"type":"ps","index":"x"})"), "`x` is not an index", "TF_CONFIG: task.index");
  says(with_task(R"({"type":"ps","index":2})"),
       "index 2 is not in cluster.ps, which has 2 addresses", "TF_CONFIG: task.index");
  says(with_task(R"({"type":"chief","index":1})"), "there is no chief 1", "TF_CONFIG: task.index");
  const auto cluster = [](const std::string& body) {
    return R"({"cluster":{)" + body + R"(},"task":{"type":"worker","index":0}})";
  };
  says(cluster(R"("worker":["a:1"],"ps":["a:1"])"), "the address a:1 is given twice",
       "TF_CONFIG: cluster.ps[0]");
  says(cluster(R"("worker":["a"])"), R"("a" is not HOST:PORT)", "TF_CONFIG: cluster.worker[0]");
  says(cluster(R"("worker":["a:0"])"), "is not HOST:PORT", "TF_CONFIG: cluster.worker[0]");
  says(cluster(R"("worker":["a:70000"])"), "is not HOST:PORT", "TF_CONFIG: cluster.worker[0]");
  says(cluster(R"("worker":[7])"), "7 is not an address", "TF_CONFIG: cluster.worker[0]");
  says(cluster(R"("worker":7)"), "neither a list nor an object", "TF_CONFIG: cluster.worker");
  says(cluster(R"("worker":{"1":"a:1","01":"b:1"})"), "index 1 is given twice",
       "TF_CONFIG: cluster.worker.1");
  says(cluster(R"("gpu":["a:1"])"), "`gpu` is not a type", "TF_CONFIG: cluster.gpu");
  says(cluster(R"("chief":["a:1","b:1"],"worker":["c:1"])"), "more than one chief",
       "TF_CONFIG: cluster.chief");
  says(R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief","index":0}})",
       "neither ps nor workers", "TF_CONFIG: cluster");
  const Error chief = refused(kTfJob, "localhost");
  CHECK(chief.what == R"("localhost" is not HOST:PORT)");
  CHECK(chief.where == "DOWNPOUR_CHIEF");
}

TEST_CASE("an address in brackets is one of IPv6", "[tf_config]") {
  const auto config = parse_tf_config(
      R"({"cluster":{"chief":["[fd00::2]:1"],"ps":["[::1]:2"]},"task":{"type":"ps","index":0}})");
  REQUIRE(config);
  const NodePlan ps = plan_node(*config, "", "[::]").value();
  CHECK(ps.chief == "[fd00::2]:1");
  CHECK(ps.bind == "[::1]:2");
  CHECK(plan_node({.chief = "[fd00::2]:1", .ps = {{0, "b:2"}}, .task = TfConfig::Task::kPs}, "",
                  "[::]")
            ->bind == "[::]:2");
}

}  // namespace
}  // namespace downpour::tools
