#include "tools/embedded/model.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "chief/runtime/job_setup.h"
#include "shared/env/process.h"
#include "shared/job/job_file.h"
#include "tools/capi/downpour.h"
#include "tools/capi/errors.h"
#include "tools/capi/table.h"
#include "tools/embedded/description.h"
#include "tools/embedded/training.h"

using Json = nlohmann::ordered_json;

struct dp_model {
  downpour::tools::ModelFiles files;
  std::unique_ptr<downpour::tools::Scorer> scorer;
  std::string description;  // JSON
};

namespace downpour::capi {
namespace {

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns the lines of history.jsonl as an array.
Json lines_of(std::string_view text) {
  Json lines = Json::array();
  while (!text.empty()) {
    const size_t end = text.find('\n');
    Json line = Json::parse(text.substr(0, end), nullptr, /*allow_exceptions=*/false);
    if (!line.is_discarded()) lines.push_back(std::move(line));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

/// Returns the columns that predictions need: those of all fields but the targets.
Json columns_of(const Job& job) {
  Json columns = Json::array();
  for (const FieldSpec& field : job.data.fields) {
    bool is_role = false;
    for (const OutputSpec& output : job.model.outputs)
      is_role = is_role || output.target == field.name || output.weights == field.name;
    if (is_role) continue;
    columns.push_back({{"name", field.source_name()},
                       {"field", field.name},
                       {"type", tools::type_name(field.type)}});
  }
  return columns;
}

/// Makes a model of its files.
Result<std::unique_ptr<dp_model>> model_of(tools::ModelFiles files, Json more) {
  DP_TRY(auto scorer, tools::Scorer::open(files.storage(), files.run_dir()));
  more["job"] = job_to_toml(scorer->job());
  more["outputs"] = tools::describe_outputs(*scorer);
  more["columns"] = columns_of(scorer->job());
  more["history"] = lines_of(files.history());
  return std::unique_ptr<dp_model>(new dp_model{std::move(files), std::move(scorer), dump(more)});
}

int32_t predict(const dp_model* model, const dp_table* table, uint32_t threads,
                std::span<float> out, bool raw) {
  const uint64_t wanted = dp_table_rows(table) * dp_model_row_floats(model);
  if (out.size() != wanted) {
    return fail({ErrorCode::kUsage, str("the room for predictions is ", out.size(), " floats, but ",
                                        wanted, " are needed")});
  }
  return guarded([&] {
    const auto done = model->scorer->predict(dp_table_name(table),
                                             threads > 0 ? threads : allowed_cpus(), out, raw);
    return done ? 0 : fail(done.error());
  });
}

int32_t give(Result<std::unique_ptr<dp_model>> made, dp_model** model) {
  if (!made) return fail(made.error());
  *model = made->release();
  return 0;
}

Result<std::unique_ptr<dp_model>> train(const dp_training& options) {
  tools::TrainingRequest request;
  if (options.job != nullptr) request.job = options.job;
  if (options.folder != nullptr) request.folder = options.folder;
  if (options.data != nullptr) request.data = dp_table_name(options.data);
  request.threads = options.threads;
  for (size_t i = 0; i < options.setting_count; ++i) {
    DP_TRY(Override setting, chief::parse_set(options.settings[i]));
    setting.origin = "the caller";
    request.overrides.push_back(std::move(setting));
  }
  if (options.on_progress != nullptr) {
    request.on_progress = [&](const tools::TrainingProgress& progress) {
      const chief::ProgressSnapshot& seen = progress.snapshot;
      const double seconds = double(seen.elapsed_ns) / 1e9;
      const Json json = {{"epoch", seen.epoch + 1},
                         {"epochs", seen.epochs},
                         {"records", seen.records},
                         {"records_per_second", seconds > 0 ? double(seen.records) / seconds : 0},
                         {"history", lines_of(progress.history)}};
      return options.on_progress(dump(json).c_str(), options.user) == 0;
    };
  }
  DP_TRY(tools::Trained trained, tools::train(request));
  Json more = {
      {"reason", trained.reason}, {"warnings", trained.warnings}, {"stopped", trained.stopped}};
  return model_of(std::move(trained.model), std::move(more));
}

Result<std::unique_ptr<dp_model>> load(const std::string& folder) {
  PosixStorage disk;
  DP_TRY(tools::ModelFiles files, tools::ModelFiles::of_run(disk, folder));
  return model_of(std::move(files), Json::object());
}

Result<std::unique_ptr<dp_model>> read(std::span<const uint8_t> bytes) {
  DP_TRY(tools::ModelFiles files, tools::ModelFiles::of_bytes(bytes));
  return model_of(std::move(files), Json::object());
}

}  // namespace
}  // namespace downpour::capi

namespace capi = downpour::capi;

int32_t dp_train(const dp_training* training, dp_model** model) {
  return capi::guarded([&] { return capi::give(capi::train(*training), model); });
}

int32_t dp_model_load(const char* folder, dp_model** model) {
  return capi::guarded([&] { return capi::give(capi::load(folder), model); });
}

int32_t dp_model_from_bytes(const void* bytes, size_t size, dp_model** model) {
  return capi::guarded([&] {
    return capi::give(capi::read({static_cast<const uint8_t*>(bytes), size}), model);
  });
}

int32_t dp_model_save(const dp_model* model, const char* folder) {
  return capi::guarded([&] {
    downpour::PosixStorage disk;
    const auto saved = model->files.save(disk, folder);
    return saved ? 0 : capi::fail(saved.error());
  });
}

int32_t dp_model_to_bytes(const dp_model* model, void** bytes, size_t* size) {
  return capi::guarded([&] {
    const std::vector<uint8_t> made = model->files.bytes();
    *bytes = std::malloc(made.size());
    if (*bytes == nullptr)
      return capi::fail({downpour::ErrorCode::kUnavailable, "not enough memory for the model"});
    std::memcpy(*bytes, made.data(), made.size());
    *size = made.size();
    return 0;
  });
}

const char* dp_model_describe(const dp_model* model) { return model->description.c_str(); }

uint32_t dp_model_row_floats(const dp_model* model) { return model->scorer->row_floats(); }

int32_t dp_predict(const dp_model* model, const dp_table* table, uint32_t threads, float* out,
                   size_t floats) {
  return capi::predict(model, table, threads, {out, floats}, /*raw=*/false);
}

int32_t dp_predict_raw(const dp_model* model, const dp_table* table, uint32_t threads, float* out,
                       size_t floats) {
  return capi::predict(model, table, threads, {out, floats}, /*raw=*/true);
}

void dp_model_free(dp_model* model) { delete model; }

void dp_free(void* memory) { std::free(memory); }
