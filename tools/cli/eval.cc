// The verbs eval and predict: one pass over data with a saved model.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>

#include "chief/runtime/job_setup.h"
#include "chief/runtime/run_setup.h"
#include "shared/base/error_text.h"
#include "shared/base/object_scheme.h"
#include "shared/data/formats/sniff.h"
#include "shared/env/storage.h"
#include "shared/job/formats.h"
#include "shared/model/graph.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

namespace fs = std::filesystem;

struct EvalFlags {
  CommonFlags common;
  std::string run;
  std::vector<std::string> data;
  std::string out = "-";
  bool allow_exec = false;
  bool skip_unknown_labels = false;
  bool header = false;
};

// Returns the run folder that the user named, directly or through its job file.
Result<std::string> find_run(const EvalFlags& flags) {
  std::error_code ignored;
  if (fs::is_directory(flags.run, ignored))
    return fs::absolute(flags.run, ignored).lexically_normal().string();
  if (!flags.run.ends_with(".toml")) {
    return Error{ErrorCode::kNoInput, "the run folder does not exist", flags.run,
                 "give the run folder that training printed, or the job file", ""};
  }
  DP_TRY(const auto overrides, overrides_of(flags.common));
  DP_TRY(const auto given, chief::load_given_job(flags.run, overrides));
  return given.loaded.job.run_dir;
}

// Returns the program of the saved job that the pass would start; empty if it starts none.
std::string program_of(const Job& job) {
  if (!job.data.program.empty()) return job.data.program.front();
  const bool held_out = job.eval.source.empty() && job.eval.holdout > 0;
  const SourceSpec& source = held_out ? job.data.source : job.eval.source;
  return source.is_program() ? "the program of its data source" : "";
}

// A model that was trained on columns in memory reads files with the same columns.
Result<void> take_form_of(const std::string& file, DataSpec& data) {
  if (!is_memory(data.format)) return {};
  DP_TRY(const FileFacts facts, data::sniff(file));
  data.format = facts.format;
  data.record = facts.record;
  data.columns = facts.columns;
  data.header = facts.header;
  data.delimiter = facts.delimiter;
  data.missing = facts.missing;
  // A file to predict may lack the target.
  for (const FieldSpec& field : data.fields) {
    const bool known = std::ranges::count(data.columns, field.source_name()) > 0;
    if (has_named_columns(data.format) && !known) data.columns.push_back(field.source_name());
  }
  return {};
}

// Returns the saved job, changed to one process that reads `data` or its own evaluation data.
Result<Job> eval_job(const EvalFlags& flags) {
  DP_TRY(const std::string run_dir, find_run(flags));
  PosixStorage storage;
  DP_TRY(Job job, chief::saved_job(storage, run_dir));
  job.run_dir = run_dir;
  job.cluster.ps = job.cluster.workers = 1;
  job.cluster.input_workers = 0;
  if (!flags.data.empty()) {
    job.eval.source = {};
    std::error_code ignored;
    for (const std::string& path : flags.data)
      job.eval.source.paths.push_back(is_object_path(path) ? path
                                                           : fs::absolute(path, ignored).string());
    job.eval.holdout = 0;
    DP_TRY_VOID(take_form_of(job.eval.source.paths.front(), job.data));
  }
  const auto number = [](const std::string& text, uint32_t& into) {
    if (!text.empty()) into = uint32_t(std::strtoul(text.c_str(), nullptr, 10));
  };
  number(flags.common.threads, job.cluster.threads);
  if (flags.skip_unknown_labels) job.eval.unknown_labels = "skip";
  if (const std::string program = program_of(job); !program.empty() && !flags.allow_exec) {
    return Error{ErrorCode::kPermission,
                 str("the job of this run starts a program on this machine: ", printable(program)),
                 run_dir, "add --allow-exec if you trust the run folder", ""};
  }
  return job;
}

// Returns the names of the columns of predictions, as one line. The columns of a softmax have the
// names of its classes, or their numbers.
std::string header_of(const Job& job, const std::vector<uint32_t>& widths) {
  std::string line;
  for (size_t o = 0; o < widths.size(); ++o) {
    const OutputSpec& output = job.model.outputs[o];
    const FieldSpec* const target = job.data.find_field(output.target);
    const bool named = target != nullptr && target->classes.size() == widths[o];
    for (uint32_t k = 0; k < widths[o]; ++k) {
      line += str(line.empty() ? "" : "\t", output.name);
      if (widths[o] > 1) line += str("/", named ? printable(target->classes[k]) : str(k));
    }
  }
  return line + "\n";
}

