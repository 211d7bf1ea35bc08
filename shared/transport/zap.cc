#include "shared/transport/zap.h"

#include <algorithm>
#include <cstring>

namespace downpour::transport {
namespace {

constexpr std::string_view kVersion = "1.0";
constexpr std::string_view kAdmitted = "200";
constexpr std::string_view kRefused = "400";
// frames of a request: version, id, domain, address, identity, mechanism, key
constexpr size_t kIdAt = 1;
constexpr size_t kFrames = 7;
constexpr size_t kStatusAt = 2;

std::vector<std::string> answer(std::string id, std::string_view status, std::string_view text,
                                std::string user) {
  return {std::string(kVersion), std::move(id),   std::string(status),
          std::string(text),     std::move(user), std::string()};
}

}  // namespace

Result<ZapRequest> parse_zap_request(std::span<const std::string_view> frames) {
  if (frames.size() != kFrames || frames[0] != kVersion)
    return Error{ErrorCode::kMalformed, "not a request of ZAP 1.0"};
  ZapRequest request{.id = std::string(frames[kIdAt]),
                     .domain = std::string(frames[2]),
                     .address = std::string(frames[3])};
  if (frames[5] != "CURVE" || frames[6].size() != request.key.size())
    return Error{ErrorCode::kMalformed, "the mechanism is not CURVE with a key of 32 bytes"};
  std::memcpy(request.key.data(), frames[6].data(), request.key.size());
  return request;
}

std::vector<std::string> answer_zap(const ZapRequest& request, const AllowList* allowed) {
  const bool known = allowed != nullptr && allowed->find(request.key) != nullptr;
  if (!known) return answer(request.id, kRefused, "this key is not allowed", "");
  return answer(request.id, kAdmitted, "OK", hex_of(request.key));
}

std::vector<std::string> refuse_zap(std::span<const std::string_view> frames) {
  return answer(frames.size() > kIdAt ? std::string(frames[kIdAt]) : std::string(), kRefused,
                "not a request with a key", "");
}

bool is_admitted(const std::vector<std::string>& answer) {
  return answer.size() > kStatusAt && answer[kStatusAt] == kAdmitted;
}

}  // namespace downpour::transport
