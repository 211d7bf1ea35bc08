// RestorePoint: the published checkpoint from which lost partitions are restored.
#pragma once

#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/wire/member_messages.h"

namespace downpour::chief {

struct RestorePoint {
  ViewId checkpoint;
  std::string folder;  // absolute
  // By partition: a whole image, then the images that build on it. Empty: no checkpoint exists, so
  // partitions begin empty.
  std::vector<std::vector<wire::ImageRef>> images;
};

}  // namespace downpour::chief
