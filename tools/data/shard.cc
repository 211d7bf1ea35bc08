#include "tools/data/shard.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unistd.h>

#include "shared/data/records/chosen_windows.h"
#include "shared/env/io_error.h"
#include "shared/env/storage.h"
#include "tools/data/external_shuffle.h"
#include "tools/data/look.h"
#include "tools/data/transcribe.h"

namespace downpour::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames = "{name}-{index:05}-of-{count:05}";

/// A temporary folder next to the wanted one. take_name() renames it to the wanted name when it is
/// complete. Otherwise the destructor removes it.
class PartialFolder {
 public:
  static Result<PartialFolder> make(const std::string& wanted) {
    std::error_code error;
    PartialFolder out;
    out.wanted_ = fs::absolute(wanted, error).lexically_normal();
    if (!out.wanted_.has_filename()) out.wanted_ = out.wanted_.parent_path();
    if (fs::exists(out.wanted_, error) &&
        !(fs::is_directory(out.wanted_, error) && fs::is_empty(out.wanted_, error))) {
      return Error{ErrorCode::kCannotCreate,
                   str("the output folder exists and is not empty: ", wanted), wanted,
                   "choose another folder, or remove this one"};
    }
    out.path_ = out.wanted_.parent_path() /
                str(".", out.wanted_.filename().string(), ".partial-", ::getpid());
    PosixStorage storage;
    DP_TRY_VOID(storage.make_dirs(out.path_.string()));
    return out;
  }
  PartialFolder(PartialFolder&& other) noexcept
      : wanted_(std::move(other.wanted_)), path_(std::move(other.path_)) {
    other.path_.clear();
  }
  PartialFolder& operator=(PartialFolder&&) = delete;
  ~PartialFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  const fs::path& wanted() const { return wanted_; }

  /// Renames the folder. All files in it must be durable.
  Result<void> take_name() {
    // rename(2) replaces an empty folder, but fails if the folder is not empty.
    if (std::rename(path_.c_str(), wanted_.c_str()) != 0) {
      return system_error("can't rename the temporary folder to the output folder",
                          wanted_.string(), errno, Intent::kCreate);
    }
    path_.clear();
    // The fsync makes the name survive a crash of the machine. A failure is ignored, because the
    // data are complete.
    const int above = ::open(wanted_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above >= 0) {
      (void)::fsync(above);
      ::close(above);
    }
    return {};
  }

 private:
  PartialFolder() = default;
  fs::path wanted_, path_;
};

std::string ending_of(const Transcription& how, data::Compression compression) {
  // A set of arrays is a folder, but a single array without a name is a file.
  if (is_arrays(how.to)) return how.arrays.size() == 1 && how.arrays[0].file.empty() ? ".npy" : "";
  const FormatTraits& traits = traits_of(how.to);
  return str(".", traits.ending.empty() ? traits.name : traits.ending,
             compression == data::Compression::kGzip   ? ".gz"
             : compression == data::Compression::kZstd ? ".zst"
                                                       : "");
}

/// Returns "train" for "data/train-00000-of-00004.tfrecord.gz" or "train.csv".
std::string stem_of(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  name = name.substr(0, name.find('.', 1));
  // Remove the shard numbers of the input.
  if (const size_t of = name.find("-of-"); of != std::string::npos) {
    name.resize(of);
    name.resize(name.find_last_not_of("0123456789") + 1);
  }
  while (name.size() > 1 && (name.back() == '-' || name.back() == '_')) name.pop_back();
  return name.empty() ? "part" : name;
}

Result<void> check(const ShardRequest& request, const Transcription& how) {
  const auto wrong = [](const std::string& what, const std::string& flag, const std::string& hint) {
    return Error{ErrorCode::kUsage, what, flag, hint};
  };
  if (request.shards == 0)
    return wrong("the number of shards must be at least 1", "--shards",
                 "--shards 1 merges all files into one");
  if (request.memory_bytes < kShardMemoryBytesMin)
    return wrong("the memory limit must be at least 64 MiB", "--memory",
                 "for example --memory 256MB");
  if (request.compression != data::Compression::kNone && is_arrays(how.to))
    return wrong("npy output can't be compressed, because arrays are read in place", "--compress",
                 "remove the flag");
  if (request.index && (!is_frames(how.to) || request.compression != data::Compression::kNone)) {
    return wrong("an index is only for uncompressed TFRecord files", "--index", "remove the flag");
  }
  return {};
}

struct Size {
  uint64_t records = 0, bytes = 0;
};

