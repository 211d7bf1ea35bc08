#include "shared/objects/object_store.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fnmatch.h>
#include <optional>
#include <thread>

#include "shared/base/edit_distance.h"
#include "shared/base/hash.h"
#include "shared/base/human.h"
#include "shared/base/rng.h"

namespace downpour::objects {
namespace {

// Attempts while no server has ever replied to this process, because the address may be wrong.
constexpr uint32_t kFirstAttemptsMax = 4;
constexpr uint32_t kAttemptsMax = 10;  // per read or page; then kIo
// An attempt that yields fewer bytes is not progress, so StoreSettings::patience_ns continues to
// run. A very slow store thus fails a read like a silent one.
constexpr size_t kProgressBytes = size_t(kStallSeconds * kStallBytes);
constexpr int64_t kWaitNsMax = 10 * kSecond;         // between two attempts
constexpr size_t kPageBytesMax = size_t{16} << 20;   // a page has 1,000 keys; then kMalformed
constexpr size_t kPagesMax = 10'000;                 // per glob, for 10 million keys; then kConfig
constexpr size_t kMatchesMax = 1'000'000;            // per glob; then kConfig
constexpr size_t kMatchBytesMax = size_t{64} << 20;  // of the names that match a glob; then kConfig
constexpr size_t kComparedBytesMax = 255;            // longer keys are not compared for a hint
constexpr std::string_view kGlobMarks = "*?[\\";

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Counts the attempts of a request and decides whether there is another one.
class Attempts {
 public:
  explicit Attempts(const StoreSettings& settings) : settings_(settings) {}
  /// Waits before the next attempt. `bytes` is the number of bytes that the last one yielded.
  /// Returns false if there must not be another attempt.
  bool again(size_t bytes) {
    const int64_t now = now_ns();
    if (bytes >= kProgressBytes) since_ns_ = now;
    if (count_ == (HttpConnection::was_ever_answered() ? kAttemptsMax : kFirstAttemptsMax))
      return false;
    const int64_t wait = wait_before_ns(count_, settings_.first_wait_ns, uint64_t(now));
    if (now + wait - since_ns_ > settings_.patience_ns) return false;
    std::this_thread::sleep_for(std::chrono::nanoseconds(wait));
    ++count_;
    return true;
  }
  uint32_t count() const { return count_; }

 private:
  const StoreSettings& settings_;
  int64_t since_ns_ = now_ns();
  uint32_t count_ = 1;
};

bool is_done(const HttpReply& reply, int status) {
  return reply.status == status && reply.failure.empty();
}

/// Returns whether the same request may succeed later.
bool may_pass(const HttpReply& reply) {
  if (!reply.failure.empty()) return reply.may_pass;
  switch (reply.status) {
    case 206:  // with fewer bytes than requested
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return true;
    case 400:
      return parse_refusal(reply.text).code == "RequestTimeout";
    default:
      return false;
  }
}

std::string text_of(const HttpReply& reply) {
  if (!reply.failure.empty()) return reply.failure;
  const std::string code = parse_refusal(reply.text).code;
  return str("the store answered ", reply.status, code.empty() ? "" : " ", code);
}

struct ContentRange {
  uint64_t begin = 0, end = 0, total = 0;
};

/// Parses "bytes 0-9/443" to [0, 10) of 443. Returns nothing if the text is not valid.
std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  const char *p = text.data() + kUnit.size(), *const stop = text.data() + text.size();
  ContentRange range;
  uint64_t last = 0;
  const auto number = [&](uint64_t& value, char behind) {
    const auto read = std::from_chars(p, stop, value);
    if (read.ec != std::errc{}) return false;
    p = read.ptr;
    if (behind == 0) return p == stop;
    return p != stop && *p++ == behind;
  };
  if (!number(range.begin, '-') || !number(last, '/') || !number(range.total, 0))
    return std::nullopt;
  if (last < range.begin || last >= range.total) return std::nullopt;
  range.end = last + 1;
  return range;
}

Error changed(const std::string& path) {
  return Error{ErrorCode::kBadData,
               str("the object changed after the job started (its ETag is different): ", path),
               path,
               "when it is complete, run the same command again; if that is refused, because an "
               "epoch has begun, restore the data or start a new run with --fresh"};
}

std::string permission_hint(const std::string& code, bool is_signed) {
  if (code == "InvalidObjectState") return "the object is archived: restore it first";
  if (!is_signed) {
    return "the environment has no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
           "also on the machines of the workers";
  }
  if (code == "SignatureDoesNotMatch")
    return "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID, or AWS_REGION is wrong";
  if (code == "InvalidAccessKeyId") return "the store does not know this AWS_ACCESS_KEY_ID";
  if (code == "ExpiredToken" || code == "InvalidToken")
    return "get new credentials: AWS_SESSION_TOKEN is expired or invalid";
  if (code == "RequestTimeTooSkewed")
    return "correct this machine's clock: it differs from the store's clock";
  return "the credentials in the environment do not allow to list or read it, or it does not exist";
}

bool is_about_keys(const std::string& code) {
  return code == "ExpiredToken" || code == "InvalidToken" || code == "InvalidAccessKeyId" ||
         code == "SignatureDoesNotMatch" || code == "RequestTimeTooSkewed";
}

}  // namespace

