#include "shared/job/origins.h"

namespace downpour {

const Origin* find_origin(const Origins& origins, std::string_view key) {
  while (!key.empty()) {
    if (const auto found = origins.find(std::string(key)); found != origins.end()) {
      return &found->second;
    }
    const size_t end = key.find_last_of(".[");
    if (end == std::string_view::npos) return nullptr;
    key = key.substr(0, end);
  }
  return nullptr;
}

Error located(Error error, const Origins& origins) {
  const Origin* origin = find_origin(origins, error.where);
  if (origin != nullptr && !origin->where.empty()) error.where = origin->where;
  return error;
}

}  // namespace downpour
