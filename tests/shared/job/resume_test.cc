#include "shared/job/resume.h"

#include "shared/job/keys.h"
#include "tests/shared/job/job_test_support.h"

namespace downpour {
namespace {

const char* const kText = R"(
data = { source = "d", format = "criteo" }
model = { preset = "wide_deep" }
optimizer = { type = "adagrad", rules = [{ variables = "wide/*", type = "ftrl" }] }
eval = { holdout = 0.1 }
)";

/// Returns the frozen keys that differ after `change`.
std::vector<std::string> frozen_keys(void (*change)(Job&), bool epoch_open) {
  const Job saved = test::completed(kText);
  Job now = saved;
  change(now);
  std::vector<std::string> keys;
  for (const FrozenDifference& one : frozen_differences(saved, now, epoch_open))
    keys.push_back(one.key);
  return keys;
}

using Keys = std::vector<std::string>;

TEST_CASE("keys that may change on resume are not reported, even within an epoch",
          "[job][resume]") {
  const auto change = [](Job& job) {
    job.train.epochs = 9;
    job.train.in_flight = 7;
    job.optimizer.learning_rate = 0.5F;
    job.optimizer_rules[0].optimizer.learning_rate = 0.5F;
    job.eval.metrics = {"auc"};
    job.model.outputs[0].metrics = {"logloss"};
    job.cluster.ps = 4;
    job.cluster.workers = 8;
    job.data.prefetch = 3;
    job.data.parallelism = 2;
    job.data.bad_records = BadRecords::kSkip;
    job.name = "other";
    job.run_dir = "/x";
    job.base_dir = "/y";
  };
  CHECK(frozen_keys(change, true).empty());
}

TEST_CASE("keys that are frozen within an epoch may change between epochs", "[job][resume]") {
  const auto change = [](Job& job) {
    job.data.source.paths = {"e"};
    job.data.fields[1].fallback = "1";
    job.data.shuffle = "off";
    job.train.batch_size = 64;
    job.train.drop_remainder = true;
    job.eval.holdout = 0.2;
  };
  CHECK(frozen_keys(change, true) == Keys{"data.source", "data.shuffle", "data.fields.I1.default",
                                          "train.batch_size", "train.drop_remainder",
                                          "eval.holdout"});
  CHECK(frozen_keys(change, false).empty());
}

TEST_CASE("a source may be named by another path of the same file", "[job][resume]") {
  const auto change = [](Job& job) { job.data.source.paths = {job.base_dir + "/d"}; };
  CHECK(frozen_keys(change, true).empty());
  const auto moved = [](Job& job) { job.base_dir = "/elsewhere"; };
  CHECK(frozen_keys(moved, true).empty());
  const auto other = [](Job& job) { job.data.source.paths = {"/elsewhere/d"}; };
  CHECK(frozen_keys(other, true) == Keys{"data.source"});
}

TEST_CASE("seed, partitions, model and optimizer types are frozen for the run", "[job][resume]") {
  const auto change = [](Job& job) {
    job.seed = 2;
    job.partitions = 64;
    job.model.layers[1].dim = 8;
    job.optimizer.type = OptimizerType::kSgd;
    job.optimizer_rules.clear();
  };
  CHECK(frozen_keys(change, false) == Keys{"seed", "partitions", "model.layers[1].dim",
                                           "optimizer.type", "optimizer.rules[0].variables",
                                           "optimizer.rules[0].type"});
  const auto extra_layer = [](Job& job) { job.model.layers.push_back(job.model.layers[0]); };
  CHECK_FALSE(frozen_keys(extra_layer, false).empty());
}

TEST_CASE("the length of local rounds is frozen for the run if a schedule counts steps",
          "[job][resume]") {
  const auto differences = [](const std::string& optimizer) {
    const Job saved = test::completed(
        "data = { source = \"d\", format = \"criteo\" }\nmodel.preset = \"wide_deep\"\n"
        "optimizer = { type = \"sgd\", " +
        optimizer +
        " }\n"
        "train = { mode = \"local\", replicas = 2, sync_every = 2 }\neval.holdout = 0.1\n");
    Job now = saved;
    now.train.sync_every = 40;
    return frozen_differences(saved, now, /*epoch_open=*/false).size();
  };
  CHECK(differences("learning_rate = 0.1") == 0);
  CHECK(differences("schedule = { type = \"plateau\" }") == 0);
  CHECK(differences("schedule = { type = \"exponential\", decay_steps = 80 }") == 1);
}

TEST_CASE("the error names the key, both values and the possible actions", "[job][resume]") {
  const Job saved = test::completed(kText);
  Job now = saved;
  now.train.batch_size = 64;
  const auto differences = frozen_differences(saved, now, true);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0] == FrozenDifference{"train.batch_size", "512", "64", false});
  const Error error = frozen_error(differences, "/runs/x");
  CHECK(error.what.find("`train.batch_size` was 512 and is 64 now") != std::string::npos);
  CHECK(error.hint.find("--fresh") != std::string::npos);
  CHECK(exit_code(error.code) == 78);
}

