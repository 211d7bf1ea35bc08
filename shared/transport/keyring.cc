#include "shared/transport/keyring.h"

#include <filesystem>
#include <utility>

#include "shared/base/str.h"
#include "shared/transport/key_folder.h"

namespace downpour::transport {
namespace {

namespace fs = std::filesystem;

/// Returns the name of the secret file in the folder for a process of this role and index.
Result<std::string> file_in(const std::string& folder, wire::Role role, uint32_t index) {
  std::vector<std::string> names;
  if (index != UINT32_MAX) names.push_back(str(role_text(role), "-", index));
  names.emplace_back(role_text(role));
  for (const std::string& name : names) {
    std::error_code error;
    if (fs::exists(str(folder, "/", name, ".key"), error)) return name;
  }
  return Error{ErrorCode::kNoInput, str("the folder has no ", names.front(), ".key"), folder,
               str("add one with `downpour keys ", folder, " --add ", role_text(role), ":",
                   names.front(), "`, or give a key file: --keys FOLDER/NAME.key"),
               "DP-2711"};
}

}  // namespace

Keyring::Keyring(KeyPair own, AllowList allowed)
    : own_(own), allowed_(std::make_shared<AllowList>(std::move(allowed))) {}

Result<std::shared_ptr<Keyring>> Keyring::open(const std::string& path, wire::Role role,
                                               uint32_t index) {
  const bool is_folder = !path.ends_with(".key");
  const fs::path above = fs::path(path).parent_path();
  const std::string folder = is_folder ? path : above.empty() ? "." : above.string();
  const uint64_t stamp = allow_list_stamp(folder);
  DP_TRY(KeyFolder keys, open_key_folder(folder));
  std::string name;
  if (is_folder) {
    DP_TRY(name, file_in(folder, role, index));
  } else {
    name = fs::path(path).stem().string();
  }
  const std::string file = str(folder, "/", name, ".key");
  DP_TRY(const KeyPair own, read_key_file(file));
  const AllowedKey* known = keys.allowed.find(own.public_key);
  if (known == nullptr) {
    return Error{ErrorCode::kConfig, "the list `allowed` does not contain this key", file,
                 "use the list of the cluster to which the key belongs", "DP-2713"};
  }
  if (known->role != role) {
    return Error{ErrorCode::kConfig,
                 str("this key has the role ", role_text(known->role), ", but the process is a ",
                     role_text(role)),
                 file, str("use a key of the role ", role_text(role)), "DP-2713"};
  }
  const std::string own_name = known->name;
  auto ring = std::make_shared<Keyring>(own, std::move(keys.allowed));
  ring->name_ = own_name;
  ring->folder_ = folder;
  ring->stamp_ = stamp;
  return ring;
}

std::shared_ptr<const AllowList> Keyring::allowed() const {
  const std::lock_guard lock(mutex_);
  return allowed_;
}

void Keyring::replace(AllowList allowed) {
  auto next = std::make_shared<AllowList>(std::move(allowed));
  const std::lock_guard lock(mutex_);
  if (next->keys() == allowed_->keys()) return;
  allowed_ = std::move(next);
  version_.fetch_add(1, std::memory_order_release);
}

void Keyring::reload() {
  if (folder_.empty()) return;
  const uint64_t stamp = allow_list_stamp(folder_);
  {
    const std::lock_guard lock(mutex_);
    if (stamp == std::exchange(stamp_, stamp)) return;
  }
  auto list = read_allow_list(folder_);
  if (list) return replace(*std::move(list));
  if (notice) {
    notice(str("the list of allowed keys can't be read, so the previous list stays in effect: ",
               list.error().what, " (", list.error().where, ")"));
  }
}

}  // namespace downpour::transport
