#include "tools/sim/counter.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "chief/runtime/job_setup.h"
#include "shared/base/hash.h"
#include "shared/env/storage.h"
#include "shared/job/job_file.h"

namespace downpour::sim {
namespace {

constexpr const char* kTarget = "1073741824";  // 2^30
constexpr const char* kCounterModel =
    "[[model.layers]]\nname = \"w\"\ntype = \"linear\"\ninputs = [\"features\"]\n";
constexpr const char* kCounterOutput =
    "[[model.outputs]]\nname = \"y\"\ninput = \"w\"\nloss = \"squared\"\ntarget = \"label\"\n"
    "[optimizer]\ntype = \"sgd\"\nlearning_rate = ";
constexpr const char* kCounterRate =
    "4.656612873077392578125e-10\n";  // 2^-31, because the loss is the square without a factor 1/2
constexpr const char* kBiasRate =     // 2^-41
    "[[optimizer.rules]]\nvariables = \"w/bias\"\ntype = \"sgd\"\n"
    "learning_rate = 4.5474735088646411895751953125e-13\n";

// The folder is the same for every user, because messages contain its path: otherwise the trace of
// a seed would depend on the user. The 0 keeps the traces of the seeds that tests name.
constexpr const char* kFolder = "/tmp/downpour-sim-0";

std::string mode_with_replicas(const JobSize& size) {
  if (size.replicas == 0) return "";
  if (size.mixed) return str("mode = \"mixed\"\nreplicas = ", size.replicas, "\n");
  if (size.sync_every == 0 && !size.whole_epochs)
    return str("mode = \"sync\"\nreplicas = ", size.replicas, "\nbackups = ", size.backups, "\n");
  return str("mode = \"local\"\nreplicas = ", size.replicas,
             "\nsync_every = ", size.whole_epochs ? "\"epoch\"" : str(size.sync_every),
             size.touched ? "\naverage = \"touched\"" : "",
             "\nouter = { type = \"momentum\", learning_rate = 0.5, momentum = 0.75 }\n");
}

std::string toml_of(const JobSize& size, const BuiltInJob& own, const std::string& sources) {
  return str(
      "name = \"", own.name, "\"\npartitions = ", size.partitions, "\nrun_dir = \"", kFolder,
      "/run\"\n[data]\nsource = ", sources, "\nformat = \"", own.format, "\"\nsharding = \"",
      size.sharding, "\"\n", size.sharding == "auto" || size.replicas > 0 ? "" : "streams = 3\n",
      size.whole_epochs ? "" : str("shard_records = ", size.batches * size.records, "\n"),
      "interleave = { cycle = ", size.cycle,
      " }\nshuffle = ", size.window > 0 ? str(size.window) : "\"shard\"", "\n", own.model,
      "[train]\nsteps = ", size.steps, "\nepochs = ", size.epochs, "\nbatch_size = ", size.records,
      "\nreduction = \"sum\"\n",
      size.staleness < 0 ? "" : str("mode = \"bounded\"\nstaleness = ", size.staleness, "\n"),
      mode_with_replicas(size), "[train.checkpoint]\nevery = ",
      size.checkpoint_steps > 0 ? size.checkpoint_steps : own.checkpoint_steps,
      "\nincremental = true\nfull_every = 4\n[cluster]\nchief_silence = \"", size.chief_silence_s,
      "s\"\n");
}

}  // namespace

Result<std::string> write_data(const std::string& name, const std::string& format,
                               const std::string& text) {
  PosixStorage storage;
  DP_TRY_VOID(storage.make_dirs(kFolder));
  // As of /tmp: every user may add files. This fails unless the folder belongs to this user.
  using std::filesystem::perms;
  std::error_code not_owner;
  std::filesystem::permissions(kFolder, perms::all | perms::sticky_bit, not_owner);
  const std::string file = str(kFolder, '/', name, '-', hex(hash_string(text)), '.', format);
  DP_TRY(const bool there, storage.exists(file));
  if (!there) {
    DP_TRY_VOID(storage.write_file_atomic(file, as_bytes(text)));
    return file;
  }
  DP_TRY(const Bytes found, storage.read_file(file, text.size() + 1));
  if (std::ranges::equal(found.span(), as_bytes(text))) return file;
  return Error{ErrorCode::kBadData, "the file does not have the data of the built-in job", file,
               "remove it", ""};
}

Result<Job> make_built_in_job(const JobSize& size, const BuiltInJob& own) {
  const uint64_t records = uint64_t{size.shards} * size.batches * size.records;
  std::string sources;
  for (uint32_t f = 0; f < size.files; ++f) {
    const std::string text = own.records(records * f / size.files, records * (f + 1) / size.files);
    DP_TRY(const std::string file, write_data(own.name, own.format, text));
    sources += str(sources.empty() ? "" : ", ", size.mix ? "{ weight = 1, path = " : "", '"', file,
                   '"', size.mix ? " }" : "");
  }
  sources = size.program ? str("{ exec = [\"cat\", ", sources, "] }") : str("[", sources, "]");
  const JobSource source{str(kFolder, '/', own.name, ".toml"), toml_of(size, own, sources)};
  DP_TRY(LoadedJob loaded, load_job(source, {}, chief::process_environment()));
  std::string sniffed;
  DP_TRY_VOID(chief::complete_from_data(loaded.job, sniffed));
  return std::move(loaded.job);
}

Result<Job> make_counter_job(const JobSize& size) {
  const auto records = [reversed = size.reversed](uint64_t begin, uint64_t end) {
    std::string text;
    // All keys have the same length, so that all lines are equally long and shards equally large.
    for (uint64_t i = begin; i < end; ++i) {
      const uint64_t r = reversed ? begin + end - 1 - i : i;
      text += str(kTarget, ' ', 1'000'000 + r, ":1\n");
    }
    return text;
  };
  const std::string clip =
      size.global_norm > 0 ? str("clip = { global_norm = ", size.global_norm, " }\n") : "";
  return make_built_in_job(
      size, {.name = "counter",
             .format = "libsvm",
             .model = str(kCounterModel, size.mixed ? "" : "bias = false\n", kCounterOutput,
                          kCounterRate, clip, size.mixed ? kBiasRate : ""),
             .records = records});
}

}  // namespace downpour::sim
