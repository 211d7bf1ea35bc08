#include "shared/data/formats/mnist/mnist.h"

#include <algorithm>
#include <unistd.h>

#include "shared/base/units.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/formats/format.h"
#include "shared/data/values/declared_fields.h"
#include "shared/job/formats.h"

namespace downpour::data {
namespace {

constexpr uint32_t kPixelsMax = 1U << 24;

uint32_t big_endian(const char* bytes) {
  return uint32_t(uint8_t(bytes[0])) << 24 | uint32_t(uint8_t(bytes[1])) << 16 |
         uint32_t(uint8_t(bytes[2])) << 8 | uint8_t(bytes[3]);
}

Error cut_short(const std::string& path, uint64_t said, uint64_t found) {
  return Error{
      ErrorCode::kBadData,
      str("its header declares ", said, " records, but the file contains ", found, ": ", path),
      path, "copy or download the file again"};
}

class IdxWindows final : public WindowSource {
 public:
  IdxWindows(const plan::FileInfo& info, IdxImages images, size_t window_bytes, Buffer& buffer,
             std::vector<RecordRef>& records, std::unique_ptr<ByteSource> source)
      : path_(info.path),
        file_bytes_(info.bytes),
        images_(images),
        buffer_(buffer),
        records_(records),
        source_(std::move(source)),
        per_window_(
            uint32_t(std::clamp<size_t>(window_bytes / images.pixels, 1, kWindowRecordsMax))) {}

  Result<bool> next(Window& window) override {
    records_.clear();
    if (done_ == images_.count) return false;
    const uint32_t count = std::min(per_window_, images_.count - done_);
    window.begin_progress = source_->consumed();
    window.offset = IdxImages::kHeaderBytes + uint64_t(done_) * images_.pixels;
    // The header may be wrong, so memory grows only with the bytes that are read.
    size_t filled = 0;
    const size_t wanted = size_t(count) * images_.pixels;
    while (filled < wanted) {
      const size_t step = std::min(wanted - filled, std::max<size_t>(filled, kMiB));
      buffer_.reserve(filled + step, filled);
      DP_TRY(const size_t n, source_->read(buffer_.data() + filled, step));
      if (n == 0) return cut_short(path_, images_.count, done_ + filled / images_.pixels);
      filled += n;
    }
    for (uint32_t i = 0; i < count; ++i)
      records_.push_back({.begin = i * images_.pixels, .size = images_.pixels});
    done_ += count;
    window.text = buffer_.data();
    window.records = &records_;
    window.end_progress =
        done_ == images_.count ? file_bytes_ : std::min(source_->consumed(), file_bytes_);
    return true;
  }
  bool at_end() const override { return done_ == images_.count; }
  uint64_t first_offset() const override { return 0; }
  uint64_t end_offset() const override { return file_bytes_; }
  std::string locate(uint64_t offset) override {
    return str(path_, ":record ", (offset - IdxImages::kHeaderBytes) / images_.pixels);
  }

 private:
  const std::string path_;
  const uint64_t file_bytes_;
  const IdxImages images_;
  Buffer& buffer_;
  std::vector<RecordRef>& records_;
  std::unique_ptr<ByteSource> source_;
  const uint32_t per_window_;
  uint32_t done_ = 0;
};

class IdxParser final : public RecordParser {
 public:
  static Result<std::unique_ptr<RecordParser>> make(const FieldContext& context,
                                                    const std::string& path) {
    auto parser = std::make_unique<IdxParser>();
    if (!context.layout.bags.empty()) {
      return Error{ErrorCode::kConfig,
                   str("field ", context.layout.bags[0].field, ": an idx file contains no keys"),
                   path, "use the field `image` in dense layers"};
    }
    DP_TRY(File file, File::open(path));
    DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
    DP_TRY(const IdxImages images, read_idx_header(*source, path));
    parser->pixels_ = images.pixels;
    const auto resolve = [&](const std::string& name, uint32_t width) -> Result<FieldSpec> {
      DP_TRY(FieldSpec spec, resolve_field(context, name));
      if (spec.source_name() != "image") return spec;
      if (width != images.pixels) {
        return Error{ErrorCode::kConfig,
                     str("the model reads ", width, " pixels, but an image has ", images.pixels),
                     path, str("set shape = [", images.pixels, "] for the field ", name)};
      }
      spec.shape = {int64_t(width)};
      return spec;
    };
    DP_TRY(FieldSet set, FieldSet::make(context, resolve));
    parser->adopt(set);
    for (FieldSet::Floats& floats : set.floats) {
      const std::string& column = floats.spec.source_name();
      if (column == "image") {
        DP_TRY(std::vector<float> scaled, scaled_pixels(floats.field));
        parser->images_wanted_.push_back({floats.column, std::move(scaled)});
      } else if (column == "label") {
        parser->labels_wanted_.push_back({floats.column, std::move(floats.field)});
      } else {
        return Error{
            ErrorCode::kConfig,
            str("field ", floats.spec.name, ": an idx file has no column \"", column, "\""), path,
            "its columns are `image` and `label`"};
      }
    }
    DP_TRY_VOID(parser->read_labels(path, images.count, context.targets_optional));
    return std::unique_ptr<RecordParser>(std::move(parser));
  }

