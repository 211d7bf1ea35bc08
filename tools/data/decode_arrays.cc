// Decoders of array rows and of images, and make_decoder(), which chooses among all decoders.
#include <algorithm>
#include <type_traits>

#include "shared/data/formats/mnist/mnist.h"
#include "shared/data/formats/numpy/array_elements.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/values/number.h"
#include "tools/data/data_set.h"
#include "tools/data/decoders.h"

namespace downpour::tools {
namespace {

/// The position of a field's elements in a row.
struct Stretch {
  size_t first_byte = 0;
  uint64_t count = 0;
  data::NpyType type;
};

class RowDecoder final : public RecordDecoder {
 public:
  static Result<std::unique_ptr<RecordDecoder>> make(const DataSpec& data, const std::string& path,
                                                     std::vector<ValueField> fields,
                                                     Unnamed unnamed) {
    auto out = std::make_unique<RowDecoder>();
    DP_TRY(const std::vector<data::SourceArray> arrays, data::open_arrays(data, path));
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

  bool decode(const RawRecord& record, std::vector<FieldValues>& values,
              data::Fault& fault) override {
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
  static std::vector<ValueField> fields_of(const std::vector<data::SourceArray>& arrays) {
    std::vector<ValueField> fields;
    for (const data::SourceArray& array : arrays) {
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
                                    const std::vector<data::SourceArray>& arrays,
                                    const ValueField& field) {
    const bool single = arrays.front().name.empty();
    const std::string name = single ? "" : data::array_name_of(data, path, field.spec);
    Stretch out;
    for (const data::SourceArray& array : arrays) {
      if (array.name != name) {
        out.first_byte += size_t(array.array.row_bytes());
        continue;
      }
      out.type = array.array.type;
      out.count = array.array.row_elements;
      const std::string& column = field.spec.column;
      if (!single || column.empty()) return out;
      uint64_t first = 0;
      const char* const end = data::parse_uint(column.c_str(), first);
      out.count = data::elements_of(field.shape);
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
    return data::visit_npy_type(stretch.type, [&]<typename T, bool kSwap>() {
      for (uint64_t i = 0; i < stretch.count; ++i) {
        const char* const at = from + i * sizeof(T);
        if constexpr (std::is_same_v<T, uint64_t>) {
          if (data::load_element<T, kSwap>(at) > uint64_t(INT64_MAX)) return false;
        }
        const auto value = data::element_value<T, kSwap>(at);
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

/// Decodes the pixels, 0 to 255 as in the file, and the label from the matching label file.
class ImageDecoder final : public RecordDecoder {
 public:
  static Result<std::unique_ptr<RecordDecoder>> make(const std::string& path,
                                                     std::vector<ValueField> fields,
                                                     Unnamed unnamed) {
    auto out = std::make_unique<ImageDecoder>();
    DP_TRY(data::File file, data::File::open(path));
    DP_TRY(auto source, data::open_bytes(std::move(file), 0));
    DP_TRY(const data::IdxImages images, data::read_idx_header(*source, path));
    out->pixels_ = images.pixels;
    if (unnamed == Unnamed::kAdd && fields.empty()) {
      for (const char* name : {"image", "label"})
        fields.push_back({.name = name, .spec = {.name = name}});
      fields[0].shape = {int64_t(images.pixels)};
    }
    for (ValueField& field : fields) field.kind = ValueKind::kInteger;
    out->fields_ = std::move(fields);
    DP_TRY(out->labels_, data::read_idx_labels(path, images.count));
    return std::unique_ptr<RecordDecoder>(std::move(out));
  }

  bool decode(const RawRecord& record, std::vector<FieldValues>& values, data::Fault&) override {
    begin(values);
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].spec.source_name() == "label") {
        const size_t at = size_t((record.offset - data::IdxImages::kHeaderBytes) / pixels_);
        values[i].add(int64_t(uint8_t(labels_[at])));
        continue;
      }
      for (const char pixel : record.bytes) values[i].add(int64_t(uint8_t(pixel)));
      values[i].list = true;
    }
    return true;
  }

 private:
  uint32_t pixels_ = 1;
  std::vector<char> labels_;
};

}  // namespace

Result<std::unique_ptr<RecordDecoder>> make_row_decoder(const DataSpec& data,
                                                        const std::string& path,
                                                        std::vector<ValueField> fields,
                                                        Unnamed unnamed) {
  return RowDecoder::make(data, path, std::move(fields), unnamed);
}

Result<std::unique_ptr<RecordDecoder>> make_image_decoder(const std::string& path,
                                                          std::vector<ValueField> fields,
                                                          Unnamed unnamed) {
  return ImageDecoder::make(path, std::move(fields), unnamed);
}

Result<std::unique_ptr<RecordDecoder>> make_decoder(const DataSpec& data, const std::string& path,
                                                    std::vector<ValueField> fields,
                                                    Unnamed unnamed) {
  switch (data.format) {
    case DataFormat::kLibsvm:
    case DataFormat::kLibffm:
      return make_libsvm_decoder(data, std::move(fields), unnamed);
    case DataFormat::kCsv:
    case DataFormat::kTsv:
    case DataFormat::kCriteo:
      return make_table_decoder(data, path, std::move(fields), unnamed);
    case DataFormat::kJsonl:
      return make_json_decoder(std::move(fields), unnamed);
    case DataFormat::kTfrecord:
      if (data.record == "tensor") return make_tensor_decoder(std::move(fields), unnamed);
      return make_example_decoder(std::move(fields), unnamed);
    case DataFormat::kNpy:
    case DataFormat::kNpz:
      return make_row_decoder(data, path, std::move(fields), unnamed);
    case DataFormat::kMnist:
      return make_image_decoder(path, std::move(fields), unnamed);
    case DataFormat::kAuto:
      break;
  }
  return Error{ErrorCode::kConfig, "the format of the data is not known", "data.format",
               "for example --format csv"};
}

}  // namespace downpour::tools
