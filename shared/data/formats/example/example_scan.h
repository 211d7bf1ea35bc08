// tf.train.Example (tensorflow/core/example/{example,feature}.proto), read in place:
//   Example { Features features = 1 }   Features { map<string, Feature> feature = 1 }
//   Feature { oneof { BytesList = 1, FloatList = 2, Int64List = 3 } }, each { repeated value = 1 }
#pragma once

#include <cstring>
#include <string_view>

#include "shared/data/formats/example/proto_scan.h"

namespace downpour::data {

constexpr uint32_t kEntry = tag_of(1, WireType::kBytes);  // of the map, in Features
constexpr uint32_t kEntryKey = tag_of(1, WireType::kBytes),
                   kEntryFeature = tag_of(2, WireType::kBytes);
constexpr uint32_t kBytesList = tag_of(1, WireType::kBytes);
constexpr uint32_t kFloatList = tag_of(2, WireType::kBytes);
constexpr uint32_t kInt64List = tag_of(3, WireType::kBytes);
constexpr uint32_t kListed = tag_of(1, WireType::kBytes);  // a bytes value, or packed numbers
constexpr uint32_t kOneFloat = tag_of(1, WireType::kFixed32);
constexpr uint32_t kOneInt64 = tag_of(1, WireType::kVarint);

/// Calls take(field) for each protobuf field of `bytes`, until it returns false. Returns false if
/// take() did, or (malformed = true) if the bytes are not a protobuf.
template <typename Take>
inline bool each_wire_field(std::string_view bytes, Take&& take, bool& malformed) {
  const char* p = bytes.data();
  const char* const end = p + bytes.size();
  while (p < end) {
    WireField field;
    p = parse_wire_field(p, end, field);
    if (p == nullptr) {
      malformed = true;
      return false;
    }
    if (!take(field)) return false;
  }
  malformed = false;
  return true;
}

/// Calls take(value) for each value of an Int64List, packed or not, until it returns false. Returns
/// false if take() did, or (malformed = true) if the bytes are not such a list.
template <typename Take>
bool each_int64(std::string_view list, Take&& take, bool& malformed) {
  const auto take_field = [&](const WireField& field) {
    if (field.tag != kListed) return field.tag != kOneInt64 || take(int64_t(field.number));
    const char *at = field.bytes.data(), *const stop = at + field.bytes.size();
    while (at < stop) {
      uint64_t value = 0;
      if ((at = parse_varint(at, stop, value)) == nullptr) {
        malformed = true;
        return false;
      }
      if (!take(int64_t(value))) return false;
    }
    return true;
  };
  return each_wire_field(list, take_field, malformed);
}

/// Does the same for a FloatList.
template <typename Take>
bool each_float(std::string_view list, Take&& take, bool& malformed) {
  const auto give = [&](const char* at) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return bool(take(value));
  };
  const auto take_field = [&](const WireField& field) {
    if (field.tag == kListed) {
      if (field.bytes.size() % 4 != 0) {
        malformed = true;
        return false;
      }
      for (size_t i = 0; i < field.bytes.size(); i += 4)
        if (!give(field.bytes.data() + i)) return false;
    } else if (field.tag == kOneFloat) {
      const auto bits = uint32_t(field.number);
      char bytes[4];
      std::memcpy(bytes, &bits, 4);
      return give(bytes);
    }
    return true;
  };
  return each_wire_field(list, take_field, malformed);
}

/// Does the same for a BytesList.
template <typename Take>
bool each_bytes(std::string_view list, Take&& take, bool& malformed) {
  const auto take_field = [&](const WireField& field) {
    return field.tag != kListed || take(field.bytes);
  };
  return each_wire_field(list, take_field, malformed);
}

/// Calls take(name, feature) for each feature of an Example, until it returns false. Returns false
/// if take() did, or (malformed = true) if the bytes are not an Example.
template <typename Take>
bool each_feature(std::string_view example, Take&& take, bool& malformed) {
  WireField features, entry, part;
  malformed = true;
  for (const char *p = example.data(), *end = p + example.size(); p < end;) {
    if ((p = parse_wire_field(p, end, features)) == nullptr) return false;
    if (features.tag != tag_of(1, WireType::kBytes)) continue;
    for (const char *q = features.bytes.data(), *stop = q + features.bytes.size(); q < stop;) {
      if ((q = parse_wire_field(q, stop, entry)) == nullptr) return false;
      if (entry.tag != tag_of(1, WireType::kBytes)) continue;
      std::string_view name, feature;
      for (const char *r = entry.bytes.data(), *last = r + entry.bytes.size(); r < last;) {
        if ((r = parse_wire_field(r, last, part)) == nullptr) return false;
        if (part.tag == tag_of(1, WireType::kBytes)) name = part.bytes;
        if (part.tag == tag_of(2, WireType::kBytes)) feature = part.bytes;
      }
      if (!take(name, feature)) {
        malformed = false;
        return false;
      }
    }
  }
  malformed = false;
  return true;
}

}  // namespace downpour::data
