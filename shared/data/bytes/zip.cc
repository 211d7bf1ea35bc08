#include "shared/data/bytes/zip.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <zlib.h>

#include "shared/base/units.h"
#include "shared/data/bytes/file.h"

namespace downpour::data {
namespace {

constexpr uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr uint32_t kDirectoryMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr size_t kEndBytes = 22, kLocator64Bytes = 20, kEnd64Bytes = 56;
constexpr size_t kEntryBytes = 46, kLocalBytes = 30;
constexpr size_t kCommentBytesMax = 65535;
constexpr uint64_t kDirectoryBytesMax = 8 * kMiB;  // enough for about 100,000 arrays
constexpr size_t kDeflatedBytes = 128 * kKiB;

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Error bad(const File& file, const std::string& what) {
  return Error{ErrorCode::kBadData, str(what, ": ", file.path()), file.path(),
               "check the file with np.load; it may be truncated"};
}

struct Directory {
  uint64_t offset = 0, bytes = 0, entries = 0;
};

Result<Directory> find_directory(const File& file) {
  const size_t tail = size_t(std::min<uint64_t>(file.bytes(), kEndBytes + kCommentBytesMax));
  std::string text(tail, '\0');
  DP_TRY(const size_t n, file.read_at(file.bytes() - tail, text.data(), tail));
  if (n < kEndBytes) return bad(file, "is not an .npz file");
  for (size_t at = n - kEndBytes + 1; at-- > 0;) {
    const char* const end = text.data() + at;
    if (load<uint32_t>(end) != kEndMagic || at + kEndBytes + load<uint16_t>(end + 20) != n)
      continue;
    Directory found{.offset = load<uint32_t>(end + 16),
                    .bytes = load<uint32_t>(end + 12),
                    .entries = load<uint16_t>(end + 10)};
    const uint64_t end_offset = file.bytes() - tail + at;
    const bool large =
        found.offset == UINT32_MAX || found.bytes == UINT32_MAX || found.entries == UINT16_MAX;
    if (large && end_offset >= kLocator64Bytes) {
      char locator[kLocator64Bytes], end64[kEnd64Bytes];
      DP_TRY(const size_t l, file.read_at(end_offset - sizeof locator, locator, sizeof locator));
      if (l < sizeof locator || load<uint32_t>(locator) != kLocator64Magic)
        return bad(file, "has an incomplete zip directory");
      DP_TRY(const size_t e, file.read_at(load<uint64_t>(locator + 8), end64, sizeof end64));
      if (e < sizeof end64 || load<uint32_t>(end64) != kEnd64Magic)
        return bad(file, "has an incomplete zip directory");
      found = {.offset = load<uint64_t>(end64 + 48),
               .bytes = load<uint64_t>(end64 + 40),
               .entries = load<uint64_t>(end64 + 32)};
    }
    if (found.bytes > kDirectoryBytesMax || found.offset > file.bytes() ||
        found.bytes > file.bytes() - found.offset)
      return bad(file, "has a zip directory that points outside the file");
    return found;
  }
  return bad(file, "is not an .npz file");
}

/// Reads the sizes and the offset that do not fit into 32 bits from the Zip64 extra field. The
/// field has only these values, in this order.
void read_zip64(std::string_view extra, ZipMember& member, uint64_t& local) {
  while (extra.size() >= 4) {
    const auto id = load<uint16_t>(extra.data()), size = load<uint16_t>(extra.data() + 2);
    extra.remove_prefix(4);
    if (size > extra.size()) return;
    std::string_view data = extra.substr(0, size);
    extra.remove_prefix(size);
    if (id != 1) continue;
    for (uint64_t* value : {&member.bytes, &member.packed_bytes, &local}) {
      if (*value != UINT32_MAX || data.size() < 8) continue;
      *value = load<uint64_t>(data.data());
      data.remove_prefix(8);
    }
  }
}

Error damaged_member(const File& file, const ZipMember& member) {
  return bad(file, str("its member ", member.name, " is damaged"));
}

}  // namespace

Result<std::vector<ZipMember>> list_zip(const File& file) {
  DP_TRY(const Directory directory, find_directory(file));
  std::string text(size_t(directory.bytes), '\0');
  DP_TRY(const size_t n, file.read_at(directory.offset, text.data(), text.size()));
  if (n != text.size()) return bad(file, "has an incomplete zip directory");
  std::vector<ZipMember> members;
  std::set<std::string> names;
  std::string_view rest = text;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < kEntryBytes || load<uint32_t>(rest.data()) != kDirectoryMagic)
      return bad(file, "has a damaged zip directory");
    const char* const entry = rest.data();
    const size_t name = load<uint16_t>(entry + 28), extra = load<uint16_t>(entry + 30),
                 comment = load<uint16_t>(entry + 32);
    if (rest.size() < kEntryBytes + name + extra + comment)
      return bad(file, "has a damaged zip directory");
    ZipMember member{.name = std::string(rest.substr(kEntryBytes, name)),
                     .bytes = load<uint32_t>(entry + 24),
                     .packed_bytes = load<uint32_t>(entry + 20),
                     .crc32 = load<uint32_t>(entry + 16)};
    uint64_t local = load<uint32_t>(entry + 42);
    read_zip64(rest.substr(kEntryBytes + name, extra), member, local);
    rest.remove_prefix(kEntryBytes + name + extra + comment);
    const auto method = load<uint16_t>(entry + 10);
    if ((load<uint16_t>(entry + 8) & 1) != 0 || (method != 0 && method != 8)) {
      return Error{ErrorCode::kUnsupported,
                   str("its member ", member.name,
                       " is encrypted, or compressed with an unsupported method: ", file.path()),
                   file.path(), "write it with np.savez or np.savez_compressed"};
    }
    member.deflated = method == 8;
    char header[kLocalBytes];
    DP_TRY(const size_t h, file.read_at(local, header, sizeof header));
    if (h < sizeof header || load<uint32_t>(header) != kLocalMagic)
      return bad(file, str("has no member ", member.name, " at the offset in its directory"));
    member.data_offset =
        local + kLocalBytes + load<uint16_t>(header + 26) + load<uint16_t>(header + 28);
    if (member.data_offset > file.bytes() ||
        member.packed_bytes > file.bytes() - member.data_offset ||
        (!member.deflated && member.packed_bytes != member.bytes))
      return bad(file,
                 str("contains fewer bytes of ", member.name, " than its directory declares"));
    if (!names.insert(member.name).second)
      return bad(file, str("has two members with the name ", member.name));
    members.push_back(std::move(member));
  }
  return members;
}

