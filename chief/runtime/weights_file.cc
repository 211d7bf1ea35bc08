#include "chief/runtime/weights_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "shared/base/str.h"
#include "shared/data/formats/numpy/array_elements.h"

namespace downpour::chief {
namespace {

constexpr uint64_t kHeaderBytesMax = 100 << 20;  // the limit of the safetensors library
constexpr uint64_t kJobBytesMax = 16 << 20;
constexpr const char* kJobName = "job.toml";

/// Returns the product, or nothing if it exceeds 64 bits.
std::optional<uint64_t> product_of(const std::vector<uint64_t>& factors) {
  uint64_t product = 1;
  for (const uint64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  return product;
}

/// Returns the NumPy type of a safetensors type; bytes 0: there is none.
data::NpyType type_of(const std::string& dtype) {
  static constexpr std::pair<const char*, data::NpyType> kTypes[] = {
      {"F16", {'f', 2}}, {"F32", {'f', 4}}, {"F64", {'f', 8}}, {"I32", {'i', 4}},
      {"I64", {'i', 8}}, {"U32", {'u', 4}}, {"U64", {'u', 8}}};
  for (const auto& [name, type] : kTypes)
    if (dtype == name) return type;
  return {.bytes = 0};
}

}  // namespace

bool names_weights(const std::string& path) {
  return path.ends_with(".npz") || path.ends_with(".safetensors");
}

uint64_t WeightsFile::Entry::elements() const { return product_of(shape).value_or(0); }

Result<WeightsFile> WeightsFile::open(const std::string& path) {
  DP_TRY(data::File file, data::File::open(path));
  WeightsFile weights(std::move(file));
  DP_TRY_VOID(path.ends_with(".npz") ? weights.list_npz() : weights.list_safetensors());
  return weights;
}

Error WeightsFile::damaged(const std::string& what) const {
  return Error{ErrorCode::kBadData, what, path(),
               "write the file again: downpour export, numpy.savez, or safetensors"};
}

Result<void> WeightsFile::read(uint64_t offset, char* to, size_t bytes) const {
  DP_TRY(const size_t got, file_->read_at(offset, to, bytes));
  if (got < bytes) return damaged("the file ends too early");
  return {};
}

Result<std::string> WeightsFile::member(const data::ZipMember& member, uint64_t bytes_max) const {
  std::string bytes(std::min(member.bytes, bytes_max), '\0');
  if (member.deflated) {
    DP_TRY_VOID(data::InflatedMember(file_, member).read(bytes.data(), bytes.size()));
  } else {
    DP_TRY_VOID(read(member.data_offset, bytes.data(), bytes.size()));
  }
  return bytes;
}

Result<std::string> WeightsFile::saved_text(const data::ZipMember& member) const {
  DP_TRY(const std::string bytes, this->member(member, kJobBytesMax));
  const size_t head_bytes = bytes.find('\n') + 1;  // the first line break of a header is its end
  if (bytes.substr(0, head_bytes).find("'descr': '|S") != std::string::npos)
    return bytes.substr(head_bytes);
  return Error{ErrorCode::kUnsupported, str("the array `", kJobName, "` is no text of bytes"),
               path(), str("leave it out, or save the bytes that np.load gives for ", kJobName)};
}

Result<void> WeightsFile::list_npz() {
  DP_TRY(const std::vector<data::ZipMember> members, data::list_zip(*file_));
  for (const data::ZipMember& each : members) {
    if (each.name == kJobName) {
      DP_TRY(job_, member(each, kJobBytesMax));
      continue;
    }
    if (each.name == std::string(kJobName) + ".npy") {
      DP_TRY(job_, saved_text(each));
      continue;
    }
    const std::string where = str(path(), ": ", each.name);
    DP_TRY(const std::string head, member(each, data::kNpyHeadBytesMax));
    DP_TRY(const data::NpyArray array, data::parse_npy(head, each.bytes, where));
    const std::string ending = ".npy";
    std::string name = each.name;
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
    Entry entry{
        .type = array.type, .shape = array.shape, .member = each, .head_bytes = array.data_offset};
    if (!arrays_.emplace(name, std::move(entry)).second)
      return damaged(str("the array `", name, "` occurs twice"));
  }
  return {};
}

Result<void> WeightsFile::list_safetensors() {
  uint64_t size = 0;
  char head[sizeof(size)];
  DP_TRY_VOID(read(0, head, sizeof(head)));
  std::memcpy(&size, head, sizeof(size));
  if (size > kHeaderBytesMax || size > file_->bytes() - sizeof(size))
    return damaged("the header is longer than the file");
  std::string text(size, '\0');
  DP_TRY_VOID(read(sizeof(size), text.data(), text.size()));
  const nlohmann::json header = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return damaged("the header is not a JSON object");
  const uint64_t begin = sizeof(size) + size;
  for (const auto& [name, each] : header.items()) {
    if (name == "__metadata__") {
      if (each.is_object() && each.contains(kJobName) && each[kJobName].is_string())
        job_ = each[kJobName];
      continue;
    }
    Entry entry;
    std::vector<uint64_t> range;
    try {
      entry.type = type_of(each.at("dtype").get<std::string>());
      entry.shape = each.at("shape").get<std::vector<uint64_t>>();
      range = each.at("data_offsets").get<std::vector<uint64_t>>();
    } catch (const nlohmann::json::exception&) {
      return damaged(str("the entry `", name, "` has no dtype, shape and data_offsets"));
    }
    if (entry.type.bytes == 0) {
      return Error{ErrorCode::kUnsupported,
                   str("the array `", name, "` has the type ", each["dtype"].get<std::string>()),
                   path(), "store it as F32, or keys as U64"};
    }
    const auto elements = product_of(entry.shape);
    if (range.size() != 2 || range[0] > range[1] || range[1] > file_->bytes() - begin ||
        !elements || *elements > file_->bytes() ||
        range[1] - range[0] != *elements * entry.type.bytes)
      return damaged(str("the place of the array `", name, "` does not fit its shape"));
    entry.member.data_offset = begin + range[0];
    entry.member.bytes = range[1] - range[0];
    arrays_[name] = std::move(entry);
  }
  return {};
}

Result<std::string> WeightsFile::bytes_of(const std::string& name) const {
  const Entry& entry = arrays_.at(name);
  const uint64_t bytes = entry.elements() * entry.type.bytes;
  if (!entry.member.deflated) {
    if (bytes > file_->bytes()) return damaged(str("the array `", name, "` exceeds the file"));
    if (!entry.member.name.empty()) {  // safetensors have no checksums
      DP_TRY_VOID(data::check_stored(*file_, entry.member));
    }
    std::string out(bytes, '\0');
    DP_TRY_VOID(read(entry.member.data_offset + entry.head_bytes, out.data(), out.size()));
    return out;
  }
  // Grows with what the member has: its head may promise more than a short file can hold.
  constexpr uint64_t kPiece = 16 << 20;
  data::InflatedMember inflated(file_, entry.member);
  std::string out(entry.head_bytes, '\0');
  DP_TRY_VOID(inflated.read(out.data(), out.size()));
  out.clear();
  while (out.size() < bytes) {
    const size_t before = out.size();
    out.resize(std::min(bytes, before + kPiece));
    DP_TRY_VOID(inflated.read(out.data() + before, out.size() - before));
  }
  return out;
}

Result<std::vector<float>> WeightsFile::floats(const std::string& name) const {
  const data::NpyType type = arrays_.at(name).type;
  DP_TRY(const std::string bytes, bytes_of(name));
  std::vector<float> values(bytes.size() / type.bytes);
  data::visit_npy_type(type, [&]<typename T, bool kSwap>() {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(data::element_value<T, kSwap>(bytes.data() + i * type.bytes));
    return 0;
  });
  if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
    return damaged(str("the array `", name, "` has a number that is not finite"));
  return values;
}

Result<std::vector<uint64_t>> WeightsFile::keys(const std::string& name) const {
  const data::NpyType type = arrays_.at(name).type;
  if (type.kind != 'i' && type.kind != 'u')
    return damaged(str("the keys `", name, "` are ", data::npy_type_name(type), ", not integers"));
  DP_TRY(const std::string bytes, bytes_of(name));
  std::vector<uint64_t> keys(bytes.size() / type.bytes);
  bool negative = false;
  data::visit_npy_type(type, [&]<typename T, bool kSwap>() {
    if constexpr (std::is_integral_v<T>) {
      for (size_t i = 0; i < keys.size(); ++i) {
        const T key = data::load_element<T, kSwap>(bytes.data() + i * type.bytes);
        if constexpr (std::is_signed_v<T>) negative |= key < 0;
        keys[i] = uint64_t(key);
      }
    }
    return 0;
  });
  if (negative) return damaged(str("the keys `", name, "` contain a negative number"));
  return keys;
}

}  // namespace downpour::chief
