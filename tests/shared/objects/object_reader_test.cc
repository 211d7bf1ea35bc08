// ObjectReader: returns the bytes of an object in any order, and reads ahead to save requests.
#include "shared/objects/object_reader.h"

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "tests/support/stub_store.h"

namespace downpour::objects {
namespace {

using testing::StubStore;

std::string text_of(size_t bytes) {
  Rng rng(1);
  std::string text(bytes, '\0');
  for (char& c : text) c = char(rng.next());
  return text;
}

std::unique_ptr<ObjectReader> open(const StubStore& stub, const std::string& path) {
  return ObjectReader::open(path, {.endpoint = stub.endpoint(),
                                   .credentials = {},
                                   .ca_bundle = {},
                                   .first_wait_ns = 1000})
      .value();
}

TEST_CASE("reads of any size in any order return the bytes of the object", "[objects]") {
  const std::string text = text_of(3'000'000);
  StubStore stub;
  stub.put("b/k", text);
  const auto reader = open(stub, "s3://b/k");
  REQUIRE(reader->bytes() == text.size());
  Rng rng(2);
  std::string bytes(400'000, '\0');
  uint64_t at = 0;
  for (int i = 0; i < 300; ++i) {
    // The next bytes, bytes after a gap, earlier bytes, any offset, and an offset past the end.
    const uint64_t how = rng.below(5);
    if (how == 1) at += rng.below(100'000);
    if (how == 2) at -= rng.below(at + 1);
    if (how >= 3) at = rng.below(text.size() + 1000);
    const size_t size = 1 + size_t(rng.below(how == 4 ? bytes.size() : 5000));
    const size_t n = reader->read_at(at, bytes.data(), size).value();
    REQUIRE(n == (at < text.size() ? std::min<size_t>(size, text.size() - at) : 0));
    REQUIRE(std::string_view(bytes).substr(0, n) ==
            std::string_view(text).substr(std::min(at, text.size()), n));
    at += n;
  }
}

TEST_CASE("reading forward, with or without gaps, makes few requests", "[objects]") {
  const std::string text = text_of(20'000'000);
  StubStore stub;
  stub.put("b/k", text);
  const auto requests = [&](size_t piece, size_t hop) {
    const size_t before = stub.requests().size();
    const auto reader = open(stub, "s3://b/k");
    std::string bytes(piece, '\0');
    for (uint64_t at = 0; at < text.size(); at += hop)
      REQUIRE(reader->read_at(at, bytes.data(), piece).value() > 0);
    return stub.requests().size() - before;
  };
  CHECK(requests(10'000, 10'000) < 12);
  CHECK(requests(128, 50'000) < 12);
  CHECK(requests(8 << 20, 8 << 20) < 8);
  CHECK(stub.connections() == 1);
}

TEST_CASE("an empty object has no bytes, and the error for an absent one names a similar key",
          "[objects]") {
  StubStore stub;
  stub.put("b/empty", "");
  stub.put("b/train.tsv", "x");
  const auto reader = open(stub, "s3://b/empty");
  CHECK(reader->bytes() == 0);
  char byte = 0;
  CHECK(reader->read_at(0, &byte, 1).value() == 0);
  const Error error =
      ObjectReader::open("s3://b/trian.tsv",
                         {.endpoint = stub.endpoint(), .credentials = {}, .ca_bundle = {}})
          .error();
  CHECK(error.code == ErrorCode::kNoInput);
  CHECK(error.hint == "did you mean s3://b/train.tsv?");
}

TEST_CASE("an object that changes while it is read is an error", "[objects]") {
  StubStore stub;
  stub.put("b/k", text_of(1'000'000));
  const auto reader = open(stub, "s3://b/k");
  stub.put("b/k", text_of(1'000'000));
  std::string bytes(1000, '\0');
  CHECK(reader->read_at(0, bytes.data(), 1000).value() == 1000);  // read ahead by open()
  const Error error = reader->read_at(500'000, bytes.data(), 1000).error();
  CHECK(error.code == ErrorCode::kBadData);
  CHECK(error.where == "s3://b/k");
}

}  // namespace
}  // namespace downpour::objects
