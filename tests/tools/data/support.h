// Data sets of a few records in every format, for the tests of tools/data.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/human.h"
#include "shared/data/formats/example/tfrecord_writer.h"
#include "tests/support/scratch_dir.h"
#include "tools/data/look.h"

namespace downpour::tools {

using testing::ScratchDir;
using Json = nlohmann::ordered_json;

inline DataSet open_set(const std::vector<std::string>& names,
                        DataFormat format = DataFormat::kAuto) {
  auto set = open_data_set(names, {.format = format});
  INFO((set ? "" : set.error().what + " at " + set.error().where));
  REQUIRE(set);
  return std::move(*set);
}

/// One record with a value of every kind: x, an integer; y, a float; t, a text; v, two integers.
struct Row {
  int64_t x = 0;
  float y = 0;
  std::string t;
  std::vector<int64_t> v;
};
inline std::vector<Row> rows_of(size_t count) {
  std::vector<Row> rows;
  for (size_t i = 0; i < count; ++i)
    rows.push_back({int64_t(i), float(i) / 4, str("t", i % 7), {int64_t(i), int64_t(i) * 2}});
  return rows;
}

inline std::string tfrecords(const std::vector<Row>& rows) {
  std::string out;
  data::ExampleBuilder example;
  for (const Row& row : rows) {
    example.clear();
    example.add("x", std::span(&row.x, 1));
    example.add("y", std::span(&row.y, 1));
    const std::string_view text = row.t;
    example.add("t", std::span(&text, 1));
    example.add("v", std::span(row.v));
    data::append_frame(out, example.bytes());
  }
  return out;
}

inline std::string json_lines(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows)
    out += Json{{"x", row.x}, {"y", row.y}, {"t", row.t}, {"v", row.v}}.dump() + "\n";
  return out;
}

inline std::string csv_lines(const std::vector<Row>& rows) {
  std::string out = "x,y,t\n";
  for (const Row& row : rows) out += str(row.x, ",", row.y, ",", row.t, "\n");
  return out;
}

/// Returns the bytes of an .npy file of the given type ("<i8") and shape ("(3, 2)").
template <typename T>
std::string npy_file(const std::string& type, const std::string& shape,
                     const std::vector<T>& values) {
  std::string header =
      str("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// Returns the first records of a set as `downpour head` shows them: one JSON object per record.
inline std::vector<Json> head_of(const DataSet& set, uint64_t records, LookOptions options = {}) {
  options.json = true;
  std::ostringstream out;
  const auto rejected = show_head(set, records, 0, options, out);
  INFO((rejected ? "" : rejected.error().what));
  REQUIRE(rejected);
  std::vector<Json> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line)["fields"]);
  return lines;
}

}  // namespace downpour::tools
