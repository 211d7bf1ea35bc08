// Keys: what identifies a process of a cluster, and the list of the public keys that may connect.
// Texts and lookups only; key_folder.h reads and writes the files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/messages.h"
#include "shared/wire/peer_identity.h"

namespace downpour::transport {

/// A Curve25519 key, public or secret.
using Key = std::array<uint8_t, 32>;

/// 64 hexadecimal digits.
std::string hex_of(const Key& key);
/// Nothing where `text` is not exactly 64 hexadecimal digits.
std::optional<Key> key_from_hex(std::string_view text);

struct KeyPair {
  Key public_key{};
  Key secret_key{};
};
/// A new random pair. Errors: kUnsupported where the library has no CURVE.
Result<KeyPair> make_key_pair();
/// The public key that belongs to a secret one.
Result<Key> public_key_of(const Key& secret_key);

using wire::role_text;
std::optional<wire::Role> role_from_text(std::string_view text);

/// One line of an allow-list: a process that holds the secret key may connect, in this role.
struct AllowedKey {
  wire::Role role{};
  std::string name;  // unique in the list; also the name of its secret file
  Key key{};
  bool operator==(const AllowedKey&) const = default;
};

/// Names follow [A-Za-z0-9_][A-Za-z0-9_.-]{0,127}, so that they are safe in paths and logs.
bool is_key_name(std::string_view name);

/// The public keys that may connect, each with its role and name. Text form: one line a key, "ROLE
/// NAME KEY"; empty lines and lines that begin with # are comments.
class AllowList {
 public:
  static constexpr size_t kBytesMax = 1 << 20;
  static constexpr size_t kKeysMax = 8192;

  /// Errors: kConfig naming `where` and the line: not of that form, a key or a name twice.
  static Result<AllowList> parse(std::string_view text, const std::string& where);
  /// The text form, with a comment that explains it.
  std::string text() const;

  /// Null: the key may not connect.
  const AllowedKey* find(const Key& key) const;
  const AllowedKey* find_name(std::string_view name) const;
  /// The only key of the role. Errors: kConfig where there is none, or several.
  Result<Key> only_key_of(wire::Role role, const std::string& where) const;
  const std::vector<AllowedKey>& keys() const { return keys_; }
  /// `key`'s name and key must be new.
  void add(AllowedKey key);
  void remove(std::string_view name);

 private:
  std::vector<AllowedKey> keys_;  // ascending by key
};

/// An endpoint text carries the public key of the process that listens there:
/// "tcp://host:port?key=HEX".
struct KeyedEndpoint {
  std::string endpoint;    // without the key
  std::optional<Key> key;  // none: the text carries none
};
/// Errors: kConfig where something other than "key=HEX" follows a '?' of a tcp endpoint.
Result<KeyedEndpoint> split_key(const std::string& endpoint);
std::string with_key(const std::string& endpoint, const Key& key);

}  // namespace downpour::transport