int run_pass(const EvalFlags& flags, wire::Purpose mode) {
  RunRequest request;
  request.console = console_options(flags.common);
  request.mode = mode;
  request.job_argument = flags.run;
  auto job = eval_job(flags);
  if (!job) return report(job.error(), request.console);
  request.job = std::move(*job);
  if (mode != wire::Purpose::kPredict) return run_job(std::move(request));

  if (flags.data.empty()) {
    return report(
        Error{ErrorCode::kUsage, "predict needs --data", "", "for example --data test.tsv", ""},
        request.console);
  }
  auto graph = model::Graph::build(request.job);
  if (!graph) return report(graph.error(), request.console);
  const std::vector<uint32_t> widths = (*graph)->output_widths();
  std::FILE* out = flags.out == "-" ? stdout : std::fopen(flags.out.c_str(), "w");
  if (out == nullptr)
    return report(Error{ErrorCode::kCannotCreate,
                        str("can't write the predictions: ", std::strerror(errno)), flags.out},
                  request.console);
  bool failed = flags.header && std::fputs(header_of(request.job, widths).c_str(), out) < 0;
  request.on_prediction = [&](const chief::PredictionBatch& batch) {
    // `values` has [records, width] for each output. Print one line per record, separated by tabs.
    std::string text;
    char number[32];
    for (uint32_t r = 0; r < batch.records; ++r) {
      size_t begin = 0;
      for (size_t o = 0; o < widths.size(); ++o) {
        for (uint32_t k = 0; k < widths[o]; ++k) {
          const int length =
              std::snprintf(number, sizeof number, "%s%.7g", o + k == 0 ? "" : "\t",
                            double(batch.values.load<float>(begin + size_t(r) * widths[o] + k)));
          text.append(number, size_t(length));
        }
        begin += size_t(batch.records) * widths[o];
      }
      text += '\n';
    }
    failed = failed || std::fwrite(text.data(), 1, text.size(), out) != text.size();
  };
  const chief::ConsoleOptions console = request.console;
  int status = run_job(std::move(request));
  failed = std::fflush(out) != 0 || failed;
  if (out != stdout) failed = std::fclose(out) != 0 || failed;
  if (failed && status == 0)
    status =
        report(Error{ErrorCode::kIo, "the predictions could not be written", flags.out}, console);
  return status;
}

}  // namespace

void add_eval(CLI::App& app, int& status) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* verb = app.add_subcommand("eval", "Evaluate a saved model, and print its metrics");
  verb->option_defaults()->always_capture_default();
  verb->add_option("run", flags->run, "Run folder, or job file of the run")->required();
  verb->add_option("--data", flags->data,
                   "Files or globs; default: the evaluation data of the job");
  verb->add_option("--threads", flags->common.threads, "Number of cores to use")->default_str("");
  verb->add_flag("--allow-exec", flags->allow_exec,
                 "Allow to start the programs that the job of the run uses to read data");
  add_output_flags(*verb, flags->common);
  verb->add_flag("--skip-unknown-labels", flags->skip_unknown_labels,
                 "Leave out records whose label is none of the classes");
  verb->footer("Example:\n  downpour eval runs/a9a --data a9a.t");
  verb->callback([flags, &status] { status = run_pass(*flags, wire::Purpose::kEval); });
}

void add_predict(CLI::App& app, int& status) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* verb = app.add_subcommand(
      "predict",
      "Write the predictions of a saved model, one line per record, in the order of the data");
  verb->option_defaults()->always_capture_default();
  verb->add_option("run", flags->run, "Run folder, or job file of the run")->required();
  verb->add_option("--data", flags->data, "Files or globs, in the format of the training data");
  verb->add_option("--out", flags->out, "Output file; - is stdout");
  verb->add_flag("--header", flags->header, "Begin with a line of names: outputs and classes");
  verb->add_option("--threads", flags->common.threads, "Number of cores to use")->default_str("");
  verb->add_flag("--allow-exec", flags->allow_exec,
                 "Allow to start the programs that the job of the run uses to read data");
  add_output_flags(*verb, flags->common);
  verb->footer("Example:\n  downpour predict runs/a9a --data new.libsvm --out predictions.txt");
  verb->callback([flags, &status] { status = run_pass(*flags, wire::Purpose::kPredict); });
}

}  // namespace downpour::tools
