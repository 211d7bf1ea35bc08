// Replies of an object store: pages of keys, and error documents.
#include "shared/objects/listing.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"

namespace downpour::fuzz {
namespace {

constexpr std::string_view kMarkup[] = {"<Contents>",
                                        "</Contents>",
                                        "<Key>",
                                        "</Key>",
                                        "<Key/>",
                                        "<IsTruncated>true",
                                        "<!--",
                                        "-->",
                                        "<?x?>",
                                        "<!DOCTYPE x [<!ENTITY a \"&a;&a;\">]>",
                                        "&amp;",
                                        "&#0;",
                                        "&#xD800;",
                                        "&#x10ffff;",
                                        "&a;",
                                        "&",
                                        "%00",
                                        "%",
                                        "%zz",
                                        "+",
                                        "<ListBucketResult>",
                                        "</ListBucketResult>",
                                        "<Error><Code>",
                                        "</Code></Error>",
                                        "<a b='>'>",
                                        "<a/>",
                                        "'",
                                        "\""};

std::string escaped(const std::string& key) {
  std::string out;
  for (const char c : key) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

std::string page_of(const objects::ListingPage& page) {
  std::string text =
      "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3/\"><Name>b</Name>";
  for (const std::string& key : page.keys)
    text += str("<Contents><Key>", escaped(key), "</Key><Size>1</Size></Contents>");
  if (!page.next.empty())
    text += str("<IsTruncated>true</IsTruncated><NextContinuationToken>", escaped(page.next),
                "</NextContinuationToken>");
  return text + "</ListBucketResult>";
}

std::string page_seed(Rng& rng) {
  objects::ListingPage page;
  for (uint64_t n = rng.below(40); n > 0; --n)
    page.keys.push_back(str("a b+c/é&<", rng.below(1000)));
  if (one_in(rng, 2)) page.next = "token&=";
  std::string text = page_of(page);
  if (one_in(rng, 2)) text.insert(text.find("<Name>"), "<EncodingType>url</EncodingType>");
  return one_in(rng, 8) ? "<Error><Code>NoSuchKey</Code><Region>eu</Region></Error>" : text;
}

std::string check_page(const std::string& text) {
  const objects::StoreRefusal refusal = objects::parse_refusal(text);
  for (const std::string& word : {refusal.code, refusal.region}) {
    for (const char c : word)
      if (uint8_t(c) <= ' ' || uint8_t(c) >= 0x7f) return "a refusal's word is no plain one";
  }
  const auto page = objects::parse_listing(text);
  if (!page) return page.error().code == ErrorCode::kMalformed ? "" : "an error of another code";
  for (const std::string& key : page->keys) {
    if (key.empty() || key.size() > objects::kKeyBytesMax || key.find('\0') != std::string::npos)
      return "it contains an invalid key";
  }
  const auto again = objects::parse_listing(page_of(*page));
  if (!again) return str("what is written of it can't be read: ", again.error().what);
  return again->keys == page->keys && again->next == page->next ? ""
                                                                : "written again it is another";
}

}  // namespace

void add_store_targets(std::vector<Target>& out) {
  out.push_back({.name = "listing",
                 .make =
                     [](Rng& rng) {
                       std::string text = page_seed(rng);
                       if (!one_in(rng, 20)) mutate(text, page_seed(rng), kMarkup, rng);
                       return Input{.files = {std::move(text)}};
                     },
                 .run = [](const Input& input) { return check_page(input.files[0]); },
                 .memory_bytes_max = 64 * kMiB});
}

}  // namespace downpour::fuzz
