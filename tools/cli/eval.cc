// The verbs eval and predict: one pass over data with a saved model.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "chief/runtime/job_setup.h"
#include "chief/runtime/run_setup.h"
#include "chief/runtime/spool.h"
#include "shared/base/error_text.h"
#include "shared/base/object_scheme.h"
#include "shared/data/formats/sniff.h"
#include "shared/data/reading/dataset.h"
#include "shared/env/io_error.h"
#include "shared/env/process.h"
#include "shared/env/storage.h"
#include "shared/job/file_job.h"
#include "shared/job/formats.h"
#include "shared/job/validate_slices.h"
#include "shared/model/graph.h"
#include "tools/cli/importance.h"
#include "tools/cli/prediction_writer.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"
#include "tools/embedded/model.h"

namespace downpour::tools {
namespace {

namespace fs = std::filesystem;

struct EvalFlags {
  CommonFlags common;
  std::string run;
  std::vector<std::string> data;
  PredictionForm form;
  bool allow_exec = false;
  bool skip_unknown_labels = false;
  std::vector<std::string> slices;
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

// Returns the form of a file for a model that was trained on columns in memory. A table of one
// column has no delimiter that shows its format, but its first line is the name of a column.
Result<FileFacts> form_of(const std::string& file, const DataSpec& data) {
  Result<FileFacts> facts = data::sniff(file);
  if (facts) return facts;
  const DataSpec declared;
  const data::Roles roles;
  data::FileSample sample(file, declared, roles);
  if (sample.lines().empty()) return facts;
  std::string name(sample.lines()[0]);
  if (name.size() > 2 && name.front() == '"' && name.back() == '"')
    name = name.substr(1, name.size() - 2);
  const auto is_named = [&](const FieldSpec& field) { return field.source_name() == name; };
  if (std::ranges::none_of(data.fields, is_named)) return facts;
  FileFacts table;
  table.format = DataFormat::kCsv;
  table.header = true;
  table.columns = {name};
  return table;
}

// A model that was trained on columns in memory reads files with the same columns.
// A text that usually means "missing" in a file is a category or a class if it was one of the
// training.
Result<void> take_form_of(const std::string& file, Storage& storage, Job& job) {
  DataSpec& data = job.data;
  if (!is_memory(data.format)) return {};
  DP_TRY(const FileFacts facts, form_of(file, data));
  const std::vector<std::string> missing = data.missing;
  set_form(data, facts);
  if (!data.missing.empty()) {
    DP_TRY(const auto scorer, Scorer::open(storage, job.run_dir));
    DP_TRY(const std::vector<std::string> known, scorer->known_among(data.missing));
    std::erase_if(data.missing, [&](const std::string& mark) {
      const auto has_class = [&](const FieldSpec& field) {
        return std::ranges::count(field.classes, mark) > 0;
      };
      return std::ranges::count(known, mark) > 0 || std::ranges::any_of(data.fields, has_class);
    });
  }
  for (const std::string& mark : missing)
    if (std::ranges::count(data.missing, mark) == 0) data.missing.push_back(mark);
  // A file to predict may lack the target.
  for (const FieldSpec& field : data.fields) {
    const bool known = std::ranges::count(data.columns, field.source_name()) > 0;
    if (has_named_columns(data.format) && !known) data.columns.push_back(field.source_name());
  }
  return {};
}

/// The data of stdin in a temporary file, which the destructor removes.
class StoredStdin {
 public:
  ~StoredStdin() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  /// Reads stdin until its end. Returns the path of the file.
  Result<std::string> store() {
    if (!folder_.empty())
      return Error{ErrorCode::kUsage, "- is given twice, but stdin can be read only once",
                   "--data"};
    std::error_code ignored;
    std::string folder =
        fs::absolute(fs::temp_directory_path(ignored) / "downpour-XXXXXX", ignored);
    if (::mkdtemp(folder.data()) == nullptr) {
      Error error = system_error("no folder can be created", folder, errno, Intent::kCreate);
      error.hint = "set TMPDIR to a folder with space for the data";
      return error;
    }
    folder_ = folder;
    const std::string path = folder_ + "/stdin";
    DP_TRY(const std::unique_ptr<OutputFile> file, storage_.create(path));
    if (auto read = chief::write_stdin(*file, chief::print_spooling); !read) {
      Error error = std::move(read).error();
      if (error.where == "data.source") error.where = "--data";
      return error;
    }
    DP_TRY_VOID(file->commit_volatile());
    return path;
  }

