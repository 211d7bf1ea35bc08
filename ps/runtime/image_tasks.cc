#include "ps/runtime/image_tasks.h"

#include <span>
#include <utility>

#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/partition_writer.h"

namespace downpour::ps {
namespace {

// Partitions in memory in addition to those that the core has adopted.
constexpr uint32_t kReadAheadMax = 4;

/// Moves the place of the error into its text, because the core reports only that.
Error with_place(Error error) {
  if (!error.where.empty()) error.what += str(" (", error.where, ")");
  return error;
}

}  // namespace

void ImageTasks::begin(const std::string& file_name) {
  image_store_ = std::make_unique<ImageStore>(storage_, tables_, file_name);
}

void ImageTasks::store(Store&& store) {
  background_->start(
      [this, held = std::make_shared<Store>(std::move(store))]() -> Background::Completion {
        auto stored = image_store_->write(*held);
        return [this, held, stored = std::move(stored)] {
          done_.emplace_back(ImageWritten{held->checkpoint, std::move(held->image), stored});
        };
      });
}

void ImageTasks::load(Load&& load) {
  readings_.push_back(
      {.id = load.id, .folder = std::move(load.folder), .images = std::move(load.images)});
}

void ImageTasks::read_on() {
  while (!readings_.empty() && read_ahead_ < kReadAheadMax) {
    Reading& reading = readings_.front();
    const auto left = std::span(reading.images).subspan(reading.next);
    const size_t length = checkpoint::chain_length(left);
    const bool more = length < left.size();
    std::vector<wire::ImageRef> chain(left.begin(), left.begin() + ptrdiff_t(length));
    ++read_ahead_;
    background_->start([this, id = reading.id, more, folder = reading.folder,
                        chain = std::move(chain)]() -> Background::Completion {
      auto images = std::make_shared<Result<std::vector<checkpoint::PartitionImage>>>(
          read_chain(folder, chain));
      return [this, id, more, images] {
        done_.emplace_back(ImagesLoaded{id, std::move(*images), more});
      };
    });
    reading.next += length;
    if (!more) readings_.pop_front();
  }
}

Result<std::vector<checkpoint::PartitionImage>> ImageTasks::read_chain(
    const std::string& folder, const std::vector<wire::ImageRef>& chain) const {
  auto image = checkpoint::read_partition(storage_, folder, chain, tables_);
  if (!image) return with_place(std::move(image).error());
  std::vector<checkpoint::PartitionImage> images;
  images.push_back(std::move(*image));
  return images;
}

ImagesLoaded ImageTasks::read_inlined(const Load& load) const {
  std::vector<checkpoint::PartitionImage> images;
  for (const wire::ImageRef& ref : load.images) {
    auto image = checkpoint::image_among(load.inlined.span(), ref, tables_, "moved image");
    if (!image) return {load.id, with_place(std::move(image).error())};
    images.push_back(std::move(*image));
  }
  return {load.id, std::move(images)};
}

std::optional<ImagesExported> ImageTasks::hand_out(const Export& move, uint64_t inline_bytes_max,
                                                   std::string file_name) {
  uint64_t bytes = 0;
  for (const checkpoint::PartitionImage& image : move.images)
    bytes += checkpoint::bulk_bytes(image);
  if (bytes < inline_bytes_max) {
    checkpoint::EncodedImages encoded = checkpoint::encode_images(move.images, "inline", tables_);
    if (encoded.bytes.size() <= inline_bytes_max)
      return ImagesExported{move.ownership_generation, std::move(encoded.refs),
                            std::move(encoded.bytes)};
  }
  background_->start([this, move, name = std::move(file_name)]() -> Background::Completion {
    const auto write = [&]() -> Result<std::vector<wire::ImageRef>> {
      DP_TRY(auto writer, checkpoint::ImageFileWriter::create(storage_, move.folder, name, tables_,
                                                              checkpoint::ImageUse::kReadAtOnce));
      for (const checkpoint::PartitionImage& image : move.images) DP_TRY_VOID(writer.add(image));
      return writer.finish_volatile();
    };
    return [this, ownership_generation = move.ownership_generation, written = write()] {
      done_.emplace_back(ImagesExported{ownership_generation, written, {}});
    };
  });
  return std::nullopt;
}

void ImageTasks::remove(const Discard& discard, std::string file_name) {
  background_->start(
      [this, path = discard.folder + "/" + std::move(file_name)]() -> Background::Completion {
        auto removed = storage_.remove(path);  // if it fails, only room is lost
        (void)removed;
        return [] {};
      });
}

std::optional<ImageEvent> ImageTasks::next() {
  if (done_.empty()) return std::nullopt;
  ImageEvent event = std::move(done_.front());
  done_.pop_front();
  if (const auto* loaded = std::get_if<ImagesLoaded>(&event)) {
    --read_ahead_;
    if (!loaded->images)
      std::erase_if(readings_, [&](const Reading& r) { return r.id == loaded->id; });
  }
  return event;
}

}  // namespace downpour::ps
