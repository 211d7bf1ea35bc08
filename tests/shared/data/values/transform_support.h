// Support: reads one field with a transform from a table, from JSON and from Examples.
#pragma once

#include <functional>

#include "tests/shared/data/formats/example/tfrecord_support.h"

namespace downpour::data {

/// The next three functions return a file with one record per value, which is the field `x`.
template <typename T>
std::string as_tsv(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += str(value, "\n");
  return text;
}
template <typename T>
std::string as_jsonl(const std::vector<T>& values) {
  constexpr bool kText = std::is_convertible_v<T, std::string_view>;
  std::string text;
  for (const T& value : values)
    text += str("{\"x\": ", kText ? "\"" : "", value, kText ? "\"" : "", "}\n");
  return text;
}
template <typename T>
std::string as_examples(const std::vector<T>& values) {
  std::vector<std::string> records;
  for (const T& value : values) {
    ExampleBuilder builder;
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      const std::string_view text = value;
      builder.add("x", std::span(&text, 1));
    } else if constexpr (std::is_integral_v<T>) {
      const int64_t number = value;
      builder.add("x", std::span(&number, 1));
    } else {
      const float number = value;
      builder.add("x", std::span(&number, 1));
    }
    records.push_back(builder.bytes());
  }
  return framed(records);
}

/// Returns a plan that reads the field `x`, as keys if `keys` is true, else as numbers.
inline std::shared_ptr<ReadPlan> x_plan(const std::string& path, DataFormat format,
                                        const FieldSpec& field, bool keys) {
  auto plan = plan_of(path, format);
  if (format == DataFormat::kTsv) plan->data.columns = {"x"};
  plan->data.fields = {field};
  if (keys) {
    plan->layout = {.bags = {{"x", 0}}, .tables = {TableId(0)}};
  } else {
    plan->layout.floats = {{"x", 1}};
  }
  return plan;
}

/// Calls `then` with a plan for each format. The plans read the same values with `field`.
template <typename T>
void in_each_format(const std::vector<T>& values, const FieldSpec& field, bool keys,
                    const std::function<void(std::shared_ptr<ReadPlan>)>& then) {
  const ScratchDir dir;
  const std::pair<DataFormat, std::string> files[] = {{DataFormat::kTsv, as_tsv(values)},
                                                      {DataFormat::kJsonl, as_jsonl(values)},
                                                      {DataFormat::kTfrecord, as_examples(values)}};
  for (const auto& [format, text] : files) {
    INFO("format " << int(format));
    then(x_plan(dir.write("f", text), format, field, keys));
  }
}

using Keys = std::vector<std::vector<uint64_t>>;  // per record

/// Returns the keys of each record. Checks that all formats give the same.
template <typename T>
Keys keys_of(const std::vector<T>& values, const FieldSpec& field) {
  std::optional<Keys> all;
  in_each_format(values, field, true, [&](const std::shared_ptr<ReadPlan>& plan) {
    auto read = read_file(plan);
    if (!read) FAIL(read.error().what);
    Keys keys;
    for (const auto& record : read->keys) keys.push_back(record[0]);
    if (all) CHECK(*all == keys);
    all = keys;
  });
  return *all;
}
/// Returns the numbers of all records. Checks that all formats give the same.
template <typename T>
std::vector<float> numbers_of(const std::vector<T>& values, const FieldSpec& field) {
  std::optional<std::vector<float>> all;
  in_each_format(values, field, false, [&](const std::shared_ptr<ReadPlan>& plan) {
    auto read = read_file(plan);
    if (!read) FAIL(read.error().what);
    std::vector<float> numbers;
    for (const auto& record : read->floats)
      numbers.insert(numbers.end(), record.begin(), record.end());
    if (all) CHECK(*all == numbers);
    all = numbers;
  });
  return *all;
}
/// Returns the error of reading the values. Checks that all formats give the same.
template <typename T>
std::string refused(const std::vector<T>& values, const FieldSpec& field, bool keys) {
  std::string what;
  in_each_format(values, field, keys, [&](const std::shared_ptr<ReadPlan>& plan) {
    const Error error = error_of(plan);
    if (!what.empty()) CHECK(error.what == what);
    what = error.what;
  });
  return what;
}

}  // namespace downpour::data
