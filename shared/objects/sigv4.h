// sign_get: signs a GET with AWS Signature Version 4, in its Authorization header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace downpour::objects {

struct Credentials {
  std::string key_id, secret;
  std::string token;  // session token; may be empty
};

/// Pairs of name and value, not encoded.
using Parameters = std::vector<std::pair<std::string, std::string>>;

struct GetRequest {
  std::string host;    // as in the Host header; with a port unless it is the scheme's default
  std::string path;    // encoded, begins with '/'
  Parameters query;    // in any order
  Parameters headers;  // all but Host; names in lower case
};

/// Encodes text as the signature requires (RFC 3986): all bytes but A-Z a-z 0-9 - . _ ~ become %XX.
/// With `keep_slashes`, '/' is kept.
std::string percent_encode(std::string_view text, bool keep_slashes);
/// Returns the query "a=1&b=2", encoded and sorted by name, then value; empty without parameters.
std::string query_text(const Parameters& query);

/// Returns the request's headers (without Host), and in addition x-amz-content-sha256, x-amz-date,
/// the session token if there is one, and Authorization. `unix_time_s` is the time of the request
/// in seconds; a store accepts the signature for 15 minutes. Source: AWS, "Signature Calculations
/// for the Authorization Header" (by the rules of S3, the path is encoded only once).
Parameters sign_get(const GetRequest& request, const Credentials& credentials,
                    std::string_view region, int64_t unix_time_s);

}  // namespace downpour::objects
