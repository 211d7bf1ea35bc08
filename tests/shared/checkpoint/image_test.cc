#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>

#include "shared/checkpoint/checksum.h"
#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/schema_codec.h"
#include "tests/shared/checkpoint/support.h"
#include "tests/support/memory_limit.h"

namespace downpour::checkpoint {
namespace {

const std::vector<TableSpec> kTables = test_tables();

std::vector<uint8_t> bytes_of_file(const std::string& path) {
  PosixStorage storage;
  const Bytes bytes = *storage.read_file(path, 1 << 30);
  return {bytes.data(), bytes.data() + bytes.size()};
}

std::vector<uint8_t> encoded(const PartitionImage& image) {
  const Folder folder;
  PosixStorage storage;
  REQUIRE(write_images(storage, folder.path, "f", std::span(&image, 1), kTables));
  return bytes_of_file(folder.path + "/f");
}

/// Corrects the checksums after a change, like a hostile or buggy writer.
void reseal(std::vector<uint8_t>& bytes) {
  ImageHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::vector<SectionEntry> entries(header.sections);
  std::memcpy(entries.data(), bytes.data() + sizeof(header), entries.size() * sizeof(SectionEntry));
  for (SectionEntry& entry : entries) {
    entry.checksum =
        checksum_of(std::span<const uint8_t>(bytes).subspan(entry.offset, entry.bytes));
  }
  std::memcpy(bytes.data() + sizeof(header), entries.data(), entries.size() * sizeof(SectionEntry));
  Checksum sum;
  sum.add({bytes.data(), kSummedImageHeaderBytes});
  sum.add({bytes.data() + sizeof(header), entries.size() * sizeof(SectionEntry)});
  header.checksum = sum.value();
  std::memcpy(bytes.data(), &header, sizeof(header));
}

size_t entry_at(size_t section) { return sizeof(ImageHeader) + section * sizeof(SectionEntry); }

template <typename T>
void poke(std::vector<uint8_t>& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

TEST_CASE("a partition reads what it wrote, bit for bit", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  std::vector<PartitionImage> images;
  for (uint32_t p = 0; p < 20; ++p) images.push_back(random_image(p, p % 3 == 1 ? 0 : p * 50, p));
  images[3].epochs.clear(), images[3].shards.clear(), images[3].tables.clear();
  images[3].steps_before = 1000;
  // Bit patterns that arithmetic would not preserve, and a piece that is large enough to bypass the
  // write buffer.
  images[4] = random_image(4, 40'000, 4);
  images[5].tables[0].table_variables[0][0] = -0.0F;
  images[5].tables[0].table_variables[0][1] = 1e-45F;
  const auto refs = write_images(storage, folder.path + "/new/folder", "f", images, kTables);
  REQUIRE(refs);
  REQUIRE(refs->size() == images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    CHECK((*refs)[i].offset % 64 == 0);
    const auto image = read_image(storage, folder.path + "/new/folder", (*refs)[i], kTables);
    REQUIRE(image);
    CHECK(*image == images[i]);
  }
  CHECK(refs->back().offset + refs->back().bytes ==
        *storage.file_bytes(folder.path + "/new/folder/f"));
}

TEST_CASE("rows are sorted by key, for keys of any size", "[checkpoint]") {
  Rng rng(3);
  RowSorter sorter;
  for (const uint64_t range : {uint64_t{1} << 8, uint64_t{1} << 20, uint64_t{0}}) {
    std::set<uint64_t> keys = {0, UINT64_MAX, uint64_t{1} << 63};
    while (keys.size() < 200) keys.insert(range == 0 ? rng.next() : rng.below(range));
    TableImage image{
        .table = TableId{0}, .keys = {keys.begin(), keys.end()}, .table_variables = {{}, {}}};
    for (size_t i = image.keys.size(); i > 1; --i) {
      std::swap(image.keys[i - 1], image.keys[rng.below(i)]);
    }
    const auto value = [](uint64_t key, int part) { return float(key % 65'521) + float(part) / 4; };
    for (const uint64_t key : image.keys) {
      image.table_variables[0].push_back(value(key, 0));
      for (int part = 1; part < 4; ++part) image.table_variables[1].push_back(value(key, part));
    }
    sorter.sort(image);
    REQUIRE(std::ranges::equal(image.keys, keys));
    for (size_t i = 0; i < image.keys.size(); ++i) {
      CHECK(image.table_variables[0][i] == value(image.keys[i], 0));
      CHECK(image.table_variables[1][3 * i + 2] == value(image.keys[i], 3));
    }
  }
}

TEST_CASE("rows with a slot of the row are read back, and refused with another number of floats",
          "[checkpoint]") {
  std::vector<TableSpec> tables = test_tables();
  tables[0].table_variables[0].optimizer.type = OptimizerType::kRowwiseAdagrad;  // dim 1
  tables[0].table_variables[1].optimizer.type = OptimizerType::kRowwiseAdagrad;  // dim 4
  const auto image_of = [](size_t narrow, size_t wide) {
    PartitionImage image{.partition = PartitionId{0}};
    image.tables = {{TableId{0}, {3, 8, 9}, {PageVector<float>(narrow), PageVector<float>(wide)}}};
    for (PageVector<float>& floats : image.tables[0].table_variables)
      for (size_t i = 0; i < floats.size(); ++i) floats[i] = float(i);
    return image;
  };
  const PartitionImage image = image_of(3 * 2, 3 * 5);
  const EncodedImages encoded = encode_images(std::span(&image, 1), "f", tables);
  const auto decoded = decode_image(encoded.bytes.span(), tables, "f", 0);
  REQUIRE(decoded);
  CHECK(*decoded == image);
  // Adagrad and SGD of the same widths.
  for (const OptimizerType type : {OptimizerType::kAdagrad, OptimizerType::kSgd}) {
    for (const size_t m : {0U, 1U}) {
      std::vector<TableSpec> others = tables;
      others[0].table_variables[m].optimizer.type = type;
      INFO(name_of(type) << ", variable " << m);
      const auto refused = decode_image(encoded.bytes.span(), others, "f", 0);
      if (type == OptimizerType::kAdagrad && m == 0) continue;  // the same bytes for a width of 1
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == ErrorCode::kBadData);
    }
  }
  CHECK_FALSE(stored_copies(tables[0], 1, image.tables[0].keys, 3 * 8));
  CHECK_FALSE(stored_copies(tables[0], 1, image.tables[0].keys, 3));
  CHECK(*stored_copies(tables[0], 1, image.tables[0].keys, 3 * 5) == 1);
}

TEST_CASE("NaN payloads survive", "[checkpoint]") {
  PartitionImage image = random_image(1, 1, 9);
  const uint32_t nan = 0x7fa12345;
  std::memcpy(image.tables[0].table_variables[1].data(), &nan, sizeof(nan));
  const auto decoded = decode_image(encoded(image), kTables, "f", 0);
  REQUIRE(decoded);
  uint32_t bits = 0;
  std::memcpy(&bits, decoded->tables[0].table_variables[1].data(), sizeof(bits));
  CHECK(bits == nan);
}

TEST_CASE("any flipped bit of an image is refused, naming file and offset", "[checkpoint]") {
  PartitionImage image = random_image(1, 8, 1);
  std::vector<uint8_t> bytes = encoded(image);
  REQUIRE(bytes.size() < 4096);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
    const auto decoded = decode_image(bytes, kTables, "some/file", 640);
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
    if (decoded) FAIL("bit " << bit << " was flipped and not seen");
    if (decoded.error().code != ErrorCode::kBadData ||
        decoded.error().where.rfind("some/file:", 0) != 0) {
      FAIL("bit " << bit << ": " << decoded.error().what << " at " << decoded.error().where);
    }
  }
  CHECK(decode_image(bytes, kTables, "some/file", 640));
}

TEST_CASE("a flipped weight is reported with its section", "[checkpoint]") {
  std::vector<uint8_t> bytes = encoded(random_image(1, 8, 1));
  SectionEntry last;
  std::memcpy(&last, bytes.data() + entry_at(3), sizeof(last));
  bytes[last.offset + 5] ^= 1;
  const auto decoded = decode_image(bytes, kTables, "f", 128);
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().where == str("f:", 128 + last.offset));
  CHECK(decoded.error().what.find("section 3") != std::string::npos);
}

TEST_CASE("every truncation of an image is refused", "[checkpoint]") {
  const std::vector<uint8_t> bytes = encoded(random_image(0, 4, 2));
  for (size_t size = 0; size < bytes.size(); ++size) {
    if (decode_image(std::span(bytes).first(size), kTables, "f", 0))
      FAIL("cut at " << size << " and not seen");
  }
}

TEST_CASE("markers that contradict the format or do not ascend are refused", "[checkpoint]") {
  PartitionImage image = random_image(1, 8, 1);
  image.base = 0;
  const auto read_as = [&](uint32_t format) {
    std::vector<uint8_t> bytes = encoded(image);
    poke(bytes, 8, format);
    reseal(bytes);
    return decode_image(bytes, kTables, "f", 0).has_value();
  };
  image.markers = {{{2, 1, 0}}, {{2, 1, 3}}};
  CHECK(read_as(3));
  CHECK_FALSE(read_as(1));
  image.markers[1].batch = {2, 1, 0};
  CHECK_FALSE(read_as(3));
  image.markers.clear();
  CHECK(read_as(1));
  CHECK_FALSE(read_as(3));
  CHECK(read_as(4));
}

TEST_CASE("rows are written in their order, and read in the order of their keys", "[checkpoint]") {
  const PartitionImage sorted = random_image(1, 30'000, 5);
  PartitionImage image = sorted;
  TableImage& table = image.tables[0];
  std::ranges::reverse(table.keys);
  for (size_t m = 0; m < table.table_variables.size(); ++m) {
    const size_t width = table.table_variables[m].size() / table.keys.size();
    for (size_t i = 0; i < table.keys.size(); ++i) {
      std::copy_n(sorted.tables[0].table_variables[m].begin() + ptrdiff_t(i * width), width,
                  table.table_variables[m].end() - ptrdiff_t((i + 1) * width));
    }
  }
  const auto read = decode_image(encoded(image), kTables, "f", 0);
  REQUIRE(read);
  CHECK(*read == sorted);
  table.keys[7] = table.keys[29'000];
  const auto twice = decode_image(encoded(image), kTables, "f", 0);
  REQUIRE_FALSE(twice);
  CHECK(twice.error().what ==
        str("key ", table.keys[7], " of table features is a duplicate or out of order"));
}

TEST_CASE("large sections are aligned so that they can be written without a copy", "[checkpoint]") {
  PartitionImage image = random_image(1, 40'000, 5);
  const std::vector<uint8_t> bytes = encoded(image);
  CHECK(bytes.size() % 4096 == 0);
  for (int s = 1; s < 4; ++s) {
    SectionEntry entry;
    std::memcpy(&entry, bytes.data() + entry_at(image.markers.empty() ? s : s + 1), sizeof(entry));
    REQUIRE(entry.bytes >= kLargeSectionBytes);
    CHECK(entry.offset % 4096 == 0);
  }
  for (const TableImage& table : image.tables) {
    for (const auto& rows : table.table_variables)
      CHECK(std::bit_cast<uintptr_t>(rows.data()) % 4096 == 0);
  }
}

TEST_CASE("images with valid checksums and invalid content are refused", "[checkpoint]") {
  PartitionImage image = random_image(1, 8, 1);
  image.markers.clear();
  const std::vector<uint8_t> good = encoded(image);
  const auto refused = [&](size_t offset, auto value) {
    std::vector<uint8_t> bytes = good;
    poke(bytes, offset, value);
    reseal(bytes);
    const auto decoded = decode_image(bytes, kTables, "f", 0);
    return !decoded && !decoded.error().what.empty();
  };
  SectionEntry keys;
  std::memcpy(&keys, good.data() + entry_at(1), sizeof(keys));
  CHECK(refused(12, uint32_t{2}));                 // partition in the header
  CHECK(refused(48, uint64_t{good.size() + 64}));  // length
  CHECK(refused(entry_at(0), uint32_t{7}));        // unknown section
  CHECK(refused(entry_at(1) + 4, uint32_t{9}));    // unknown table
  CHECK(refused(entry_at(1) + 4, uint32_t{1}));    // another table
  CHECK(refused(entry_at(2) + 8, uint32_t{1}));    // variables out of order
  CHECK(refused(entry_at(2) + 12, uint32_t{2}));   // floats per weight
  uint64_t second = 0;
  std::memcpy(&second, good.data() + keys.offset + 8, sizeof(second));
  CHECK(refused(keys.offset, second));      // a duplicate key
  for (size_t at = 0; at < 256; at += 8) {  // hostile state messages
    SectionEntry state;
    std::memcpy(&state, good.data() + entry_at(0), sizeof(state));
    for (const uint64_t value :
         {UINT64_MAX, uint64_t{0x7fffffff00000001}, uint64_t{0xfffffff700000001}}) {
      std::vector<uint8_t> bytes = good;
      poke(bytes, state.offset + at, value);
      reseal(bytes);
      (void)decode_image(bytes, kTables, "f",
                         // must neither crash nor allocate much; it may be a valid state
                         0);
    }
  }
}

TEST_CASE("a later format is reported as unsupported, not as damaged", "[checkpoint]") {
  std::vector<uint8_t> bytes = encoded(random_image(1, 1, 1));
  poke(bytes, 8, kImageFormat + 1);
  reseal(bytes);
  CHECK(decode_image(bytes, kTables, "f", 0).error().code == ErrorCode::kUnsupported);
}

TEST_CASE("an image must be the one that the manifest names", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  const std::vector<PartitionImage> images = {random_image(1, 5, 1), random_image(2, 5, 2)};
  const auto refs = write_images(storage, folder.path, "f", images, kTables);
  REQUIRE(refs);
  wire::ImageRef ref = (*refs)[0];
  const auto code = [&] { return read_image(storage, folder.path, ref, kTables).error().code; };
  ref.checksum ^= 1;  // another image of the same partition
  CHECK(code() == ErrorCode::kBadData);
  ref = (*refs)[0], ref.partition = PartitionId{2};
  CHECK(code() == ErrorCode::kBadData);
  ref = (*refs)[0], ref.offset += 64;
  CHECK(code() == ErrorCode::kBadData);
  ref = (*refs)[0], ref.bytes = UINT64_MAX;
  CHECK(code() == ErrorCode::kBadData);
  ref = (*refs)[0], ref.bytes = uint64_t{1} << 40;  // larger than the file: nothing is allocated
  CHECK(code() == ErrorCode::kBadData);
  ref = (*refs)[0], ref.file = "../f";  // a name from a peer must not be a path
  CHECK(code() == ErrorCode::kBadData);
  ref = (*refs)[0], ref.file = "gone";
  CHECK(code() == ErrorCode::kNoInput);
}

/// Records the longest requested read.
class MeteredStorage final : public PosixStorage {
 public:
  Result<Bytes> read_range(const std::string& path, uint64_t offset, uint64_t bytes) override {
    longest = std::max(longest, bytes);
    if (bytes > 64 * kMiB) return Error{ErrorCode::kIo, "too much is read at once", path};
    return PosixStorage::read_range(path, offset, bytes);
  }
  uint64_t longest = 0;
};

TEST_CASE("no memory is allocated for an image that does not exist", "[checkpoint]") {
  const Folder folder;
  MeteredStorage storage;
  const PartitionImage image = random_image(1, 20, 1);
  wire::ImageRef ref =
      write_images(storage, folder.path, "f", std::span(&image, 1), kTables)->front();
  REQUIRE(testing::write_sparse(folder.path + "/hole", "", 8 * kGiB));
  const std::string head = [&] {
    const std::vector<uint8_t> bytes = bytes_of_file(folder.path + "/f");
    return std::string(bytes.begin(), bytes.end());
  }();
  REQUIRE(testing::write_sparse(folder.path + "/grown", head, 8 * kGiB));
  for (const char* const name : {"hole", "grown"}) {
    INFO(name);
    ref.file = name;
    ref.bytes = 8 * kGiB;
    CHECK(read_image(storage, folder.path, ref, kTables).error().code == ErrorCode::kBadData);
    CHECK(verify_image(storage, folder.path, ref).error().code == ErrorCode::kBadData);
  }
  CHECK(storage.longest <= 4 * kKiB);
}

TEST_CASE("a large image is verified piece by piece, including each byte", "[checkpoint]") {
  const Folder folder;
  MeteredStorage storage;
  const PartitionImage image = random_image(1, 500'000, 1);
  const wire::ImageRef ref =
      write_images(storage, folder.path, "f", std::span(&image, 1), kTables)->front();
  REQUIRE(ref.bytes > 12 * kMiB);
  CHECK(verify_image(storage, folder.path, ref));
  CHECK(storage.longest <= 4 * kMiB);
  std::vector<uint8_t> bytes = bytes_of_file(folder.path + "/f");
  Rng rng(5);
  for (int i = 0; i < 20; ++i) {
    const size_t at = i == 0 ? bytes.size() - 1 : size_t(rng.below(bytes.size()));
    bytes[at] ^= 1;
    REQUIRE(storage.write_file_atomic(folder.path + "/f", bytes));
    CHECK_FALSE(verify_image(storage, folder.path, ref));
    bytes[at] ^= 1;
  }
}

TEST_CASE("an image whose header gives another length is refused", "[checkpoint]") {
  std::vector<uint8_t> bytes = encoded(random_image(1, 8, 1));
  for (const size_t more : {1, 64, 4096}) {
    std::vector<uint8_t> longer = bytes;
    longer.resize(bytes.size() + more);
    CHECK_FALSE(decode_image(longer, kTables, "f", 0));
    poke(longer, 48, uint64_t(longer.size()));  // also if the header agrees
    reseal(longer);
    CHECK_FALSE(decode_image(longer, kTables, "f", 0));
  }
}

TEST_CASE("bytes after the message of a section are refused", "[checkpoint]") {
  const PartitionImage image = random_image(1, 0, 1);
  std::vector<uint8_t> state = encode_state(image);
  REQUIRE(decode_state(state));
  state.resize(state.size() + 8);
  CHECK_FALSE(decode_state(state));
}

TEST_CASE("a checkpoint file that cannot be created is an error with its path", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  REQUIRE(storage.write_file_atomic(folder.path + "/file", as_bytes("x")));
  const auto refs = write_images(storage, folder.path + "/file/1-1", "f", {}, kTables);
  REQUIRE_FALSE(refs);
  CHECK(refs.error().code == ErrorCode::kCannotCreate);
  CHECK(refs.error().where.find("file/1-1") != std::string::npos);
}

TEST_CASE("a checkpoint file appears completely or not at all", "[checkpoint]") {
  const PartitionImage image = random_image(0, 100, 1);
  for (int crash_at = 1;; ++crash_at) {
    const Folder folder;
    CrashingStorage storage(crash_at);
    const auto refs =
        write_images(storage, folder.path + "/1-1", "f", std::span(&image, 1), kTables);
    PosixStorage disk;
    if (*disk.exists(folder.path + "/1-1/f")) {
      CHECK(*decode_image(bytes_of_file(folder.path + "/1-1/f"), kTables, "f", 0) == image);
    }
    if (refs) break;
    REQUIRE(crash_at < 20);
  }
}

/// These bytes must stay readable forever. This build writes the last of them.
TEST_CASE("golden images of the formats with sorted and with unsorted keys",
          "[checkpoint][golden]") {
  const std::string golden = DP_GOLDEN_DIR;
  PartitionImage image{.partition = PartitionId{3}, .version = 41, .sealed_epochs = 2};
  image.epochs = {{.epoch = 2,
                   .shards_ended = 4,
                   .counts = {.batches = 8, .read = 100, .applied = 99, .skipped = 1}}};
  image.epochs[0].metrics = {
      {.weight = 99, .loss = 12.5, .label = 30, .prediction = 31.25, .correct = 80}};
  image.epochs[0].ended = {{0, 3}, {5, 6}};
  image.shards = {
      {.shard = {2, 4}, .watermark = 7, .records = 70, .records_hash = 0x0123456789abcdef}};
  image.tables = {{TableId{0}, {5, 1000, uint64_t{1} << 63}, {}}, {TableId{1}, {2}, {}}};
  image.tables[0].table_variables = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, PageVector<float>(24, -0.5F)};
  image.tables[1].table_variables = {PageVector<float>(908, 0.25F)};
  const auto check = [&](const std::string& name) {
    const auto decoded = decode_image(bytes_of_file(golden + "/" + name), kTables, name, 0);
    REQUIRE(decoded);
    CHECK(*decoded == image);
  };
  check("image-v1.bin");

  PartitionImage unordered = image;
  unordered.base = image.base = 0x0123456789abcdef;
  unordered.markers = image.markers = {{{2, 1, 3}, true, false}};
  TableImage& table = unordered.tables[0];
  std::swap(table.keys[0], table.keys[2]);
  table.table_variables[0] = {7, 8, 9, 4, 5, 6, 1, 2, 3};
  check("image-v4.bin");
  // The same format; the state contains the plan.
  unordered.plan_hash = image.plan_hash = 0xfedcba9876543210;
  check("image-v4-plan.bin");
  // The same format; the state of an epoch contains the hash of its records.
  unordered.epochs[0].records_hash = image.epochs[0].records_hash = 0x1122334455667788;
  check("image-v4-hash.bin");
  // The same format; the sums of an epoch contain the absolute error and the top-k count.
  for (PartitionImage* const of : {&image, &unordered}) {
    of->epochs[0].metrics[0].absolute_error = 17.5;
    of->epochs[0].metrics[0].in_top_k = 90;
  }
  check("image-v4-sums.bin");
  // The same format; the state contains the steps of earlier runs.
  unordered.steps_before = image.steps_before = 12'345;
  const std::vector<uint8_t> bytes = encoded(unordered);
  if (std::getenv("DP_WRITE_GOLDEN") != nullptr) {
    PosixStorage storage;
    REQUIRE(storage.write_file_atomic(golden + "/image-v4-before.bin", bytes));
  }
  CHECK(bytes_of_file(golden + "/image-v4-before.bin") == bytes);
  check("image-v4-before.bin");
}

TEST_CASE("speed of writing and reading images", "[.][bench]") {
  const char* dir = std::getenv("DP_BENCH_DIR");  // a folder on a disk; by default in memory
  const Folder memory;
  const struct { std::string path; } folder{dir != nullptr ? dir : memory.path};
  PosixStorage storage;
  const std::vector<TableSpec> tables = {
      {"features",
       TableKind::kEmbedding,
       {{.name = "w", .dim = 1, .optimizer = {.type = OptimizerType::kFtrl}}}}};
  std::vector<PartitionImage> images;
  double megabytes = 0;
  for (uint32_t p = 0; p < 256; ++p) {
    PartitionImage image{.partition = PartitionId(p), .version = 1};
    TableImage table{.table = TableId{0}, .table_variables = {PageVector<float>(2734 * 3, 0.5F)}};
    for (uint64_t key = 0; key < 2734; ++key) table.keys.push_back(key * 256 + p);
    image.tables.push_back(std::move(table));
    images.push_back(std::move(image));
    megabytes += 2734 * 20e-6;
  }
  const auto time = [&](const char* what, auto&& work) {
    double wall = 1e9, cpu = 1e9;  // best of several
    for (int i = 0; i < 15; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const std::clock_t cpu_begin = std::clock();
      work();
      cpu = std::min(cpu, double(std::clock() - cpu_begin) / CLOCKS_PER_SEC);
      wall = std::min(
          wall, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::printf("%-28s wall %6.2f ms %6.0f MB/s   cpu %6.2f ms\n", what, wall * 1e3,
                megabytes / wall, cpu * 1e3);
  };
  std::vector<uint8_t> flat(size_t(megabytes * 1e6));
  std::vector<uint8_t> copy(flat.size());
  time("memcpy", [&] { std::memcpy(copy.data(), flat.data(), flat.size()); });
  time("write + fsync of one buffer",
       [&] { REQUIRE(storage.write_file_atomic(folder.path + "/plain", flat)); });
  std::vector<wire::ImageRef> refs;
  time("write_images, 256 partitions",
       [&] { refs = *write_images(storage, folder.path, "f", images, tables); });
  time("read_image of them", [&] {
    for (const wire::ImageRef& ref : refs) REQUIRE(read_image(storage, folder.path, ref, tables));
  });
}

}  // namespace
}  // namespace downpour::checkpoint
