// open_run(): with which data a run continues, and which checkpoint a new chief takes.
#include <algorithm>
#include <cerrno>
#include <functional>

#include "chief/runtime/history.h"
#include "chief/runtime/publish.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/run_file.h"
#include "tests/chief/runtime/support.h"

namespace downpour::chief {
namespace {

/// A run over one file of 200 lines.
struct Run {
  Run() { write("1"); }
  /// Writes the data file, with `label` in all its lines.
  void write(const std::string& label) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += str(label, ' ', 1000 + i, ":1\n");
    dir.write("d.svm", text);
  }
  RunPlan plan(uint32_t epochs = 1, const std::string& more = "") const {
    return plan_of(dir, str("partitions = 2\nrun_dir = \"", run_dir,
                            "\"\ndata.source = \"d.svm\"\ndata.format = \"libsvm\"\n"
                            "model.preset = \"logistic_regression\"\ntrain.epochs = ",
                            epochs, "\n", more));
  }
  Result<ChiefConfig> open(const RunPlan& with, std::vector<std::string>* notes = nullptr) {
    return open_run(storage, with, {.run_id = 7}, notes);
  }
  /// Returns a whole checkpoint of empty partitions.
  checkpoint::Manifest checkpoint_of(const RunPlan& of, ViewId id, uint32_t sealed) {
    std::vector<checkpoint::PartitionImage> images(2);
    images[1].partition = PartitionId{1};
    for (auto& image : images) image.sealed_epochs = sealed;
    const std::string folder = checkpoint::checkpoint_folder(run_dir, id);
    REQUIRE(storage.make_dirs(folder));
    auto refs = checkpoint::write_images(storage, folder, "ps-0.ckpt", images, of.tables);
    REQUIRE(refs);
    return {.id = id,
            .run = 7,
            .plan_hash = of.plan_hash,
            .job = of.job_text,
            .partitions = 2,
            .tables = of.tables,
            .images = std::move(*refs),
            .completed_epochs = sealed,
            .sealed_epochs = sealed};
  }
  /// Opens a run of three epochs, and publishes its first one.
  RunPlan begin() {
    RunPlan begun = plan(3);
    REQUIRE(open(begun));
    publish(begun, {1, 1}, 1);
    return begun;
  }
  void publish(const RunPlan& of, ViewId id, uint32_t sealed) {
    const auto published = checkpoint::publish(storage, run_dir, checkpoint_of(of, id, sealed));
    INFO((published ? "" : published.error().what));
    REQUIRE(published);
  }

  ScratchDir dir;
  std::string run_dir = dir / "run";
  PosixStorage storage;
};

TEST_CASE(
    "a run without a checkpoint is refused if the data have changed, with the name of the file",
    "[chief]") {
  Run run;
  REQUIRE(run.open(run.plan()));
  run.write("0");
  const auto refused = run.open(run.plan());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kConfig);
  CHECK(refused.error().id == "DP-2112");
  INFO(refused.error().what);
  CHECK(refused.error().what.find(str("the content of ", run.dir / "d.svm", " has changed")) !=
        std::string::npos);
  CHECK(refused.error().hint.find("--fresh") != std::string::npos);
  // A refused chief takes no term, so it does not supersede a running chief.
  CHECK(*checkpoint::highest_term(run.storage, run.run_dir) == 1);
  run.dir.write("d.svm", "1 1000:1\n");
  CHECK(run.open(run.plan()).error().what.find("has 9 bytes") != std::string::npos);
  run.write("1");
  const auto again = run.open(run.plan());
  REQUIRE(again);
  CHECK(again->term == 2);
  run.write("0");
  CHECK(open_run(run.storage, run.plan(), {.fresh = true, .run_id = 8}));
}

TEST_CASE("data may change when all epochs are sealed, but not within an epoch", "[chief]") {
  Run run;
  const RunPlan first = run.plan(1);
  REQUIRE(run.open(first));
  run.publish(first, {1, 1}, 1);
  run.write("0");
  const auto finished = run.open(run.plan(1));  // no epoch is left to train
  REQUIRE_FALSE(finished);
  CHECK(finished.error().id == "DP-2112");
  CHECK(finished.error().what.find("the run is finished, and was trained on other data") == 0);
  CHECK(finished.error().hint.find("its 1 epoch (--epochs N)") != std::string::npos);
  const RunPlan second = run.plan(3);
  const auto next = run.open(second);
  REQUIRE(next);
  CHECK(next->resume->sealed_epochs == 1);
  CHECK(checkpoint::read_run(run.storage, run.run_dir)->plan_hash == second.plan_hash);
  // No checkpoint holds batches of those epochs yet. The chief checks the claims of the ps when
  // they join.
  run.write("2");
  CHECK(run.open(run.plan(3)));
  run.write("0");
  REQUIRE(run.open(second));
  run.publish(second, {2, 1}, 2);
  run.write("2");
  const auto refused = run.open(run.plan(3));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().id == "DP-2112");
  INFO(refused.error().what);
  CHECK(refused.error().what.find("after the start of epoch 3 of this run: the content of") !=
        std::string::npos);
  CHECK(refused.error().what.find("d.svm") != std::string::npos);
}

