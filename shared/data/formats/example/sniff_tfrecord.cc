// sniff of TFRecord: derives a field from each feature of the first Examples, and finds the target.
#include <algorithm>
#include <map>

#include "shared/base/units.h"
#include "shared/data/formats/example/example_scan.h"
#include "shared/data/formats/example/tensor_proto.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/sniff_columns.h"

namespace downpour::data {
namespace {

constexpr DataFormat kFrameFormat = DataFormat::kTfrecord;
constexpr size_t kSampleRecords = 10'000;
constexpr size_t kCategoryBytesMax = 1024;  // a longer string is binary data

/// Statistics of one feature over all Examples.
struct Feature {
  Column column;                               // statistics of the first value in each record
  size_t integers = 0, floats = 0, bytes = 0;  // records with a list of this type
  size_t records = 0;                          // records with a value
  size_t fewest = SIZE_MAX, most = 0;          // minimum and maximum number of values in a record
  bool binary = false;                         // has strings that are binary data
};

bool is_text(std::string_view bytes) {
  return bytes.size() <= kCategoryBytesMax &&
         std::all_of(bytes.begin(), bytes.end(), [](char c) { return uint8_t(c) >= 0x20; });
}

/// Adds a feature of one Example to its statistics. Returns false if the bytes are not a feature.
bool look_at(std::string_view feature, Feature& facts) {
  bool malformed = false;
  size_t count = 0;
  for (const char *p = feature.data(), *end = p + feature.size(); p < end;) {
    WireField list;
    if ((p = parse_wire_field(p, end, list)) == nullptr) return false;
    const auto number = [&](auto value) {
      if (++count == 1) facts.column.add_number(double(value));
      return true;
    };
    const auto text = [&](std::string_view bytes) {
      facts.binary |= !is_text(bytes);
      if (++count == 1 && is_text(bytes)) facts.column.add_text(std::string(bytes), std::nullopt);
      return true;
    };
    if (list.tag == kInt64List) {
      each_int64(list.bytes, number, malformed);
      ++facts.integers;
    } else if (list.tag == kFloatList) {
      each_float(list.bytes, number, malformed);
      ++facts.floats;
    } else if (list.tag == kBytesList) {
      each_bytes(list.bytes, text, malformed);
      ++facts.bytes;
    }
    if (malformed) return false;
  }
  if (count == 0) return true;
  ++facts.records;
  facts.fewest = std::min(facts.fewest, count);
  facts.most = std::max(facts.most, count);
  return true;
}

/// Returns the field of a feature that is not the target, or nothing if no field fits its values.
std::optional<FieldSpec> field_of_feature(const std::string& name, const Feature& facts,
                                          size_t records) {
  const bool mixed = (facts.integers > 0) + (facts.floats > 0) + (facts.bytes > 0) != 1;
  if (facts.records == 0 || mixed || facts.binary) return std::nullopt;
  const bool single = facts.most == 1;
  const bool always = facts.records == records;
  if (facts.floats > 0) {
    if (single) {
      FieldSpec field = field_of(name, facts.column);
      if (always) field.fallback.reset();
      return field;
    }
    if (facts.fewest != facts.most || !always) return std::nullopt;
    return FieldSpec{.name = name, .shape = {int64_t(facts.most)}};
  }
  FieldSpec field{.name = name,
                  .type = facts.bytes > 0 ? FieldType::kString : FieldType::kInt64,
                  .transform = {ops::Hash{}}};
  if (!single) {
    field.shape = {-1};
  } else if (!always) {
    field.fallback = facts.bytes > 0 ? "" : "0";
  }
  return field;
}

/// Returns the feature to predict: one with a usual name of a target, or else the only binary
/// feature with one value per record. Empty if there is none. `why` gets the reason.
std::string target_of(const std::map<std::string, Feature>& features, size_t records,
                      std::string& why) {
  std::vector<std::string> flags;
  std::string named;
  for (const auto& [name, facts] : features) {
    if (facts.most == 1 && 2 * facts.records > records && target_rank(name) < target_rank(named))
      named = name;
    const bool single = facts.most == 1 && facts.records == records;
    const auto& numbers = facts.column.numbers;
    if (single && facts.bytes == 0 && classes_of({numbers.begin(), numbers.end()}, records) == 2)
      flags.push_back(name);
  }
  why = named.empty() ? "the only feature that is 0 or 1" : "by its name";
  if (!named.empty()) return named;
  return flags.size() == 1 ? flags[0] : "";
}

Result<FileFacts> frame_facts(FileSample& file) {
  const std::string_view text = file.text();
  const std::string& path = file.path();
  const size_t filled = text.size();
  std::map<std::string, Feature> features;
  size_t records = 0, at = 0;
  bool examples = true;
  while (filled - at >= kFrameHeaderBytes && records < kSampleRecords && examples) {
    uint64_t length = 0;
    if (!read_frame_header(text.data() + at, length)) break;
    at += kFrameHeaderBytes;
    if (length + kFrameTailBytes > filled - at) break;
    const std::string_view record(text.data() + at, size_t(length));
    at += size_t(length) + kFrameTailBytes;
    TensorView tensor;
    bool malformed = false;
    if (records == 0 && parse_tensor(record, tensor) == nullptr && tensor.rank > 0) {
      return Error{ErrorCode::kBadData,
                   str("its records are tensors of ", tensor_type_name(tensor.type),
                       ", so the fields can't be detected: ", path),
                   path,
                   "write a job with data.record = \"tensor\", and with data.fields that declare "
                   "the shapes"};
    }
    examples = each_feature(
        record,
        [&](std::string_view name, std::string_view feature) {
          return look_at(feature, features[std::string(name)]);
        },
        malformed);
    ++records;
  }
  if (!examples || records == 0 || features.empty()) {
    return Error{ErrorCode::kBadData,
                 str("is a TFRecord file without tf.train.Example records: ", path), path,
                 "Downpour reads records that are Examples or tensors"};
  }
  FileFacts facts{.format = kFrameFormat, .record = "example"};
  std::string why;
  const auto is_single = [&](const std::string& name) {
    const auto feature = features.find(name);
    return feature != features.end() && feature->second.most == 1;
  };
  const auto is_feature = [&](const std::string& name) { return features.contains(name); };
  const bool known = !present(file.roles().targets, is_feature).empty();
  std::vector<Roles::Target> targets = present(file.roles().targets, is_single);
  if (known) {
    why = "by the job";
  } else if (std::string guess = target_of(features, records, why); !guess.empty()) {
    targets = {{std::move(guess), ""}};
  }
  const auto field_of_one = [&](const std::string& name, const auto& feature) {
    std::optional<FieldSpec> field = field_of_feature(name, feature, records);
    if (field) rename_field(*field, field->feature);
    return field;
  };
  facts.reason = str("tfrecord: tf.train.Example, ",
                     describe_members(file.roles(), targets, known, why, "feature", features,
                                      records, is_single, field_of_one, facts));
  return facts;
}

}  // namespace

std::optional<Sniffed> sniff_frames(FileSample& file) {
  if (!is_tfrecord(file.text())) return std::nullopt;
  return Sniffed{kFrameFormat, frame_facts(file)};
}

}  // namespace downpour::data