int64_t wait_before_ns(uint32_t attempt, int64_t first_wait_ns, uint64_t seed) {
  const uint32_t doublings = std::min(attempt - 1, 16U);
  const int64_t whole = std::min(first_wait_ns << doublings, kWaitNsMax);
  return whole / 2 + int64_t(Rng(hash_combine(seed, attempt)).below(uint64_t(whole / 2 + 1)));
}

HttpReply ObjectStore::send(const std::string& bucket, const std::string& key,
                            const Parameters& query, const Parameters& headers, int body_status,
                            const std::function<bool(const char*, size_t)>& body) {
  const StoreAddress address = address_of(settings_, bucket);
  GetRequest request{.host = address.host, .query = query, .headers = headers};
  request.path = str(address.base_path, "/", percent_encode(key, /*keep_slashes=*/true));
  // If the bucket is part of the path, the path of the bucket itself has no '/' at its end.
  if (key.empty() && !address.base_path.empty()) request.path.pop_back();
  HttpGet get{.url = str(address.scheme, "://", address.host, request.path),
              .headers = headers,
              .ca_bundle = settings_.ca_bundle,
              .stall_s = settings_.stall_s,
              .body_status = body_status,
              .body = body};
  if (!query.empty()) get.url += "?" + query_text(query);
  if (settings_.credentials)
    get.headers = sign_get(request, *settings_.credentials, settings_.region, std::time(nullptr));
  get.headers.emplace_back("host", address.host);
  return connection_.get(get);
}

Error ObjectStore::refused(const std::string& path, const HttpReply& reply) const {
  StoreRefusal refusal = parse_refusal(reply.text);
  if (refusal.region.empty()) refusal.region = reply.region;
  const bool is_moved = reply.status == 301 || reply.status == 307 || reply.status == 400;
  if (!reply.failure.empty() || may_pass(reply)) {
    // A failure that is not temporary is most likely a certificate that is not trusted.
    const bool is_final = !reply.failure.empty() && !reply.may_pass;
    return Error{ErrorCode::kIo, str("can't read: ", text_of(reply)), path,
                 is_final ? "set AWS_CA_BUNDLE to a file with the store's CA certificates"
                 : settings_.endpoint.empty()
                     ? "check the network connection of this machine"
                     : "check that AWS_ENDPOINT_URL is the address of the store"};
  }
  if (reply.status == 401 || reply.status == 403 || is_about_keys(refusal.code)) {
    return Error{ErrorCode::kPermission, str("access denied (", text_of(reply), "): ", path), path,
                 permission_hint(refusal.code, settings_.credentials.has_value())};
  }
  if (is_moved && !refusal.region.empty() && refusal.region != settings_.region) {
    return Error{ErrorCode::kConfig, str("the bucket is in another region: ", path), path,
                 str("AWS_REGION=", refusal.region)};
  }
  if (refusal.code == "NoSuchBucket") {
    return Error{ErrorCode::kNoInput, str("no such bucket: ", path), path,
                 "check its name, and AWS_ENDPOINT_URL and AWS_REGION"};
  }
  if (reply.status == 404)
    return Error{ErrorCode::kNoInput, str("no such object: ", path), path, {}};
  return Error{ErrorCode::kIo, str("can't read: ", text_of(reply)), path,
               "check that AWS_ENDPOINT_URL is the address of the store"};
}