/// Gives a checkpoint the accounts and evaluations of its epochs, with these losses.
void add_epochs(checkpoint::Manifest& manifest, const std::vector<double>& losses) {
  std::vector<EpochAccount> accounts;
  std::vector<Evaluation> evaluations;
  for (uint32_t e = 0; e < losses.size(); ++e) {
    accounts.push_back({.epoch = e, .shards = 1});
    Evaluation& evaluation = evaluations.emplace_back();
    evaluation.epochs_trained = e + 1;
    evaluation.outputs.push_back({.sums = {.weight = 10, .loss = 10 * losses[e]}});
    evaluation.rankings.emplace_back();
  }
  manifest.epochs = to_records(accounts, evaluations);
}

TEST_CASE("data may change after an early stop, because no epoch is open", "[chief]") {
  Run run;
  const std::string early = "eval = { holdout = 0.1, early_stop = { patience = 1 } }\n";
  const RunPlan first = run.plan(9, early);
  REQUIRE(run.open(first));
  auto manifest = run.checkpoint_of(first, {1, 1}, 2);
  add_epochs(manifest, {0.4, 0.3});
  REQUIRE(checkpoint::publish(run.storage, run.run_dir, manifest));
  CHECK_FALSE(has_ended(first.job, manifest));
  run.write("0");
  const auto refused = run.open(run.plan(9, early));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().id == "DP-2112");

  manifest = run.checkpoint_of(first, {1, 2}, 3);
  add_epochs(manifest, {0.4, 0.3, 0.5});
  REQUIRE(checkpoint::publish(run.storage, run.run_dir, manifest));
  CHECK(has_ended(first.job, manifest));
  const auto next =
      run.open(run.plan(9, "eval = { holdout = 0.1, early_stop = { patience = 3 } }\n"));
  INFO((next ? "" : next.error().what));
  REQUIRE(next);
  CHECK(next->resume->sealed_epochs == 3);
}

TEST_CASE("a resumed run knows which models it has kept, and of which epochs", "[chief]") {
  Run run;
  const std::string kept = "eval = { holdout = 0.1, keep_best = true }\n";
  const RunPlan plan = run.plan(3, kept);
  REQUIRE(run.open(plan));
  const std::vector<double> losses = {0.5, 0.3, 0.4};
  for (uint32_t n = 1; n <= 3; ++n) {
    auto manifest = run.checkpoint_of(plan, {1, n}, n);
    add_epochs(manifest, {losses.begin(), losses.begin() + n});
    manifest.best = {1, std::min(n, 2U)};
    manifest.ownership_generations.assign(2, {1, 1});
    manifest.given = {1, 1};
    REQUIRE(checkpoint::publish(run.storage, run.run_dir, manifest));
  }
  const auto resumed = run.open(run.plan(4, kept));
  REQUIRE(resumed);
  CHECK(resumed->resume->best == KeptModel{{1, 2}, 2});
  // The newest one is the end of a job, so its variables are those of an evaluation, too.
  CHECK(resumed->resume->kept ==
        std::vector{KeptModel{{1, 1}, 1}, KeptModel{{1, 2}, 2}, KeptModel{{1, 3}, 3}});
  CHECK_FALSE(resumed->eval_trained_on);
  // Records of a larger holdout were trained on.
  CHECK(run.open(run.plan(4, "eval.holdout = 0.2\n"))->eval_trained_on);
  CHECK_FALSE(run.open(run.plan(4, "eval.holdout = 0.05\n"))->eval_trained_on);
}

TEST_CASE("evaluations are compared only if they read the same records", "[chief]") {
  Run run;
  const auto eval_data = [&](const std::string& more) {
    const auto opened = open_run(run.storage, run.plan(1, more), {.fresh = true, .run_id = 7});
    INFO((opened ? "" : opened.error().what));
    REQUIRE(opened);
    return opened->eval_data;
  };
  const uint64_t all = eval_data("eval.source = \"d.svm\"\n");
  CHECK(eval_data("eval.source = \"d.svm\"\n") == all);
  CHECK(eval_data("eval.source = { path = \"d.svm\", take = 100 }\n") != all);
  CHECK(eval_data("eval.source = { path = \"d.svm\", skip = 100 }\n") != all);
  CHECK(eval_data("eval.source = { path = \"d.svm\", shard = { index = 1, count = 2 } }\n") != all);
  CHECK(eval_data("eval.source = \"d.svm\"\ndata.filter = \"label > 0\"\n") != all);
}

TEST_CASE("a resumed run reports steps of another size", "[chief]") {
  Run run;
  const std::string two = "train.mode = \"sync\"\ntrain.batch_size = 10\ntrain.replicas = ";
  const RunPlan plan = run.plan(1, two + "2\n");
  REQUIRE(run.open(plan));
  auto manifest = run.checkpoint_of(plan, {1, 1}, 1);
  add_epochs(manifest, {0.4});
  REQUIRE(checkpoint::publish(run.storage, run.run_dir, manifest));
  std::vector<std::string> notes;
  REQUIRE(run.open(run.plan(2, two + "2\n"), &notes));
  CHECK(notes.empty());
  REQUIRE(run.open(run.plan(2, two + "1\n"), &notes));
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("the steps of the next epochs have 10 records instead of 20"));
}

