// Decoder and encoder of array rows.
#include <algorithm>
#include <charconv>
#include <optional>
#include <type_traits>

#include "shared/data/formats/codec.h"
#include "shared/data/formats/encode_checks.h"
#include "shared/data/formats/numpy/array_elements.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/values/number.h"

namespace downpour::data {
namespace {

/// The position of a field's elements in a row.
struct Stretch {
  size_t first_byte = 0;
  uint64_t count = 0;
  NpyType type;
};

class RowDecoder final : public RecordDecoder {
 public:
  static Result<std::unique_ptr<RecordDecoder>> make(const DataSpec& data, const std::string& path,
                                                     std::vector<ValueField> fields,
                                                     Unnamed unnamed) {
    auto out = std::make_unique<RowDecoder>();
    DP_TRY(const std::vector<SourceArray> arrays, open_arrays(data, path));
    if (fields.empty() && unnamed == Unnamed::kAdd) fields = fields_of(arrays);
    for (ValueField& field : fields) {
      DP_TRY(const Stretch stretch, stretch_of(data, path, arrays, field));
      out->stretches_.push_back(stretch);
      field.kind = stretch.type.is_integer() ? ValueKind::kInteger : ValueKind::kReal;
      field.single = stretch.type.bytes < 8;
    }
    out->fields_ = std::move(fields);
    return std::unique_ptr<RecordDecoder>(std::move(out));
  }

  bool decode(const RawRecord& record, std::vector<FieldValues>& values, Fault& fault) override {
    begin(values);
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (add(stretches_[i], record.bytes.data(), values[i])) {
        values[i].list = !fields_[i].shape.empty();
        continue;
      }
      fault = {.reason = "is above the largest int64", .field = &fields_[i].name};
      return false;
    }
    return true;
  }

 private:
  static std::vector<ValueField> fields_of(const std::vector<SourceArray>& arrays) {
    std::vector<ValueField> fields;
    for (const SourceArray& array : arrays) {
      ValueField& field = fields.emplace_back();
      field.name = array.name.empty() ? "x" : array.name;
      if (field.name.ends_with(".npy")) field.name.resize(field.name.size() - 4);
      field.spec.name = field.name;
      field.spec.path = array.name;
      for (size_t d = 1; d < array.array.shape.size(); ++d)
        field.shape.push_back(int64_t(array.array.shape[d]));
    }
    return fields;
  }

  static Result<Stretch> stretch_of(const DataSpec& data, const std::string& path,
                                    const std::vector<SourceArray>& arrays,
                                    const ValueField& field) {
    const bool single = arrays.front().name.empty();
    const std::string name = single ? "" : array_name_of(data, path, field.spec);
    Stretch out;
    for (const SourceArray& array : arrays) {
      if (array.name != name) {
        out.first_byte += size_t(array.array.row_bytes());
        continue;
      }
      out.type = array.array.type;
      out.count = array.array.row_elements;
      const std::string& column = field.spec.column;
      if (!single || column.empty()) return out;
      uint64_t first = 0;
      const char* const end = parse_uint(column.c_str(), first);
      out.count = elements_of(field.shape);
      if (end == nullptr || *end != '\0' || first > array.array.row_elements ||
          out.count > array.array.row_elements - first) {
        return Error{
            ErrorCode::kConfig,
            str("field ", field.name,
                ": its elements end after the end of the row, which has this many elements: ",
                array.array.row_elements),
            str("data.fields.", field.name), "correct `column` or `shape`"};
      }
      out.first_byte += size_t(first) * array.array.type.bytes;
      return out;
    }
    return Error{ErrorCode::kNoInput,
                 str("field ", field.name, ": there is no array ", name, " in ", path),
                 str("data.fields.", field.name), "set the name of the array as `path`"};
  }

