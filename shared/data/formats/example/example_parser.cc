// Parsers of records that are a tf.train.Example or a tensor.
#include "shared/data/formats/example/example_parser.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "shared/data/formats/example/entry_head.h"
#include "shared/data/formats/example/example_scan.h"
#include "shared/data/formats/example/tensor_proto.h"
#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/formats/typed_parser.h"

namespace downpour::data {
namespace {

constexpr const char* kFixFile =
    "copy or download the file again, or set data.bad_records = \"skip\"";
constexpr char kNoName[8] = {};  // 8 readable bytes, like those of any name
constexpr const char* kFixType = "correct the field's type or shape, or data.record";
constexpr uint32_t kNoField = UINT32_MAX;

/// Returns the tag of the list that contains a value for take_only(); 0: there is none.
uint32_t list_of(TypedField::Only only) {
  switch (only) {
    case TypedField::Only::kNothing:
      return 0;
    case TypedField::Only::kFloat:
      return kFloatList;
    case TypedField::Only::kText:
      return kBytesList;
    case TypedField::Only::kInteger:
    case TypedField::Only::kKey:
      return kInt64List;
  }
  return 0;
}

bool bad(const char* reason, const char* hint, Fault& fault) {
  fault = {.reason = reason, .hint = hint};
  return false;
}

bool check_crc(const char* begin, const char* end, Fault& fault) {
  uint32_t crc;
  std::memcpy(&crc, end, sizeof crc);
  if (crc == masked_crc32c(begin, size_t(end - begin))) [[likely]]
    return true;
  return bad("has a wrong checksum", kFixFile, fault);
}

/// Maps names of features to numbers, because features come in any order.
class NameIndex {
 public:
  void add(const std::string& name, uint32_t number) {
    names_.emplace_back(name, number);
    slots_.assign(std::bit_ceil(names_.size() * 8), {});
    for (uint32_t i = 0; i < names_.size(); ++i) {
      const std::string padded = names_[i].first + std::string(8, '\0');
      Slot slot = ends_of(padded.data(), names_[i].first.size());
      slot.number = names_[i].second;
      slot.name = i;
      size_t at = place_of(slot);
      while (slots_[at].number != kNoField) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }
  uint32_t find(const std::string& name) const {
    return find((name + std::string(8, '\0')).data(), name.size());
  }
  /// 8 bytes from `name` on must be readable.
  uint32_t find(const char* name, size_t size) const {
    if (slots_.empty()) return kNoField;
    const Slot wanted = ends_of(name, size);
    for (size_t at = place_of(wanted);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.number == kNoField) return kNoField;
      if (((slot.first ^ wanted.first) | (slot.last ^ wanted.last) | (slot.size ^ size)) != 0)
        continue;
      if (size <= 16 || std::memcmp(names_[slot.name].first.data(), name, size) == 0) [[likely]]
        return slot.number;
    }
  }

 private:
  /// A name as its first and last 8 bytes. They contain the whole name if it has up to 16 bytes.
  struct Slot {
    uint64_t first = 0, last = 0;
    uint64_t size = 0;
    uint32_t number = kNoField;
    uint32_t name = 0;
  };
  static Slot ends_of(const char* name, size_t size) {
    Slot slot{.size = size};
    std::memcpy(&slot.first, name, 8);
    if (size < 8) {
      slot.first &= (uint64_t{1} << (8 * size)) - 1;
    } else {
      std::memcpy(&slot.last, name + size - 8, 8);
    }
    return slot;
  }
  size_t place_of(const Slot& slot) const {
    const uint64_t hash =
        (slot.first ^ std::rotl(slot.last, 29) ^ slot.size) * 0x9e3779b97f4a7c15ULL;
    return size_t(hash >> 40) & (slots_.size() - 1);
  }
  std::vector<std::pair<std::string, uint32_t>> names_;
  std::vector<Slot> slots_;
};

/// Checks a tensor against the field's declaration, then gives its elements to the field.
bool read_tensor(std::string_view bytes, const TypedField& field, FieldWriter& writer,
                 Fault& fault) {
  TensorView tensor;
  const char* reason = parse_tensor(bytes, tensor);
  if (reason == nullptr) {
    const FieldType type = field.type();
    const TensorType wanted = type == FieldType::kFloat32 ? TensorType::kFloat
                              : type == FieldType::kInt64 ? TensorType::kInt64
                                                          : TensorType::kString;
    const std::span<const int64_t> shape = tensor.shape();
    const bool fits = field.is_bag() ? shape.size() == 1
                                     : std::equal(shape.begin(), shape.end(), field.shape().begin(),
                                                  field.shape().end());
    if (tensor.type != uint64_t(wanted)) {
      fault = {.reason = "is the type of the tensor, but the field declares another type",
               .field = &field.name(),
               .text = tensor_type_name(tensor.type),
               .hint = kFixType};
      return false;
    }
    if (!fits) {
      std::string said = "[";
      for (const int64_t d : shape) said += str(said.size() > 1 ? ", " : "", d);
      fault = {.reason = "is the shape of the tensor, but the field declares another shape",
               .field = &field.name(),
               .made = said + "]",
               .hint = kFixType};
      return false;
    }
    if (each_element(
            tensor, [&](auto value) { return writer.take(value, fault); }, reason))
      return writer.finish(fault);
    if (reason == nullptr) return false;
  }
  fault = {.reason = reason, .field = &field.name(), .hint = kFixType};
  return false;
}

/// Fields and the features of an Example that they read.
class ExampleFields {
 public:
  ExampleFields() = default;
  ExampleFields(ExampleFields&&) = default;
  ExampleFields& operator=(ExampleFields&&) = default;
  explicit ExampleFields(std::vector<TypedField> fields) : fields_(std::move(fields)) {
    next_.assign(fields_.size(), kNoField);
    seen_ = SeenFields(fields_.size());
    entries_.resize(fields_.size() + 1);
    for (uint32_t i = 0; i < fields_.size(); ++i) {
      const std::string& feature = fields_[i].source_name();
      const uint32_t before = index_.find(feature);
      if (before == kNoField) {
        index_.add(feature, i);
      } else {  // several fields read the same feature
        next_[i] = std::exchange(next_[before], i);
      }
    }
    for (uint32_t i = 0; i < fields_.size(); ++i) {
      if (index_.find(fields_[i].source_name()) != i || next_[i] != kNoField) continue;
      const uint32_t list = list_of(fields_[i].only());
      entries_[i] = {.head = EntryHead(fields_[i].source_name(), list), .list = list, .field = i};
    }
  }

