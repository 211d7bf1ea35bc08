#include "shared/checkpoint/run_file.h"

#include <algorithm>

#include "shared/checkpoint/framed_file.h"
#include "shared/checkpoint/paths.h"
#include "shared/checkpoint/schema_codec.h"

namespace downpour::checkpoint {
namespace {

constexpr std::string_view kRunMagic = "DPRUN";
constexpr uint64_t kRunBytesMax = 16 * 1024 * 1024;
constexpr int kTermAttemptsMax = 1000;

/// Returns the highest term of a manifest. A copy of a run folder may lack the files of terms,
/// which are empty.
Result<uint32_t> highest_published(Storage& storage, const std::string& run_dir) {
  const auto names = storage.list(checkpoints_dir(run_dir));
  if (!names && names.error().code != ErrorCode::kNoInput) return names.error();
  uint32_t highest = 0;
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    if (const auto id = parse_manifest_name(name)) highest = std::max(highest, id->term);
  }
  return highest;
}

}  // namespace

std::vector<uint8_t> encode_run(const RunFile& run) {
  return frame(kRunMagic, kRunFormat, encode_run_body(run));
}

Result<RunFile> decode_run(std::span<const uint8_t> bytes, const std::string& path) {
  DP_TRY(const auto body, unframe(bytes, kRunMagic, kRunFormat, path));
  auto run = decode_run_body(body);
  if (!run) {
    run.error().where = str(path, ':', kFrameHeaderBytes);
    return run;
  }
  if (run->id == 0) return Error{ErrorCode::kBadData, "the run's id is missing", path};
  return run;
}

Result<void> write_run(Storage& storage, const std::string& run_dir, const RunFile& run) {
  DP_CHECK(run.id != 0);
  DP_TRY_VOID(storage.make_dirs(run_dir));
  DP_TRY(const bool created, storage.create_exclusive(run_path(run_dir), encode_run(run)));
  if (created) return {};
  return Error{ErrorCode::kCannotCreate, "this folder already contains a run", run_path(run_dir),
               "resume it, or choose another folder"};
}

Result<void> replace_run(Storage& storage, const std::string& run_dir, const RunFile& run) {
  DP_CHECK(run.id != 0);
  return storage.write_file_atomic(run_path(run_dir), encode_run(run));
}

Result<RunFile> read_run(Storage& storage, const std::string& run_dir) {
  auto bytes = storage.read_file(run_path(run_dir), kRunBytesMax);
  if (bytes) return decode_run(bytes->span(), run_path(run_dir));
  if (bytes.error().code == ErrorCode::kNoInput) {
    return Error{ErrorCode::kNoInput, "not a run folder: there is no file `run` in it", run_dir,
                 "give the run folder that `downpour train` printed"};
  }
  return std::move(bytes).error();
}

Result<uint32_t> highest_term(Storage& storage, const std::string& run_dir) {
  DP_TRY(const std::vector<std::string> names, storage.list(run_dir));
  uint32_t highest = 0;
  for (const std::string& name : names)
    highest = std::max(highest, parse_term_name(name).value_or(0));
  return highest;
}

Result<uint32_t> take_term(Storage& storage, const std::string& run_dir) {
  uint32_t tried = 0;
  for (int attempt = 0; attempt < kTermAttemptsMax; ++attempt) {
    DP_TRY(uint32_t highest, highest_term(storage, run_dir));
    if (highest == 0) {
      DP_TRY(highest, highest_published(storage, run_dir));
    }
    // A network file system may return an old listing of the folder, without the term that another
    // chief has taken.
    const uint32_t known = std::max(highest, tried);
    if (known == UINT32_MAX) break;
    tried = known + 1;
    DP_TRY(const bool taken, storage.create_exclusive(term_path(run_dir, tried), {}));
    if (taken) return tried;  // otherwise another chief was faster; try again
  }
  return Error{ErrorCode::kCannotCreate, "the run has used all terms; start a new run with --fresh",
               term_path(run_dir, UINT32_MAX)};
}

Result<void> remove_moves(Storage& storage, const std::string& run_dir) {
  const std::string folder = moves_dir(run_dir);
  DP_TRY(const bool there, storage.exists(folder));
  if (!there) return {};
  DP_TRY(const std::vector<std::string> names, storage.list(folder));
  for (const std::string& name : names) DP_TRY_VOID(storage.remove(str(folder, '/', name)));
  return {};
}

}  // namespace downpour::checkpoint
