// StoreSettings: address and credentials of the store. They come only from the environment.
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
  std::string endpoint;  // "http://host:9000"; empty: AWS in `region`
  std::string region = "us-east-1";
  std::optional<Credentials> credentials;      // without them, requests are not signed
  std::string ca_bundle;                       // see HttpGet
  int64_t first_wait_ns = 200 * kMillisecond;  // full wait before the first retry
  int64_t stall_s = kStallSeconds;             // see HttpGet
  int64_t patience_ns = 45 * kSecond;          // limit without progress; then kIo
};

/// Returns the value of an environment variable, or null if it is not set.
using Variables = std::function<const char*(const char* name)>;

/// Returns the settings from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or
/// AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and
/// AWS_CA_BUNDLE. An empty variable counts as not set. Error kConfig names the variable, and never
/// contains its value.
Result<StoreSettings> settings_from(const Variables& variables);

/// Returns the settings from the environment of this process.
Result<StoreSettings> settings_from_environment();

/// The address of a bucket, split into its parts.
struct StoreAddress {
  std::string scheme, host;  // "https", "s3.eu-west-1.amazonaws.com"
  std::string base_path;     // the path before the key, without a '/' at its end
};
StoreAddress address_of(const StoreSettings& settings, const std::string& bucket);

}  // namespace downpour::objects
