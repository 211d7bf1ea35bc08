#include <cstdio>

#include "shared/base/error_text.h"
#include "shared/transport/key_folder.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct KeysFlags {
  std::string folder;
  uint32_t ps = 0, workers = 0, inputs = 0;
  std::vector<std::string> add;
  std::string revoke;
  bool list = false;
};

/// Parses "worker:NAME", or a role alone, which is then also the name.
Result<transport::WantedKey> parse_wanted(const std::string& text) {
  const size_t colon = text.find(':');
  const auto role = transport::role_from_text(text.substr(0, colon));
  if (!role) {
    return Error{ErrorCode::kUsage, str("`", text, "` has no valid role"), "",
                 "write ROLE:NAME, where ROLE is chief, ps, worker or input", "DP-1000"};
  }
  return transport::WantedKey{*role, colon == text.npos ? text : text.substr(colon + 1)};
}

void print_list(const transport::AllowList& list) {
  for (const transport::AllowedKey& key : list.keys()) {
    std::printf("%-8s %-24s %s\n", transport::role_text(key.role), key.name.c_str(),
                transport::hex_of(key.key).c_str());
  }
}

Result<void> run_keys(const KeysFlags& flags) {
  if (flags.list) {
    DP_TRY(const transport::KeyFolder keys, transport::open_key_folder(flags.folder));
    print_list(keys.allowed);
    return {};
  }
  if (!flags.revoke.empty()) {
    DP_TRY_VOID(transport::revoke_key(flags.folder, flags.revoke));
    std::printf("the key %s is revoked\n", flags.revoke.c_str());
    return {};
  }
  std::vector<transport::WantedKey> wanted;
  for (const std::string& text : flags.add) {
    DP_TRY(transport::WantedKey key, parse_wanted(text));
    wanted.push_back(std::move(key));
  }
  if (wanted.empty()) {
    wanted = flags.ps + flags.workers + flags.inputs == 0
                 ? transport::one_key_a_role()
                 : transport::one_key_a_process(flags.ps, flags.workers, flags.inputs);
  }
  std::vector<std::string> added;
  DP_TRY(const transport::KeyFolder keys, transport::make_keys(flags.folder, wanted, &added));
  for (const std::string& name : added) std::printf("%s/%s.key\n", keys.path.c_str(), name.c_str());
  if (added.empty()) std::printf("%s already has these keys\n", keys.path.c_str());
  std::fprintf(stderr,
               "next: start each process with --keys %s; copy `allowed` and the key files of its "
               "processes to each other machine\n",
               keys.path.c_str());
  return {};
}

}  // namespace

void declare_keys(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_keys);
  verb->add_option("folder", flags->folder, "Key folder; created if it does not exist")->required();
  verb->add_option("--ps", flags->ps,
                   "Number of ps, each with its own key; default: one key for all ps")
      ->check(CLI::Range(0, 4096));
  verb->add_option("--workers", flags->workers, "Number of workers, each with its own key")
      ->check(CLI::Range(0, 4096));
  verb->add_option("--inputs", flags->inputs, "Number of input processes, each with its own key")
      ->check(CLI::Range(0, 4096));
  verb->add_option("--add", flags->add, "Create another key, e.g. worker:gpu-7")
      ->type_name("ROLE:NAME")
      ->allow_extra_args(false);
  verb->add_option(
          "--revoke", flags->revoke,
          "Remove a key from the list; running processes close its connections within a second")
      ->type_name("NAME");
  verb->add_flag("--list", flags->list, "Show roles, names and public keys");
  verb->footer(
      "Examples:\n  downpour keys keys                          one key per role\n  downpour keys "
      "keys --ps 2 --workers 4       one key per process\n  downpour keys keys --add worker:gpu-7  "
      "     one more key\n  downpour keys keys --revoke gpu-7");
}

}  // namespace downpour::tools
