// The order of records: random, different in each epoch, and determined by the seed.
#include <algorithm>
#include <map>
#include <numeric>

#include "shared/base/rng.h"
#include "shared/data/reading/batch_reader.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Order = std::vector<uint32_t>;

/// Returns the shuffled order of a window of `count` records.
Order shuffled(uint32_t count, uint64_t seed, ShardId shard, uint32_t window) {
  std::vector<RecordRef> records(count);
  for (uint32_t i = 0; i < count; ++i) records[i].begin = i;
  shuffle_window(records, seed, shard, window);
  Order order;
  for (const RecordRef& record : records) order.push_back(record.begin);
  return order;
}

/// Returns the chi-squared statistic of counts that are all expected to be `expected`.
template <typename Counts>
double chi_squared(const Counts& counts, double expected) {
  double sum = 0;
  for (const double n : counts) sum += (n - expected) * (n - expected) / expected;
  return sum;
}

TEST_CASE("every order of records is equally likely over seeds, epochs, shards and windows",
          "[data][order]") {
  constexpr uint32_t kTimes = 48'000, kRecords = 4, kOrders = 24;
  using At = std::function<Order(uint32_t)>;
  const std::vector<std::pair<std::string, At>> all = {{"seeds",
                                                        [](uint32_t i) {
                                                          return shuffled(kRecords, i, {0, 0}, 0);
                                                        }},
                                                       {"epochs",
                                                        [](uint32_t i) {
                                                          return shuffled(kRecords, 1, {i, 0}, 0);
                                                        }},
                                                       {"shards",
                                                        [](uint32_t i) {
                                                          return shuffled(kRecords, 1, {0, i}, 0);
                                                        }},
                                                       {"windows", [](uint32_t i) {
                                                          return shuffled(kRecords, 1, {0, 0}, i);
                                                        }}};
  for (const auto& [over, order_at] : all) {
    INFO("over " << over);
    std::map<Order, double> met;
    for (uint32_t i = 0; i < kTimes; ++i) ++met[order_at(i)];
    REQUIRE(met.size() == kOrders);
    std::vector<double> counts;
    for (const auto& [order, times] : met) counts.push_back(times);
    const double chi2 = chi_squared(counts, double(kTimes) / kOrders);
    CHECK(chi2 < 55.0);  // 23 degrees of freedom: exceeded by chance once in 5,000
    CHECK(chi2 > 6.0);   // equally rare: the counts must not be too even either
  }
}

TEST_CASE("every position of a record, and every distance to the next one, is equally likely",
          "[data][order]") {
  constexpr uint32_t kRecords = 20, kEpochs = 20'000;
  std::vector<double> places(size_t{kRecords} * kRecords), steps(kRecords - 1);
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Order order = shuffled(kRecords, 9, {epoch, 3}, 1);
    for (uint32_t place = 0; place < kRecords; ++place) ++places[order[place] * kRecords + place];
    // The distance in the file from each record to the next one of the order, modulo their number.
    for (uint32_t place = 0; place < kRecords; ++place) {
      const uint32_t next = order[(place + 1) % kRecords];
      ++steps[(next + kRecords - order[place]) % kRecords - 1];
    }
  }
  const double chi2 = chi_squared(places, kEpochs / double(kRecords));
  CHECK(chi2 < 470);  // 361 degrees of freedom, standard deviation 27: within four
  CHECK(chi2 > 252);
  // 18 degrees of freedom.
  CHECK(chi_squared(steps, kEpochs * double(kRecords) / (kRecords - 1)) < 48);
}

/// The content of a batch, compared bit for bit.
struct Seen {
  uint64_t records_hash = 0;
  std::vector<float> floats;
  std::vector<uint64_t> table;
  std::vector<uint32_t> keys;
  bool operator==(const Seen&) const = default;
};
using Sequence = std::map<BatchId, Seen>;

/// Returns the batches of two epochs. Each of `workers` workers has its own plan and takes the next
/// shard of the epoch's order when it has finished one. The seed `pace` decides which worker reads
/// the next batch.
Sequence trained(const std::string& folder, uint64_t seed, uint32_t workers, uint64_t pace) {
  struct Worker {
    std::shared_ptr<ReadPlan> plan;
    std::unique_ptr<ShardReader> reader;
  };
  std::vector<Worker> all(workers);
  for (Worker& worker : all) {
    worker.plan = plan_of(folder + "/0");
    worker.plan->data.source.paths = {folder + "/?"};
    worker.plan->files = list_files(worker.plan->data, worker.plan->data.source, "/").value();
    reads_libsvm(*worker.plan);
    worker.plan->data.shuffle = "shard";
    worker.plan->seed = seed;
  }
  const auto ranges = plan::cut_shards(all[0].plan->files, 900);
  const auto count = uint32_t(ranges.size());
  REQUIRE(count > 20);
  Rng rng(pace);
  Sequence out;
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    uint32_t next = 0;
    for (uint32_t busy = 1; busy > 0 || next < count;) {
      Worker& worker = all[size_t(rng.below(workers))];
      if (worker.reader == nullptr && next < count) {
        const plan::ShardRange& range = ranges[plan::order_at(seed, epoch, count, next)];
        worker.reader = open_shard(worker.plan, Split::kTrain, {epoch, next++}, range, 0).value();
      }
      Batch batch;
      if (worker.reader != nullptr && worker.reader->next(batch).value()) {
        const auto [at, fresh] =
            out.emplace(batch.id, Seen{batch.records_hash, batch.floats[0].values,
                                       batch.tables[0].keys, batch.bags[0].keys});
        CHECK(fresh);
      } else {
        worker.reader.reset();
      }
      busy = uint32_t(std::count_if(all.begin(), all.end(),
                                    [](const Worker& w) { return w.reader != nullptr; }));
    }
  }
  return out;
}

TEST_CASE("the same seed gives 1, 2 and 8 workers the same batches; another seed or epoch does not",
          "[data][order]") {
  const ScratchDir dir;
  for (int file = 0; file < 3; ++file) {
    std::string text;
    for (int i = 0; i < 700; ++i)
      text += str(i % 2, " ", file * 1000 + i + 1, ":1 ", i % 9, ":2\n");
    dir.write(std::to_string(file), text);
  }
  const Sequence one = trained(dir.path(), 7, 1, 1);
  for (const uint32_t workers : {1U, 2U, 8U}) {
    for (const uint64_t pace : {2, 3}) CHECK(trained(dir.path(), 7, workers, pace) == one);
  }
  const Sequence other = trained(dir.path(), 8, 2, 2);
  uint32_t same = 0;
  std::map<uint32_t, uint64_t> sums;     // of the record hashes, by epoch
  std::map<uint32_t, Order> first_keys;  // of the batches, by epoch
  for (const auto& [id, seen] : one) {
    same += uint32_t(other.contains(id) && other.at(id) == seen);
    sums[id.epoch] += seen.records_hash;
    first_keys[id.epoch].push_back(uint32_t(seen.table[0]));
  }
  CHECK(same == 0);
  CHECK(sums[0] == sums[1]);  // both epochs have the same records
  CHECK(first_keys[0] != first_keys[1]);
}

}  // namespace
}  // namespace downpour::data
