#include "shared/job/toml_limits.h"

#include <algorithm>
#include <vector>

#include "shared/base/str.h"

namespace downpour {
namespace {

/// A cursor over TOML text that counts levels and nodes. It follows TOML's rules for strings and
/// comments.
class Scan {
 public:
  Scan(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  Result<void> run() {
    while (at_ < text_.size()) {
      step(text_[at_]);
      if (depth_ > kTomlDepthMax) {
        return error(str("a value is nested more than ", kTomlDepthMax, " levels deep"),
                     "check that this is a job file: its deepest key has 6 levels");
      }
      if (nodes_ > kTomlNodesMax) {
        return error(str("the file has more than ", kTomlNodesMax, " keys and values"),
                     "if this is a data file, rename it: its name must not end in .toml");
      }
    }
    return {};
  }

 private:
  void step(char c) {
    switch (c) {
      case '#':
        at_ = std::min(text_.find('\n', at_), text_.size());
        return;
      case '"':
      case '\'':
        skip_string(c);
        line_begins_ = false;
        return;
      case '\n':
        if (open_.empty()) begin_line();
        break;
      case ' ':
      case '\t':
      case '\r':
        break;
      case '[':
      case '{':
        open(c);
        break;
      case ']':
      case '}':
        close();
        break;
      case '.':
        ++depth_;
        ++nodes_;
        break;
      case ',':
        depth_ = level();
        ++nodes_;
        break;
      case '=':
        ++nodes_;
        [[fallthrough]];
      default:
        line_begins_ = false;
    }
    ++at_;
  }

  /// Returns the depth at which a key or an element starts.
  uint32_t level() const { return open_.empty() ? header_depth_ + 1 : open_.back(); }

  void begin_line() {
    if (in_header_) header_depth_ = depth_;
    in_header_ = false;
    line_begins_ = true;
    depth_ = level();
  }

  void open(char c) {
    ++nodes_;
    if (in_header_) return;  // the second bracket of `[[`
    if (line_begins_ && open_.empty() && c == '[') {
      in_header_ = true;
      line_begins_ = false;
      depth_ = 1;
      return;
    }
    open_.push_back(++depth_);
  }

  void close() {
    if (open_.empty()) return;  // closes a header
    open_.pop_back();
    depth_ = level();
  }

  /// Skips the string that starts here. A string without an end is rejected later by the parser.
  void skip_string(char quote) {
    const std::string three(3, quote);
    if (text_.substr(at_, 3) == three) {
      at_ += 3;
      while (at_ < text_.size() && text_.substr(at_, 3) != three) skip_character(quote);
      // Up to two more quotes belong to the string.
      for (int i = 0; i < 5 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;
      return;
    }
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') skip_character(quote);
    if (at_ < text_.size() && text_[at_] == quote) ++at_;
  }

  void skip_character(char quote) {
    const bool escape = quote == '"' && text_[at_] == '\\';
    at_ = std::min(at_ + (escape ? 2 : 1), text_.size());
  }

  Error error(std::string what, std::string hint) const {
    // Up to the character that exceeded the limit.
    const std::string_view before = text_.substr(0, at_ - 1);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    return Error{ErrorCode::kConfig, std::move(what), str(path_, ":", line, ":", column),
                 std::move(hint), "DP-2102"};
  }

  const std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  uint32_t depth_ = 1, header_depth_ = 0, nodes_ = 0;
  std::vector<uint32_t> open_;  // the depth inside each open bracket
  bool line_begins_ = true, in_header_ = false;
};

}  // namespace

Result<void> check_toml_limits(std::string_view text, const std::string& path) {
  return Scan(text, path).run();
}

}  // namespace downpour
