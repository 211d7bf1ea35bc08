// JsonLine: one line of the run's append-only event file, built without a JSON library.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/units.h"

namespace downpour::chief {

/// {"ms":12,"event":"lease","shard":3,...} with keys in the order of add().
class JsonLine {
 public:
  JsonLine(int64_t elapsed_ns, std::string_view event) {
    text_ = "{\"ms\":" + std::to_string(elapsed_ns / kMillisecond);
    add("event", event);
  }
  JsonLine& add(std::string_view key, std::string_view value) {
    add_key(key);
    add_quoted(value);
    return *this;
  }
  JsonLine& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  template <typename T>
  requires std::same_as<T, bool> JsonLine& add(std::string_view key, T value) {
    add_key(key);
    text_ += value ? "true" : "false";
    return *this;
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonLine& add(std::string_view key, T value) {
    add_key(key);
    text_ += std::to_string(value);
    return *this;
  }
  std::string str() const { return text_ + "}"; }

 private:
  void add_key(std::string_view key) {
    text_ += ',';
    add_quoted(key);
    text_ += ':';
  }
  void add_quoted(std::string_view value) {
    constexpr std::string_view kHex = "0123456789abcdef";
    text_ += '"';
    for (const char c : value) {
      const auto byte = static_cast<uint8_t>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (byte < 0x20 || byte == 0x7f) {
        text_ += "\\u00";
        text_ += kHex[byte >> 4];
        text_ += kHex[byte & 15];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  std::string text_;
};

}  // namespace downpour::chief
