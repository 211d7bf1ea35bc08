#include "chief/core/placement.h"

#include <algorithm>

namespace downpour::chief {

wire::View make_view(ViewId id, std::vector<wire::Owner> owners, uint32_t partition_bits) {
  DP_CHECK(!owners.empty());
  DP_CHECK(partition_bits >= 1 && partition_bits <= 16, partition_bits);
  const uint64_t partitions = uint64_t(1) << partition_bits;
  const uint64_t used = std::min<uint64_t>(owners.size(), partitions);
  wire::View view{.id = id, .owners = std::move(owners), .partitions = {}};
  view.partitions.reserve(partitions);
  for (uint64_t p = 0; p < partitions; ++p) {
    view.partitions.push_back({.owner = uint32_t(p * used / partitions), .since = id});
  }
  return view;
}

Result<std::vector<wire::Adopt>> make_adopts(const wire::View& view, uint32_t sealed_epochs,
                                             const std::string& folder,
                                             const std::vector<wire::ImageRef>& images) {
  std::vector<wire::Adopt> adopts(view.owners.size());
  for (wire::Adopt& adopt : adopts) {
    adopt.since = view.id;
    adopt.sealed_epochs = sealed_epochs;
    if (!images.empty()) adopt.folder = folder;
  }
  for (uint32_t p = 0; p < view.partitions.size(); ++p) {
    adopts[view.partitions[p].owner].partitions.push_back(PartitionId(p));
  }
  if (images.empty()) return adopts;

  std::vector<const wire::ImageRef*> by_partition(view.partitions.size());
  for (const wire::ImageRef& image : images) {
    const uint32_t p = raw(image.partition);
    if (p >= by_partition.size() || by_partition[p] != nullptr) {
      return Error{ErrorCode::kBadData,
                   str("the checkpoint names partition ", p, " twice or beyond the ",
                       by_partition.size(), " of this job"),
                   folder};
    }
    by_partition[p] = &image;
  }
  for (uint32_t p = 0; p < by_partition.size(); ++p) {
    if (by_partition[p] == nullptr) {
      return Error{ErrorCode::kBadData, str("the checkpoint has no image of partition ", p),
                   folder};
    }
    adopts[view.partitions[p].owner].images.push_back(*by_partition[p]);
  }
  return adopts;
}

namespace {

/// [A-Za-z0-9_][A-Za-z0-9_.-]{0,127}: what a peer may call a file.
bool is_plain_name(const std::string& name) {
  constexpr size_t kNameBytesMax = 128;
  if (name.empty() || name.size() > kNameBytesMax || name[0] == '.' || name[0] == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

}  // namespace

Result<std::vector<wire::ImageRef>> join_images(
    const wire::View& view, const std::vector<std::vector<wire::ImageRef>>& by_owner) {
  std::vector<wire::ImageRef> joined(view.partitions.size());
  std::vector<bool> have(view.partitions.size());
  for (uint32_t owner = 0; owner < by_owner.size(); ++owner) {
    for (const wire::ImageRef& image : by_owner[owner]) {
      const uint32_t p = raw(image.partition);
      if (p >= have.size() || view.partitions[p].owner != owner || have[p] ||
          !is_plain_name(image.file)) {
        return Error{ErrorCode::kMalformed,
                     str("ps ", view.owners[owner].index, " saved partition ", p, " in file '",
                         image.file, "': not its partition, twice, or no plain file name")};
      }
      have[p] = true;
      joined[p] = image;
    }
  }
  for (uint32_t p = 0; p < have.size(); ++p) {
    if (!have[p]) {
      return Error{ErrorCode::kMalformed, str("ps ", view.owners[view.partitions[p].owner].index,
                                              " did not save its partition ", p)};
    }
  }
  return joined;
}

}  // namespace downpour::chief