  bool read(const char* begin, const char* end, Columns& columns, Fault& fault) {
    seen_.begin_record();
    pause_ -= pause_ > 0;
    const char* p = begin;
    while (p < end) {
      WireField field;
      p = parse_wire_field(p, end, field);
      if (p == nullptr) return bad("is not a tf.train.Example", kFixType, fault);
      if (field.tag == tag_of(1, WireType::kBytes) && !parse_features(field.bytes, columns, fault))
        return false;
    }
    return seen_.fill_missing(fields_, columns, fault);
  }

 private:
  struct Entry {
    EntryHead head;     // empty if the head can't be predicted
    uint32_t list = 0;  // tag of the value's list
    uint32_t field = 0;
    Entry* next = nullptr;  // entry that followed this one the last time
  };

  bool parse_features(std::string_view bytes, Columns& columns, Fault& fault) {
    return pause_ == 0 ? parse_entries<true>(bytes, columns, fault)
                       : parse_entries<false>(bytes, columns, fault);
  }

  template <bool kExpects>
  bool parse_entries(std::string_view bytes, Columns& columns, Fault& fault) {
    const char* p = bytes.data();
    const char* const end = p + bytes.size();
    Entry* last = kExpects ? &entries_.back() : nullptr;
    size_t wrong = 0;
    while (p < end) {
      if (kExpects && last->next != nullptr) [[likely]] {
        if (read_expected(p, end, last, columns)) [[likely]]
          continue;
        ++wrong;
      }
      std::string_view key, feature;
      if (!parse_short_entry(p, end, key, feature) && !parse_entry(p, end, key, feature))
          [[unlikely]] {
        return bad("is not a tf.train.Example", kFixType, fault);
      }
      if (!read_feature(key, feature, last, columns, fault)) [[unlikely]]
        return false;
    }
    if (2 * wrong > seen_.found()) pause_ = kPause;
    return true;
  }

  /// Reads the entry that followed the last one in the previous record, because writers mostly keep
  /// the same order. Returns false if another entry follows; then `p` is unchanged.
  bool read_expected(const char*& p, const char* end, Entry*& last, Columns& columns) {
    Entry* const entry = last->next;
    const size_t size = entry->head.value_bytes(p);
    const char* const value = p + entry->head.bytes();
    if (size == 0 || value + size > end ||
        !read_value(fields_[entry->field], entry->list, value, size, columns)) [[unlikely]] {
      return false;
    }
    seen_.note(entry->field);
    last = entry;
    p = value + size;
    return true;
  }

