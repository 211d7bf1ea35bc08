// Member keys: chooses the keys of a program that is started by hand, from its flags.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "shared/transport/keyring.h"

namespace downpour::transport {

/// The warning of a chief with --insecure.
constexpr const char* kInsecureNote =
    "insecure: connections are neither encrypted nor authenticated (--insecure); any process that "
    "reaches the "
    "port can read and change the variables";

struct KeyFlags {
  std::string keys;       // --keys FOLDER or --keys FILE; empty: not given
  bool insecure = false;  // --insecure
};

/// Returns the keyring of a ps, a worker or an input process, and adds the chief's key to the
/// endpoint `chief`. Returns null with --insecure, and if no keys are given for an endpoint that is
/// not tcp. If the keys do not exist yet, it waits for them for at most `wait_ns`, because the
/// chief may be about to create them. Errors: kUsage for both flags together; kPermission for tcp
/// without either; as in Keyring::open().
Result<std::shared_ptr<Keyring>> member_keyring(const KeyFlags& flags, wire::Role role,
                                                uint32_t index, int64_t wait_ns,
                                                std::string& chief);

/// Returns the keyring of a chief that binds `endpoint`. Without --keys it uses RUN_DIR/keys and
/// creates one key per role there if they are missing. Returns null with --insecure, or if the
/// endpoint is not tcp.
Result<std::shared_ptr<Keyring>> chief_keyring(const KeyFlags& flags, const std::string& endpoint,
                                               const std::string& run_dir);

/// Returns RUN_DIR/keys, where a chief without --keys stores the keys of its run.
std::string run_keys_folder(const std::string& run_dir);

}  // namespace downpour::transport