  bool parse(const char* begin, const char* end, uint64_t offset, Columns& columns,
             Fault& fault) override {
    for (const Image& wanted : images_wanted_) {
      float* to = &(*columns.floats)[wanted.column].values[size_t(columns.record) * pixels_];
      for (const char* p = begin; p < end; ++p) *to++ = wanted.scaled[uint8_t(*p)];
    }
    const size_t record = size_t((offset - IdxImages::kHeaderBytes) / pixels_);
    for (const Label& wanted : labels_wanted_) {
      const uint8_t label = uint8_t(labels_[record]);
      if (!wanted.field.convert_number(float(label), kDigits.text(label),
                                       &(*columns.floats)[wanted.column].values[columns.record],
                                       fault)) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Image {
    uint32_t column;
    std::vector<float> scaled;  // for each value of a byte
  };
  struct Label {
    uint32_t column;
    FloatField field;
  };
  /// "0" to "255", for error texts.
  struct Digits {
    std::string texts[256];
    Digits() {
      for (size_t i = 0; i < 256; ++i) texts[i] = std::to_string(i);
    }
    std::string_view text(uint8_t i) const { return texts[i]; }
  };

  /// Returns what the field makes of each byte, scaled to a number from 0 to 1.
  static Result<std::vector<float>> scaled_pixels(const FloatField& field) {
    std::vector<float> scaled(256);
    for (uint32_t byte = 0; byte < 256; ++byte) {
      Fault fault;
      if (field.convert_number(float(byte) / 255.0F, {}, &scaled[byte], fault)) continue;
      return Error{ErrorCode::kConfig,
                   str("field ", field.name(), ": a pixel of ", byte, " / 255 ", fault.reason),
                   str("data.fields.", field.name(), ".transform"), fault.hint};
    }
    return scaled;
  }

  Result<void> read_labels(const std::string& path, uint32_t count, bool optional) {
    if (labels_wanted_.empty()) return {};
    const std::string labels_path = idx_labels_path(path);
    if (optional && (labels_path.empty() || ::access(labels_path.c_str(), F_OK) != 0)) {
      labels_.assign(count, 0);
      return {};
    }
    DP_TRY(labels_, read_idx_labels(path, count));
    return {};
  }

  const Digits kDigits;
  uint32_t pixels_ = 0;
  std::vector<Image> images_wanted_;
  std::vector<Label> labels_wanted_;
  std::vector<char> labels_;
};

}  // namespace

bool is_idx_images(std::string_view head) {
  return head.substr(0, 4) == std::string_view("\0\0\x08\x03", 4);
}
bool is_idx_labels(std::string_view head) {
  return head.substr(0, 4) == std::string_view("\0\0\x08\x01", 4);
}

Result<IdxImages> read_idx_header(ByteSource& source, const std::string& path) {
  char head[IdxImages::kHeaderBytes];
  DP_TRY(const size_t n, source.read(head, sizeof head));
  if (n < sizeof head || !is_idx_images({head, n})) {
    return Error{ErrorCode::kBadData, str("is not an idx file of images: ", path), path,
                 "set the image file as the source; Downpour finds the labels in the same folder"};
  }
  const uint64_t rows = big_endian(head + 8), columns = big_endian(head + 12);
  if (rows == 0 || columns == 0 || rows * columns > kPixelsMax) {
    return Error{
        ErrorCode::kBadData,
        str("its header declares images of an invalid size, ", rows, " x ", columns, ": ", path),
        path};
  }
  return IdxImages{.count = big_endian(head + 4), .pixels = uint32_t(rows * columns)};
}

Result<std::vector<char>> read_idx_labels(const std::string& path, uint32_t count) {
  const std::string labels_path = idx_labels_path(path);
  if (labels_path.empty()) {
    return Error{ErrorCode::kNoInput, str("no labels found for these images: ", path), path,
                 "name the files like train-images-idx3-ubyte and train-labels-idx1-ubyte"};
  }
  DP_TRY(File file, File::open(labels_path));
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  char head[8];
  DP_TRY(const size_t n, source->read(head, sizeof head));
  if (n != sizeof head || !is_idx_labels({head, n})) {
    return Error{ErrorCode::kBadData, str("is not an idx file of labels: ", labels_path),
                 labels_path};
  }
  if (big_endian(head + 4) != count) return cut_short(labels_path, count, big_endian(head + 4));
  std::vector<char> labels;
  while (labels.size() < count) {
    const size_t have = labels.size(), step = std::min<size_t>(count - have, kMiB);
    labels.resize(have + step);
    DP_TRY(const size_t got, source->read(labels.data() + have, step));
    if (got < step) return cut_short(labels_path, count, have + got);
  }
  return labels;
}

Result<std::unique_ptr<WindowSource>> open_idx(const plan::FileInfo& info, size_t window_bytes,
                                               Buffer& buffer, std::vector<RecordRef>& records) {
  DP_TRY(File file, open_unchanged(info));
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  DP_TRY(const IdxImages images, read_idx_header(*source, info.path));
  return std::unique_ptr<WindowSource>(
      std::make_unique<IdxWindows>(info, images, window_bytes, buffer, records, std::move(source)));
}

namespace {

Result<std::unique_ptr<WindowSource>> open_images(const FieldContext& /*context*/,
                                                  const plan::FileInfo& info,
                                                  const plan::ShardRange& /*range*/,
                                                  const WindowMemory& memory) {
  return open_idx(info, memory.window_bytes, memory.buffer, memory.records);
}

Result<std::unique_ptr<RecordParser>> make_image_parser(const FieldContext& context,
                                                        const plan::FileInfo& info) {
  return IdxParser::make(context, info.path);
}

Result<uint64_t> mean_image_bytes(const DataSpec& /*data*/, const std::string& path) {
  DP_TRY(File file, File::open(path));
  const uint64_t file_bytes = file.bytes();
  DP_TRY(const std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  DP_TRY(const IdxImages images, read_idx_header(*source, path));
  return std::max<uint64_t>(file_bytes / std::max<uint32_t>(images.count, 1), 1);
}

Result<FileFacts> image_facts(const std::string& path) {
  DP_TRY(File file, File::open(path));
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  DP_TRY(const IdxImages images, read_idx_header(*source, path));
  std::vector<FieldSpec> fields = default_fields(DataFormat::kMnist);
  fields[0].shape = {int64_t(images.pixels)};
  return FileFacts{.format = DataFormat::kMnist,
                   .fields = std::move(fields),
                   .target = "label",
                   .classes = 10,
                   .reason = str("idx: ", images.count, " images of ", images.pixels,
                                 " pixels, labels in ", idx_labels_path(path))};
}

std::optional<Sniffed> sniff_images(FileSample& file) {
  if (is_idx_images(file.text())) return Sniffed{DataFormat::kMnist, image_facts(file.path())};
  if (!is_idx_labels(file.text())) return std::nullopt;
  return Sniffed{DataFormat::kMnist,
                 Error{ErrorCode::kBadData,
                       str("this file contains the labels of an idx data set: ", file.path()),
                       file.path(), "give the file with the images"}};
}

}  // namespace

const Format kImages{.layout = RecordLayout::kImages,
                     .sniff = sniff_images,
                     .open = open_images,
                     .make_parser = make_image_parser,
                     .mean_record_bytes = mean_image_bytes};

}  // namespace downpour::data