class Sharding {
 public:
  Sharding(const DataSet& set, const ShardRequest& request, const Transcription& how,
           const fs::path& folder)
      : set_(set), request_(request), how_(how), folder_(folder) {
    uint64_t bytes = 0;
    for (const plan::FileInfo& info : set.files) bytes += info.bytes;
    large_ = bytes > request.memory_bytes;
  }

  /// Returns the number and bytes of the records to be written, without writing them.
  Result<Size> measure() {
    Size size;
    DP_TRY(Transcriber records, Transcriber::open(set_, how_, request_.skip_bad));
    std::string_view bytes;
    for (;;) {
      DP_TRY(const bool more, records.next(bytes));
      if (!more) return size;
      size.bytes += bytes.size();
      ++size.records;
      DP_TRY_VOID(look(size.records, records.progress_bytes(), records.total_bytes()));
    }
  }

  /// Returns the number of records to be written. Finds their ends but does not parse them.
  Result<Size> count() {
    Size size;
    const DataSpec data = readable_data(set_);
    for (const plan::FileInfo& info : set_.files) {
      if (size.records >= data::chosen_end(set_.data().source)) break;
      DP_TRY(const uint64_t records,
             count_records(data, info, request_.stopped, [](uint64_t, uint64_t) {}));
      size.records += records;
    }
    size.records = data::chosen_of(set_.data().source, size.records);
    return size;
  }

  Result<void> write_in_order(Size size) {
    DP_TRY_VOID(begin(size));
    DP_TRY(Transcriber records, Transcriber::open(set_, how_, request_.skip_bad));
    std::string_view bytes;
    for (;;) {
      DP_TRY(const bool more, records.next(bytes));
      if (!more) break;
      DP_TRY_VOID(add(bytes));
      DP_TRY_VOID(look(summary_.records, records.progress_bytes(), records.total_bytes()));
    }
    summary_.skipped = records.skipped();
    return end();
  }

  Result<void> write_shuffled() {
    DP_TRY(Transcriber records, Transcriber::open(set_, how_, request_.skip_bad));
    const std::string& wanted = request_.temporary;
    ExternalShuffle shuffle({.folder = wanted.empty() ? folder_.string() : wanted,
                             .memory_bytes = request_.memory_bytes - kShardOwnBytes,
                             .expected_bytes = records.total_bytes(),
                             .seed = request_.seed});
    std::string_view bytes;
    for (;;) {
      DP_TRY(const bool more, records.next(bytes));
      if (!more) break;
      DP_TRY_VOID(shuffle.add(bytes));
      DP_TRY_VOID(look(shuffle.records(), records.progress_bytes(), records.total_bytes()));
    }
    summary_.skipped = records.skipped();
    DP_TRY_VOID(begin({shuffle.records(), shuffle.bytes()}));
    const auto take = [&](std::string_view record) -> Result<void> {
      DP_TRY_VOID(add(record));
      return look(summary_.records, summary_.bytes, shuffle.bytes());
    };
    DP_TRY_VOID(shuffle.drain(take));
    return end();
  }

  ShardSummary& summary() { return summary_; }

 private:
  Result<void> look(uint64_t records, uint64_t bytes, uint64_t of_bytes) {
    if (records % kRecordsPerLook != 0) return {};
    if (request_.stopped()) return interrupted_error();
    request_.progress(records, bytes, of_bytes);
    return {};
  }

  /// Prepares the shards. `size.records` is 0 if there is one shard of unknown size.
  Result<void> begin(Size size) {
    if (size.records < request_.shards && (request_.shards > 1 || request_.shuffle)) {
      if (size.records == 0) return none();
      return Error{ErrorCode::kUsage,
                   str("there are ", size.records, " records, but ", request_.shards,
                       " shards need at least one record each"),
                   "--shards", str("--shards ", size.records, " is the maximum")};
    }
    expected_ = size.records;
    cutter_.emplace(request_.shards, size.records, size.bytes,
                    request_.by_bytes && !is_arrays(how_.to));
    return {};
  }
  static Error none() {
    return Error{ErrorCode::kBadData, "there are no records", "",
                 "check the format, and set it with --format"};
  }

  Result<void> add(std::string_view record) {
    const uint32_t index = request_.shards == 1 ? 0 : cutter_->next(record.size());
    if (file_ == nullptr || index != index_) DP_TRY_VOID(open(index));
    DP_TRY_VOID(file_->add(record));
    ++summary_.records;
    ++summary_.files.back().records;
    summary_.bytes += record.size();
    return {};
  }

