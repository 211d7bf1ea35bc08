#include "shared/objects/sigv4.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "shared/base/check.h"

namespace downpour::objects {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
// SHA-256 of an empty text, because a GET has no body.
constexpr std::string_view kNoBody =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string hex(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[uint8_t(c) >> 4];
    text += kDigits[uint8_t(c) & 15];
  }
  return text;
}

std::string sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  DP_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string hmac(const std::string& key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  DP_CHECK(HMAC(EVP_sha256(), key.data(), int(key.size()),
                reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
                &size) != nullptr);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

/// Formats a time as "20130524T000000Z".
std::string utc(int64_t unix_time_s) {
  const std::time_t time = unix_time_s;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
  return {text.data(), size};
}

}  // namespace

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes);
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kDigits[uint8_t(c) >> 4];
      out += kDigits[uint8_t(c) & 15];
    }
  }
  return out;
}

std::string query_text(const Parameters& query) {
  Parameters encoded;
  for (const auto& [name, value] : query)
    encoded.emplace_back(percent_encode(name, false), percent_encode(value, false));
  std::sort(encoded.begin(), encoded.end());
  std::string text;
  for (const auto& [name, value] : encoded) {
    if (!text.empty()) text += '&';
    text.append(name).append("=").append(value);
  }
  return text;
}

Parameters sign_get(const GetRequest& request, const Credentials& credentials,
                    std::string_view region, int64_t unix_time_s) {
  const std::string time = utc(unix_time_s);
  const std::string scope = time.substr(0, 8).append("/").append(region).append("/s3/aws4_request");
  Parameters headers = request.headers;
  headers.emplace_back("x-amz-content-sha256", kNoBody);
  headers.emplace_back("x-amz-date", time);
  if (!credentials.token.empty()) headers.emplace_back("x-amz-security-token", credentials.token);

  Parameters sorted = headers;
  sorted.emplace_back("host", request.host);
  std::sort(sorted.begin(), sorted.end());
  std::string names, lines;
  for (const auto& [name, value] : sorted) {
    names.append(names.empty() ? "" : ";").append(name);
    lines.append(name).append(":").append(value).append("\n");
  }
  const std::string canonical = "GET\n" + request.path + "\n" + query_text(request.query) + "\n" +
                                lines + "\n" + names + "\n" + std::string(kNoBody);
  const std::string to_sign =
      std::string(kAlgorithm) + "\n" + time + "\n" + scope + "\n" + hex(sha256(canonical));
  std::string key = hmac("AWS4" + credentials.secret, time.substr(0, 8));
  for (const std::string_view part :
       {region, std::string_view("s3"), std::string_view("aws4_request")})
    key = hmac(key, part);
  headers.emplace_back("authorization",
                       std::string(kAlgorithm) + " Credential=" + credentials.key_id + "/" + scope +
                           ",SignedHeaders=" + names + ",Signature=" + hex(hmac(key, to_sign)));
  return headers;
}

}  // namespace downpour::objects
