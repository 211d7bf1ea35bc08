// Inputs from peers and disks: messages, batches, partition images, manifests, run files.
#include <cstring>

#include "shared/base/crc32c.h"
#include "shared/checkpoint/checksum.h"
#include "shared/checkpoint/framed_file.h"
#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/partition_writer.h"
#include "shared/checkpoint/run_file.h"
#include "shared/wire/batch_codec.h"
#include "shared/wire/codec.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"
#include "tests/shared/checkpoint/support.h"
#include "tests/shared/wire/random_batch.h"
#include "tests/shared/wire/random_message.h"
#include "tests/support/travel.h"

namespace downpour::fuzz {
namespace {

using namespace std::string_view_literals;

/// Pointers, list headers and extreme values of Cap'n Proto.
constexpr std::string_view kWords[] = {"\0\0\0\0\0\0\0\0"sv,
                                       "\xff\xff\xff\xff\xff\xff\xff\xff"sv,
                                       "\0\0\0\0\x01\0\0\0"sv,
                                       "\x01\0\0\0\xff\xff\xff\xff"sv,
                                       "\x01\0\0\0\x06\0\0\0"sv,
                                       "\x01\0\0\0\x07\0\0\0"sv,
                                       "\xfd\xff\xff\xff\0\0\0\0"sv,
                                       "\x02\0\0\0\x01\0\0\0"sv,
                                       "\x01\0\0\0\x02\0\0\0"sv,
                                       "\0\0\0\x80"sv,
                                       "\xff\xff\xff\x7f"sv,
                                       "\0\0\xc0\x7f"sv,
                                       "../x",
                                       "a/b"};

template <typename T>
void put(std::string& bytes, size_t at, T value) {
  if (at + sizeof value <= bytes.size()) std::memcpy(bytes.data() + at, &value, sizeof value);
}
template <typename T>
T get(const std::string& bytes, size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
std::string text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ---- messages: the first file is envelope and body, the other files are payload frames

constexpr size_t kFrameBytesAt = 8, kFrameCrcAt = 12, kFrameCrcEnd = 16, kKeysBytesAt = 44,
                 kValuesBytesAt = 48;

Input random_message(Rng& rng) {
  wire::RandomMessages messages(rng.next());
  const auto message = messages.next(wire::Kind(1 + rng.below(wire::kKindMax)));
  wire::Codec codec;
  const auto header = codec.encode(message);
  Input input;
  if (!header) return Input{.files = {""}};
  input.files = {text_of(*header)};
  for (const Bytes& payload : {message.keys, message.values})
    if (!payload.empty()) input.files.push_back(text_of(payload.span()));
  return input;
}

Input mutated_message(Rng& rng) {
  Input input = random_message(rng);
  std::string& header = input.files[0];
  const size_t from = one_in(rng, 4) ? 0 : std::min(header.size(), wire::kEnvelopeBytes);
  std::string tail = header.substr(from);
  mutate(tail, random_message(rng).files[0], kWords, rng);
  header.replace(from, std::string::npos, tail);
  if (one_in(rng, 8)) {
    for (size_t i = 1; i < input.files.size(); ++i) mutate(input.files[i], "", {}, rng);
  }
  if (one_in(rng, 10)) return input;
  header.resize((header.size() + 7) / 8 * 8);
  put(header, kFrameBytesAt, uint32_t(header.size()));
  size_t next = 1;
  for (const size_t at : {kKeysBytesAt, kValuesBytesAt}) {
    if (get<uint32_t>(header, at) != 0 && next < input.files.size())
      put(header, at, uint32_t(input.files[next++].size()));
  }
  if (header.size() > kFrameCrcEnd)
    put(header, kFrameCrcAt, crc32c(header.data() + kFrameCrcEnd, header.size() - kFrameCrcEnd));
  return input;
}

std::string check_message(const Input& input) {
  const std::span<const uint8_t> header = bytes_of(input.files[0]);
  std::vector<Bytes> payloads;
  for (size_t i = 1; i < input.files.size(); ++i) {
    const auto payload = bytes_of(input.files[i]);
    payloads.push_back(Bytes::of(std::vector<uint8_t>(payload.begin(), payload.end())));
  }
  wire::Codec codec;
  const auto message = codec.decode(header, payloads);
  if (!message) {
    const ErrorCode code = message.error().code;
    return code == ErrorCode::kMalformed || code == ErrorCode::kUnsupported
               ? ""
               : "an error of another code";
  }
  const std::string fault = testing::travel_fault(*message);
  return fault.empty() ? "" : str("sent on, it does not arrive: ", fault);
}

// ---- batches, as input processes send them

Input mutated_batch(Rng& rng) {
  const auto bytes = wire::encode_batch(wire::random_batch(rng, 40, 80));
  const auto other = wire::encode_batch(wire::random_batch(rng, 40, 80));
  Input input{.files = {text_of(bytes->span())}};
  const size_t from = one_in(rng, 4) ? 0 : 4;  // most keep the first bytes of a batch
  std::string tail = input.files[0].substr(from);
  mutate(tail, text_of(other->span()), kWords, rng);
  input.files[0].replace(from, std::string::npos, tail);
  return input;
}

std::string check_batch_bytes(const Input& input) {
  Batch batch, again;
  const auto decoded = wire::decode_batch(bytes_of(input.files[0]), batch);
  if (!decoded)
    return decoded.error().code == ErrorCode::kMalformed ? "" : "an error of another code";
  const auto bytes = wire::encode_batch(batch);
  if (!bytes) return "what is taken can't be sent on";
  if (!wire::decode_batch(bytes->span(), again)) return "sent on, it does not arrive";
  const auto twice = wire::encode_batch(again);
  return text_of(bytes->span()) == text_of(twice->span()) ? "" : "sent on, it is another";
}

// ---- images

void mend_image(std::string& bytes) {
  using checkpoint::SectionEntry;
  if (bytes.size() < sizeof(checkpoint::ImageHeader)) return;
  put(bytes, offsetof(checkpoint::ImageHeader, bytes), uint64_t(bytes.size()));
  const auto sections = get<uint32_t>(bytes, offsetof(checkpoint::ImageHeader, sections));
  const size_t table = sizeof(checkpoint::ImageHeader);
  const size_t room = (bytes.size() - table) / sizeof(SectionEntry);
  for (size_t s = 0; s < std::min<size_t>(sections, room); ++s) {
    const size_t at = table + s * sizeof(SectionEntry);
    const auto entry = get<SectionEntry>(bytes, at);
    if (entry.offset > bytes.size() || entry.bytes > bytes.size() - entry.offset) continue;
    put(bytes, at + offsetof(SectionEntry, checksum),
        checkpoint::checksum_of(
            bytes_of(std::string_view(bytes).substr(entry.offset, entry.bytes))));
  }
  checkpoint::Checksum sum;
  sum.add(bytes_of(std::string_view(bytes).substr(0, checkpoint::kSummedImageHeaderBytes)));
  sum.add(bytes_of(std::string_view(bytes).substr(
      table, std::min<size_t>(sections, room) * sizeof(SectionEntry))));
  put(bytes, offsetof(checkpoint::ImageHeader, checksum), sum.value());
}

std::string image_seed(Rng& rng) {
  const auto image = checkpoint::random_image(uint32_t(rng.below(4)), rng.below(6), rng.next());
  return text_of(
      checkpoint::encode_images(std::span(&image, 1), "x", checkpoint::test_tables()).bytes.span());
}

Input mutated_image(Rng& rng) {
  std::string bytes = image_seed(rng);
  const size_t state =
      std::min<size_t>(bytes.size(), 1024);  // the rest is mostly rows, which are plain floats
  std::string front = bytes.substr(0, state);
  mutate(one_in(rng, 3) ? bytes : front, image_seed(rng), kWords, rng);
  bytes.replace(0, std::min(state, bytes.size()), front);
  if (!one_in(rng, 8)) {
    bytes.resize(checkpoint::align_up(bytes.size(), checkpoint::kImageAlignment));
    mend_image(bytes);
  }
  return Input{.files = {std::move(bytes)}};
}

std::string check_image(const Input& input) {
  const auto tables = checkpoint::test_tables();
  const auto image = checkpoint::decode_image(bytes_of(input.files[0]), tables, "/run/images", 64);
  if (!image) {
    const Error& error = image.error();
    if (error.code != ErrorCode::kBadData && error.code != ErrorCode::kUnsupported)
      return "an error of another code";
    return error.where.starts_with("/run/images:")
               ? ""
               : str("an error at \"", error.where, "\": ", error.what);
  }
  const auto again = checkpoint::encode_images(std::span(&*image, 1), "x", tables);
  const auto back = checkpoint::decode_image(again.bytes.span(), tables, "/run/images", 0);
  return back ? "" : str("what is written of it can't be read: ", back.error().what);
}

// ---- framed files

void mend_framed(std::string& bytes) {
  constexpr size_t kBodyBytesAt = 16, kSumAt = 24;
  if (bytes.size() < checkpoint::kFrameHeaderBytes) return;
  put(bytes, kBodyBytesAt, uint64_t(bytes.size() - checkpoint::kFrameHeaderBytes));
  checkpoint::Checksum sum;
  sum.add(bytes_of(std::string_view(bytes).substr(0, kSumAt)));
  sum.add(bytes_of(std::string_view(bytes).substr(checkpoint::kFrameHeaderBytes)));
  put(bytes, kSumAt, sum.value());
}

Input mutated_framed(std::string (*seed)(Rng&), Rng& rng) {
  std::string bytes = seed(rng);
  mutate(bytes, seed(rng), kWords, rng);
  if (!one_in(rng, 8)) mend_framed(bytes);
  return Input{.files = {std::move(bytes)}};
}

std::string manifest_seed(Rng& rng) {
  checkpoint::Manifest manifest{
      .id = {2, 3}, .run = 0x5eed, .plan_hash = 77, .job = "name = \"test\"\n", .partitions = 4};
  manifest.tables = checkpoint::test_tables();
  manifest.completed_epochs = 2, manifest.sealed_epochs = 1;
  manifest.epochs = {
      {0, 10, {.batches = 64, .read = 640, .applied = 639, .skipped = 1}, R"({"loss":0.5})"}};
  for (uint32_t p = 0; p < 4; ++p)
    manifest.images.push_back(
        {PartitionId(p), "ps-0-0-0000000000000abc.ckpt", p * 64, 64, rng.next()});
  if (one_in(rng, 2)) {
    const uint32_t p = uint32_t(rng.below(4));
    manifest.bases = {{PartitionId(p), "ps-0-0-0000000000000abc.ckpt", 0, 64, 9, 0, {2, 1}}};
    manifest.images[p].base = 9;
  }
  if (one_in(rng, 2)) {
    manifest.ownership_generations = {{1, 2}, {1, 2}, {1, 7}, {2, 1}};
    manifest.given = {2, 3};
  }
  return text_of(checkpoint::encode_manifest(manifest));
}

std::string run_seed(Rng& rng) {
  return text_of(checkpoint::encode_run({.id = rng.next() | 1,
                                         .plan_hash = rng.next(),
                                         .fingerprint = 3,
                                         .job = "name = \"x\"\n",
                                         .build = "b",
                                         .created_unix_s = 1}));
}

/// Checks that a file is either rejected with an error that names it, or survives being written and
/// read again.
template <typename Decode, typename Encode>
std::string check_framed(const Input& input, Decode&& decode, Encode&& encode) {
  const auto read = decode(bytes_of(input.files[0]), "/run/x");
  if (!read) {
    const Error& error = read.error();
    if (error.code != ErrorCode::kBadData && error.code != ErrorCode::kUnsupported)
      return str("an error of another code: ", error.what);
    return error.where.starts_with("/run/x")
               ? ""
               : str("an error at \"", error.where, "\": ", error.what);
  }
  const std::vector<uint8_t> bytes = encode(*read);
  const auto back = decode(bytes, "/run/x");
  if (!back) return str("what is written of it can't be read: ", back.error().what);
  // Compares bytes, because a NaN is not equal to itself.
  return encode(*back) == bytes ? "" : "what is written of it is another";
}

}  // namespace

void add_state_targets(std::vector<Target>& out) {
  out.push_back({.name = "wire",
                 .make = mutated_message,
                 .run = check_message,
                 .memory_bytes_max = 64 * kMiB});
  out.push_back({.name = "batch",
                 .make = mutated_batch,
                 .run = check_batch_bytes,
                 .memory_bytes_max = 64 * kMiB});
  out.push_back(
      {.name = "image", .make = mutated_image, .run = check_image, .memory_bytes_max = 64 * kMiB});
  out.push_back({.name = "manifest",
                 .make = [](Rng& rng) { return mutated_framed(manifest_seed, rng); },
                 .run =
                     [](const Input& input) {
                       return check_framed(input, checkpoint::decode_manifest,
                                           checkpoint::encode_manifest);
                     },
                 .memory_bytes_max = 64 * kMiB});
  out.push_back({.name = "run-file",
                 .make = [](Rng& rng) { return mutated_framed(run_seed, rng); },
                 .run =
                     [](const Input& input) {
                       return check_framed(input, checkpoint::decode_run, checkpoint::encode_run);
                     },
                 .memory_bytes_max = 64 * kMiB});
}

}  // namespace downpour::fuzz