TEST_CASE("an older checkpoint of other data is restored only if all its epochs are sealed",
          "[chief]") {
  Run run;
  const RunPlan two = run.plan(2);
  const uint64_t other = two.plan_hash + 1;
  CHECK(fits_plan(run.checkpoint_of(two, {1, 1}, 0), two.plan_hash, &two.job, run.run_dir));
  CHECK_FALSE(fits_plan(run.checkpoint_of(two, {1, 2}, 1), other, &two.job, run.run_dir));
  CHECK(fits_plan(run.checkpoint_of(two, {1, 3}, 2), other, &two.job, run.run_dir));
}

TEST_CASE("a checkpoint of another mode is restored only if all its epochs are sealed", "[chief]") {
  Run run;
  const RunPlan async = run.plan(2);
  const RunPlan sync = run.plan(3, "train.mode = \"sync\"\n");
  REQUIRE(async.plan_hash == sync.plan_hash);
  const auto fits = [&](uint32_t n, uint32_t sealed, const Job* job) {
    return fits_plan(run.checkpoint_of(async, {1, n}, sealed), sync.plan_hash, job, run.run_dir);
  };
  CHECK_FALSE(fits(1, 1, &sync.job));
  CHECK(fits(2, 1, &async.job));
  CHECK(fits(3, 1, nullptr));
  CHECK(fits(4, 2, &sync.job));
}

/// Fails with ENOSPC for paths that contain `fails`.
struct FullDisk final : PosixStorage {
  int fault(const char* operation, const std::string& path) override {
    return std::string_view(operation) != "remove" && path.find(fails) != std::string::npos ? ENOSPC
                                                                                            : 0;
  }
  std::string fails;
};

TEST_CASE("a chief starts even if the disk has no room for files that are only for people",
          "[chief]") {
  Run run;
  REQUIRE(run.open(run.plan()));
  FullDisk full;
  full.fails = "job.toml";
  std::vector<std::string> notes;
  const auto opened = open_run(full, run.plan(), {}, &notes);
  INFO((opened ? "" : opened.error().what));
  REQUIRE(opened);
  CHECK(opened->term == 2);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("the job could not be written") != std::string::npos);
  CHECK(notes[0].find("job.toml") != std::string::npos);
  // Two chiefs with the same term could both publish.
  full.fails = "term-";
  CHECK(open_run(full, run.plan(), {}).error().code == ErrorCode::kIo);
}

/// Lets another chief act just before, or just after, this one creates a file of that name.
struct Meanwhile final : PosixStorage {
  Result<bool> create_exclusive(const std::string& path, std::span<const uint8_t> bytes) override {
    const bool now = path.ends_with(name) && act;
    if (now && before) std::exchange(act, {})();
    auto created = PosixStorage::create_exclusive(path, bytes);
    if (now && !before) std::exchange(act, {})();
    return created;
  }
  std::string name;
  bool before = true;
  std::function<void()> act;
};

TEST_CASE("a chief that hangs removes no checkpoint once another has taken over", "[chief]") {
  Run run;
  const RunPlan plan = run.begin();
  Meanwhile disk;
  disk.name = "manifest-1-2.dpm";
  disk.before = GENERATE(true, false);
  INFO((disk.before ? "before" : "after") << " the manifest of the first chief");
  std::optional<ChiefConfig> second;
  disk.act = [&] {
    auto opened = run.open(plan);
    REQUIRE(opened);
    second = std::move(*opened);
  };
  Result<void> removed;
  REQUIRE(publish_checkpoint(disk, run.run_dir, run.checkpoint_of(plan, {1, 2}, 2), 1, removed));
  CHECK(removed);
  REQUIRE(second);
  CHECK(second->term == 2);
  const ViewId from = second->resume->checkpoint;
  CHECK(from == (disk.before ? ViewId{1, 1} : ViewId{1, 2}));
  CHECK(run.storage.file_bytes(checkpoint::checkpoint_folder(run.run_dir, from) + "/ps-0.ckpt"));
}

TEST_CASE("a chief resumes from what another chief published before it took its term", "[chief]") {
  Run run;
  const RunPlan plan = run.begin();
  Meanwhile disk;
  disk.name = "term-2";
  disk.act = [&] {
    Result<void> removed;
    REQUIRE(publish_checkpoint(run.storage, run.run_dir, run.checkpoint_of(plan, {1, 2}, 2), 1,
                               removed));
    REQUIRE(removed);
  };
  const auto second = open_run(disk, plan, {});
  REQUIRE(second);
  CHECK(second->resume->checkpoint == ViewId{1, 2});
  CHECK(second->resume->sealed_epochs == 2);
}

}  // namespace
}  // namespace downpour::chief
