// A linear model with the squared hinge loss, which Downpour does not have, on the C interface: one
// worker of a job with the variables of focal.toml.
//
//   g++ -O2 -I REPOSITORY squared_hinge.cc -L PACKAGE/lib -ldownpour -o squared_hinge
//   downpour train focal.toml                  # prints the address for clients
//   ./squared_hinge ipc:///tmp/downpour-.../chief
//   ./squared_hinge HOST:PORT KEYS             # of a chief that was started by hand
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "tools/capi/downpour.h"

namespace {

// Places in the description of the job (dp_client_describe).
enum Variable { kWeights, kBias };
constexpr size_t kLabel = 0, kFeatures = 0;

int fail(const char* what) {
  dp_error error{};
  error.struct_size = sizeof error;
  dp_last_error(&error);
  std::fprintf(stderr, "%s: %s\n", what, error.what);
  return error.code;
}

/// Computes a batch, and pushes its gradients.
int32_t step(dp_client* client, dp_batch* batch) {
  dp_batch_info info{};
  info.struct_size = sizeof info;
  dp_batch_describe(batch, &info);
  dp_batch_bag bag{};
  bag.struct_size = sizeof bag;
  dp_batch_keys(batch, kFeatures, &bag);
  uint64_t rows = 0, one = 0;
  const float* const weights = dp_batch_variable(batch, kWeights, &rows);
  const float bias = *dp_batch_variable(batch, kBias, &one);
  const float* const labels = dp_batch_numbers(batch, kLabel);

  std::vector<float> logits(info.records, bias), weights_gradient(rows);
  float bias_gradient = 0;
  double loss = 0;
  for (uint64_t i = 0; i < info.records; ++i) {
    const uint64_t begin = bag.offsets == nullptr ? i : bag.offsets[i];
    const uint64_t end = bag.offsets == nullptr ? i + 1 : bag.offsets[i + 1];
    const auto value = [&](uint64_t k) { return bag.values == nullptr ? 1.0F : bag.values[k]; };
    for (uint64_t k = begin; k < end; ++k) logits[i] += value(k) * weights[bag.rows[k]];
    const float sign = labels[i] > 0.5F ? 1.0F : -1.0F;
    const float missing = std::max(0.0F, 1 - sign * logits[i]);
    const float slope = -2 * sign * missing / float(info.records);
    loss += double(missing) * missing / double(info.records);
    bias_gradient += slope;
    for (uint64_t k = begin; k < end; ++k) weights_gradient[bag.rows[k]] += slope * value(k);
  }
  const float* const gradients[] = {weights_gradient.data(), &bias_gradient};
  const float* const predictions[] = {logits.data()};
  dp_push push{};
  push.struct_size = sizeof push;
  if (info.training != 0) push.gradients = gradients;
  push.predictions = predictions;
  push.has_loss = info.training;
  push.loss = loss;
  return dp_client_push(client, batch, &push);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s CHIEF [KEYS]\n", argv[0]), 64;
  dp_client_options options{};
  options.struct_size = sizeof options;
  options.chief = argv[1];
  options.keys = argc > 2 ? argv[2] : nullptr;
  dp_client* client = nullptr;
  if (dp_client_open(&options, &client) != 0) return fail("can't start");
  int status = 0;
  while (status == 0) {
    dp_batch* batch = nullptr;
    if (dp_client_next(client, 100, &batch) != 0) {
      status = fail("no further batch");
    } else if (batch != nullptr) {
      if (step(client, batch) != 0) status = fail("can't push");
      dp_batch_free(batch);
    } else if (dp_client_finished(client) != 0) {
      break;
    }
  }
  dp_client_close(client);
  return status;
}
