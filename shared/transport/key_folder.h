// Key folder: the files with the keys of a cluster. The file `allowed` lists public keys; NAME.key
// holds one secret key. Only the owner may access the folder and its secret files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/transport/keys.h"

namespace downpour::transport {

/// A key that a folder should contain.
struct WantedKey {
  wire::Role role{};
  std::string name;
};
/// Returns one key for each role; all processes of a role use the same.
std::vector<WantedKey> one_key_a_role();
/// Returns a key for the chief and one for each process: "ps-0", "worker-0", "input-0", ...
std::vector<WantedKey> one_key_a_process(uint32_t ps, uint32_t workers, uint32_t inputs);

struct KeyFolder {
  std::string path;
  AllowList allowed;
};

/// Opens a key folder. Errors: kNoInput if it does not exist, kPermission if other users could read
/// or change it, kConfig if its list is damaged.
Result<KeyFolder> open_key_folder(const std::string& path);
/// Reads only the list. Errors: as above.
Result<AllowList> read_allow_list(const std::string& folder);
/// Returns a hash of the identity, size and time of change of the list's file, which changes
/// whenever the file changes. 0: the file does not exist.
uint64_t allow_list_stamp(const std::string& folder);
/// Reads a secret file. Errors: as above.
Result<KeyPair> read_key_file(const std::string& path);

/// Creates the folder (mode 0700) with these keys, or adds those whose names are missing. Existing
/// keys stay. The folder appears completely or not at all, even if two processes create it at once.
/// `added`, if not null, receives the new names.
Result<KeyFolder> make_keys(const std::string& path, const std::vector<WantedKey>& wanted,
                            std::vector<std::string>* added = nullptr);
/// Removes a key from the list, and its secret file. Errors: kUsage if the list has no such name.
Result<void> revoke_key(const std::string& path, const std::string& name);

}  // namespace downpour::transport
