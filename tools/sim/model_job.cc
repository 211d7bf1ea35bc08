#include "tools/sim/model_job.h"

#include "shared/base/hash.h"

namespace downpour::sim {
namespace {

constexpr uint32_t kWidth = 8;
constexpr uint64_t kItems = 29;
constexpr uint64_t kEvalRecords = 40;
constexpr uint64_t kTargetUnit = uint64_t{1} << 26;

/// Returns one line of data. All lines have the same length, so that all shards have the same
/// number of records.
std::string record(uint64_t number, uint64_t salt) {
  const uint64_t drawn = hash_combine(number, salt);
  std::string line = str("{\"user\":", 1'000'000 + number, ",\"item\":", 2'000'000 + drawn % kItems,
                         ",\"x\":[", 1 + number % 3, ',', 1 + number % 5, "],\"y\":[");
  for (uint64_t j = 0; j < kWidth; ++j)  // 2 to 14 units, which always have nine digits
    line += str(j == 0 ? "" : ",", (2 + (drawn / kItems + 3 * j) % 13) * kTargetUnit);
  return line + str("],\"one\":", 16 * kTargetUnit, "}\n");
}

std::string records(uint64_t begin, uint64_t end, uint64_t salt) {
  std::string text;
  for (uint64_t r = begin; r < end; ++r) text += record(r, salt);
  return text;
}

constexpr const char* kSparseDenseModel = R"(
[data.fields]
user = { type = "int64", transform = [{ op = "identity" }] }
item = { type = "int64", transform = [{ op = "identity" }] }
x = { shape = [2] }
y = { shape = [8] }
one = {}
[model]
layers = [
  { name = "users", type = "embedding", inputs = ["user"], dim = 8, init = { type = "zero" } },
  { name = "items", type = "embedding", inputs = ["item"], dim = 8, init = { type = "zero" } },
  { name = "base", type = "linear", inputs = ["x"], units = [8] },
  { name = "sum", type = "add", inputs = ["users", "items", "base"] },
  { name = "count", type = "linear", inputs = ["user"], bias = false },
]
outputs = [
  { name = "sum", input = "sum", loss = "squared", target = "y" },
  { name = "count", input = "count", loss = "squared", target = "one" },
]
[optimizer]
type = "adam"
learning_rate = 0.001
beta1 = 0.5
beta2 = 0.75
schedule = { type = "inverse_sqrt", warmup_steps = 8 }
[[optimizer.rules]]
variables = "items/*"
type = "rowwise_adagrad"
learning_rate = 0.001
[[optimizer.rules]]
variables = "count/*"
type = "sgd"
learning_rate = 4.656612873077392578125e-10
schedule = "constant"
)";

}  // namespace

Result<Job> make_model_job(const JobSize& size) {
  constexpr uint64_t kTrainSalt = 1, kEvalSalt = 2;
  DP_TRY(const std::string eval,
         write_data("model-eval", "jsonl", records(0, kEvalRecords, kEvalSalt)));
  return make_built_in_job(
      size,
      {.name = "model",
       .format = "jsonl",
       .model = kSparseDenseModel +
                str("[eval]\nsource = \"", eval, "\"\nmetrics = [\"rmse\"]\nslices = [\"item\"]\n"),
       .checkpoint_steps = 12,  // after most losses of a ps there are rows and slots to restore
       .records = [](uint64_t begin, uint64_t end) { return records(begin, end, kTrainSalt); }});
}

}  // namespace downpour::sim
