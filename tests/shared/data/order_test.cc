// The order in which records come: random, another in each epoch, and decided by the seed alone.
#include <algorithm>
#include <map>
#include <numeric>

#include "shared/base/rng.h"
#include "shared/data/reading/batch_reader.h"
#include "tests/shared/data/support.h"

namespace downpour::data {
namespace {

using Order = std::vector<uint32_t>;

/// In which order a window of `count` records is given out.
Order shuffled(uint32_t count, uint64_t seed, ShardId shard, uint32_t window) {
  std::vector<RecordRef> records(count);
  for (uint32_t i = 0; i < count; ++i) records[i].begin = i;
  shuffle_window(records, seed, shard, window);
  Order order;
  for (const RecordRef& record : records) order.push_back(record.begin);
  return order;
}

/// How far counts lie from what is expected of each.
template <typename Counts>
double chi_squared(const Counts& counts, double expected) {
  double sum = 0;
  for (const double n : counts) sum += (n - expected) * (n - expected) / expected;
  return sum;
}

TEST_CASE("every order of a shard's records is equally likely, over seeds, epochs, shards, windows",
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
    CHECK(chi2 < 55.0);  // 23 degrees of freedom: above by chance once in 5,000
    CHECK(chi2 > 6.0);   // below as seldom: nor too even
  }
}

TEST_CASE("a record comes to every place of a shard alike, and so does its neighbour",
          "[data][order]") {
  constexpr uint32_t kRecords = 20, kEpochs = 20'000;
  std::vector<double> places(size_t{kRecords} * kRecords), steps(kRecords - 1);
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Order order = shuffled(kRecords, 9, {epoch, 3}, 1);
    for (uint32_t place = 0; place < kRecords; ++place) ++places[order[place] * kRecords + place];
    // How far behind its neighbour in the file a record comes, around the end.
    for (uint32_t place = 0; place < kRecords; ++place) {
      const uint32_t next = order[(place + 1) % kRecords];
      ++steps[(next + kRecords - order[place]) % kRecords - 1];
    }
  }
  const double chi2 = chi_squared(places, kEpochs / double(kRecords));
  CHECK(chi2 < 470);  // 361 degrees of freedom, deviation 27: four of them above
  CHECK(chi2 > 252);
  CHECK(chi_squared(steps, kEpochs * double(kRecords) / (kRecords - 1)) < 48);  // of 18
}

/// What a batch was, to the last bit.
struct Seen {
  uint64_t records_hash = 0;
  std::vector<float> floats;
  std::vector<uint64_t> table;
  std::vector<uint32_t> keys;
  bool operator==(const Seen&) const = default;
};
using Sequence = std::map<BatchId, Seen>;

/// Two epochs by `workers`: each has memory of its own, takes the next shard of the epoch's order
/// whenever it is done with one, and a batch at a time in an order that `pace` decides.
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

TEST_CASE(
    "the same seed gives the same batches by their ids to 1, 2 and 8 workers, another seed "
    "others, and each epoch others",
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
  std::map<uint32_t, uint64_t> sums;     // of an epoch's records
  std::map<uint32_t, Order> first_keys;  // of its batches
  for (const auto& [id, seen] : one) {
    same += uint32_t(other.contains(id) && other.at(id) == seen);
    sums[id.epoch] += seen.records_hash;
    first_keys[id.epoch].push_back(uint32_t(seen.table[0]));
  }
  CHECK(same == 0);
  CHECK(sums[0] == sums[1]);  // the same records
  CHECK(first_keys[0] != first_keys[1]);
}

}  // namespace
}  // namespace downpour::data