  static bool add(const Stretch& stretch, const char* row, FieldValues& to) {
    const char* const from = row + stretch.first_byte;
    return visit_npy_type(stretch.type, [&]<typename T, bool kSwap>() {
      for (uint64_t i = 0; i < stretch.count; ++i) {
        const char* const at = from + i * sizeof(T);
        if constexpr (std::is_same_v<T, uint64_t>) {
          if (load_element<T, kSwap>(at) > uint64_t(INT64_MAX)) return false;
        }
        const auto value = element_value<T, kSwap>(at);
        if constexpr (std::is_integral_v<decltype(value)>) {
          to.add(int64_t(value));
        } else {
          to.add_real(double(value), sizeof value < 8);
        }
      }
      return true;
    });
  }

  std::vector<Stretch> stretches_;
};

class ArrayEncoder final : public RecordEncoder {
 public:
  static Result<std::unique_ptr<RecordEncoder>> make(const Encoding& encoding) {
    auto out = std::make_unique<ArrayEncoder>();
    out->fields_ = encoding.fields;
    for (const ValueField& field : encoding.fields) {
      const bool numbers = field.kind == ValueKind::kInteger || field.kind == ValueKind::kReal;
      const bool any = field.shape.size() == 1 && field.shape[0] < 0;
      if (!numbers || any) {
        return cannot_encode(
            encoding.format, field,
            any ? "its number of values varies, but all rows of an array have the same length"
                : str("it contains ", kind_name(field.kind), ", but arrays contain numbers"),
            "write tfrecord or jsonl; or omit the field from data.fields of a job");
      }
      const bool usable =
          !field.name.empty() && field.name[0] != '.' && field.name.find('/') == std::string::npos;
      if (!usable)
        return cannot_encode(encoding.format, field, "its name can't be a file name",
                             "rename the field in a job");
      ArrayForm& form = out->arrays_.emplace_back();
      form.file = field.name + ".npy";
      const bool wide = field.kind == ValueKind::kInteger || !field.single;
      form.descr = field.kind == ValueKind::kInteger ? "<i8" : wide ? "<f8" : "<f4";
      form.row_shape.assign(field.shape.begin(), field.shape.end());
      form.row_bytes = elements_of(field.shape) * (wide ? 8 : 4);
      const std::optional<std::string>& fallback = field.spec.fallback;
      double value = 0;
      bool known = false;
      if (fallback) {
        const char* const end = fallback->data() + fallback->size();
        const auto read = std::from_chars(fallback->data(), end, value);
        known = read.ec == std::errc{} && read.ptr == end;
      }
      out->fallbacks_.push_back(known ? std::optional(value) : std::nullopt);
    }
    return std::unique_ptr<RecordEncoder>(std::move(out));
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out, Fault& fault) override {
    for (size_t i = 0; i < fields_.size(); ++i) {
      const ValueField& field = fields_[i];
      FieldValues filled;
      const FieldValues* each = &values[i];
      if (each->missing()) {
        if (!fallbacks_[i])
          return refuse_value("is missing, but an array needs a number for every record", field,
                              fault);
        const uint64_t count = elements_of(field.shape);
        for (uint64_t v = 0; v < count; ++v) {
          field.kind == ValueKind::kInteger ? filled.add(int64_t(*fallbacks_[i]))
                                            : filled.add_real(*fallbacks_[i], field.single);
        }
        each = &filled;
      }
      if (!fits_field(field, *each, fault)) return false;
      for (size_t v = 0; v < each->count(); ++v) {
        float single = 0;
        if (field.kind == ValueKind::kInteger) {
          append_raw(out, each->integers[v]);
        } else if (!field.single) {
          append_raw(out, each->number(v));
        } else if (to_float(each->number(v), single)) {
          append_raw(out, single);
        } else {
          return refuse_value(kBeyondFloat, field, fault);
        }
      }
    }
    return true;
  }

 private:
  template <typename T>
  static void append_raw(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::vector<ValueField> fields_;
  std::vector<std::optional<double>> fallbacks_;
};

}  // namespace

const Codec kArrayCodec{.layout = RecordLayout::kArrays,
                        .make_decoder = RowDecoder::make,
                        .make_encoder = ArrayEncoder::make};

}  // namespace downpour::data
