// Member keys: which keys a program that is started by hand uses, from its flags.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "shared/transport/keyring.h"

namespace downpour::transport {

/// What a chief with --insecure warns of.
constexpr const char* kInsecureNote =
    "insecure: connections are neither encrypted nor authenticated (--insecure); any process that "
    "reaches the "
    "port can read and change the variables";

struct KeyFlags {
  std::string keys;       // --keys FOLDER or FILE; empty: not given
  bool insecure = false;  // --insecure
};

/// The keyring of a ps, a worker or an input process, and in `chief` the chief's endpoint with its
/// key. Null where the chief's endpoint is not tcp and no keys are given, or with --insecure. Keys
/// that are not there yet are waited for, at most `wait_ns`, because the chief may be about to make
/// them. Errors: kUsage for both flags together; kPermission for tcp without either; as
/// Keyring::open.
Result<std::shared_ptr<Keyring>> member_keyring(const KeyFlags& flags, wire::Role role,
                                                uint32_t index, int64_t wait_ns,
                                                std::string& chief);

/// The keyring of a chief that binds `endpoint`. Without --keys it is made in RUN_DIR/keys, one key
/// a role, or found there. Null with --insecure, or where the endpoint is not tcp.
Result<std::shared_ptr<Keyring>> chief_keyring(const KeyFlags& flags, const std::string& endpoint,
                                               const std::string& run_dir);

/// RUN_DIR/keys: where a chief without --keys keeps the keys of its run.
std::string run_keys_folder(const std::string& run_dir);

}  // namespace downpour::transport
