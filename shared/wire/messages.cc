#include "shared/wire/messages.h"

#include <memory>
#include <utility>

namespace downpour::wire {

Body::Body() noexcept = default;
Body::Body(const Body& other) = default;
Body::Body(Body&& other) noexcept = default;
Body::~Body() = default;

// Assignment uses the functions above, because that of a variant compiles all alternatives again.
Body& Body::operator=(const Body& other) { return *this = Body(other); }

Body& Body::operator=(Body&& other) noexcept {
  if (this == &other) return *this;
  std::destroy_at(this);
  return *std::construct_at(this, std::move(other));
}

}  // namespace downpour::wire
