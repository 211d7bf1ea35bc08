// Names: the values of enums in messages, for people.
#pragma once

#include "shared/wire/push_messages.h"

namespace downpour::wire {

inline const char* name_of(PartStatus status) {
  switch (status) {
    case PartStatus::kApplied:
      return "applied";
    case PartStatus::kAlreadyApplied:
      return "already applied";
    case PartStatus::kGap:
      return "gap";
    case PartStatus::kViewMismatch:
      return "view mismatch";
    case PartStatus::kUnknownPull:
      return "unknown pull";
    case PartStatus::kStaged:
      return "staged";
    case PartStatus::kQuarantined:
      return "quarantined";
    case PartStatus::kOtherStep:
      return "other step";
    case PartStatus::kSendAgain:
      return "send again";
  }
  return "?";
}

}  // namespace downpour::wire
