// StoreSettings: where the store is, and who asks. From the environment only.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "shared/base/result.h"
#include "shared/base/units.h"
#include "shared/objects/http.h"
#include "shared/objects/sigv4.h"

namespace downpour::objects {

struct StoreSettings {
  std::string endpoint;  // "http://host:9000"; empty: AWS's own, by region
  std::string region = "us-east-1";
  std::optional<Credentials> credentials;  // none: requests are not signed
  std::string ca_bundle;                   // empty: the system's certificates
  int64_t first_wait_ns =
      200 * kMillisecond;              // before a request is made again; twice as long each time
  int64_t stall_s = kStallSeconds;     // see HttpGet
  int64_t patience_ns = 45 * kSecond;  // without progress: a read or a page then fails (kIo)
};

/// The value of an environment variable, or nullptr.
using Variables = std::function<const char*(const char* name)>;

/// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID,
/// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_CA_BUNDLE; an empty one counts as absent. Errors:
/// kConfig naming the variable, never its value.
Result<StoreSettings> settings_from(const Variables& variables);

/// Those of this process.
Result<StoreSettings> settings_from_environment();

/// An endpoint or AWS's address of a bucket, apart.
struct StoreAddress {
  std::string scheme, host;  // "https", "s3.eu-west-1.amazonaws.com"
  std::string base_path;     // before the key; no '/' at its end
};
StoreAddress address_of(const StoreSettings& settings, const std::string& bucket);

}  // namespace downpour::objects