TEST_CASE("a number of replicas that follows the workers is to be set, not restored",
          "[job][resume]") {
  Job saved = test::completed(kText);
  saved.train.replicas = 2;
  Job now = saved;
  now.train.replicas = 3;
  const Error error = frozen_error(frozen_differences(saved, now, true), "/runs/x");
  INFO(error.hint);
  CHECK(error.hint.starts_with(
      "set train.replicas = 2 (by default it follows the number of workers), "));
}

/// The visitor of keys.h that collects the names of all keys, each list with one entry.
class KeyCollector {
 public:
  static constexpr bool kReads = true;
  KeyCollector(std::string prefix, Keys& keys) : prefix_(std::move(prefix)), keys_(keys) {}

  template <typename T>
  void text(const char* name, T& /*value*/) {
    keys_.push_back(prefix_ + name);
  }
  void choice(const char* name, std::string& value, std::initializer_list<const char*> /*choices*/,
              std::initializer_list<const char*> /*unavailable*/) {
    text(name, value);
  }
  void choice(const char* name, std::string& value, std::span<const char* const> /*choices*/,
              std::span<const char* const> /*unavailable*/) {
    text(name, value);
  }
  template <typename E, size_t N>
  void enumeration(const char* name, E& value, const std::array<EnumName<E>, N>& /*names*/,
                   std::initializer_list<const char*> /*unavailable*/) {
    text(name, value);
  }
  template <typename T>
  void number(const char* name, T& value, double /*min*/, double /*max*/) {
    text(name, value);
  }
  void optional_number(const char* name, std::optional<uint64_t>& value, double /*max*/,
                       const char* /*zero*/ = nullptr) {
    text(name, value);
  }
  template <typename T>
  void count_or(const char* name, T& value, double /*max*/, const char* /*zero*/) {
    text(name, value);
  }
  template <typename T>
  void real(const char* name, T& value, Range /*range*/) {
    text(name, value);
  }
  void learned(const char* name, Learned& value, Range /*range*/) { text(name, value); }
  void optional_learned(const char* name, std::optional<Learned>& value, Range /*range*/) {
    text(name, value);
  }
  template <typename T>
  void automatic(const char* name, T& value, double /*max*/) {
    text(name, value);
  }
  void strings(const char* name, std::vector<std::string>& value, bool /*runs*/ = false) {
    text(name, value);
  }
  void flag(const char* name, bool& value) { text(name, value); }
  void bytes(const char* name, uint64_t& value) { text(name, value); }
  void duration(const char* name, int64_t& value) { text(name, value); }
  void interval(const char* name, Interval& value) { text(name, value); }
  void counts(const char* name, std::vector<uint32_t>& value) { text(name, value); }
  void init(const char* name, std::optional<InitSpec>& value) { text(name, value); }
  void schedule(const char* name, ScheduleSpec& value) { text(name, value); }
  void source(const char* name, SourceSpec& value) { text(name, value); }
  void shuffle(const char* name, std::string& value) { text(name, value); }
  void fields(const char* name, std::vector<FieldSpec>& value) { text(name, value); }
  void unavailable(std::initializer_list<const char*> /*names*/) {}
  template <typename F>
  void table(const char* name, F&& visit) {
    KeyCollector inner(prefix_ + name + ".", keys_);
    visit(inner);
  }
  template <typename T, typename F>
  void tables(const char* name, std::vector<T>& /*list*/, F&& visit, const char* /*first*/ = {}) {
    KeyCollector inner(prefix_ + name + "[0].", keys_);
    T entry;
    visit(inner, entry);
  }

 private:
  std::string prefix_;
  Keys& keys_;
};

TEST_CASE("every key of a job has a rule that says how long it is frozen", "[job][resume]") {
  Keys keys;
  KeyCollector collector("", keys);
  Job job;
  visit_job(collector, job);
  CHECK(keys.size() > 80);
  for (const std::string& key : keys) {
    INFO(key);
    CHECK(frozen(key).has_value());
  }
  CHECK_FALSE(frozen("train.added_later"));
  CHECK_FALSE(frozen("added_later"));
  CHECK(frozen("data.added_later") == Frozen::kInEpoch);
  CHECK(frozen("model.layers[12].added_later") == Frozen::kForRun);
}

}  // namespace
}  // namespace downpour
