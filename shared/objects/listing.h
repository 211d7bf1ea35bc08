// What a store says in XML: pages of ListObjectsV2, and errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour::objects {

inline constexpr size_t kKeyBytesMax = 4096;  // S3's are at most 1024

struct ListingPage {
  std::vector<std::string> keys;  // decoded, as they came
  std::string next;               // the token of the next page; empty: this is the last
};

/// Errors: kMalformed for what is no such page, whatever else it is; a document type is refused, so
/// there are no entities but XML's own.
Result<ListingPage> parse_listing(std::string_view xml);

struct StoreRefusal {
  std::string code;    // "NoSuchKey"; empty: none was given, or no plain word
  std::string region;  // where the bucket is, if that is what is wrong
};
/// Of an answer that is no success; anything may be in it.
StoreRefusal parse_refusal(std::string_view xml);

}  // namespace downpour::objects
