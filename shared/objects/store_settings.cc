#include "shared/objects/store_settings.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace downpour::objects {
namespace {

struct Variable {
  std::string name, value;
};

/// Returns the first of these variables that is set and not empty; otherwise one without a name.
Variable first_of(const Variables& variables, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = variables(name);
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {};
}

Error bad_variable(const std::string& name, const std::string& what, const std::string& hint) {
  return Error{ErrorCode::kConfig, str("the environment variable ", name, " ", what), name, hint};
}

bool is_plain(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

/// Checks that a value has only visible ASCII characters, because it becomes a part of a header.
Result<void> check_secret(const Variable& variable) {
  const bool good = std::all_of(variable.value.begin(), variable.value.end(),
                                [](char c) { return c > ' ' && c < 0x7f; });
  if (good) return {};
  return bad_variable(variable.name, "contains a space, a line break or a non-ASCII character",
                      "set it again without these characters");
}

Result<void> check_endpoint(const Variable& variable) {
  std::string_view rest = variable.value;
  const size_t scheme = rest.find("://");
  const bool http = rest.starts_with("http://") || rest.starts_with("https://");
  if (http) rest.remove_prefix(scheme + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  if (http && slash > 0 && is_plain(rest.substr(0, slash), ".-_:[]") &&
      is_plain(rest.substr(slash), "/.-_~"))
    return {};
  return bad_variable(variable.name, "is not an address of a store",
                      "write http://HOST:PORT or https://HOST, without user, password or query");
}

}  // namespace

Result<StoreSettings> settings_from(const Variables& variables) {
  StoreSettings settings;
  if (const Variable endpoint = first_of(variables, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
      !endpoint.name.empty()) {
    DP_TRY_VOID(check_endpoint(endpoint));
    settings.endpoint = endpoint.value;
    while (settings.endpoint.back() == '/') settings.endpoint.pop_back();
  }
  if (const Variable region = first_of(variables, {"AWS_REGION", "AWS_DEFAULT_REGION"});
      !region.name.empty()) {
    if (!is_plain(region.value, "-_"))
      return bad_variable(region.name, "is not a region name", "for example us-east-1");
    settings.region = region.value;
  }
  settings.ca_bundle = first_of(variables, {"AWS_CA_BUNDLE"}).value;
  const Variable key_id = first_of(variables, {"AWS_ACCESS_KEY_ID"});
  const Variable secret = first_of(variables, {"AWS_SECRET_ACCESS_KEY"});
  const Variable token = first_of(variables, {"AWS_SESSION_TOKEN"});
  if (key_id.name.empty() != secret.name.empty()) {
    const char* const absent = key_id.name.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY";
    return bad_variable(absent, "is not set, but the other part of the credentials is",
                        "set both, or neither for a public bucket");
  }
  if (key_id.name.empty()) return settings;
  for (const Variable& variable : {key_id, secret, token}) DP_TRY_VOID(check_secret(variable));
  settings.credentials = Credentials{key_id.value, secret.value, token.value};
  return settings;
}

Result<StoreSettings> settings_from_environment() {
  return settings_from([](const char* name) { return std::getenv(name); });
}

StoreAddress address_of(const StoreSettings& settings, const std::string& bucket) {
  if (!settings.endpoint.empty()) {
    const size_t host = settings.endpoint.find("://") + 3;
    const size_t path = std::min(settings.endpoint.find('/', host), settings.endpoint.size());
    return {settings.endpoint.substr(0, host - 3), settings.endpoint.substr(host, path - host),
            str(settings.endpoint.substr(path), "/", bucket)};
  }
  const std::string host = str("s3.", settings.region, ".amazonaws.com",
                               settings.region.starts_with("cn-") ? ".cn" : "");
  // A bucket with a dot or an underscore can't be a part of the host name: the certificate of
  // *.s3.REGION.amazonaws.com does not cover more dots, and host names have no underscores.
  if (bucket.find_first_of("._") != std::string::npos) return {"https", host, "/" + bucket};
  return {"https", str(bucket, ".", host), ""};
}

}  // namespace downpour::objects
