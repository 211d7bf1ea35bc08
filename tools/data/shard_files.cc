#include "tools/data/shard_files.h"

#include "shared/data/bytes/compress.h"
#include "shared/data/formats/numpy/npy_header.h"

namespace downpour::tools {
namespace {

using data::CompressedFile;
using data::Compression;

class RecordFile final : public ShardFile {
 public:
  RecordFile(std::unique_ptr<CompressedFile> file, std::unique_ptr<CompressedFile> index)
      : file_(std::move(file)), index_(std::move(index)) {}

  Result<void> add(std::string_view record) override {
    DP_TRY_VOID(file_->add(record));
    if (index_ == nullptr) return {};
    line_.clear();
    data::append_number(line_, int64_t(offset_));
    line_ += ' ';
    data::append_number(line_, int64_t(record.size()));
    line_ += '\n';
    offset_ += record.size();
    return index_->add(line_);
  }
  Result<void> finish() override {
    DP_TRY_VOID(file_->finish());
    return index_ == nullptr ? Result<void>() : index_->finish();
  }
  uint64_t bytes() const override { return file_->written(); }

 private:
  std::unique_ptr<CompressedFile> file_, index_;
  std::string line_;
  uint64_t offset_ = 0;
};

class ArrayFiles final : public ShardFile {
 public:
  explicit ArrayFiles(const std::vector<data::ArrayForm>& arrays) : arrays_(arrays) {}
  void add_file(std::unique_ptr<CompressedFile> file) { files_.push_back(std::move(file)); }

  Result<void> add(std::string_view record) override {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      DP_TRY_VOID(files_[i]->add(record.substr(0, size_t(arrays_[i].row_bytes))));
      record.remove_prefix(size_t(arrays_[i].row_bytes));
    }
    DP_CHECK(record.empty(), record.size());
    return {};
  }
  Result<void> finish() override {
    for (const auto& file : files_) DP_TRY_VOID(file->finish());
    return {};
  }
  uint64_t bytes() const override {
    uint64_t sum = 0;
    for (const auto& file : files_) sum += file->written();
    return sum;
  }

 private:
  const std::vector<data::ArrayForm> arrays_;
  std::vector<std::unique_ptr<CompressedFile>> files_;
};

}  // namespace

Result<std::unique_ptr<ShardFile>> create_shard_file(Storage& storage, const std::string& path,
                                                     const ShardFileOptions& options) {
  DP_TRY(std::unique_ptr<OutputFile> file,
         options.large ? storage.create_large(path) : storage.create(path));
  auto compressed = data::compress_to(std::move(file), options.compression, options.level);
  if (!options.preamble.empty()) DP_TRY_VOID(compressed->add(options.preamble));
  std::unique_ptr<CompressedFile> index;
  if (options.index) {
    DP_TRY(std::unique_ptr<OutputFile> beside, storage.create(path + ".idx"));
    index = data::compress_to(std::move(beside), Compression::kNone, 0);
  }
  return std::unique_ptr<ShardFile>(
      std::make_unique<RecordFile>(std::move(compressed), std::move(index)));
}

Result<std::unique_ptr<ShardFile>> create_shard_arrays(Storage& storage, const std::string& path,
                                                       const std::vector<data::ArrayForm>& arrays,
                                                       uint64_t rows) {
  auto out = std::make_unique<ArrayFiles>(arrays);
  for (const data::ArrayForm& form : arrays) {
    const std::string name = form.file.empty() ? path : path + "/" + form.file;
    DP_TRY_VOID(storage.make_dirs(name.substr(0, name.rfind('/'))));
    DP_TRY(std::unique_ptr<OutputFile> file, storage.create(name));
    auto compressed = data::compress_to(std::move(file), Compression::kNone, 0);
    DP_TRY_VOID(compressed->add(data::npy_header(form, rows)));
    out->add_file(std::move(compressed));
  }
  return std::unique_ptr<ShardFile>(std::move(out));
}

uint64_t Cutter::records_of(uint32_t shard) const {
  return records_ / shards_ + (shard < records_ % shards_ ? 1 : 0);
}

uint32_t Cutter::next(uint64_t record_bytes) {
  const uint64_t left = records_ - given_;  // including this one
  const uint64_t shards_behind = shards_ - 1 - shard_;
  if (in_shard_ > 0 && shards_behind > 0) {
    bool over = in_shard_ == records_of(shard_);
    if (by_bytes_) {
      // The middle of the record is past the ideal end of this shard, or the remaining shards need
      // all remaining records.
      const auto middle = __uint128_t(given_bytes_) + record_bytes / 2;
      over = middle * shards_ >= __uint128_t(bytes_) * (shard_ + 1) || left <= shards_behind;
    }
    if (over) {
      ++shard_;
      in_shard_ = 0;
    }
  }
  ++in_shard_;
  ++given_;
  given_bytes_ += record_bytes;
  return shard_;
}

}  // namespace downpour::tools
