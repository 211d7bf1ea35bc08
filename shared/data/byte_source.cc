#include "shared/data/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#include <xxhash.h>
#include <zlib.h>

#include "shared/base/hash.h"
#include "shared/base/units.h"

namespace downpour::data {
namespace {

constexpr size_t kFingerprintBytes = 64 * kKiB;
constexpr size_t kGzipInputBytes = 64 * kKiB;
constexpr uint64_t kGzipRatioMax =
    200;  // of a whole file: above it, it is made to fill memory or time
constexpr uint64_t kGzipFreeBytes = 64 * kMiB;

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// "did you mean train.tsv?", or which folder is not there.
std::string nearest_name_hint(const std::filesystem::path& path) {
  std::error_code error;
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, error))
    return str("there is no folder ", folder.string());
  const std::string wanted = path.filename().string();
  std::string best;
  size_t best_distance = std::max<size_t>(wanted.size() / 2, 1) + 1;
  size_t looked_at = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (++looked_at > 10'000) break;
    const std::string name = entry->path().filename().string();
    const size_t distance = name.size() > 255 ? best_distance : edit_distance(wanted, name);
    if (distance < best_distance || (distance == best_distance && !best.empty() && name < best)) {
      best_distance = distance;
      best = name;
    }
  }
  return best.empty() ? str("look into ", folder.string())
                      : str("did you mean ", (folder / best).string(), "?");
}

Error open_error(const std::string& path, int number) {
  if (number == ENOENT || number == ENOTDIR) {
    return Error{ErrorCode::kNoInput, str("no such file: ", path), path, nearest_name_hint(path)};
  }
  const ErrorCode code =
      number == EACCES || number == EPERM ? ErrorCode::kPermission : ErrorCode::kIo;
  return Error{code, str("can't open: ", std::strerror(number)), path};
}

Error changed_error(const std::string& path, const std::string& how) {
  return Error{ErrorCode::kBadData, str("the file changed since the job began (", how, "): ", path),
               path, "training data must not change under a running job; start anew with --fresh"};
}

class PlainSource final : public ByteSource {
 public:
  PlainSource(File file, uint64_t offset) : file_(std::move(file)), offset_(offset) {}
  Result<size_t> read(char* to, size_t size) override {
    DP_TRY(const size_t n, file_.read_at(offset_, to, size));
    offset_ += n;
    if (n == 0 && offset_ < file_.bytes()) return changed_error(file_.path(), "it is shorter now");
    // What is appended to a file under our eyes is not of the job.
    if (offset_ > file_.bytes()) {
      const uint64_t surplus = std::min<uint64_t>(offset_ - file_.bytes(), n);
      offset_ -= surplus;
      return n - size_t(surplus);
    }
    return n;
  }
  uint64_t consumed() const override { return offset_; }

 private:
  File file_;
  uint64_t offset_;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(File file) : file_(std::move(file)), input_(kGzipInputBytes) {}
  ~GzipSource() override {
    if (ready_) inflateEnd(&stream_);
  }
  Result<size_t> read(char* to, size_t size) override {
    size_t made = 0;
    while (made < size && !ended_) {
      if (stream_.avail_in == 0) {
        DP_TRY(const size_t n, file_.read_at(offset_, input_.data(), input_.size()));
        if (n == 0) {
          if (inside_) return error("it ends in the middle (a truncated download or copy?)");
          ended_ = true;
          break;
        }
        offset_ += n;
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = uInt(n);
      }
      if (!inside_) {
        // Between members gzip allows padding with zeros.
        if (total_in_any_ && *stream_.next_in == 0) {
          ++stream_.next_in;
          --stream_.avail_in;
          continue;
        }
        if (!ready_ && inflateInit2(&stream_, 15 + 16) != Z_OK)
          return error("zlib can't be set up");
        ready_ = true;
        inflateReset(&stream_);
        inside_ = total_in_any_ = true;
      }
      const uInt room = uInt(std::min<size_t>(size - made, 1U << 30));
      stream_.next_out = reinterpret_cast<Bytef*>(to + made);
      stream_.avail_out = room;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      made += room - stream_.avail_out;
      total_out_ += room - stream_.avail_out;
      if (status == Z_STREAM_END) {
        inside_ = false;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return error(stream_.msg != nullptr ? stream_.msg : "it is damaged");
      }
      if (total_out_ > std::max(kGzipFreeBytes, file_.bytes() * kGzipRatioMax)) {
        return error(str("it grows to more than ", kGzipRatioMax, " times its size"));
      }
    }
    return made;
  }
  uint64_t consumed() const override { return offset_ - stream_.avail_in; }

