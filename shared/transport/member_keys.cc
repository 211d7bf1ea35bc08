#include "shared/transport/member_keys.h"

#include <cstdio>
#include <filesystem>

#include "shared/base/units.h"
#include "shared/env/signals.h"
#include "shared/transport/key_folder.h"

namespace downpour::transport {
namespace {

constexpr int64_t kLookEveryNs = 50 * kMillisecond;

bool is_tcp(const std::string& endpoint) { return endpoint.starts_with("tcp://"); }

Result<void> check_flags(const KeyFlags& flags) {
  if (flags.keys.empty() || !flags.insecure) return {};
  return Error{ErrorCode::kUsage, "--keys and --insecure contradict each other", "",
               "remove one of them", "DP-1000"};
}

void report(const std::shared_ptr<Keyring>& keyring) {
  keyring->notice = [](const std::string& text) {
    std::fprintf(stderr, "note: %s\n", text.c_str());
  };
}

}  // namespace

std::string run_keys_folder(const std::string& run_dir) { return run_dir + "/keys"; }

Result<std::shared_ptr<Keyring>> member_keyring(const KeyFlags& flags, wire::Role role,
                                                uint32_t index, int64_t wait_ns,
                                                std::string& chief) {
  DP_TRY_VOID(check_flags(flags));
  if (flags.insecure || (flags.keys.empty() && !is_tcp(chief))) return std::shared_ptr<Keyring>();
  if (flags.keys.empty()) {
    return Error{ErrorCode::kPermission, str("--keys is missing for the connection to ", chief), "",
                 "add --keys RUN_DIR/keys, which the chief creates at its start, or the folder "
                 "that `downpour keys` created; or use --insecure for all processes of the job",
                 "DP-2711"};
  }
  auto keyring = Keyring::open(flags.keys, role, index);
  for (int64_t waited_ns = 0; waited_ns < wait_ns; waited_ns += kLookEveryNs) {
    if (keyring || keyring.error().code != ErrorCode::kNoInput) break;
    sleep_unless_stopped(kLookEveryNs);
    keyring = Keyring::open(flags.keys, role, index);
  }
  if (!keyring) return std::move(keyring).error();
  report(*keyring);
  if (is_tcp(chief)) {
    DP_TRY(const KeyedEndpoint to, split_key(chief));
    if (!to.key) {
      DP_TRY(const Key key, (*keyring)->allowed()->only_key_of(wire::Role::kChief, flags.keys));
      chief = with_key(chief, key);
    } else if (const auto allowed = (*keyring)->allowed();
               const AllowedKey* named = allowed->find(*to.key)) {
      const wire::PeerIdentity identity{named->role, named->name, hex_of(*to.key)};
      if (!identity.may_be(wire::Role::kChief)) {
        Error error = wire::wrong_role(identity, wire::Role::kChief);
        error.hint = str("add the chief's key to --chief as ?key=KEY; `downpour keys ", flags.keys,
                         " --list` shows the key");
        error.where = chief;
        return error;
      }
    }
  }
  return keyring;
}

Result<std::shared_ptr<Keyring>> chief_keyring(const KeyFlags& flags, const std::string& endpoint,
                                               const std::string& run_dir) {
  DP_TRY_VOID(check_flags(flags));
  if (flags.insecure || !is_tcp(endpoint)) return std::shared_ptr<Keyring>();
  std::string folder = flags.keys;
  if (folder.empty()) {
    folder = run_keys_folder(run_dir);
    std::error_code ignored;
    if (std::filesystem::is_symlink(folder, ignored)) {
      return Error{
          ErrorCode::kPermission,
          "the path is a symbolic link, and Downpour does not follow links in a run folder", folder,
          "remove the link, or give the folder itself: --keys FOLDER", "DP-2721"};
    }
    if (auto made = make_keys(folder, one_key_a_role()); !made) return std::move(made).error();
  }
  DP_TRY(auto keyring, Keyring::open(folder, wire::Role::kChief, UINT32_MAX));
  report(keyring);
  return keyring;
}

}  // namespace downpour::transport
