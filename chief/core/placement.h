// Placement: which ps core owns which partition.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// Contiguous ranges of 2^partition_bits partitions, as even as can be, to the owners in their
/// order. With more owners than partitions the last ones own none. `since` is the view's id.
wire::View make_view(ViewId id, std::vector<wire::Owner> owners, uint32_t partition_bits);

/// What to tell each owner of `view` to hold, in the order of view.owners. `images` empty: all
/// start empty. Error kBadData: the images do not name each partition exactly once.
Result<std::vector<wire::Adopt>> make_adopts(const wire::View& view, uint32_t sealed_epochs,
                                             const std::string& folder,
                                             const std::vector<wire::ImageRef>& images);

/// Puts the images that all owners saved in order. Error kMalformed: a partition missing, twice or
/// not its sender's, or a file name that is no plain name.
Result<std::vector<wire::ImageRef>> join_images(
    const wire::View& view, const std::vector<std::vector<wire::ImageRef>>& by_owner);

}  // namespace downpour::chief
