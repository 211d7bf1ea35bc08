// The keys of the training modes: how they are read, printed, frozen and checked.
#include "shared/job/resume.h"
#include "tests/shared/job/job_test_support.h"

namespace downpour::test {
namespace {

TEST_CASE("synchronous steps may quarantine batches, but not with backups", "[job]") {
  const std::string lines = "train = { mode = \"sync\", replicas = 3, quarantine = true";
  loaded(small_job(lines + " }\n"));
  const std::string mixed = "train = { mode = \"mixed\", replicas = 3, quarantine = true }\n";
  CHECK(error_of(small_job(mixed)).what.find("sparse tables") != std::string::npos);
  CHECK(error_of(small_job(lines + ", backups = 1 }\n")).what.find("with backups") !=
        std::string::npos);
}

TEST_CASE("synchronous steps with a mean need the same weights for all outputs", "[job]") {
  const auto job = [](const std::string& mode, const std::string& weights) {
    return "data.source = \"a9a\"\ndata.format = \"csv\"\n"
           "data.fields = { x = {}, y = {}, v = {}, w = {} }\n"
           "model.layers = [{ name = \"l\", type = \"linear\", inputs = [\"x\"] }]\n"
           "model.outputs = [{ name = \"a\", input = \"l\", loss = \"squared\", target = \"y\", "
           "weights = \"v\" }, { name = \"b\", input = \"l\", loss = \"squared\", target = "
           "\"y\"" +
           weights + " }]\ntrain.mode = \"" + mode + "\"\n";
  };
  const Error none = error_of(job("sync", ""));
  CHECK(none.what ==
        "output `a` has the weights `v`, but output `b` has no `weights`: a synchronous step is "
        "divided once, by the weight of its records");
  CHECK(none.where.find("job.toml:5") != std::string::npos);
  CHECK(error_of(job("sync", ", weights = \"w\"")).what.find("`b` has the weights `w`") !=
        std::string::npos);
  loaded(job("sync", ", weights = \"v\""));
  loaded(job("async", ", weights = \"w\""));
  loaded(job("local", ", weights = \"w\""));
  loaded(job("sync", ", weights = \"w\"") + "train.reduction = \"sum\"\n");
}

TEST_CASE("a job without worker processes has one ps and no input processes", "[job]") {
  const Job job =
      loaded(small_job("train = { mode = \"sync\", replicas = 3 }\ncluster.workers = 0\n"));
  CHECK(job.cluster.workers == 0);
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(again->cluster == job.cluster);
  const Error ps = error_of(small_job("cluster = { workers = 0, ps = 2 }\n"));
  CHECK(ps.what.find("one process") != std::string::npos);
  CHECK(ps.hint.find("cluster.ps_threads") != std::string::npos);
  CHECK(error_of(small_job("cluster = { workers = 0, input_workers = 1 }\n")).what == ps.what);
  CHECK(error_of(small_job("train.mode = \"sync\"\ncluster.workers = 0\n")).what ==
        "`workers = 0` needs the number of replicas");
}

TEST_CASE("ps in workers are as many as the workers", "[job]") {
  const auto cluster_of = [](const std::string& text) { return loaded(small_job(text)).cluster; };
  const Job job = loaded(small_job("cluster = { ps = \"in_workers\", workers = 3 }\n"));
  CHECK(job.cluster.ps_in_workers);
  CHECK(job.cluster.ps == 3);
  CHECK(job_from_toml(job_to_toml(job), job.base_dir)->cluster == job.cluster);
  CHECK(cluster_of("cluster = { ps = \"in_workers\", workers = 0 }\n"
                   "train = { mode = \"sync\", replicas = 2 }\n")
            .ps == 1);
  CHECK_FALSE(cluster_of("cluster.ps = 2\n").ps_in_workers);
  CHECK(error_of(small_job("cluster.ps = \"in_ps\"\n")).hint == "a number, or \"in_workers\"");
  CHECK_FALSE(error_of(small_job("cluster.ps = 0\n")).what.empty());
  CHECK(error_of(small_job("cluster = { ps = \"in_workers\", workers = 3 }\n"
                           "train = { mode = \"sync\", backups = 1 }\n"))
            .what.find("a ps that runs in it") != std::string::npos);
}

TEST_CASE("backups are read, printed and frozen within an epoch", "[job]") {
  const std::string sync = "train.mode = \"sync\"\ntrain.replicas = 4\n";
  const Job job = loaded(small_job(sync + "train.backups = 1\n"));
  CHECK(job.train.backups == 1);
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(again->train.backups == 1);
  const Job without = loaded(small_job(sync));
  CHECK(without.train.backups == 0);
  CHECK(job_to_toml(without).find("backups") == std::string::npos);
  REQUIRE(frozen_differences(job, without, true).size() == 1);
  CHECK(frozen_differences(job, without, true)[0].key == "train.backups");
  CHECK(frozen_differences(job, without, false).empty());
}

TEST_CASE("backups need synchronous training, and leave a batch of each step", "[job]") {
  const Error async = error_of(small_job("train.backups = 1\n"));
  CHECK(async.what == "mode \"async\" has no backups");
  CHECK(async.where == "/jobs/job.toml:4:17");
  const Error all =
      error_of(small_job("train.mode = \"sync\"\ntrain.replicas = 4\ntrain.backups = 4\n"));
  CHECK(all.what == "a step needs at least one batch, but 4 of 4 replicas may be left out");
  CHECK(all.hint == "set it below train.replicas");
}

TEST_CASE("mode mixed has replicas and no backups, and a run keeps it", "[job]") {
  const std::string mixed = "train.mode = \"mixed\"\n";
  const Job job = loaded(small_job(mixed + "train.replicas = 4\ntrain.global_batch_size = 64\n"));
  CHECK(job.train.mode == TrainMode::kMixed);
  CHECK(job.train.replicas == 4U);
  CHECK(job.train.batch_size == 16);
  CHECK(job_from_toml(job_to_toml(job), job.base_dir)->train == job.train);
  CHECK(loaded(small_job(mixed + "cluster.workers = 3\n")).train.replicas == 3U);
  CHECK(error_of(small_job(mixed + "train.replicas = 4\ntrain.backups = 1\n")).what ==
        "mode \"mixed\" has no backups");
  for (const std::string norm : {"norm", "global_norm"}) {
    const Error error = error_of(small_job(mixed + "optimizer.clip = { " + norm + " = 1 }\n"));
    CHECK(error.what.starts_with("mode \"mixed\" clips gradients only by value"));
    CHECK(error.where.starts_with("/jobs/job.toml:5:"));
  }
  CHECK(loaded(small_job(mixed + "optimizer.clip = { value = 1 }\n")).clip.value == 1.0F);
  const Job sync = loaded(
      small_job("train.mode = \"sync\"\ntrain.replicas = 4\ntrain.global_batch_size = 64\n"));
  const auto differences = frozen_differences(job, sync, false);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].key == "train.mode");
  CHECK(differences[0].for_the_run);
}