  /// Parses an entry in the usual form: short, with the key first. Returns false for any other
  /// form; then `p` is unchanged.
  static bool parse_short_entry(const char*& p, const char* end, std::string_view& key,
                                std::string_view& feature) {
    if (end - p < 4 || p[0] != '\x0a' || uint8_t(p[1]) >= 0x80 || p[2] != '\x0a') [[unlikely]]
      return false;
    const char* const entry_end = p + 2 + uint8_t(p[1]);
    const size_t key_bytes = uint8_t(p[3]);
    const char* const value = p + 4 + key_bytes;
    if (entry_end > end || key_bytes >= 0x80 || value + 2 > entry_end || value[0] != '\x12' ||
        value + 2 + uint8_t(value[1]) != entry_end) [[unlikely]] {
      return false;
    }
    key = {p + 4, key_bytes};
    feature = {value + 2, size_t(entry_end - value - 2)};
    p = entry_end;
    return true;
  }

  /// Parses any entry. For a protobuf field that is not an entry, the key is empty, which matches
  /// no feature. Returns false if the bytes are not a protobuf.
  [[gnu::noinline]] static bool parse_entry(const char*& p, const char* end, std::string_view& key,
                                            std::string_view& feature) {
    key = {kNoName, 0};
    WireField field;
    p = parse_wire_field(p, end, field);
    if (p == nullptr) return false;
    if (field.tag != tag_of(1, WireType::kBytes)) return true;
    const char* q = field.bytes.data();
    const char* const stop = q + field.bytes.size();
    while (q < stop) {
      WireField part;
      q = parse_wire_field(q, stop, part);
      if (q == nullptr) return false;
      if (part.tag == tag_of(1, WireType::kBytes)) key = part.bytes;
      if (part.tag == tag_of(2, WireType::kBytes)) feature = part.bytes;
    }
    return true;
  }

  bool read_feature(std::string_view key, std::string_view feature, Entry*& last, Columns& columns,
                    Fault& fault) {
    // The key may be at the very end of the record. The bytes after it, the checksum and the
    // padding, are readable.
    uint32_t at = index_.find(key.data(), key.size());
    if (last != nullptr && at != kNoField && entries_[at].head.is_any())
      last = last->next = &entries_[at];
    for (; at != kNoField; at = next_[at]) {
      bool any = read_only(fields_[at], feature, columns);
      if (!any && !read_field(fields_[at], feature, columns, any, fault)) [[unlikely]]
        return false;
      if (!any) continue;  // the feature has no value, so it counts as missing
      seen_.note(at);
    }
    return true;
  }

  /// Reads a feature that has exactly one value, if the field takes one. This is the usual case.
  /// Returns false if read_field() must be used.
  static bool read_only(const TypedField& field, std::string_view feature, Columns& columns) {
    // Tag and length of the list, then tag and length of the value or the packed values.
    constexpr size_t kHeadBytes = 4;
    const size_t size = feature.size() - kHeadBytes;
    if (feature.size() <= kHeadBytes || size >= 0x7e) [[unlikely]]
      return false;
    const char* const value = feature.data() + kHeadBytes;
    uint32_t head;
    std::memcpy(&head, feature.data(), sizeof head);
    const auto head_of = [&](uint32_t list) {
      return list | uint32_t(size + 2) << 8 | kListed << 16 | uint32_t(size) << 24;
    };
    const uint32_t list = head & 0xff;
    return head == head_of(list) && read_value(field, list, value, size, columns);
  }

  /// Reads the only value of a list. Returns false if the field does not take such a value.
  static bool read_value(const TypedField& field, uint32_t list, const char* value, size_t size,
                         Columns& columns) {
    if (list == kInt64List) {
      uint64_t number = 0;
      return parse_whole_varint(value, size, number) && field.take_only(int64_t(number), columns);
    }
    if (list == kFloatList) {
      float number;
      if (size != sizeof number) return false;
      std::memcpy(&number, value, sizeof number);
      return field.take_only(number, columns);
    }
    return list == kBytesList && field.take_only({value, size}, columns);
  }

  /// Reads the list of a feature into a field. If there are several lists the last one counts, as
  /// in any protobuf.
  bool read_field(const TypedField& field, std::string_view feature, Columns& columns, bool& any,
                  Fault& fault) {
    const char* p = feature.data();
    const char* const end = p + feature.size();
    while (p < end) {
      WireField list;
      p = parse_wire_field(p, end, list);
      bool malformed = p == nullptr;
      if (malformed || list.bytes.empty()) {
        if (!malformed) continue;
        fault = {.reason = "is not a feature of a tf.train.Example",
                 .field = &field.name(),
                 .hint = kFixType};
        return false;
      }
      FieldWriter writer = field.begin(columns);
      const auto take = [&](auto value) { return writer.take(value, fault); };
      bool good;
      if (list.tag == kInt64List) {
        good = each_int64(list.bytes, take, malformed);
      } else if (list.tag == kFloatList) {
        good = each_float(list.bytes, take, malformed);
      } else if (list.tag == kBytesList && field.encoded()) {
        bool read = false;
        good = each_bytes(
            list.bytes,
            [&](std::string_view bytes) {
              if (std::exchange(read, true)) return writer.too_many(fault);
              return read_tensor(bytes, field, writer, fault);
            },
            malformed);
        if (good && read) {
          any = true;
          continue;
        }
      } else if (list.tag == kBytesList) {
        good = each_bytes(list.bytes, take, malformed);
      } else {
        continue;
      }
      if (malformed) {
        fault = {.reason = "is not a list of values", .field = &field.name(), .hint = kFixType};
        return false;
      }
      if (!good || (writer.count() > 0 && !writer.finish(fault))) return false;
      any = writer.count() > 0;
    }
    return true;
  }

