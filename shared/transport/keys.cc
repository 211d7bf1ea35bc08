#include "shared/transport/keys.h"

#include <algorithm>
#include <set>

#include "shared/base/plain_name.h"
#include "shared/base/str.h"

namespace downpour::transport {
namespace {

constexpr std::string_view kKeyField = "?key=";

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Takes the next word from `line`. Returns an empty word at its end.
std::string_view take_word(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
  const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

Error bad_list(const std::string& where, size_t line, std::string what) {
  return {ErrorCode::kConfig, std::move(what), str(where, ":", line),
          "write ROLE NAME KEY on each line; `downpour keys FOLDER` creates the list", "DP-2713"};
}

bool before(const AllowedKey& a, const Key& key) { return a.key < key; }

}  // namespace

std::string hex_of(const Key& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * key.size());
  for (const uint8_t byte : key) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<Key> key_from_hex(std::string_view text) {
  Key key{};
  if (text.size() != 2 * key.size()) return std::nullopt;
  for (size_t i = 0; i < key.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key[i] = uint8_t(high << 4 | low);
  }
  return key;
}

std::optional<wire::Role> role_from_text(std::string_view text) {
  for (const wire::Role role :
       {wire::Role::kChief, wire::Role::kPs, wire::Role::kWorker, wire::Role::kInput}) {
    if (text == role_text(role)) return role;
  }
  return std::nullopt;
}

bool is_key_name(std::string_view name) { return is_plain_name(name); }

Result<AllowList> AllowList::parse(std::string_view text, const std::string& where) {
  AllowList list;
  if (text.size() > kBytesMax)
    return bad_list(where, 1, str("the list has more than ", kBytesMax, " bytes"));
  std::set<std::string_view> names;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view role_word = take_word(line);
    if (role_word.empty() || role_word[0] == '#') continue;
    const std::string_view name = take_word(line);
    const auto key = key_from_hex(take_word(line));
    const auto role = role_from_text(role_word);
    if (!role) return bad_list(where, number, "the role is not chief, ps, worker or input");
    if (!is_key_name(name))
      return bad_list(where, number,
                      "the name contains characters other than letters, digits, `_`, `-` and `.`");
    if (!key) return bad_list(where, number, "the key is not 64 hexadecimal digits");
    if (!take_word(line).empty()) return bad_list(where, number, "text follows the key");
    if (list.keys_.size() == kKeysMax)
      return bad_list(where, number, str("the list has more than ", kKeysMax, " keys"));
    if (!names.insert(name).second) return bad_list(where, number, "the name is listed twice");
    list.keys_.push_back({*role, std::string(name), *key});
  }
  std::sort(list.keys_.begin(), list.keys_.end(),
            [](const AllowedKey& a, const AllowedKey& b) { return a.key < b.key; });
  const auto twice =
      std::adjacent_find(list.keys_.begin(), list.keys_.end(),
                         [](const AllowedKey& a, const AllowedKey& b) { return a.key == b.key; });
  if (twice != list.keys_.end())
    return bad_list(where, 1, str("`", twice->name, "` has the same key as another name"));
  return list;
}

std::string AllowList::text() const {
  std::string text =
      "# The public keys that may connect to this cluster: role, name, key. Nothing here is "
      "secret,\n"
      "# but only the owner may write it. Running processes read it again when it changes.\n";
  std::vector<AllowedKey> sorted = keys_;
  std::sort(sorted.begin(), sorted.end(), [](const AllowedKey& a, const AllowedKey& b) {
    return std::pair(a.role, a.name) < std::pair(b.role, b.name);
  });
  for (const AllowedKey& key : sorted)
    text += str(role_text(key.role), " ", key.name, " ", hex_of(key.key), "\n");
  return text;
}

const AllowedKey* AllowList::find(const Key& key) const {
  const auto found = std::lower_bound(keys_.begin(), keys_.end(), key, before);
  return found != keys_.end() && found->key == key ? &*found : nullptr;
}

const AllowedKey* AllowList::find_name(std::string_view name) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const auto& key) { return key.name == name; });
  return found == keys_.end() ? nullptr : &*found;
}

Result<Key> AllowList::only_key_of(wire::Role role, const std::string& where) const {
  const AllowedKey* found = nullptr;
  size_t count = 0;
  for (const AllowedKey& key : keys_) {
    if (key.role != role) continue;
    found = &key;
    ++count;
  }
  if (count == 1) return found->key;
  return Error{ErrorCode::kConfig,
               str("the list has ", count, " keys of the role ", role_text(role),
                   ", but exactly one is expected"),
               where, str("keep only one line of the role ", role_text(role)), "DP-2713"};
}

void AllowList::add(AllowedKey key) {
  DP_CHECK(find(key.key) == nullptr && find_name(key.name) == nullptr, key.name);
  keys_.insert(std::lower_bound(keys_.begin(), keys_.end(), key.key, before), std::move(key));
}

void AllowList::remove(std::string_view name) {
  std::erase_if(keys_, [&](const AllowedKey& key) { return key.name == name; });
}

Result<KeyedEndpoint> split_key(const std::string& endpoint) {
  const size_t mark = endpoint.starts_with("tcp://") ? endpoint.find('?') : std::string::npos;
  if (mark == std::string::npos) return KeyedEndpoint{endpoint, std::nullopt};
  const std::string_view field = std::string_view(endpoint).substr(mark);
  const auto key =
      field.starts_with(kKeyField) ? key_from_hex(field.substr(kKeyField.size())) : std::nullopt;
  if (!key) {
    return Error{ErrorCode::kConfig,
                 str('"', endpoint, "\" has no key of 64 hexadecimal digits after its port"), "",
                 "write tcp://HOST:PORT?key=KEY, or only tcp://HOST:PORT", "DP-2713"};
  }
  return KeyedEndpoint{endpoint.substr(0, mark), key};
}

std::string with_key(const std::string& endpoint, const Key& key) {
  return str(endpoint, kKeyField, hex_of(key));
}

}  // namespace downpour::transport
