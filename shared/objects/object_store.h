// ObjectStore: lists objects and reads ranges of them. Retries requests that may succeed later.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/objects/http.h"
#include "shared/objects/listing.h"
#include "shared/objects/object_path.h"
#include "shared/objects/store_settings.h"

namespace downpour::objects {

/// Maximum size of an object: 1 PiB. (S3 allows 50 TiB.) If a store reports a larger object, the
/// call fails with kMalformed.
constexpr uint64_t kObjectBytesMax = uint64_t{1} << 50;

/// Describes the range of an object that read() has read.
struct ObjectPiece {
  size_t bytes = 0;           // size of the range
  uint64_t object_bytes = 0;  // size of the whole object
  std::string etag;           // changes with the object; empty for an empty object
};

/// Returns the time in nanoseconds between attempt number `attempt` (starting at 1) and the next
/// one: a random time between half of the backoff and the whole backoff, chosen by `seed`. The
/// backoff is `first_wait_ns` after the first attempt, and doubles with each attempt up to 10 s.
int64_t wait_before_ns(uint32_t attempt, int64_t first_wait_ns, uint64_t seed);

/// Has one connection. Only one thread may use it at a time. Errors of all calls: kPermission;
/// kNoInput if the bucket or object does not exist; kBadData if the object has changed; kConfig if
/// the bucket is in another region; kIo if the retries fail; kMalformed if the reply is not that of
/// a store; kUnsupported if the store has no ranges or ETags.
class ObjectStore {
 public:
  explicit ObjectStore(StoreSettings settings) : settings_(std::move(settings)) {}

  /// Reads up to `size` (at least 1) bytes from `offset`; fewer only at the end of the object. If
  /// `etag` is not empty and differs from the object's, fails with kBadData.
  Result<ObjectPiece> read(const ObjectName& object, uint64_t offset, char* to, size_t size,
                           const std::string& etag);

  /// Returns a page of the keys that begin with `prefix`, in the store's order. `flat` leaves out
  /// keys with a '/' after the prefix. `next` is that of the previous page; empty for the first
  /// page.
  Result<ListingPage> list(const std::string& bucket, const std::string& prefix, bool flat,
                           const std::string& next);

 private:
  /// Signs the request, sends it and returns the reply.
  HttpReply send(const std::string& bucket, const std::string& key, const Parameters& query,
                 const Parameters& headers, int body_status,
                 const std::function<bool(const char*, size_t)>& body);
  /// Returns the error for a reply that is not a success.
  Error refused(const std::string& path, const HttpReply& reply) const;

  StoreSettings settings_;
  HttpConnection connection_;
};

/// Returns the paths that a path or a glob names, sorted by bytes; never empty. `*`, `?` and
/// `[...]` work as for files: they match neither '/' nor a '.' at the start of a name. Sends no
/// request for a path without them. If an object has exactly the name of the glob, returns only
/// that object. Errors: those of ObjectStore; kConfig if a glob matches or lists too many objects;
/// kNoInput if it matches none, with a hint that names the most similar key.
Result<std::vector<std::string>> expand_object_path(ObjectStore& store, const std::string& path);

/// Lists similar keys and returns a hint: "did you mean s3://bucket/train.tsv?". Returns an empty
/// text if listing fails.
std::string nearest_key_hint(ObjectStore& store, const ObjectName& wanted);

}  // namespace downpour::objects