 private:
  PosixStorage storage_;
  std::string folder_;
};

// Returns the saved job, changed to one process that reads `data` or its own evaluation data.
Result<Job> eval_job(const EvalFlags& flags, StoredStdin& input) {
  DP_TRY(const std::string run_dir, find_run(flags));
  PosixStorage storage;
  DP_TRY(Job job, chief::model_job(storage, run_dir));
  job.run_dir = run_dir;
  job.cluster.ps = job.cluster.workers = 1;
  job.cluster.ps_in_workers = false;
  job.cluster.input_workers = 0;
  if (!flags.data.empty()) {
    job.eval.source = {};
    std::error_code ignored;
    for (std::string path : flags.data) {
      if (path == "-") {
        DP_TRY(path, input.store());
      } else if (!is_object_path(path)) {
        path = fs::absolute(path, ignored).string();
      }
      job.eval.source.paths.push_back(std::move(path));
    }
    job.eval.holdout = 0;
    DP_TRY_VOID(take_form_of(job.eval.source.paths.front(), storage, job));
  }
  const auto number = [](const std::string& text, uint32_t& into) {
    if (!text.empty()) into = uint32_t(std::strtoul(text.c_str(), nullptr, 10));
  };
  number(flags.common.threads, job.cluster.threads);
  if (flags.skip_unknown_labels) job.eval.unknown_labels = "skip";
  if (!flags.slices.empty()) {
    job.eval.slices.clear();
    for (const std::string& field : flags.slices) job.eval.slices.push_back({.field = field});
    DP_TRY_VOID(check_slices(job));
  }
  job.eval.raw_predictions = job.eval.raw_predictions || flags.form.raw;
  if (const std::string program = program_of(job); !program.empty() && !flags.allow_exec) {
    return Error{ErrorCode::kPermission,
                 str("the job of this run starts a program on this machine: ", printable(program)),
                 run_dir, "add --allow-exec if you trust the run folder", ""};
  }
  return job;
}

/// Returns an error if the file `out` is one of those to predict.
Result<void> keep_data(const Job& job, const std::string& out) {
  const auto files = data::list_files(job.data, job.eval.source, job.base_dir);
  if (!files) return {};  // the run reports it
  for (const plan::FileInfo& file : *files) {
    std::error_code ignored;
    if (!fs::equivalent(file.path, out, ignored)) continue;
    return Error{ErrorCode::kUsage, "the predictions would overwrite the data", file.path,
                 "name another file in --out", ""};
  }
  return {};
}

int run_pass(const EvalFlags& flags, wire::Purpose mode) {
  RunRequest request;
  request.console = console_options(flags.common);
  request.mode = mode;
  StoredStdin input;
  auto job = eval_job(flags, input);
  if (!job) return report(job.error(), request.console);
  request.job = std::move(*job);
  if (request.job.model.is_custom()) return report(model::custom_refused(), request.console);
  if (mode != wire::Purpose::kPredict) {
    const EvalSpec& eval = request.job.eval;
    if (!eval.source.empty() || eval.holdout > 0) return run_job(std::move(request));
    return report(Error{ErrorCode::kUsage, "the job of this run has no evaluation data", flags.run,
                        "name the data: --data FILE", ""},
                  request.console);
  }
  if (flags.data.empty()) {
    return report(
        Error{ErrorCode::kUsage, "predict needs --data", "", "for example --data test.tsv", ""},
        request.console);
  }
  if (const auto kept = keep_data(request.job, flags.form.out); !kept)
    return report(kept.error(), request.console);
  auto graph = model::Graph::build(request.job);
  if (!graph) return report(graph.error(), request.console);
  auto form = flags.form;
  form.raw = request.job.eval.raw_predictions;
  auto writer = write_predictions(request.job, (*graph)->output_widths(), form);
  if (!writer) return report(writer.error(), request.console);
  request.on_prediction = [&](const chief::PredictionBatch& batch) { (*writer)->add(batch); };
  const chief::ConsoleOptions console = request.console;
  int status = run_job(std::move(request));
  const auto written = (*writer)->finish(/*complete=*/status == 0);
  if (!written && status == 0) status = report(written.error(), console);
  return status;
}

struct ImportanceFlags {
  EvalFlags eval;
  uint32_t repeats = 3;
  uint64_t seed = 1;
  bool json = false;
};

int run_eval(const EvalFlags& flags) { return run_pass(flags, wire::Purpose::kEval); }
int run_predict(const EvalFlags& flags) { return run_pass(flags, wire::Purpose::kPredict); }

Result<void> run_importance(const ImportanceFlags& flags) {
  if (flags.eval.data.empty()) {
    return Error{ErrorCode::kUsage, "importance needs --data: records with labels", "",
                 "for example --data test.csv", ""};
  }
  EvalFlags given = flags.eval;
  given.allow_exec = true;  // no program is started
  StoredStdin input;
  DP_TRY(const Job job, eval_job(given, input));
  if (!job.data.program.empty()) {
    return Error{ErrorCode::kUsage, "importance can't apply the program of the job", "data.program",
                 "use Model.importance of the Python package with the program's records"};
  }
  PosixStorage storage;
  const uint32_t cores = job.cluster.threads > 0 ? job.cluster.threads : allowed_cpus();
  DP_TRY(
      const Importance found,
      importance(storage, job, {.repeats = flags.repeats, .seed = flags.seed, .threads = cores}));
  const std::string text = flags.json ? importance_json(found) : importance_text(found);
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace

void declare_importance(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_importance);
  verb->option_defaults()->always_capture_default();
  verb->add_option("run", flags->eval.run, "Run folder, or job file of the run")->required();
  verb->add_option("--data", flags->eval.data,
                   "Files or globs of csv, tsv or JSON lines that were not used for training; - is "
                   "stdin");
  verb->add_option("--repeats", flags->repeats, "Shuffles of each column")
      ->check(CLI::Range(1, 1000));
  verb->add_option("--seed", flags->seed, "Seed of the shuffles");
  verb->add_option("--threads", flags->eval.common.threads, "Number of cores to use")
      ->default_str("");
  verb->add_flag("--json", flags->json, "As JSON");
  verb->footer("Example:\n  downpour importance runs/adult --data adult.test.csv");
}

void declare_eval(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_eval);
  verb->option_defaults()->always_capture_default();
  verb->add_option("run", flags->run, "Run folder, or job file of the run")->required();
  verb->add_option("--data", flags->data,
                   "Files or globs, - is stdin; default: the evaluation data of the job");
  verb->add_option("--threads", flags->common.threads, "Number of cores to use")->default_str("");
  verb->add_flag("--allow-exec", flags->allow_exec,
                 "Allow to start the programs that the job of the run uses to read data");
  add_output_flags(*verb, flags->common);
  verb->add_flag("--skip-unknown-labels", flags->skip_unknown_labels,
                 "Leave out records whose label is none of the classes");
  verb->add_option("--slice", flags->slices,
                   "Fields by whose values the metrics are also shown (eval.slices)")
      ->default_str("");
  verb->footer(
      "Examples:\n  downpour eval runs/a9a --data a9a.t\n"
      "  downpour eval runs/adult --data adult.test.csv --slice sex --slice education");
}

void declare_predict(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_predict);
  verb->option_defaults()->always_capture_default();
  verb->add_option("run", flags->run, "Run folder, or job file of the run")->required();
  verb->add_option("--data", flags->data,
                   "Files or globs, in the format of the training data; - is stdin");
  verb->add_option("--out", flags->form.out, "Output file; - is stdout; .gz and .zst compress");
  verb->add_option("--format", flags->form.format,
                   "tsv, csv, jsonl or npy; default: by the ending of the output file, or tsv")
      ->default_str("");
  verb->add_option("--id", flags->form.ids, "Columns of the data that each line begins with")
      ->default_str("");
  verb->add_option("--top", flags->form.top,
                   "Write so many of the likeliest classes with their probabilities")
      ->check(CLI::PositiveNumber)
      ->default_str("");
  verb->add_flag("--raw", flags->form.raw,
                 "Write the values before the functions of the outputs: logits instead of "
                 "probabilities");
  verb->add_flag("--header", flags->form.header,
                 "Begin tsv and csv with a line of names: outputs and classes");
  verb->add_option("--threads", flags->common.threads, "Number of cores to use")->default_str("");
  verb->add_flag("--allow-exec", flags->allow_exec,
                 "Allow to start the programs that the job of the run uses to read data");
  add_output_flags(*verb, flags->common);
  verb->footer(
      "Examples:\n  downpour predict runs/a9a --data new.libsvm --out predictions.txt\n"
      "  downpour predict runs/adult --data new.csv --id person --header --out predictions.csv");
}

}  // namespace downpour::tools