  Result<void> open(uint32_t index) {
    DP_TRY_VOID(finish_file());
    index_ = index;
    DP_TRY(const std::string name,
           shard_name(request_.names, stem_of(set_.files.front().path), index, request_.shards));
    const std::string path = (folder_ / name).string();
    if (is_arrays(how_.to)) {
      DP_TRY(file_, create_shard_arrays(storage_, path, how_.arrays, cutter_->records_of(index)));
    } else {
      DP_TRY(file_, create_shard_file(storage_, path,
                                      {.compression = request_.compression,
                                       .level = request_.level,
                                       .index = request_.index,
                                       .preamble = how_.preamble,
                                       .large = large_}));
    }
    summary_.files.push_back({.path = name});
    return {};
  }

  Result<void> finish_file() {
    if (file_ == nullptr) return {};
    DP_TRY_VOID(file_->finish());
    summary_.files.back().bytes = file_->bytes();
    file_.reset();
    return {};
  }

  Result<void> end() {
    DP_TRY_VOID(finish_file());
    if (summary_.records == 0) return none();
    if (expected_ == 0 || summary_.records == expected_) return {};
    return Error{ErrorCode::kBadData,
                 str("the data changed while they were read: there were ", expected_,
                     " records, then ", summary_.records),
                 set_.files.front().path,
                 "wait until the program that writes the files has finished"};
  }

  const DataSet& set_;
  const ShardRequest& request_;
  const Transcription& how_;
  const fs::path folder_;
  PosixStorage storage_;
  std::optional<Cutter> cutter_;
  bool large_ = false;
  uint64_t expected_ = 0;
  uint32_t index_ = 0;
  std::unique_ptr<ShardFile> file_;
  ShardSummary summary_;
};

}  // namespace

Result<std::string> shard_name(const std::string& pattern, const std::string& name, uint32_t index,
                               uint32_t count) {
  const auto wrong = [&](const std::string& what) {
    return Error{ErrorCode::kUsage, str(what, ": ", pattern), "--names",
                 str("for example --names '", kNames, "'")};
  };
  std::string out;
  bool has_index = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') {
      out += pattern[i];
      continue;
    }
    const size_t end = pattern.find('}', i);
    if (end == std::string::npos) return wrong("the pattern has a { without a }");
    std::string place = pattern.substr(i + 1, end - i - 1), width;
    if (const size_t colon = place.find(':'); colon != std::string::npos) {
      width = place.substr(colon + 1);
      place.resize(colon);
    }
    if (width.size() > 2 || width.find_first_not_of("0123456789") != std::string::npos)
      return wrong("the width in the pattern must be a number below 100");
    if (place != "index" && place != "count" && place != "name")
      return wrong(str("{", place, "} is not one of {index}, {count}, {name}"));
    std::string text = place == "name" ? name : std::to_string(place == "index" ? index : count);
    const size_t wanted = width.empty() ? 0 : size_t(std::stoi(width));
    if (place != "name" && text.size() < wanted) text.insert(0, wanted - text.size(), '0');
    has_index |= place == "index";
    out += text;
    i = end;
  }
  if (count > 1 && !has_index)
    return wrong("the pattern needs {index}, because each shard needs its own name");
  if (out.find('/') != std::string::npos || out.empty() || out[0] == '.')
    return wrong("the pattern does not give a valid file name");
  return out;
}

Result<ShardSummary> shard(const DataSet& set, const ShardRequest& given) {
  ShardRequest request = given;
  DP_TRY(const Transcription how, plan_transcription(set, request.to, request.target));
  DP_TRY_VOID(check(request, how));
  if (request.names.empty()) request.names = kNames + ending_of(how, request.compression);
  DP_TRY(const std::string tried, shard_name(request.names, "x", 0, request.shards));
  DP_TRY(PartialFolder folder, PartialFolder::make(request.out));

  Sharding sharding(set, request, how, folder.path());
  if (request.shuffle) {
    DP_TRY_VOID(sharding.write_shuffled());
  } else {
    Size size;
    const bool sizes_matter = request.shards > 1 || is_arrays(how.to);
    const bool alike = !request.by_bytes || is_arrays(how.to);
    if (sizes_matter && alike && !request.skip_bad) {
      DP_TRY(size, sharding.count());
    } else if (sizes_matter) {
      DP_TRY(size, sharding.measure());
    }
    DP_TRY_VOID(sharding.write_in_order(size));
  }
  if (request.stopped()) return interrupted_error();
  DP_TRY_VOID(folder.take_name());
  ShardSummary summary = std::move(sharding.summary());
  summary.format = how.to;
  summary.converted = how.converted;
  for (ShardSummary::File& file : summary.files) file.path = (folder.wanted() / file.path).string();
  return summary;
}

}  // namespace downpour::tools
