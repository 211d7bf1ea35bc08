#include "shared/flags/flags.h"

#include <CLI/CLI.hpp>

#include "shared/base/result.h"
#include "shared/base/version.h"

namespace downpour {
namespace {

CLI::Option* add(CLI::App& app, const Flag& flag, bool* target) {
  return app.add_flag(flag.name, *target, flag.help);
}

CLI::Option* add(CLI::App& app, const Flag& flag, std::vector<std::string>* target) {
  return app.add_option(flag.name, *target, flag.help)
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

template <typename T>
CLI::Option* add(CLI::App& app, const Flag& flag, T* target) {
  return app.add_option(flag.name, *target, flag.help);
}

}  // namespace

std::optional<int> parse_flags(const HelpText& text, const std::vector<Flag>& flags, int argc,
                               char** argv) {
  CLI::App app{text.purpose};
  app.option_defaults()->always_capture_default();
  for (const Flag& flag : flags) {
    CLI::Option* const option =
        std::visit([&](auto* target) { return add(app, flag, target); }, flag.target);
    option->required(flag.required)->group(flag.group);
    if (!flag.default_shown) option->default_str("");
    if (!flag.allowed.empty()) option->check(CLI::IsMember(flag.allowed));
    if (flag.range) option->check(CLI::Range(flag.range->first, flag.range->second));
  }
  app.set_version_flag("--version", kBuildVersion);
  app.footer(text.examples);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_code(ErrorCode::kUsage);
  }
  return std::nullopt;
}

}  // namespace downpour
