// Key folder: the files that hold the keys of a cluster. `allowed` lists public keys; NAME.key
// holds one secret key. The folder is for its owner only, and so is each secret file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/transport/keys.h"

namespace downpour::transport {

/// A key that a folder shall have.
struct WantedKey {
  wire::Role role{};
  std::string name;
};
/// One key a role: each of its processes uses the same.
std::vector<WantedKey> one_key_a_role();
/// The chief's key, and one for each process: "ps-0", "worker-0", "input-0", ...
std::vector<WantedKey> one_key_a_process(uint32_t ps, uint32_t workers, uint32_t inputs);

struct KeyFolder {
  std::string path;
  AllowList allowed;
};

/// Opens a key folder. Errors: kNoInput where it is not there, kPermission where others could read
/// or change it, kConfig where its list is damaged.
Result<KeyFolder> open_key_folder(const std::string& path);
/// The list alone, read again. Errors: as above.
Result<AllowList> read_allow_list(const std::string& folder);
/// When the list was changed last, and which file it is: differs after each change. 0: it is not
/// there.
uint64_t allow_list_stamp(const std::string& folder);
/// A secret file. Errors: as above.
Result<KeyPair> read_key_file(const std::string& path);

/// Makes the folder (0700) with these keys, or adds those whose names it lacks. A key that is there
/// stays. A folder appears whole or not at all, also where two processes make it at once.
/// `added`, if not null, gets the new names.
Result<KeyFolder> make_keys(const std::string& path, const std::vector<WantedKey>& wanted,
                            std::vector<std::string>* added = nullptr);
/// Takes a key off the list and removes its secret file. Errors: kUsage where there is no such
/// name.
Result<void> revoke_key(const std::string& path, const std::string& name);

}  // namespace downpour::transport