Result<void> check_stored(const File& file, const ZipMember& member) {
  std::vector<char> block(size_t(std::min<uint64_t>(member.bytes, kMiB)));
  uint64_t crc = 0;
  for (uint64_t at = 0; at < member.bytes;) {
    const size_t want = size_t(std::min<uint64_t>(block.size(), member.bytes - at));
    DP_TRY(const size_t n, file.read_at(member.data_offset + at, block.data(), want));
    if (n == 0) break;
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(block.data()), n);
    at += n;
  }
  if (uint32_t(crc) == member.crc32) return {};
  return damaged_member(file, member);
}

struct InflatedMember::Stream {
  z_stream z{};
  std::vector<char> input;
};

InflatedMember::InflatedMember(std::shared_ptr<const File> file, ZipMember member)
    : file_(std::move(file)), member_(std::move(member)), stream_(std::make_unique<Stream>()) {
  stream_->input.resize(kDeflatedBytes);
  DP_CHECK(inflateInit2(&stream_->z, -15) == Z_OK);  // out of memory
}

InflatedMember::~InflatedMember() { inflateEnd(&stream_->z); }

Result<void> InflatedMember::read(char* to, size_t size) {
  const auto damaged = [&] { return damaged_member(*file_, member_); };
  z_stream& z = stream_->z;
  size_t done = 0;
  if (size > member_.bytes - made_) return damaged();
  while (done < size) {
    if (z.avail_in == 0) {
      const size_t want =
          size_t(std::min<uint64_t>(stream_->input.size(), member_.packed_bytes - used_));
      DP_TRY(const size_t n,
             file_->read_at(member_.data_offset + used_, stream_->input.data(), want));
      if (n == 0) return damaged();
      used_ += n;
      z.next_in = reinterpret_cast<Bytef*>(stream_->input.data());
      z.avail_in = uInt(n);
    }
    const uInt room = uInt(std::min<size_t>(size - done, 1U << 30));
    z.next_out = reinterpret_cast<Bytef*>(to + done);
    z.avail_out = room;
    const int status = inflate(&z, Z_NO_FLUSH);
    const size_t made = room - z.avail_out;
    crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(to + done), made);
    done += made;
    if (status == Z_STREAM_END ? done < size : status != Z_OK) return damaged();
  }
  made_ += size;
  if (made_ == member_.bytes && uint32_t(crc_) != member_.crc32) return damaged();
  return {};
}

}  // namespace downpour::data
