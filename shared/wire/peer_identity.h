// Peer identity: what a connection proves about the process at its other end. It comes from the
// transport, never from a message.
#pragma once

#include <optional>
#include <string>

#include "shared/base/enum_text.h"
#include "shared/base/result.h"
#include "shared/base/str.h"
#include "shared/wire/member_messages.h"

namespace downpour::wire {

/// The connection key that a process proved when it connected. Role and name are those that the
/// receiver's list of keys gives to the key.
struct PeerIdentity {
  // none: no key was proved, or the list does not contain it
  std::optional<Role> role;
  std::string name;
  std::string key;  // public key, 64 hexadecimal digits; empty: no key was proved

  /// Returns true if the process may act in the role `claimed`. Without `role`, it may act in any
  /// (--insecure, Unix sockets, one process).
  bool may_be(Role claimed) const { return !role || *role == claimed; }
};

/// Returns "chief", "ps", "worker" or "input".
constexpr const char* role_text(Role role) {
  return enum_text<Role::kInput>(role, {"chief", "ps", "worker", "input"}, "unknown");
}

/// Returns the error for a process that may not act as `claimed`. Precondition: its key has a role.
inline Error wrong_role(const PeerIdentity& peer, Role claimed) {
  return {ErrorCode::kPermission,
          str("key `", peer.name, "` has the role ", role_text(*peer.role),
              " in the list of keys, but the process claims the role ", role_text(claimed)),
          {},
          str("start the process with a key of the role ", role_text(claimed),
              "; `downpour keys FOLDER --add ", role_text(claimed), ":NAME` creates one"),
          "DP-2715"};
}

}  // namespace downpour::wire
