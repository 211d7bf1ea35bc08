#include "shared/objects/listing.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace downpour::objects {
namespace {

constexpr size_t kDepthMax = 16;
constexpr size_t kNameBytesMax = 128;  // of an element's name
constexpr size_t kWordBytesMax = 64;   // of an error's code

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xc0 | code >> 6);
    out += char(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += char(0xe0 | code >> 12);
    out += char(0x80 | (code >> 6 & 0x3f));
    out += char(0x80 | (code & 0x3f));
  } else {
    out += char(0xf0 | code >> 18);
    out += char(0x80 | (code >> 12 & 0x3f));
    out += char(0x80 | (code >> 6 & 0x3f));
    out += char(0x80 | (code & 0x3f));
  }
}

/// Appends the character of an entity ("amp" or "#x41"). Returns false if there is no such entity.
bool append_entity(std::string& out, std::string_view name) {
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [known, c] : kNamed) {
    if (known == name) {
      out += c;
      return true;
    }
  }
  if (!name.starts_with('#')) return false;
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x');
  if (is_hex) name.remove_prefix(1);
  uint32_t code = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), code, is_hex ? 16 : 10);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (read.ec != std::errc{} || read.ptr != name.data() + name.size() || code == 0 ||
      code > 0x10ffff || surrogate)
    return false;
  append_utf8(out, code);
  return true;
}

std::optional<std::string> unescaped(std::string_view text) {
  constexpr size_t kEntityBytesMax = 12;
  std::string out;
  while (!text.empty()) {
    const size_t at = std::min(text.find('&'), text.size());
    out += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    const size_t end = text.substr(0, kEntityBytesMax).find(';');
    if (end == text.npos || !append_entity(out, text.substr(1, end - 1))) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  return out;
}

/// Iterates over the tags of a document. Knows only the rules of XML that these pages need.
class XmlScanner {
 public:
  explicit XmlScanner(std::string_view xml) : rest_(xml) {}

  /// Moves past the next tag. is_at() then refers to the element that the tag opens or closes.
  /// `text` is the text before the tag, and `closes` says whether the tag closes an element.
  /// Returns false at the end of the document, or if the document is not valid (is_bad()).
  bool next() {
    closes = false;
    text = {};
    if (open_then_close_) {  // <A/>
      open_then_close_ = false;
      return close(stack_.back());
    }
    for (;;) {
      const size_t at = rest_.find('<');
      if (at == rest_.npos) return end();
      text = rest_.substr(0, at);
      rest_.remove_prefix(at);
      if (rest_.starts_with("<?")) {
        if (!skip_behind("?>")) return bad();
      } else if (rest_.starts_with("<!--")) {
        if (!skip_behind("-->")) return bad();
      } else if (rest_.starts_with("<!")) {
        return bad();
      } else {
        return tag();
      }
    }
  }
  bool is_bad() const { return bad_; }
  /// Returns whether the element of the last tag has this path: the names of its ancestors and its
  /// own.
  bool is_at(std::initializer_list<std::string_view> path) const {
    return std::equal(path.begin(), path.end(), path_.begin(), path_.end());
  }
  bool closes = false;
  std::string_view text;

 private:
  bool bad() {
    bad_ = true;
    return false;
  }
  bool end() {
    bad_ = bad_ || !stack_.empty() || !any_;
    return false;
  }
  bool skip_behind(std::string_view mark) {
    const size_t at = rest_.find(mark);
    if (at == rest_.npos) return false;
    rest_.remove_prefix(at + mark.size());
    return true;
  }
  bool tag() {
    // A '>' in quotes does not end the tag.
    size_t end = 1;
    for (char quote = 0; end < rest_.size() && (quote != 0 || rest_[end] != '>'); ++end) {
      const char c = rest_[end];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      }
    }
    if (end >= rest_.size()) return bad();
    std::string_view inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    const bool closing = inside.starts_with('/');
    if (closing) inside.remove_prefix(1);
    const bool empty = !closing && inside.ends_with('/');
    if (empty) inside.remove_suffix(1);
    const std::string_view name = inside.substr(0, inside.find_first_of(" \t\r\n"));
    if (name.empty() || name.size() > kNameBytesMax) return bad();
    if (closing) return close(name);
    if (stack_.size() == kDepthMax) return bad();
    any_ = true;
    stack_.push_back(name);
    path_ = stack_;
    open_then_close_ = empty;
    return true;
  }
  bool close(std::string_view name) {
    if (stack_.empty() || stack_.back() != name) return bad();
    path_ = stack_;
    stack_.pop_back();
    closes = true;
    return true;
  }

  std::string_view rest_;
  std::vector<std::string_view> stack_, path_;
  bool bad_ = false, any_ = false, open_then_close_ = false;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// Decodes the keys of encoding-type=url: %XX for a byte, and '+' for a blank.
std::optional<std::string> url_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += char(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

bool is_key(const std::string& key) {
  return !key.empty() && key.size() <= kKeyBytesMax && key.find('\0') == std::string::npos;
}

std::string plain_word(std::string_view text) {
  const bool plain =
      text.size() <= kWordBytesMax && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_';
      });
  return plain ? std::string(text) : std::string();
}

}  // namespace

Result<ListingPage> parse_listing(std::string_view xml) {
  const auto malformed = [](const char* why) {
    return Error{ErrorCode::kMalformed, str("the store's list of objects is damaged: ", why)};
  };
  XmlScanner scanner(xml);
  ListingPage page;
  bool truncated = false, encoded = false, list = false;
  while (scanner.next()) {
    list = list || scanner.is_at({"ListBucketResult"});
    if (!scanner.closes) continue;
    const auto text = unescaped(scanner.text);
    if (!text) return malformed("it contains an entity that XML does not define");
    if (scanner.is_at({"ListBucketResult", "Contents", "Key"})) {
      page.keys.push_back(*text);
    } else if (scanner.is_at({"ListBucketResult", "IsTruncated"})) {
      truncated = *text == "true";
    } else if (scanner.is_at({"ListBucketResult", "NextContinuationToken"})) {
      page.next = *text;
    } else if (scanner.is_at({"ListBucketResult", "EncodingType"})) {
      encoded = *text == "url";
    }
  }
  if (scanner.is_bad()) return malformed("it is not XML, or is truncated");
  if (!list) return malformed("it is not a ListBucketResult");
  for (std::string& key : page.keys) {
    if (encoded) {
      auto decoded = url_decoded(key);
      if (!decoded) return malformed("it contains a key that is not URL-encoded as declared");
      key = std::move(*decoded);
    }
    if (!is_key(key)) return malformed("it contains an invalid key");
  }
  if (truncated && page.next.empty())
    return malformed("it is truncated, but has no continuation token");
  if (!truncated) page.next.clear();
  return page;
}

StoreRefusal parse_refusal(std::string_view xml) {
  StoreRefusal refusal;
  XmlScanner scanner(xml);
  while (scanner.next()) {
    if (!scanner.closes) continue;
    if (scanner.is_at({"Error", "Code"})) refusal.code = plain_word(scanner.text);
    if (scanner.is_at({"Error", "Region"})) refusal.region = plain_word(scanner.text);
  }
  return refusal;
}

}  // namespace downpour::objects
