// Flags: the command line of a program without verbs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace downpour {

/// A flag, and the variable that receives its value. Without the flag the variable keeps its value,
/// which --help shows as the default.
struct Flag {
  using Target = std::variant<bool*, std::string*, int64_t*, uint32_t*, std::vector<std::string>*>;
  std::string name;  // "--bind"; without dashes: a positional argument
  Target target;     // a vector receives one KEY=VALUE each time that the flag is given
  std::string help;
  std::string group = "Options";  // heading in --help
  bool required = false;
  bool default_shown = true;
  std::vector<std::string> allowed = {};          // empty: any value
  std::optional<std::pair<int, int>> range = {};  // smallest and largest value
};

/// The texts of --help around the flags.
struct HelpText {
  std::string purpose;
  std::string examples;
};

/// Parses the command line and adds --help and --version. Returns the exit status if the program
/// must end now, because it has printed a text or an error; otherwise nothing.
std::optional<int> parse_flags(const HelpText& text, const std::vector<Flag>& flags, int argc,
                               char** argv);

}  // namespace downpour