TEST_CASE("a global batch is divided evenly among the replicas", "[job]") {
  const std::string sync = "train.mode = \"sync\"\ntrain.replicas = 4\n";
  const Job job = loaded(small_job(sync + "train.global_batch_size = 2048\n"));
  CHECK(job.train.batch_size == 512);
  CHECK(job.train.global_batch_size == 0);
  const auto wrong = [](const std::string& more) { return error_of(small_job(more)); };
  const Error odd = wrong(sync + "train.global_batch_size = 2050\n");
  CHECK(odd.what == "2050 records can't be divided evenly among 4 replicas");
  CHECK(odd.where == "/jobs/job.toml:6:27");
  const Error both = wrong(sync + "train.global_batch_size = 2048\ntrain.batch_size = 512\n");
  CHECK(both.what == "`batch_size` and `global_batch_size` are both given");
  std::vector<Override> overrides = {{"train.global_batch_size", "1024", "--set"}};
  CHECK(loaded(small_job(sync + "train.batch_size = 16\n"), overrides).train.batch_size == 256);
  overrides = {{"train.batch_size", "16", "--set"}};
  CHECK(loaded(small_job(sync + "train.global_batch_size = 2048\n"), overrides).train.batch_size ==
        16);
  const Error async = wrong("train.global_batch_size = 2048\n");
  CHECK(async.what == "mode \"async\" has no steps of several batches");
  CHECK(async.hint.find("train.mode = \"sync\"") != std::string::npos);
}