Result<ObjectPiece> ObjectStore::read(const ObjectName& object, uint64_t offset, char* to,
                                      size_t size, const std::string& etag) {
  DP_CHECK(size > 0);
  const std::string path = object.path();
  ObjectPiece piece{.etag = etag};
  Attempts attempts(settings_);
  for (;;) {
    const uint64_t begin = offset + piece.bytes;
    const size_t wanted = size - piece.bytes;
    size_t came = 0;
    bool is_too_much = false;
    Parameters headers = {{"range", str("bytes=", begin, "-", offset + size - 1)}};
    // If-Match never matches a weak tag. The check of the reply's ETag also detects a change.
    if (!piece.etag.empty() && !piece.etag.starts_with("W/"))
      headers.emplace_back("if-match", piece.etag);
    const HttpReply reply = send(object.bucket, object.key, {}, headers, 206,
                                 [&, at = to + piece.bytes](const char* bytes, size_t n) {
                                   is_too_much = n > wanted - came;
                                   if (is_too_much) return false;
                                   std::copy(bytes, bytes + n, at + came);
                                   came += n;
                                   return true;
                                 });
    if (reply.status == 206) {
      const auto range = parse_content_range(reply.content_range);
      if (!range || range->begin != begin || is_too_much || came > range->end - range->begin) {
        return Error{ErrorCode::kMalformed,
                     str("the store returned another byte range than requested: ", path), path};
      }
      if (range->total > kObjectBytesMax) {
        return Error{ErrorCode::kMalformed,
                     str("the store reports an object of ", grouped(range->total),
                         " bytes; at most ", grouped(kObjectBytesMax), " are allowed: ", path),
                     path, "check that AWS_ENDPOINT_URL is the address of the store"};
      }
      if (reply.etag.empty()) {
        return Error{
            ErrorCode::kUnsupported,
            str("the store returns no ETag, so Downpour could not detect a change: ", path), path};
      }
      // Some stores ignore If-Match.
      if (!piece.etag.empty() && piece.etag != reply.etag) return changed(path);
      piece.etag = reply.etag;
      piece.object_bytes = range->total;
      piece.bytes += came;
      if (piece.bytes == std::min<uint64_t>(size, range->total - std::min(offset, range->total)))
        return piece;
    } else if (reply.failure.empty()) {
      // The object has no byte 0, so it is empty.
      if (reply.status == 416 && begin == 0 && piece.etag.empty()) return piece;
      if (reply.status == 412 || reply.status == 416) return changed(path);
      if (reply.status == 200) {
        return Error{ErrorCode::kUnsupported,
                     str("the store does not support range requests: ", path), path,
                     "copy the objects to a local disk"};
      }
    }
    if (!may_pass(reply)) return refused(path, reply);
    if (!attempts.again(came))
      return refused(path, reply).with_context("after ", attempts.count(), " attempts");
  }
}

