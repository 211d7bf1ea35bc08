#include "tools/client/client.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

#include "tools/capi/downpour.h"
#include "tools/capi/errors.h"

using Json = nlohmann::ordered_json;

struct dp_client {
  std::unique_ptr<downpour::tools::Client> client;
  std::mutex mutex;         // of `description`
  std::string description;  // JSON; empty: not known yet
};

struct dp_batch {
  std::mutex mutex;  // of a push
  std::unique_ptr<downpour::tools::ClientBatch> batch;
};

namespace downpour::capi {
namespace {

constexpr int64_t kMillisecondNs = kSecond / 1000;

Json variables_of(const model::Graph& graph) {
  Json variables = Json::array();
  for (size_t t = 0; t < graph.tables().size(); ++t) {
    const TableSpec& table = graph.tables()[t];
    for (const VariableSpec& variable : table.table_variables) {
      Json one = {{"name", variable.name}};
      if (table.kind == TableKind::kDense) {
        one["shape"] = variable.shape;
      } else {
        one["dim"] = variable.dim;
        one["table"] = t;
      }
      variables.push_back(std::move(one));
    }
  }
  return variables;
}

std::string describe(const tools::Client& client, const model::Graph& graph) {
  Json numbers = Json::array(), keys = Json::array(), outputs = Json::array();
  for (const FloatInput& input : graph.inputs().floats)
    numbers.push_back({{"field", input.field}, {"width", input.width}});
  for (const BagInput& input : graph.inputs().bags)
    keys.push_back({{"field", input.field}, {"table", input.table_index}});
  const std::vector<uint32_t> widths = graph.output_widths();
  for (size_t o = 0; o < widths.size(); ++o) {
    const OutputSpec& output = graph.outputs()[o];
    outputs.push_back({{"name", output.name},
                       {"loss", output.loss},
                       {"target", output.target},
                       {"weights", output.weights},
                       {"width", widths[o]}});
  }
  const Json all = {{"variables", variables_of(graph)},
                    {"numbers", std::move(numbers)},
                    {"keys", std::move(keys)},
                    {"outputs", std::move(outputs)},
                    {"in_flight", client.job_settings().train.in_flight}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* text_or_empty(const char* text) { return text == nullptr ? "" : text; }

}  // namespace
}  // namespace downpour::capi

using namespace downpour;

int32_t dp_client_open(const dp_client_options* options, dp_client** client) {
  return capi::guarded([&]() -> int32_t {
    tools::ClientOptions given{.chief = capi::text_or_empty(options->chief),
                               .keys = capi::text_or_empty(options->keys),
                               .insecure = options->insecure != 0,
                               .allow_exec = options->allow_exec != 0};
    if (options->connect_timeout_s > 0)
      given.connect_timeout_ns = int64_t{options->connect_timeout_s} * kSecond;
    auto opened = tools::Client::open(given);
    if (!opened) return capi::fail(opened.error());
    auto made = std::make_unique<dp_client>();
    made->client = std::move(*opened);
    *client = made.release();
    return 0;
  });
}

int32_t dp_client_describe(dp_client* client, uint32_t timeout_ms, const char** json) {
  return capi::guarded([&]() -> int32_t {
    *json = nullptr;
    auto graph = client->client->job(int64_t{timeout_ms} * capi::kMillisecondNs);
    if (!graph) return capi::fail(graph.error());
    if (*graph == nullptr) return 0;
    const std::lock_guard lock(client->mutex);
    if (client->description.empty()) client->description = capi::describe(*client->client, **graph);
    *json = client->description.c_str();
    return 0;
  });
}

int32_t dp_client_next(dp_client* client, uint32_t timeout_ms, dp_batch** batch) {
  return capi::guarded([&]() -> int32_t {
    *batch = nullptr;
    auto next = client->client->next(int64_t{timeout_ms} * capi::kMillisecondNs);
    if (!next) return capi::fail(next.error());
    if (*next == nullptr) return 0;
    auto made = std::make_unique<dp_batch>();
    made->batch = std::move(*next);
    *batch = made.release();
    return 0;
  });
}

int32_t dp_client_finished(dp_client* client) { return client->client->finished() ? 1 : 0; }

int32_t dp_client_push(dp_client* client, dp_batch* batch, const dp_push* push) {
  return capi::guarded([&]() -> int32_t {
    const std::lock_guard lock(batch->mutex);
    tools::BatchResults results;
    if (push->gradients != nullptr)
      results.gradients = {push->gradients, batch->batch->variables()};
    if (push->predictions != nullptr)
      results.predictions = {push->predictions, client->client->outputs()};
    if (push->has_loss != 0) results.loss = push->loss;
    if (auto pushed = client->client->push(*batch->batch, results); !pushed)
      return capi::fail(pushed.error());
    return 0;
  });
}

void dp_client_close(dp_client* client) { delete client; }

void dp_batch_describe(const dp_batch* batch, dp_batch_info* info) {
  const Batch& records = batch->batch->records();
  info->records = records.records;
  info->training = batch->batch->training() ? 1 : 0;
  info->epoch = records.id.epoch;
  info->shard = records.id.shard;
  info->batch = records.id.batch;
  info->where = batch->batch->where().c_str();
}

const float* dp_batch_numbers(const dp_batch* batch, size_t index) {
  return batch->batch->records().floats[index].values.data();
}

void dp_batch_keys(const dp_batch* batch, size_t index, dp_batch_bag* bag) {
  const Batch& records = batch->batch->records();
  const BagColumn& column = records.bags[index];
  const TableKeys& table = records.tables[column.table_index];
  bag->offsets = column.offsets.empty() ? nullptr : column.offsets.data();
  bag->rows = column.keys.data();
  bag->values = column.values.empty() ? nullptr : column.values.data();
  bag->count = column.keys.size();
  bag->keys = table.keys.data();
  bag->key_count = table.keys.size();
}

float* dp_batch_variable(dp_batch* batch, size_t index, uint64_t* floats) {
  const std::span<float> values = batch->batch->values(index);
  *floats = values.size();
  return values.data();
}

void dp_batch_free(dp_batch* batch) { delete batch; }
