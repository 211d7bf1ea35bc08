// Keys: the identities of processes of a cluster, and the list of public keys that may connect.
// Only texts and lookups; key_folder.h reads and writes the files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/member_messages.h"
#include "shared/wire/peer_identity.h"

namespace downpour::transport {

/// A Curve25519 key, public or secret.
using Key = std::array<uint8_t, 32>;

/// Returns 64 hexadecimal digits.
std::string hex_of(const Key& key);
/// Parses exactly 64 hexadecimal digits. Returns nothing for any other text.
std::optional<Key> key_from_hex(std::string_view text);

struct KeyPair {
  Key public_key{};
  Key secret_key{};
};
/// Returns a new random pair. Errors: kUnsupported if the library has no CURVE.
Result<KeyPair> make_key_pair();
/// Returns the public key of a secret key.
Result<Key> public_key_of(const Key& secret_key);

using wire::role_text;
std::optional<wire::Role> role_from_text(std::string_view text);

/// One line of the list: a process with the secret key may connect in this role.
struct AllowedKey {
  wire::Role role{};
  std::string name;  // unique in the list; also the name of the secret file
  Key key{};
  bool operator==(const AllowedKey&) const = default;
};

/// Returns true if the name matches [A-Za-z0-9_][A-Za-z0-9_.-]{0,127}, so that it is safe in paths
/// and logs.
bool is_key_name(std::string_view name);

/// The public keys that may connect, each with a role and a name. The text form has one line per
/// key, "ROLE NAME KEY". Empty lines and lines that begin with # are ignored.
class AllowList {
 public:
  static constexpr size_t kBytesMax = 1 << 20;
  static constexpr size_t kKeysMax = 8192;

  /// Parses the text form. Errors: kConfig, naming `where` and the line: a malformed line, or a
  /// repeated key or name.
  static Result<AllowList> parse(std::string_view text, const std::string& where);
  /// Returns the text form, with a comment that explains it.
  std::string text() const;

  /// Returns null if the key may not connect.
  const AllowedKey* find(const Key& key) const;
  const AllowedKey* find_name(std::string_view name) const;
  /// Returns the only key of the role. Errors: kConfig if there is none or more than one.
  Result<Key> only_key_of(wire::Role role, const std::string& where) const;
  const std::vector<AllowedKey>& keys() const { return keys_; }
  /// Adds a key. Its name and key must be new.
  void add(AllowedKey key);
  void remove(std::string_view name);

 private:
  std::vector<AllowedKey> keys_;  // ascending by key
};

/// An endpoint with the public key of the listening process: "tcp://host:port?key=HEX".
struct KeyedEndpoint {
  std::string endpoint;    // without the key
  std::optional<Key> key;  // none: the text has no key
};
/// Splits a text into endpoint and key. Errors: kConfig if a '?' in a tcp endpoint is not followed
/// by "key=HEX".
Result<KeyedEndpoint> split_key(const std::string& endpoint);
std::string with_key(const std::string& endpoint, const Key& key);

}  // namespace downpour::transport
