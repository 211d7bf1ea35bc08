#include <random>

#include "shared/job/nearest_name.h"
#include "shared/job/resume.h"
#include "shared/job/runs.h"
#include "tests/shared/job/job_test_support.h"

namespace downpour::test {
namespace {

TEST_CASE("a minimal job gets the documented defaults", "[job]") {
  const Job job = loaded(small_job());
  CHECK(job.name == "job");
  CHECK(job.base_dir == "/jobs");
  CHECK(job.run_dir == "/jobs/runs/job");
  CHECK(job.seed == 1);
  CHECK(job.partitions == 256);
  CHECK(job.data.shuffle == "shard");
  CHECK(job.optimizer == OptimizerSpec{});
  const TrainSpec defaults;
  CHECK(job.train == defaults);
  CHECK(job.cluster == ClusterSpec{});
  CHECK(job.eval.holdout == 0);
}

TEST_CASE("an unknown key is an error with file, line, column and the nearest valid name",
          "[job]") {
  const Error error = error_of(small_job("[train]\nepochs = 2\nbatch_sise = 64\n"));
  CHECK(error.code == ErrorCode::kConfig);
  CHECK(error.where == "/jobs/job.toml:6:1");
  CHECK(error.what == "unknown key `train.batch_sise`");
  CHECK(error.hint == "did you mean `batch_size`?");
  CHECK(error.id == "DP-2103");
}

TEST_CASE("unknown keys are found at every depth", "[job]") {
  const auto nearest = [](const std::string& more) { return error_of(small_job(more)).hint; };
  CHECK(nearest("sed = 3\n") == "did you mean `seed`?");
  CHECK(nearest("traim.epochs = 3\n") == "did you mean `train`?");
  CHECK(nearest("optimizer = { type = \"ftrl\", leaning_rate = 0.1 }\n") ==
        "did you mean `learning_rate`?");
  CHECK(nearest("data.fields.label = { tipe = \"float32\" }\n") == "did you mean `type`?");
  CHECK(nearest("data.fields.x = { transform = [{ op = \"hash\", bukets = 4 }] }\n") ==
        "did you mean `buckets`?");
  CHECK(nearest("optimizer.rules = [{ variable = \"x\" }]\n") == "did you mean `variables`?");
  // A key of another optimizer type or layer type is unknown.
  CHECK(error_of(small_job("optimizer = { type = \"adam\", l1 = 0.5 }\n")).id == "DP-2103");
}

TEST_CASE("a value of the wrong type is an error with the expected and the actual type", "[job]") {
  const Error error = error_of(small_job("train.epochs = \"three\"\n"));
  CHECK(error.what == "`train.epochs` must be an integer, but is a string");
  CHECK(error.where == "/jobs/job.toml:4:16");
  CHECK(error.id == "DP-2104");
  CHECK(error_of(small_job("train = 5\n")).what == "`train` must be a table, but is an integer");
  CHECK(error_of(small_job("data.header = 1\n")).what ==
        "`data.header` must be true or false, but is an integer");
  CHECK(error_of(small_job("name = 3\n")).what == "`name` must be a string, but is an integer");
  CHECK(error_of(small_job("data.columns = \"a\"\n")).what ==
        "`data.columns` must be a list of strings, but is a string");
}

TEST_CASE("values outside their range or choices are rejected with the valid ones", "[job]") {
  CHECK(error_of(small_job("train.batch_size = 0\n")).hint == "it must be from 1 to 1048576");
  CHECK(error_of(small_job("train.epochs = -1\n")).id == "DP-2106");
  CHECK(error_of(small_job("optimizer.learning_rate = 0\n")).hint == "it must be more than 0");
  CHECK(error_of(small_job("optimizer.learning_rate = 1e-60\n")).id == "DP-2106");
  CHECK(error_of(small_job("optimizer.learning_rate = inf\n")).id == "DP-2106");
  CHECK(error_of(small_job("optimizer.beta1 = 1\n")).id == "DP-2106");
  CHECK(error_of(small_job("eval.holdout = 1.0\n")).id == "DP-2106");
  CHECK(error_of(small_job("partitions = 100\n")).hint == "use a power of two from 2 to 4096");
  CHECK(error_of(small_job("optimizer.type = \"adagrod\"\n")).hint == "did you mean `adagrad`?");
  CHECK(error_of(small_job("train.reduction = \"max\"\n")).hint == "use one of: mean, sum");
  CHECK(error_of(small_job("data.delimiter = \"::\"\n")).id == "DP-2106");
  CHECK(error_of(small_job("name = \"../x\"\n")).where == "/jobs/job.toml:4:8");
  CHECK(error_of(small_job("data.bad_records_max = 5\n")).where == "/jobs/job.toml:4:24");
  CHECK(error_of(small_job("eval = { source = \"t\", holdout = 0.1 }\n")).id == "DP-2106");
}

TEST_CASE("cache and memory of the input are read, printed and not frozen", "[job]") {
  const Job job = loaded(small_job("data.cache = \"file\"\ndata.memory = \"1.5GiB\"\n"));
  CHECK(job.data.cache == Cache::kFile);
  CHECK(job.data.memory == 1'610'612'736);
  CHECK(loaded(small_job("data.memory = \"auto\"\n")).data.memory == 0);
  CHECK(loaded(small_job("data.memory = 4096\n")).data.memory == 4096);
  CHECK(loaded(small_job("data.memory = \"2 GB\"\n")).data.memory == 2'000'000'000);
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(again->data.cache == job.data.cache);
  CHECK(again->data.memory == job.data.memory);
  for (const char* bad : {"data.memory = \"much\"", "data.memory = 0", "data.memory = \"0B\"",
                          "data.memory = \"-1MB\"", "data.cache = true", "data.cache = \"disk\""}) {
    INFO(bad);
    CHECK(error_of(small_job(std::string(bad) + "\n")).code == ErrorCode::kConfig);
  }
  Job other = job;
  other.data.cache = Cache::kOff;
  other.data.memory = 0;
  CHECK(frozen_differences(job, other, true).empty());
}

TEST_CASE(
    "limits of gradients, the metric of early stopping and options of losses survive printing",
    "[job]") {
  const Job job = completed(small_job(
      "optimizer.clip = { value = 0.5, global_norm = 10 }\n"
      "eval = { holdout = 0.1, unknown_labels = \"skip\", early_stop = { patience = 2, metric = "
      "\"auc\", min_delta = 0.001 } }\n"));
  CHECK(job.clip == ClipSpec{.value = 0.5F, .global_norm = 10});
  CHECK(job.eval.unknown_labels == "skip");
  CHECK(job.eval.early_stop.metric == "auc");
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(*again == job);
  Job kept = job;  // the metric also decides for keep_best alone
  kept.eval.early_stop = {.metric = "auc"};
  CHECK(job_from_toml(job_to_toml(kept), job.base_dir)->eval.early_stop == kept.eval.early_stop);
  Job other = job;
  other.clip = {};
  other.eval.early_stop = {};
  CHECK(frozen_differences(job, other, true).empty());
  CHECK(error_of(small_job("eval.early_stop = { metric = \"acu\" }\n")).what.find("`acu`") !=
        std::string::npos);
  const Error refused = error_of(small_job(
      "optimizer.clip = { norm = 1 }\ntrain = { mode = \"sync\", replicas = 2, backups = 1 }\n"));
  CHECK(refused.what.find("clipped only by value") != std::string::npos);
  CHECK(loaded(small_job("optimizer.clip = { norm = 1 }\ntrain.mode = \"sync\"\n")).clip.norm ==
        1.0F);
  CHECK(loaded(small_job("optimizer.clip = { value = 1 }\ntrain.mode = \"sync\"\n")).clip.value ==
        1.0F);
}

TEST_CASE("averages of weights are a key of the job, beside any optimizer", "[job]") {
  const Job job = loaded(small_job("optimizer.ema = 0.999\n"));
  CHECK(job.ema == 0.999F);
  CHECK(job.model.options.own_optimizer);  // the preset may still choose it
  for (const Job& given : {job, completed(small_job("optimizer.ema = 0.999\n")),
                           loaded(small_job("optimizer = { type = \"sgd\", ema = 0.5 }\n"))}) {
    const auto again = job_from_toml(job_to_toml(given), given.base_dir);
    REQUIRE(again);
    CHECK(again->ema == given.ema);
  }
  Job other = job;
  other.ema = 0;
  CHECK(frozen_differences(job, other, false).size() == 1);
  CHECK(job_to_toml(other).find("ema =") == std::string::npos);
  for (const char* bad : {"0", "1", "-0.5", "true"}) {
    const Error error = error_of(small_job(str("optimizer.ema = ", bad, "\n")));
    INFO(error.what);
    CHECK(error.code == ErrorCode::kConfig);
    CHECK(error.what.find("optimizer.ema") != std::string::npos);
    if (std::string(bad) != "true")
      CHECK(error.hint == "it must be more than 0 and at most 0.9999999");
  }
  const std::string rule = "optimizer.rules = [{ variables = \"*\", type = \"sgd\", ema = 0.9 }]\n";
  CHECK(error_of(small_job(rule)).what.find("ema") != std::string::npos);
}

TEST_CASE("keys and values that are planned but not implemented are rejected as such", "[job]") {
  for (const char* line :
       {"train.max_time = \"6h\"", "optimizer.schedule = \"one_cycle\"",
        "data.fields.x = { encoding = \"jpeg\" }", "eval.every = \"5m\"", "eval.every = 1000",
        "eval.source = \"gs://bucket/x\"", "cluster.discover = \"tf_config\"",
        "data.fields.x = { type = \"string\", transform = [\"one_hot\"] }"}) {
    const Error error = error_of(small_job(std::string(line) + "\n"));
    INFO(line << " -> " << error.what);
    CHECK(error.id == "DP-2105");
    CHECK(error.what.find("` is not available in this version") != std::string::npos);
    CHECK(error.where.starts_with("/jobs/job.toml:4:"));
    CHECK(exit_code(error.code) == 78);
  }
}

TEST_CASE("steps end a job, or each epoch of a source without an end", "[job]") {
  const Job steps = loaded(small_job("train.steps = 1000\n"));
  CHECK(steps.train.steps == 1000);
  CHECK(steps.train.epochs == kEpochsMax);  // with steps, this means no limit
  CHECK(job_from_toml(job_to_toml(steps), steps.base_dir)->train == steps.train);
  CHECK(loaded(small_job("train.steps = 1000\ntrain.epochs = 3\n")).train.epochs == 3);
  CHECK(loaded(small_job("")).train.epochs == 1);
  CHECK(error_of(small_job("train.steps_per_epoch = 9\ndata.sharding = \"off\"\n")).what ==
        "`steps_per_epoch` does not support several streams");

  const auto of_program = [](const std::string& source, const std::string& train) {
    return load_text("data.source = { exec = [\"a\"]" + source + " }\ndata.format = \"libsvm\"\n" +
                     train + "model.preset = \"logistic_regression\"\nmodel.target = \"label\"\n");
  };
  CHECK(of_program("", "train.steps_per_epoch = 9\ntrain.steps = 90\n"));
  CHECK(of_program("", "train.steps = 90\n"));  // read in pieces
  CHECK(of_program("", "train.steps = 90\ndata.sharding = \"off\"\n")
            .error()
            .hint.find("steps_per_epoch = 1000") != std::string::npos);
  CHECK(of_program(", records = 5000", "train.steps = 90\n"));
  CHECK_FALSE(of_program(", records = 5000", "train.steps = 90\ndata.sharding = \"off\"\n"));
  CHECK_FALSE(of_program(", replay = \"none\"", "train.steps_per_epoch = 9\n"));
  CHECK(of_program(", replay = \"shard\", records = 5", "train.steps_per_epoch = 9\n")
            .error()
            .what.find("`steps_per_epoch` does not support a ") != std::string::npos);
}

TEST_CASE("text that is not TOML is rejected with its line", "[job]") {
  const Error error = error_of("data.source = \"a\"\n= 3\n");
  CHECK(error.id == "DP-2102");
  CHECK(error.where.starts_with("/jobs/job.toml:2:"));
}

TEST_CASE("a missing data source, model or file is named", "[job]") {
  CHECK(error_of("model.preset = \"wide_deep\"\n").what == "the job has no data source");
  CHECK(error_of("data.source = \"a\"\n").what == "the job has no model");
  CHECK(load_job("/nowhere/job.toml", {}, environment_of({})).error().code == ErrorCode::kNoInput);
}

TEST_CASE("environment variables are expanded in strings and may give numbers", "[job]") {
  const std::string text =
      "name = \"ctr-${DAY}\"\ntrain.epochs = \"${EPOCHS:-3}\"\ndata.header = \"${HEADER:-false}\"\n"
      "optimizer.learning_rate = \"${RATE:-0.5}\"\ncluster.threads = \"${THREADS:-auto}\"\n"
      "data.missing = [\"$${NA}\", \"${EMPTY:-none}\"]\n";
  const Job job = loaded(small_job(text), {}, {{"DAY", "0102"}, {"EMPTY", ""}});
  CHECK(job.name == "ctr-0102");
  CHECK(job.run_dir == "/jobs/runs/ctr-0102");
  CHECK(job.train.epochs == 3);
  CHECK(job.optimizer.learning_rate == 0.5F);
  CHECK(job.data.missing == std::vector<std::string>{"${NA}", "none"});
  CHECK(loaded(small_job(text), {}, {{"DAY", "1"}, {"EPOCHS", "7"}}).train.epochs == 7);

  const Error unset = error_of(small_job(text));
  CHECK(unset.what == "the environment variable `DAY` is not set");
  CHECK(unset.where == "/jobs/job.toml:4:8");
  CHECK(exit_code(unset.code) == 78);
  const Error words = error_of(small_job(text), {}, {{"DAY", "1"}, {"EPOCHS", "many"}});
  CHECK(words.what == "`train.epochs` must be an integer, but is a string");
  CHECK(error_of(small_job("name = \"${DAY\"\n")).id == "DP-2109");
}

TEST_CASE("later overrides replace earlier ones, and all of them replace the file", "[job]") {
  const std::vector<std::string> environ_entries{
      "DOWNPOUR_TRAIN__EPOCHS=5", "DOWNPOUR_TRAIN__BATCH_SIZE=99", "DOWNPOUR__SEED=8",
      "DOWNPOUR_DATA=/data", "PATH=/bin"};
  std::vector<Override> overrides = overrides_from_environment(environ_entries);
  REQUIRE(overrides.size() == 3);
  overrides.push_back({"train.epochs", "9", "--set"});
  overrides.push_back({"train.epochs", "1", "--set-default", /*if_absent=*/true});
  overrides.push_back({"train.batch_size", "1", "--set-default", /*if_absent=*/true});
  overrides.push_back({"train.reduction", "sum", "--set-default", /*if_absent=*/true});
  auto result =
      load_text(small_job("train = { epochs = 2, batch_size = 3, in_flight = 4 }\n"), overrides);
  REQUIRE(result);
  CHECK(result->job.train.epochs == 9);
  CHECK(result->job.train.batch_size == 99);
  CHECK(result->job.train.in_flight == 4);
  CHECK(result->job.train.reduction == "sum");
  CHECK(result->job.seed == 8);
  CHECK(find_origin(result->origins, "train.epochs")->from == "--set");
  CHECK(find_origin(result->origins, "train.batch_size")->from ==
        "environment DOWNPOUR_TRAIN__BATCH_SIZE");
  CHECK(find_origin(result->origins, "train.in_flight")->from == "/jobs/job.toml:4");
}

TEST_CASE("an override can set any value at any depth", "[job]") {
  const Job job = loaded(small_job("optimizer.rules = [{ variables = \"a\" }]\n"),
                         {{"name", "42", "--set"},
                          {"data.source", "[\"x\", \"y\"]", "--set"},
                          {"data.shuffle", "off", "--set"},
                          {"optimizer.rules[0].learning_rate", "0.25", "--set"},
                          {"optimizer.rules[1]", "{ variables = \"b*\", type = \"sgd\" }", "--set"},
                          {"data.fields.\"a.b\".type", "string", "--set"},
                          {"data.fields.I1..I3.default", "7", "--set"},
                          {"eval.source", "a b#c.txt", "--set"}});
  CHECK(job.name == "42");
  CHECK(job.data.source.paths == std::vector<std::string>{"x", "y"});
  CHECK(job.data.shuffle == "off");
  REQUIRE(job.optimizer_rules.size() == 2);
  CHECK(job.optimizer_rules[0].optimizer.learning_rate == 0.25F);
  CHECK(job.optimizer_rules[1].optimizer.type == OptimizerType::kSgd);
  CHECK(job.data.find_field("a.b")->type == FieldType::kString);
  CHECK(job.data.find_field("I3")->fallback == "7");
  CHECK(job.eval.source.paths == std::vector<std::string>{"a b#c.txt"});
}

TEST_CASE("overrides are checked like the file", "[job]") {
  const auto error = [](const std::string& key, const std::string& value) {
    return error_of(small_job(), {{key, value, "--set"}});
  };
  CHECK(error("train.epoch", "3").where == "--set train.epoch");
  CHECK(error("train.epoch", "3").hint == "did you mean `epochs`?");
  CHECK(error("train.epochs", "many").what == "`train.epochs` must be an integer, but is a string");
  CHECK(error("train.max_time", "6h").id == "DP-2105");
  CHECK(error("", "1").id == "DP-2111");
  CHECK(error("train..epochs", "1").id == "DP-2103");
  CHECK(error("model.preset.x", "1").id == "DP-2111");
  CHECK(error("optimizer.rules[7].type", "sgd").id == "DP-2111");
  CHECK(error("train.epochs[", "1").id == "DP-2111");
}

TEST_CASE("a field that is also named by itself overrides its run of names, key by key", "[job]") {
  const Job job =
      loaded(small_job("data.fields.\"I1..I3\" = { default = 0, transform = [\"log1p\"] "
                       "}\ndata.fields.I2 = { default = 5 }\n"));
  CHECK(job.data.find_field("I1")->fallback == "0");
  CHECK(job.data.find_field("I2")->fallback == "5");
  CHECK(job.data.find_field("I2")->transform.size() == 1);
  CHECK(error_of(small_job("data.fields.\"I1..I3\" = {}\ndata.fields.\"I3..I4\" = {}\n")).id ==
        "DP-2106");
}

TEST_CASE("runs of names expand by number or by columns, and invalid ones are rejected", "[job]") {
  CHECK(*expand_run("I9..I11") == std::vector<std::string>{"I9", "I10", "I11"});
  CHECK(*expand_run("x08..x10") == std::vector<std::string>{"x08", "x09", "x10"});
  CHECK(*expand_run("b..d", {"a", "b", "c", "d"}) == std::vector<std::string>{"b", "c", "d"});
  CHECK(*expand_run("plain") == std::vector<std::string>{"plain"});
  CHECK_FALSE(expand_run("I3..I1"));
  CHECK_FALSE(expand_run("I1..I999999999"));
  CHECK_FALSE(expand_run("d..b", {"a", "b", "c", "d"}));
  CHECK(compress_runs({"a", "I1", "I2", "I3", "b1", "b2"}) ==
        std::vector<std::string>{"a", "I1..I3", "b1", "b2"});
}

TEST_CASE("nearest_name finds names with typing errors but no unrelated names", "[job]") {
  const std::vector<std::string> names{"learning_rate", "momentum", "type", "l1"};
  CHECK(nearest_name("learnign_rate", names) == "learning_rate");
  CHECK(nearest_name("learning", names) == "learning_rate");
  CHECK(nearest_name("tpye", names) == "type");
  CHECK(nearest_name("colour", names).empty());
  CHECK(nearest_name("", names).empty());
}

TEST_CASE("every example loads, completes, and reads back from its own text", "[job]") {
  size_t examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(examples_dir())) {
    if (entry.path().extension() != ".toml") continue;
    INFO(entry.path().string());
    ++examples;
    auto result = load_job(entry.path().string(), {}, environment_of({}));
    REQUIRE(result);
    Job job = result->job;
    const auto done = complete_job(job);
    INFO((done ? std::string() : done.error().where + ": " + done.error().what));
    REQUIRE(done);
    Job again = job;
    REQUIRE(complete_job(again));
    CHECK(again == job);
    for (const Origins* origins :
         {static_cast<const Origins*>(nullptr), &std::as_const(result->origins)}) {
      const std::string text = job_to_toml(job, origins);
      auto back = job_from_toml(text, "/elsewhere");
      INFO((back ? text : back.error().where + ": " + back.error().what + "\n" + text));
      REQUIRE(back);
      CHECK(*back == job);
      CHECK(job_to_toml(*back, origins) == text);
    }
  }
  CHECK(examples >= 20);
}

TEST_CASE("the text of --dry-run says where each value is from", "[job]") {
  auto result = load_text(
      "data = { source = \"d.tsv\", format = \"criteo\" }\nmodel.preset = \"wide_deep\"\n",
      {{"train.epochs", "2", "--set"}});
  REQUIRE(result);
  REQUIRE(complete_job(result->job));
  const std::string text = job_to_toml(result->job, &result->origins);
  const auto line_with = [&](const std::string& begin) {
    const size_t at = text.find("\n" + begin);
    REQUIRE(at != std::string::npos);
    return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  CHECK(line_with("epochs = 2").ends_with("# --set"));
  CHECK(line_with("source = ").ends_with("# /jobs/job.toml:1"));
  CHECK(line_with("batch_size = ").ends_with("# default"));
  CHECK(line_with("inputs = [\"C1..C26\", \"I1..I13\"]").ends_with("# preset wide_deep"));
  CHECK(text.find("[data.fields.\"C1..C26\"]") != std::string::npos);
}

TEST_CASE("strings with special characters survive printing", "[job]") {
  Job job = completed(small_job());
  job.data.missing = {"\"", "\\", "\t\n\r", "\x01\x7f", "Größe", "${X}", "$${X}", ""};
  const std::string text = job_to_toml(job);
  auto back = job_from_toml(text, "/");
  REQUIRE(back);
  CHECK(back->data.missing == job.data.missing);
  // A text of the data never reads an environment variable.
  const auto loaded = load_job(JobSource{"/job.toml", text}, {},
                               [](const std::string&) { return std::string("a secret"); });
  REQUIRE(loaded);
  CHECK(loaded->job.data.missing == job.data.missing);
}

TEST_CASE("no mutation of a job's text crashes or hangs the loader", "[job]") {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(examples_dir())) {
    if (entry.path().extension() == ".toml") texts.push_back(read_text(entry.path()));
  }
  std::sort(texts.begin(), texts.end());
  std::mt19937_64 random(1);
  const auto pick = [&](size_t below) { return size_t(random() % below); };
  constexpr int kMutants = 10'000;
  int good = 0;
  for (int i = 0; i < kMutants; ++i) {
    std::string text = texts[pick(texts.size())];
    for (size_t edits = 1 + pick(4); edits > 0 && !text.empty(); --edits) {
      const size_t at = pick(text.size());
      switch (pick(5)) {
        case 0:
          text[at] = char(pick(256));
          break;
        case 1:
          text.erase(at, 1 + pick(20));
          break;
        case 2:
          text.insert(at, 1, "\"'[]{}=.,#\n0-9ex$"[pick(17)]);
          break;
        case 3:
          text.insert(at, text.substr(pick(text.size()), pick(60)));
          break;
        case 4:
          text.resize(at);
          break;
      }
    }
    auto result = load_text(text);
    if (!result) {
      REQUIRE_FALSE(result.error().what.empty());
      continue;
    }
    if (!complete_job(result->job)) continue;
    auto back = job_from_toml(job_to_toml(result->job), "/");
    INFO(text);
    REQUIRE(back);
    CHECK(*back == result->job);
    ++good;
  }
  CHECK(good > 100);  // many mutants are still valid jobs
}

TEST_CASE("a checkpoint's interval is a time, a number of steps, or the epoch", "[job]") {
  const auto every = [](const std::string& value) {
    const auto loaded = load_text(small_job("train.checkpoint.every = " + value + "\n"));
    REQUIRE(loaded);
    return loaded->job.train.checkpoint.every;
  };
  CHECK(every("\"10m\"") == Interval{.ns = 600'000'000'000});
  CHECK(every("\"1.5s\"") == Interval{.ns = 1'500'000'000});
  CHECK(every("\"250ms\"") == Interval{.ns = 250'000'000});
  CHECK(every("2000") == Interval{.steps = 2000});
  CHECK(every("\"epoch\"") == Interval{});
  for (const char* wrong : {"\"10\"", "\"0s\"", "\"-3m\"", "\"10 minutes\"", "0", "\"999999d\""}) {
    INFO(wrong);
    CHECK(error_of(small_job(str("train.checkpoint.every = ", wrong, "\n"))).id == "DP-2106");
  }
}

TEST_CASE("a time limit is a time above 0", "[job]") {
  const auto loaded = load_text(small_job(
      "cluster = { ps_wait = \"2m\", chief_silence = \"1.5s\", claims_wait = \"500ms\" }\n"));
  REQUIRE(loaded);
  CHECK(loaded->job.cluster.ps_wait_ns == 120'000'000'000);
  CHECK(loaded->job.cluster.chief_silence_ns == 1'500'000'000);
  CHECK(loaded->job.cluster.claims_wait_ns == 500'000'000);
  CHECK(loaded->job.cluster.workers_wait_ns == 60'000'000'000);
  CHECK(job_to_toml(loaded->job).find("ps_wait = \"2m\"") != std::string::npos);
  for (const char* wrong : {"\"10\"", "\"0s\"", "\"-3m\"", "\"soon\""}) {
    INFO(wrong);
    CHECK(error_of(small_job(str("cluster.ps_wait = ", wrong, "\n"))).id == "DP-2106");
  }
  CHECK(error_of(small_job("cluster.ps_wait = 30\n")).id == "DP-2104");
}

TEST_CASE("a job can leave out batches that fail, or whose loss is not finite", "[job]") {
  const auto loaded = load_text(small_job("train = { quarantine = true, on_nan = \"skip\" }\n"));
  REQUIRE(loaded);
  CHECK(loaded->job.train.quarantine);
  CHECK(loaded->job.train.on_nan == "skip");
  CHECK(error_of(small_job("train.on_nan = \"ignore\"\n")).id == "DP-2106");
}

TEST_CASE("the run of a warm start is relative to the job file", "[job]") {
  const auto loaded =
      load_text(small_job("train.warm_start = { run = \"runs/old\", slots = false }\n"));
  REQUIRE(loaded);
  CHECK(loaded->job.train.warm_start.run == loaded->job.base_dir + "/runs/old");
  CHECK_FALSE(loaded->job.train.warm_start.slots);
  const auto back = job_from_toml(job_to_toml(loaded->job), "/");
  REQUIRE(back);
  CHECK(back->train.warm_start == loaded->job.train.warm_start);
}

TEST_CASE("the file of a warm start is relative to the job file, and excludes a run", "[job]") {
  const auto loaded = load_text(small_job("train.warm_start = { file = \"w.npz\" }\n"));
  REQUIRE(loaded);
  CHECK(loaded->job.train.warm_start.source() == loaded->job.base_dir + "/w.npz");
  const auto back = job_from_toml(job_to_toml(loaded->job), "/");
  REQUIRE(back);
  CHECK(back->train.warm_start == loaded->job.train.warm_start);
  const auto both =
      load_text(small_job("train.warm_start = { file = \"w.npz\", run = \"runs/old\" }\n"));
  REQUIRE_FALSE(both);
  CHECK_THAT(both.error().what, Catch::Contains("both `run` and `file`"));
  const auto folder = load_text(small_job("train.warm_start = { file = \"runs/old\" }\n"));
  REQUIRE_FALSE(folder);
  CHECK_THAT(folder.error().what, Catch::Contains("runs/old") && Catch::Contains("file of arrays"));
}

}  // namespace
}  // namespace downpour::test
