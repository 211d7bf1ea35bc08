// Support: TFRecord files of Examples for the tests of shared/data.
#pragma once

#include <string>
#include <vector>

#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/example/tfrecord_writer.h"
#include "shared/data/values/fields.h"
#include "tests/shared/data/support.h"

namespace downpour::data {

/// Returns a TFRecord file of these records.
inline std::string framed(const std::vector<std::string>& records) {
  std::string out;
  for (const std::string& record : records) append_frame(out, record);
  return out;
}

/// Returns an Example with an int64 `id`, a float `x` = id / 2, and id % 5 `words`, so that records
/// differ in size.
inline std::string numbered_example(int64_t id) {
  ExampleBuilder builder;
  const float x = float(id) / 2;
  const std::vector<std::string_view> words(size_t(id % 5), "word");
  builder.add("id", std::span(&id, 1));
  builder.add("x", std::span(&x, 1));
  builder.add("words", words);
  return builder.bytes();
}
/// Returns a TFRecord file of numbered_example(0) to numbered_example(count - 1).
inline std::string numbered_file(int64_t count) {
  std::vector<std::string> records;
  for (int64_t id = 0; id < count; ++id) records.push_back(numbered_example(id));
  return framed(records);
}

inline std::shared_ptr<ReadPlan> example_plan(const std::string& path) {
  return plan_of(path, DataFormat::kTfrecord);
}
/// Returns a plan that reads id and x as floats.
inline std::shared_ptr<ReadPlan> numbered_plan(const std::string& path) {
  auto plan = example_plan(path);
  plan->data.fields = {{.name = "id", .type = FieldType::kInt64}, {.name = "x"}};
  plan->layout.floats = {{"id", 1}, {"x", 1}};
  return plan;
}

}  // namespace downpour::data
