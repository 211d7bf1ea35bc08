// Parsers for a store's XML: pages of ListObjectsV2, and error replies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace downpour::objects {

inline constexpr size_t kKeyBytesMax = 4096;  // S3 allows 1024

struct ListingPage {
  std::vector<std::string> keys;  // decoded, in the order of the page
  std::string next;               // token of the next page; empty for the last page
};

/// Parses a page of ListObjectsV2. Error kMalformed if the text is anything else. Rejects document
/// types, so the only entities are those of XML itself.
Result<ListingPage> parse_listing(std::string_view xml);

struct StoreRefusal {
  std::string code;    // "NoSuchKey"; empty: none, or not a plain word
  std::string region;  // region of the bucket, if the request used another one
};
/// Parses the body of an error reply. The body may be anything, for example not XML.
StoreRefusal parse_refusal(std::string_view xml);

}  // namespace downpour::objects
