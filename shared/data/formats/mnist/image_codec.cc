// Decoder of the images of idx files.
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/formats/codec.h"
#include "shared/data/formats/mnist/mnist.h"

namespace downpour::data {
namespace {

/// Decodes the pixels, 0 to 255 as in the file, and the label from the matching label file.
class ImageDecoder final : public RecordDecoder {
 public:
  static Result<std::unique_ptr<RecordDecoder>> make(const DataSpec& /*data*/,
                                                     const std::string& path,
                                                     std::vector<ValueField> fields,
                                                     Unnamed unnamed) {
    auto out = std::make_unique<ImageDecoder>();
    DP_TRY(File file, File::open(path));
    DP_TRY(auto source, open_bytes(std::move(file), 0));
    DP_TRY(const IdxImages images, read_idx_header(*source, path));
    out->pixels_ = images.pixels;
    if (unnamed == Unnamed::kAdd && fields.empty()) {
      for (const char* name : {"image", "label"})
        fields.push_back({.name = name, .spec = {.name = name}});
      fields[0].shape = {int64_t(images.pixels)};
    }
    for (ValueField& field : fields) field.kind = ValueKind::kInteger;
    out->fields_ = std::move(fields);
    DP_TRY(out->labels_, read_idx_labels(path, images.count));
    return std::unique_ptr<RecordDecoder>(std::move(out));
  }

  bool decode(const RawRecord& record, std::vector<FieldValues>& values, Fault&) override {
    begin(values);
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].spec.source_name() == "label") {
        const size_t at = size_t((record.offset - IdxImages::kHeaderBytes) / pixels_);
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

const Codec kImageCodec{.layout = RecordLayout::kImages, .make_decoder = ImageDecoder::make};

}  // namespace downpour::data