Result<ListingPage> ObjectStore::list(const std::string& bucket, const std::string& prefix,
                                      bool flat, const std::string& next) {
  Parameters query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}};
  if (flat) query.emplace_back("delimiter", "/");
  if (!next.empty()) query.emplace_back("continuation-token", next);
  const std::string path = str(kObjectScheme, bucket, "/", prefix);
  Attempts attempts(settings_);
  for (;;) {
    std::string xml;
    bool is_too_much = false;
    const HttpReply reply = send(bucket, "", query, {}, 200, [&](const char* bytes, size_t n) {
      is_too_much = n > kPageBytesMax - xml.size();
      if (is_too_much) return false;
      xml.append(bytes, n);
      return true;
    });
    if (is_done(reply, 200)) {
      auto page = parse_listing(xml);
      if (!page) page.error().where = path;
      return page;
    }
    if (is_too_much)
      return Error{ErrorCode::kMalformed, "the store's list of objects is too long", path};
    if (!may_pass(reply)) return refused(path, reply);
    if (!attempts.again(/*bytes=*/0))
      return refused(path, reply).with_context("after ", attempts.count(), " attempts");
  }
}

std::string nearest_key_hint(ObjectStore& store, const ObjectName& wanted) {
  std::string prefix = wanted.key.substr(0, wanted.key.find_first_of(kGlobMarks));
  for (;;) {
    const size_t slash = prefix.rfind('/');
    prefix.resize(slash == std::string::npos ? 0 : slash + 1);
    const auto page = store.list(wanted.bucket, prefix, /*flat=*/false, "");
    if (!page) return {};
    std::string best;
    size_t best_distance = SIZE_MAX;
    for (const std::string& key : page->keys) {
      if (key.size() > kComparedBytesMax || wanted.key.size() > kComparedBytesMax) continue;
      const size_t distance = edit_distance(wanted.key, key);
      if (distance < best_distance) best = key, best_distance = distance;
    }
    if (best_distance <= wanted.key.size() / 2)
      return str("did you mean ", ObjectName{wanted.bucket, best}.path(), "?");
    if (!best.empty())
      return str("a similar path exists: ", ObjectName{wanted.bucket, best}.path());
    if (prefix.empty()) return str("the bucket ", wanted.bucket, " has no objects");
    prefix.pop_back();  // the folder above
  }
}

Result<std::vector<std::string>> expand_object_path(ObjectStore& store, const std::string& path) {
  DP_TRY(const ObjectName name, parse_object_path(path));
  const size_t mark = name.key.find_first_of(kGlobMarks);
  if (mark == std::string::npos) return std::vector{path};
  const std::string prefix = name.key.substr(0, mark);
  const bool flat = name.key.find('/', mark) == std::string::npos;
  std::vector<std::string> found;
  size_t found_bytes = 0;
  bool is_meant_itself = false;
  std::string next;
  for (size_t pages = 0;; ++pages) {
    DP_TRY(ListingPage page, store.list(name.bucket, prefix, flat, next));
    for (std::string& key : page.keys) {
      is_meant_itself = is_meant_itself || key == name.key;
      if (::fnmatch(name.key.c_str(), key.c_str(), FNM_PATHNAME | FNM_PERIOD) != 0) continue;
      found.push_back(ObjectName{name.bucket, std::move(key)}.path());
      found_bytes += found.back().size();
    }
    if (found.size() > kMatchesMax || found_bytes > kMatchBytesMax || pages == kPagesMax) {
      return Error{ErrorCode::kConfig, str("the glob matches or scans too many objects: ", path),
                   path, "use a longer prefix before the first *, or fewer and larger objects"};
    }
    if (page.next.empty()) break;
    if (page.next == next)
      return Error{ErrorCode::kMalformed, "the store returned the same continuation token twice",
                   path};
    next = std::move(page.next);
  }
  if (is_meant_itself) return std::vector{path};  // a key may look like a glob
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (!found.empty()) return found;
  return Error{ErrorCode::kNoInput, str("no object matches ", path), path,
               nearest_key_hint(store, name)};
}

}  // namespace downpour::objects