  std::vector<TypedField> fields_;
  std::vector<uint32_t> next_;  // another field that reads the same feature
  SeenFields seen_;
  NameIndex index_;
  std::vector<Entry> entries_;  // by field; the last element precedes the first entry of a record
  /// Number of records for which no entry is predicted, after a record in which most predictions
  /// were wrong. Some writers do not keep an order.
  static constexpr uint32_t kPause = 64;
  uint32_t pause_ = 0;
};

class ExampleParser final : public TypedParser<ExampleFields> {
 public:
  bool parse(const char* begin, const char* end, uint64_t, Columns& columns,
             Fault& fault) override {
    if (!check_crc(begin, end, fault)) return false;
    if (filter_ != nullptr &&
        (!condition_.read(begin, end, columns, fault) || !filter_->passes(fault)))
      return false;
    return fields_.read(begin, end, columns, fault);
  }
};

/// A record that is one tensor. A field is the whole tensor, or with `column` = N the elements from
/// N on.
class TensorParser final : public RecordParser {
 public:
  static Result<std::unique_ptr<RecordParser>> make(const FieldContext& context) {
    auto parser = std::make_unique<TensorParser>();
    DP_TRY(FieldSet set, FieldSet::make(context));
    parser->adopt(set);
    DP_TRY(std::vector<TypedField> fields, TypedField::make_all(set));
    DP_TRY(parser->parts_, parts_of(std::move(fields)));
    DP_TRY(parser->filter_, RecordFilter::make(context.data));
    if (parser->filter_ != nullptr) {
      DP_TRY(parser->condition_, parts_of(TypedField::inputs_of(*parser->filter_)));
    }
    return std::unique_ptr<RecordParser>(std::move(parser));
  }

  bool parse(const char* begin, const char* end, uint64_t, Columns& columns,
             Fault& fault) override {
    const std::string_view bytes(begin, size_t(end - begin));
    if (!check_crc(begin, end, fault)) return false;
    if (filter_ != nullptr &&
        (!read_all(condition_, bytes, columns, fault) || !filter_->passes(fault)))
      return false;
    return read_all(parts_, bytes, columns, fault);
  }

 private:
  struct TensorPart {
    TypedField field;
    std::optional<uint64_t> first;  // nothing: the whole tensor
  };

  static Result<std::vector<TensorPart>> parts_of(std::vector<TypedField> fields) {
    std::vector<TensorPart> parts;
    for (TypedField& field : fields) {
      DP_TRY(const std::optional<uint64_t> first, field.first_element());
      parts.push_back({std::move(field), first});
    }
    return parts;
  }

  static bool read_all(const std::vector<TensorPart>& parts, std::string_view bytes,
                       Columns& columns, Fault& fault) {
    return std::all_of(parts.begin(), parts.end(), [&](const TensorPart& part) {
      FieldWriter writer = part.field.begin(columns);
      return part.first ? read_stretch(part, bytes, writer, fault)
                        : read_tensor(bytes, part.field, writer, fault);
    });
  }

  static bool read_stretch(const TensorPart& part, std::string_view bytes, FieldWriter& writer,
                           Fault& fault) {
    TensorView tensor;
    const char* reason = parse_tensor(bytes, tensor);
    uint64_t at = 0;
    const uint64_t first = *part.first, count = elements_of(part.field.shape());
    const auto take = [&](auto value) {
      const uint64_t place = at++;
      return place < first || place >= first + count || writer.take(value, fault);
    };
    const bool good = reason == nullptr && each_element(tensor, take, reason);
    if (reason != nullptr) {
      fault = {.reason = reason, .field = &part.field.name(), .hint = kFixType};
      return false;
    }
    return good && writer.finish(fault);
  }

  std::vector<TensorPart> parts_, condition_;
};

}  // namespace

Result<std::unique_ptr<RecordParser>> make_example_parser(const FieldContext& context) {
  return make_typed_parser<ExampleParser>(context);
}

Result<std::unique_ptr<RecordParser>> make_tensor_parser(const FieldContext& context) {
  return TensorParser::make(context);
}

}  // namespace downpour::data
