// Listing pages: valid pages, malformed pages, and error answers of a store.
#include "shared/objects/listing.h"

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

namespace downpour::objects {
namespace {

std::string page_of(const std::string& inside) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3/\">" +
         inside + "</ListBucketResult>";
}
std::string key_of(const std::string& key) { return "<Contents><Key>" + key + "</Key></Contents>"; }

TEST_CASE("a page has keys and the token of the next page", "[objects]") {
  const ListingPage page =
      parse_listing(
          page_of("<Name>b</Name><!-- <Key>no</Key> --><Prefix/><EncodingType>url"
                  "</EncodingType><IsTruncated>true</IsTruncated>"
                  "<NextContinuationToken>a&amp;b=</NextContinuationToken><Contents a='>'>"
                  "<Key>a+b%2Bc%26%C3%A9</Key><Size>3</Size><Owner><ID>x</ID></Owner>"
                  "</Contents><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>"))
          .value();
  CHECK(page.keys == std::vector<std::string>{"a b+c&é"});
  CHECK(page.next == "a&b=");
}

TEST_CASE("keys without url encoding are not decoded, and the last page has no token",
          "[objects]") {
  const ListingPage page =
      parse_listing(page_of(key_of("a+b%20&lt;&#233;&#x1F600;") +
                            "<IsTruncated>false</IsTruncated>"
                            "<NextContinuationToken>old</NextContinuationToken>"))
          .value();
  CHECK(page.keys == std::vector<std::string>{"a+b%20<é😀"});
  CHECK(page.next.empty());
}

TEST_CASE("text that is not a listing page is an error", "[objects]") {
  const std::string encoded = "<EncodingType>url</EncodingType>";
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  for (const std::string& text :
       {std::string(),
        std::string("hello"),
        std::string("<"),
        std::string("<html></html>"),
        std::string("<a></b>"),
        std::string("<ListBucketResult>"),
        std::string("</a>"),
        std::string("<ListBucketResult><Contents></ListBucketResult></Contents>"),
        std::string("<!DOCTYPE x [<!ENTITY a \"aaaa\">]><ListBucketResult/>"),
        page_of(key_of("&a;")),
        page_of(key_of("&#0;")),
        page_of(key_of("&#xD800;")),
        page_of(key_of("&#99999999999;")),
        page_of(key_of("&amp")),
        page_of(key_of("")),
        page_of(encoded + key_of("%0")),
        page_of(encoded + key_of("%zz")),
        page_of(encoded + key_of("a%00b")),
        page_of(key_of(std::string(5000, 'k'))),
        page_of("<IsTruncated>true</IsTruncated>"),
        page_of(deep),
        page_of("<a b=\"")}) {
    INFO(text.substr(0, 80));
    const auto page = parse_listing(text);
    REQUIRE_FALSE(page);
    CHECK(page.error().code == ErrorCode::kMalformed);
  }
  CHECK(parse_listing("<ListBucketResult/>")->keys.empty());
}

TEST_CASE("a page with changed or missing bytes is parsed or rejected", "[objects]") {
  const std::string page = page_of("<IsTruncated>false</IsTruncated>" + key_of("a&amp;b"));
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = page;
    for (uint64_t edits = 1 + rng.below(3); edits > 0; --edits)
      text[rng.below(text.size())] = "<>/&;'\"!-?aK\0"[rng.below(13)];
    if (rng.below(4) == 0) text.resize(rng.below(text.size()));
    const auto parsed = parse_listing(text);
    if (!parsed) CHECK(parsed.error().code == ErrorCode::kMalformed);
    (void)parse_refusal(text);
  }
}

TEST_CASE("the code of an error answer is kept only if it is a plain word", "[objects]") {
  CHECK(parse_refusal("<Error><Code>NoSuchKey</Code><Key>x</Key></Error>").code == "NoSuchKey");
  CHECK(parse_refusal("<Error><Code>A</Code><Region>eu-west-1</Region></Error>").region ==
        "eu-west-1");
  CHECK(parse_refusal("<Error><Code>\x1b[31mred</Code></Error>").code.empty());
  CHECK(parse_refusal("<Error><Code>" + std::string(1000, 'a') + "</Code></Error>").code.empty());
  CHECK(parse_refusal("<html>502").code.empty());
}

}  // namespace
}  // namespace downpour::objects
