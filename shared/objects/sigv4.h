// AWS Signature Version 4 of a GET, in its Authorization header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace downpour::objects {

struct Credentials {
  std::string key_id, secret;
  std::string token;  // of a session; may be empty
};

/// Names and values, not encoded.
using Parameters = std::vector<std::pair<std::string, std::string>>;

struct GetRequest {
  std::string host;    // as in the Host header: with a port that is not the scheme's
  std::string path;    // encoded, begins with '/'
  Parameters query;    // in any order
  Parameters headers;  // besides Host; names in lower case
};

/// RFC 3986 as the signature wants it: all but A-Z a-z 0-9 - . _ ~ as %XX; '/' stays where
/// `keep_slashes`.
std::string percent_encode(std::string_view text, bool keep_slashes);
/// "a=1&b=2", encoded and sorted by names, then values; empty without parameters.
std::string query_text(const Parameters& query);

/// The request's headers (but Host), with x-amz-content-sha256, x-amz-date, the session's token and
/// Authorization added. `unix_time_s` is the time of the request, which a store accepts for 15
/// minutes. Source: AWS, "Signature Calculations for the Authorization Header" (S3's own rules: the
/// path is encoded once).
Parameters sign_get(const GetRequest& request, const Credentials& credentials,
                    std::string_view region, int64_t unix_time_s);

}  // namespace downpour::objects
