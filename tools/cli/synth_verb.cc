#include <cstdio>
#include <map>

#include <nlohmann/json.hpp>

#include "shared/env/process.h"
#include "shared/synth/synth.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct SynthFlags {
  SynthOptions options;
  std::string path;
  std::string format = "auto";
  uint32_t threads = 0;
  bool json = false;
};

int synth(const SynthFlags& given) {
  SynthFlags flags = given;
  if (flags.format == "auto")
    flags.format = flags.path.ends_with(".csv")                                      ? "csv"
                   : flags.path.ends_with(".libsvm") || flags.path.ends_with(".svm") ? "libsvm"
                                                                                     : "tsv";
  flags.options.format = flags.format == "csv"      ? SynthFormat::kCsv
                         : flags.format == "libsvm" ? SynthFormat::kLibsvm
                                                    : SynthFormat::kTsv;
  const auto made = data::synthesize(flags.options, flags.path,
                                     flags.threads > 0 ? flags.threads : allowed_cpus());
  if (!made) return report(made.error(), {});
  if (flags.json) {
    std::printf("%s\n", nlohmann::ordered_json{{"path", flags.path},
                                               {"format", flags.format},
                                               {"rows", made->rows},
                                               {"bytes", made->bytes},
                                               {"positives", made->positives},
                                               {"bayes_auc", made->bayes_auc},
                                               {"bayes_logloss", made->bayes_logloss},
                                               {"seconds", made->seconds}}
                            .dump()
                            .c_str());
    return 0;
  }
  std::printf("%s: %llu rows, %.1f MB of %s in %.2f s (%.0f MB/s), %.2f %% positive\n",
              flags.path.c_str(), static_cast<unsigned long long>(made->rows),
              double(made->bytes) / 1e6, flags.format.c_str(), made->seconds,
              double(made->bytes) / 1e6 / made->seconds,
              100.0 * double(made->positives) / double(made->rows));
  std::printf("best possible: auc %.4f  logloss %.4f\n", made->bayes_auc, made->bayes_logloss);
  return 0;
}

}  // namespace

void declare_synth(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, synth);
  verb->option_defaults()->always_capture_default();
  SynthOptions& o = flags->options;
  verb->add_option("file", flags->path, "Output file")->required();
  verb->add_option("--rows", o.rows, "Number of records")->group("Data");
  verb->add_option("--numeric", o.numeric, "Number of numeric fields, normally distributed")
      ->group("Data");
  verb->add_option("--categorical", o.categorical, "Number of categorical fields, Zipf-distributed")
      ->group("Data");
  verb->add_option("--ids", o.ids, "Number of distinct ids of each categorical field")
      ->group("Data");
  verb->add_option("--zipf", o.zipf, "Exponent of the Zipf distribution")->group("Data");
  verb->add_option("--seed", o.seed, "Seed of the model that generates the data")->group("Data");
  verb->add_option(
          "--stream", o.stream,
          "Stream of rows from the same model: for example 0 for training, 1 for a test file")
      ->group("Data");
  verb->add_option("--format", flags->format, "auto: chosen by the file name")
      ->check(CLI::IsMember({"auto", "tsv", "csv", "libsvm"}))
      ->group("Output");
  verb->add_flag("--json", flags->json, "Print a summary as JSON")->group("Output");
  verb->add_option("--threads", flags->threads,
                   "Number of threads (0: all allowed cores); the output does not depend on it")
      ->group("Output");
  verb->footer(
      "Examples:\n  downpour synth train.tsv --rows 1000000\n  downpour synth test.tsv --rows "
      "100000 --stream 1");
}

}  // namespace downpour::tools
