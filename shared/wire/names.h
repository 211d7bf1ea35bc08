// Names: the values of enums in messages, for people.
#pragma once

#include "shared/base/enum_text.h"
#include "shared/wire/push_messages.h"

namespace downpour::wire {

inline const char* name_of(PartStatus status) {
  return enum_text<PartStatus::kSendAgain>(
      status,
      {"applied", "already applied", "gap", "view mismatch", "unknown pull", "staged",
       "quarantined", "other step", "send again"},
      "?");
}

}  // namespace downpour::wire
