#include "tools/serve/live_model.h"

#include <chrono>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "shared/base/error_text.h"
#include "shared/base/str.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/run_file.h"
#include "shared/env/signals.h"
#include "tools/embedded/description.h"

namespace downpour::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNiceness = 10;  // of the loading thread, so that requests are answered first

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* type_of(const RowScorer& rows, const FieldSpec& input) {
  if (rows.takes_lines()) return rows.grouped() ? "keys, values and fields" : "keys and values";
  return type_name(input.type);
}

Json inputs_of(const RowScorer& rows) {
  Json inputs = Json::array();
  for (const FieldSpec& input : rows.inputs()) {
    Json described = {{"name", input.source_name()}, {"type", type_of(rows, input)}};
    if (!input.shape.empty() && !rows.takes_lines()) described["shape"] = input.shape;
    described["may_be_null"] = input.fallback.has_value() || rows.takes_lines() || input.is_bag();
    inputs.push_back(std::move(described));
  }
  return inputs;
}

/// Returns the member `classes` of answers: the names of the columns of a softmax.
std::string classes_of(const Scorer& scorer) {
  const Job& job = scorer.job();
  Json all = Json::object();
  for (size_t o = 0; o < job.model.outputs.size(); ++o) {
    const FieldSpec* const target = job.data.find_field(job.model.outputs[o].target);
    if (target == nullptr || target->classes.size() != scorer.widths()[o]) continue;
    if (scorer.widths()[o] > 1) all[job.model.outputs[o].name] = target->classes;
  }
  if (all.empty()) return "";
  return dump(job.model.outputs.size() == 1 ? all.front() : all);
}

}  // namespace

LiveModel::LiveModel(Storage& storage, Options options)
    : storage_(storage), options_(std::move(options)) {}

LiveModel::~LiveModel() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakeup_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<LiveModel>> LiveModel::open(Storage& storage, Options options) {
  std::unique_ptr<LiveModel> model(new LiveModel(storage, std::move(options)));
  DP_TRY(model->current_, model->load());
  model->thread_ = std::thread([live = model.get()] { live->run(); });
  return model;
}

std::shared_ptr<const LoadedModel> LiveModel::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

/// Returns the id of the run in the folder; 0 if it is not known.
uint64_t LiveModel::run_id() const {
  const auto run = checkpoint::read_run(storage_, options_.run_dir);
  return run ? run->id : 0;
}

Result<std::shared_ptr<const LoadedModel>> LiveModel::load() {
  DP_TRY(auto opened, Scorer::open(storage_, options_.run_dir));
  const std::shared_ptr<const Scorer> scorer = std::move(opened);
  auto loaded = std::make_shared<LoadedModel>();
  for (uint32_t i = 0; i < options_.threads; ++i) {
    DP_TRY(auto rows, RowScorer::make(scorer));
    loaded->rows.push_back(std::move(rows));
  }
  loaded_ = {scorer->run(), scorer->checkpoint()};
  loaded->checkpoint = str(loaded_.id.term, "-", loaded_.id.n);
  loaded->classes = classes_of(*scorer);
  const RowScorer& rows = *loaded->rows.front();
  loaded->description = dump({{"model", loaded->checkpoint},
                              {"may_omit_null", rows.may_omit()},
                              {"inputs", inputs_of(rows)},
                              {"outputs", describe_outputs(*scorer)}});
  return std::shared_ptr<const LoadedModel>(std::move(loaded));
}

void LiveModel::poll() {
  std::erase_if(retired_, [](const auto& model) { return model.use_count() == 1; });
  const auto newest_id = checkpoint::newest_manifest(storage_, options_.run_dir);
  if (!newest_id) return;
  const Version newest{run_id(), *newest_id};
  if (newest == seen_) return;
  const auto failed = [&](const Error& error) {
    if (error.code == ErrorCode::kBadData) seen_ = newest;  // it stays damaged
    std::string text = format_error(error, false);
    if (text == last_error_) return;
    last_error_ = text;
    options_.on_reload(false, text);
  };
  std::vector<std::string> skipped;
  const auto manifest = checkpoint::load_model(storage_, options_.run_dir, &skipped);
  if (!manifest) return failed(manifest.error());
  if (!skipped.empty()) options_.on_reload(false, skipped.front());  // the newest one
  const Version version{manifest->run, manifest->id};
  const bool older = !skipped.empty() && version.run == loaded_.run && version.id < loaded_.id;
  if (version != loaded_ && !older) {
    auto model = load();
    if (!model) return failed(model.error());
    const std::string text = str("now serves checkpoint ", (*model)->checkpoint);
    {
      const std::lock_guard lock(mutex_);
      std::swap(current_, *model);
    }
    retired_.push_back(*std::move(model));
    options_.on_reload(true, text);
  }
  seen_ = newest;
  last_error_.clear();
}

void LiveModel::run() {
  block_stop_signals();  // SignalWatcher receives them
  ::setpriority(PRIO_PROCESS, id_t(::gettid()), kNiceness);
  std::unique_lock lock(mutex_);
  while (
      !wakeup_.wait_for(lock, std::chrono::nanoseconds(options_.poll_ns), [&] { return ends_; })) {
    lock.unlock();
    poll();
    lock.lock();
  }
}

}  // namespace downpour::tools
