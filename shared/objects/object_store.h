// ObjectStore: objects listed and read by ranges, tried again where that may help.
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

/// No object is larger: S3 allows 50 TiB. A store that claims more is an error (kMalformed).
constexpr uint64_t kObjectBytesMax = uint64_t{1} << 50;

/// What a range of an object was.
struct ObjectPiece {
  size_t bytes = 0;           // of it
  uint64_t object_bytes = 0;  // of all the object
  std::string etag;           // changes with the object; empty for an empty object
};

/// How long to wait before attempt `attempt` (from 1): doubled each time up to 10 s, of which a
/// half to all, by `seed`.
int64_t wait_before_ns(uint32_t attempt, int64_t first_wait_ns, uint64_t seed);

/// One connection; belongs to one thread at a time. Errors of all calls: kPermission; kNoInput for
/// an absent bucket or object; kBadData for an object that changed; kConfig for another region; kIo
/// for what did not get better; kMalformed for what is no answer of a store; kUnsupported.
class ObjectStore {
 public:
  explicit ObjectStore(StoreSettings settings) : settings_(std::move(settings)) {}

  /// Up to `size` (at least 1) bytes from `offset`, fewer only at the object's end. With an `etag`
  /// the object must be the one that had it.
  Result<ObjectPiece> read(const ObjectName& object, uint64_t offset, char* to, size_t size,
                           const std::string& etag);

  /// A page of the keys that begin with `prefix`, in the store's order; `flat` leaves out those
  /// with a '/' behind it. `next`: the page before's; empty for the first.
  Result<ListingPage> list(const std::string& bucket, const std::string& prefix, bool flat,
                           const std::string& next);

 private:
  /// Signs and sends.
  HttpReply send(const std::string& bucket, const std::string& key, const Parameters& query,
                 const Parameters& headers, int body_status,
                 const std::function<bool(const char*, size_t)>& body);
  Error refused(const std::string& path, const HttpReply& reply) const;

  StoreSettings settings_;
  HttpConnection connection_;
};

/// The objects that a path or a glob names, sorted byte by byte; never empty. `*`, `?` and `[...]`
/// as for files: they do not match '/', nor a '.' at the start of a name. A path without them is
/// not looked up. Errors: as ObjectStore's; kNoInput with the nearest key as hint.
Result<std::vector<std::string>> expand_object_path(ObjectStore& store, const std::string& path);

/// "did you mean s3://bucket/train.tsv?", by a look at what is there; empty where that fails.
std::string nearest_key_hint(ObjectStore& store, const ObjectName& wanted);

}  // namespace downpour::objects
