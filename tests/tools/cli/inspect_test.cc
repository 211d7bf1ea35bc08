#include "tools/cli/inspect.h"

#include <sstream>

#include <nlohmann/json.hpp>

#include "shared/checkpoint/run_file.h"
#include "tests/shared/checkpoint/support.h"

namespace downpour::tools {
namespace {

using checkpoint::Folder;

void make_run(const std::string& run_dir) {
  PosixStorage storage;
  REQUIRE(checkpoint::write_run(storage, run_dir, {.id = 0x5eed}));
  REQUIRE(checkpoint::publish(storage, run_dir,
                              checkpoint::write_checkpoint(storage, run_dir, {3, 17}, 400)));
}

/// Changes a bit of the images of checkpoint 3.17. Returns their path.
std::string damage_images(Storage& storage, const std::string& run_dir) {
  const std::string images =
      checkpoint::checkpoint_folder(run_dir, {3, 17}) + "/ps-1-0-0000000000000abc.ckpt";
  const Bytes bytes = *storage.read_file(images, 1 << 20);
  std::vector<uint8_t> changed(bytes.data(), bytes.data() + bytes.size());
  changed[changed.size() / 2] ^= 0x10;
  REQUIRE(storage.write_file_atomic(images, changed));
  return images;
}

TEST_CASE("inspect shows variables, epochs, account and partitions of a run", "[tools][inspect]") {
  const Folder folder;
  make_run(folder.path);
  std::ostringstream out;
  REQUIRE(run_inspect(folder.path, {}, out) == 0);
  const std::string text = out.str();
  CAPTURE(text);
  for (const char* part :
       {"checkpoint 3.17 of run 0000000000005eed, written 2023-11-14 22:13:20 UTC by downpour test",
        "manifest-3-17.dpm", "2 complete, 1 sealed", "4 partitions of 400 to 400 rows",
        "1,600 in total", "in 2 files, all checksums verified", "wide", "ftrl", "key x 4",
        "adagrad", "hidden/weights", "100 x 91", "stores 5,004 of 9,100 weights",
        "1      sealed      10       64   640      639"}) {
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find("does not balance") == std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("inspect --json is one document with exact figures", "[tools][inspect]") {
  const Folder folder;
  make_run(folder.path);
  std::ostringstream out;
  REQUIRE(run_inspect(checkpoint::manifest_path(folder.path, {3, 17}), {.json = true}, out) == 0);
  const auto json = nlohmann::json::parse(out.str());
  CHECK(json["checkpoint"]["n"] == 17);
  CHECK(json["partitions"]["rows"] == 1600);
  CHECK(json["variables"][1]["name"] == "deep");
  CHECK(json["variables"][1]["weight_bytes"] == 1600 * 4 * 4);
  CHECK(json["variables"][1]["slot_bytes"] == 1600 * 4 * 4);
  CHECK(json["variables"][0]["slot_bytes"] == 1600 * 2 * 4);
  CHECK(json["variables"][2]["shape"] == std::vector<int>{100, 91});
  CHECK(json["epochs"][0]["summary"]["loss"] == 0.5);
  CHECK(json["epochs"][0]["counts"]["skipped"] == 1);
  CHECK(json["verified"] == true);
}

TEST_CASE("inspect names the checkpoint of the best evaluation", "[tools][inspect]") {
  const Folder folder;
  make_run(folder.path);
  PosixStorage storage;
  auto manifest = checkpoint::write_checkpoint(storage, folder.path, {3, 18}, 400);
  manifest.best = {3, 17};
  REQUIRE(checkpoint::publish(storage, folder.path, manifest));
  const std::string path = checkpoint::manifest_path(folder.path, {3, 17});
  std::ostringstream text, json;
  REQUIRE(run_inspect(folder.path, {}, text) == 0);
  CHECK_THAT(text.str(), Catch::Contains("checkpoint 3.17 has the best evaluation of the run; eval "
                                         "and predict use it (" +
                                         path + ")"));
  REQUIRE(run_inspect(folder.path, {.json = true}, json) == 0);
  CHECK(nlohmann::json::parse(json.str())["best"]["manifest"] == path);
  CHECK(nlohmann::json::parse(json.str())["best"]["verified"] == true);
  // Damage of the best checkpoint is found, too.
  const std::string images = damage_images(storage, folder.path);
  std::ostringstream damaged;
  const auto inspected = inspect(folder.path, {}, damaged);
  REQUIRE_FALSE(inspected);
  CHECK(inspected.error().what.starts_with("the best checkpoint, 3.17: "));
  CHECK(inspected.error().where.starts_with(images + ":"));
  CHECK_THAT(damaged.str(), Catch::Contains("eval and predict can't use it: it is damaged"));
  manifest = checkpoint::write_checkpoint(storage, folder.path, {3, 19}, 400);
  manifest.best = {3, 19};
  REQUIRE(checkpoint::publish(storage, folder.path, manifest));
  std::ostringstream own;
  REQUIRE(run_inspect(folder.path, {}, own) == 0);
  CHECK_THAT(own.str(), Catch::Contains("this checkpoint has the best evaluation of the run"));
}

TEST_CASE("inspect reports unreadable input by its exit status and prints no partial result",
          "[tools][inspect]") {
  const Folder folder;
  std::ostringstream out;
  CHECK(run_inspect(folder.path + "/gone", {}, out) == 66);
  CHECK(run_inspect(folder.path, {}, out) == 66);
  make_run(folder.path);
  PosixStorage storage;
  const std::string images = damage_images(storage, folder.path);
  CHECK(run_inspect(folder.path, {}, out) == 65);
  const auto inspected = inspect(folder.path, {}, out);
  CHECK(inspected.error().where.rfind(images + ":", 0) == 0);
  CHECK(out.str().empty());
}

}  // namespace
}  // namespace downpour::tools