 private:
  Error error(const std::string& why) const {
    return Error{ErrorCode::kBadData, str("can't decompress: ", why), file_.path(),
                 str("check it with: gzip -t ", file_.path())};
  }
  File file_;
  std::vector<char> input_;
  z_stream stream_{};
  uint64_t offset_ = 0;
  uint64_t total_out_ = 0;
  bool ready_ = false, inside_ = false, ended_ = false, total_in_any_ = false;
};

}  // namespace

Result<File> File::open(const std::string& path) {
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not hang us
  if (fd < 0) return open_error(path, errno);
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  File file(fd, known ? uint64_t(status.st_size) : 0, path);
  if (!known) return open_error(path, errno);
  if (S_ISDIR(status.st_mode)) {
    return Error{ErrorCode::kNoInput, str("is a folder, not a file: ", path), path,
                 str("name its files: ", path, "/*")};
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kNoInput, str("is not a regular file: ", path), path,
                 "write it to a file first: shards are read more than once"};
  }
  return file;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<size_t> File::read_at(uint64_t offset, char* to, size_t size) const {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd_, to + done, size - done, off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return Error{ErrorCode::kIo, str("can't read: ", std::strerror(errno)),
                   str(path_, ":", offset + done)};
    if (n == 0) break;
    done += size_t(n);
  }
  return done;
}

Result<uint64_t> File::fingerprint() const {
  std::vector<char> ends(kFingerprintBytes);
  DP_TRY(const size_t head, read_at(0, ends.data(), ends.size()));
  uint64_t hash = hash_combine(bytes_, XXH3_64bits(ends.data(), head));
  if (bytes_ > kFingerprintBytes) {
    DP_TRY(const size_t tail, read_at(bytes_ - kFingerprintBytes, ends.data(), ends.size()));
    hash = hash_combine(hash, XXH3_64bits(ends.data(), tail));
  }
  return hash;
}

Result<bool> File::is_gzip() const {
  char magic[2];
  DP_TRY(const size_t n, read_at(0, magic, 2));
  return n == 2 && uint8_t(magic[0]) == 0x1f && uint8_t(magic[1]) == 0x8b;
}

Result<std::unique_ptr<ByteSource>> open_bytes(File file, uint64_t offset) {
  DP_TRY(const bool gzip, file.is_gzip());
  if (!gzip)
    return std::unique_ptr<ByteSource>(std::make_unique<PlainSource>(std::move(file), offset));
  DP_CHECK(offset == 0, offset);
  return std::unique_ptr<ByteSource>(std::make_unique<GzipSource>(std::move(file)));
}

Result<File> open_unchanged(const plan::FileInfo& info) {
  DP_TRY(File file, File::open(info.path));
  if (file.bytes() != info.bytes) {
    return changed_error(info.path, str("it had ", info.bytes, " bytes and has ", file.bytes()));
  }
  DP_TRY(const uint64_t fingerprint, fingerprint_of(file));
  if (fingerprint != info.fingerprint) return changed_error(info.path, "another content");
  return file;
}

std::string idx_labels_path(const std::string& path) {
  const size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const size_t at = path.find("images-idx3", name);
  return at == std::string::npos ? "" : std::string(path).replace(at, 11, "labels-idx1");
}

Result<uint64_t> fingerprint_of(const File& file) {
  DP_TRY(const uint64_t own, file.fingerprint());
  const std::string labels_path = idx_labels_path(file.path());
  if (labels_path.empty()) return own;
  auto labels = File::open(labels_path);
  if (!labels) return own;  // said when they are read
  DP_TRY(const uint64_t theirs, labels->fingerprint());
  return hash_combine(own, theirs);
}

}  // namespace downpour::data