TEST_CASE("synchronous training has a replica for each worker by default", "[job]") {
  const Job pair = loaded(small_job("train.mode = \"sync\"\ncluster.workers = 2\n"));
  CHECK(pair.train.mode == TrainMode::kSync);
  CHECK(pair.train.replicas == 2U);
  CHECK(job_from_toml(job_to_toml(pair), pair.base_dir)->train == pair.train);
  const Job four =
      loaded(small_job("train.mode = \"sync\"\ntrain.replicas = 4\ncluster.workers = 2\n"));
  CHECK(four.train.replicas == 4U);
  CHECK(frozen_differences(pair, four, false).empty());
  CHECK(frozen_differences(pair, four, true).size() == 1);

  const Error other = error_of(small_job("train.replicas = 4\n"));
  CHECK(other.what == "mode \"async\" has no replicas");
  CHECK(other.hint.find("train.mode = \"sync\"") != std::string::npos);
  for (const char* line : {"train.replicas = 0", "data.sharding = \"file\"\ndata.streams = 3"}) {
    const Error error = error_of(small_job(std::string("train.mode = \"sync\"\n") + line + "\n"));
    INFO(line << " -> " << error.what);
    CHECK(error.where.starts_with("/jobs/job.toml:"));
    CHECK(exit_code(error.code) == 78);
  }
  for (const char* mode : {"sync", "local", "bounded"}) {
    const std::string lines = std::string("train.mode = \"") + mode + "\"\n";
    CHECK(loaded(small_job(lines + "cluster.input_workers = 1\n")).cluster.input_workers == 1);
    CHECK(loaded(small_job(lines + "data.program = [\"cat\"]\n")).data.program.size() == 1);
  }
}

TEST_CASE("in synchronous training each replica has a stream of its own", "[job]") {
  const std::string job = "train.mode = \"sync\"\ntrain.replicas = 4\ndata.sharding = \"file\"\n";
  CHECK(completed(small_job(job)).data.streams == 4);
  CHECK(completed(small_job(job + "data.streams = 4\n")).data.streams == 4);
  const Error other = error_of(small_job(job + "data.streams = 3\n"));
  CHECK(other.what.find("4 replicas and 3 streams") != std::string::npos);
  const Error backups = error_of(small_job(job + "train.backups = 1\n"));
  CHECK(backups.what.find("no stream of its own") != std::string::npos);
}

TEST_CASE("bounded staleness has a default bound, and no other mode has one", "[job]") {
  const Job bounded = loaded(small_job("train.mode = \"bounded\"\n"));
  CHECK(bounded.train.mode == TrainMode::kBounded);
  CHECK(bounded.train.staleness == kStalenessDefault);
  CHECK(job_from_toml(job_to_toml(bounded), bounded.base_dir)->train == bounded.train);
  const Job strict = loaded(small_job("train.mode = \"bounded\"\ntrain.staleness = 0\n"));
  CHECK(strict.train.staleness == 0);
  CHECK(frozen_differences(bounded, strict, true).empty());
  const Job async = loaded(small_job());
  CHECK_FALSE(async.train.staleness);
  CHECK(frozen_differences(bounded, async, false).empty());
  CHECK(frozen_differences(bounded, async, true).size() == 1);  // the mode, inside an epoch

  const Error without = error_of(small_job("train.staleness = 3\n"));
  CHECK(without.what.find("does not limit the staleness") != std::string::npos);
  CHECK(without.where.starts_with("/jobs/job.toml:4:"));
  CHECK(without.hint.find("train.mode = \"bounded\"") != std::string::npos);
  CHECK(error_of(small_job("train.mode = \"bounded\"\ntrain.staleness = -1\n")).id == "DP-2106");
  CHECK(error_of(small_job("train.mode = \"bunded\"\n")).hint == "did you mean `bounded`?");
}

}  // namespace
}  // namespace downpour::test
