// interop-records: prints as JSON what a job's readers return, and writes TFRecord files.
// formats.py compares both with NumPy and TensorFlow.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/runtime/job_setup.h"
#include "chief/runtime/run_setup.h"
#include "shared/data/formats/example/tfrecord_writer.h"
#include "shared/data/reading/dataset.h"
#include "shared/model/graph.h"

namespace downpour {
namespace {

/// Prints {"field": [values], ...} per record, in the order of the files. Keys are unsigned
/// integers.
Result<void> print_records(const Job& job) {
  DP_TRY(const chief::RunPlan plan, chief::plan_run(job, wire::Purpose::kTrain));
  DP_TRY(const auto graph, model::Graph::build(job));
  const InputLayout layout = graph->inputs();
  const auto reading = data::make_read_plan(job, layout, graph->output_widths(), job.data.source,
                                            plan.train_files, 0);
  const auto ranges = plan::cut_shards(plan.train_files, plan.shard_bytes);
  Batch batch;
  for (uint32_t i = 0; i < ranges.size(); ++i) {
    DP_TRY(const auto reader, data::open_shard(reading, data::Split::kAll, {0, i}, ranges[i], 0));
    for (;;) {
      DP_TRY(const bool more, reader->next(batch));
      if (!more) break;
      for (uint32_t r = 0; r < batch.records; ++r) {
        nlohmann::ordered_json record;
        for (size_t f = 0; f < batch.floats.size(); ++f) {
          const FloatColumn& column = batch.floats[f];
          const auto begin = column.values.begin() + ptrdiff_t(r) * column.width;
          record[layout.floats[f].field] = std::vector<double>(begin, begin + column.width);
        }
        for (size_t b = 0; b < batch.bags.size(); ++b) {
          const BagColumn& bag = batch.bags[b];
          const uint32_t begin = bag.offsets.empty() ? r : bag.offsets[r];
          const uint32_t end = bag.offsets.empty() ? r + 1 : bag.offsets[r + 1];
          std::vector<uint64_t> keys;
          for (uint32_t k = begin; k < end; ++k)
            keys.push_back(batch.tables[bag.table_index].keys[bag.keys[k]]);
          record[layout.bags[b].field] = keys;
        }
        std::printf("%s\n", record.dump().c_str());
      }
    }
  }
  return {};
}

/// Writes `count` Examples whose values formats.py knows. Each has a serialized tensor.
void write_records(const std::string& path, int64_t count) {
  std::string out;
  data::ExampleBuilder builder;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t ids[] = {i, -i, i << 40};
    const float x = float(i) * 0.25F;
    const std::string word = "word" + std::to_string(i);
    const std::string_view words[] = {word, ""};
    const float elements[] = {x, -x};
    const std::vector<int64_t> shape = {2, 1};
    const std::string tensor =
        data::serialized_tensor(data::TensorType::kFloat, shape,
                                {reinterpret_cast<const char*>(elements), sizeof elements});
    const std::string_view tensors[] = {tensor};
    builder.clear();
    builder.add("ids", ids);
    builder.add("x", std::span(&x, 1));
    builder.add("words", words);
    builder.add("tensor", tensors);
    data::append_frame(out, builder.bytes());
  }
  std::ofstream(path, std::ios::binary) << out;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  using namespace downpour;
  const std::string verb = argc > 2 ? argv[1] : "";
  if (verb == "write" && argc > 3) {
    write_records(argv[2], std::atoll(argv[3]));
    return 0;
  }
  if (verb != "read") {
    std::fprintf(stderr, "usage: interop-records read JOB | write FILE COUNT\n");
    return 64;
  }
  const auto fail = [](const Error& error) {
    std::fprintf(stderr, "%s (%s)\n", error.what.c_str(), error.where.c_str());
    return exit_code(error.code);
  };
  const auto given = chief::load_given_job(argv[2], {});
  if (!given) return fail(given.error());
  const auto printed = print_records(given->loaded.job);
  return printed ? 0 : fail(printed.error());
}
