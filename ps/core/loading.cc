#include "ps/core/loading.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "shared/base/defence.h"

namespace downpour::ps {

void Loading::on_adopt(const wire::Envelope& envelope, const wire::Adopt& adopt,
                       const Bytes& inlined, Turn& turn) {
  const auto answer = [&](std::string error) {
    const bool ok = error.empty();
    turn.send(kChiefPeer, envelope.request,
              wire::Adopted{.ownership_generation = adopt.ownership_generation,
                            .ok = ok,
                            .error = std::move(error)});
  };
  Adoption adoption{.id = next_load_id_,
                    .request = envelope.request,
                    .ownership_generation = adopt.ownership_generation,
                    .sealed_epochs = adopt.sealed_epochs,
                    .markers = adopt.markers,
                    .markers_known = adopt.markers_known,
                    .plan_hash = adopt.plan_hash,
                    .parts = bits_for(partitions_.count()),
                    .wanted = {},
                    .has_image = bits_for(partitions_.count()),
                    .taken = bits_for(partitions_.count())};
  for (const PartitionId p : adopt.partitions) {
    if (raw(p) >= partitions_.count()) return answer(str("unknown partition ", p));
    insert(adoption.parts, p);
  }
  const wire::ImageRef* before = nullptr;
  for (const wire::ImageRef& image : adopt.images) {
    const PartitionId p = image.partition;
    const bool follows = image.base != 0 && before != nullptr && before->partition == p;
    if (raw(p) >= partitions_.count() || !contains(adoption.parts, p) ||
        (contains(adoption.has_image, p) && !follows)) {
      return answer(str("the image of partition ", p, " is unexpected"));
    }
    insert(adoption.has_image, p);
    before = &image;
  }
  for (Adoption& other : adoptions_) {
    if (other.ownership_generation != adopt.ownership_generation || other.parts != adoption.parts)
      continue;
    other.request = envelope.request;  // a repeated request: answered when the images arrive
    defended(Defence::kPsAdoptRepeated);
    return;
  }
  adoption.wanted = adoption.parts;
  for_each(adoption.parts, [&](PartitionId p) {
    if (partitions_.owns(p) && partitions_.ownership_generation(p) == adopt.ownership_generation)
      erase(adoption.wanted, p);
  });
  if (none(adoption.wanted)) {
    if (!none(adoption.parts)) defended(Defence::kPsAdoptHeld);
    return answer("");
  }
  if (std::string why = session_.why_superseded(adopt.ownership_generation); !why.empty()) {
    defended(Defence::kPsAdoptOld);
    return answer(std::move(why));
  }
  if (adoptions_.size() >= config_.limits.loads_max) return answer("too many loads in progress");
  if (!adopt.images.empty() && inlined.empty()) {
    if (const auto outside = session_.check_folder(adopt.folder)) return answer(outside->what);
  }

  for (Adoption& other : adoptions_) {
    if (intersects(other.wanted, adoption.wanted)) defended(Defence::kPsAdoptTakesOver);
    for_each(adoption.wanted, [&](PartitionId p) { erase(other.wanted, p); });
  }
  release(adoption.wanted);
  drop_pushes();
  Load load{.id = adoption.id, .folder = adopt.folder, .images = {}, .inlined = inlined};
  for (const wire::ImageRef& image : adopt.images) {
    if (contains(adoption.wanted, image.partition)) load.images.push_back(image);
  }
  if (load.images.empty()) {
    for_each(adoption.wanted, [&](PartitionId p) {
      partitions_.adopt(p, adopt.ownership_generation, adopt.sealed_epochs);
    });
    stats_.keep_failure(
        partitions_.take_markers(adoption.wanted, adoption.markers, adoption.markers_known));
    return answer("");
  }
  ++next_load_id_;
  turn.effects().loads.push_back(std::move(load));
  adoptions_.push_back(std::move(adoption));
}

void Loading::on_loaded(uint64_t id, Result<std::vector<checkpoint::PartitionImage>> images,
                        bool more, Turn& turn) {
  const auto found = std::find_if(adoptions_.begin(), adoptions_.end(),
                                  [&](const Adoption& adoption) { return adoption.id == id; });
  if (session_.stopped() || found == adoptions_.end()) return;
  Result<void> taken;
  if (!images) {
    taken = std::move(images).error();
  } else {
    taken = take_images(*found, *images, more);
    if (taken && more) return;
  }
  const Adoption adoption = std::move(*found);
  adoptions_.erase(found);
  if (taken) {
    stats_.keep_failure(
        partitions_.take_markers(adoption.wanted, adoption.markers, adoption.markers_known));
    drop_pushes();
  } else {
    defended(Defence::kPsLoadFailed);
    release(adoption.wanted);  // all or nothing: also those adopted so far
  }
  turn.send(kChiefPeer, adoption.request,
            wire::Adopted{.ownership_generation = adoption.ownership_generation,
                          .ok = taken.has_value(),
                          .error = taken ? std::string() : taken.error().what,
                          .code = taken ? ErrorCode::kUnavailable : taken.error().code});
}

Result<void> Loading::take_images(Adoption& adoption,
                                  const std::vector<checkpoint::PartitionImage>& images,
                                  bool more) {
  if (none(adoption.wanted)) {
    defended(Defence::kPsLoadSuperseded);
    return Error{ErrorCode::kUnavailable, "superseded while the images were being read"};
  }
  for (const checkpoint::PartitionImage& image : images) {
    const PartitionId p = image.partition;
    if (raw(p) >= partitions_.count() || !contains(adoption.has_image, p)) {
      return Error{ErrorCode::kBadData, str("partition ", p, " was not requested")};
    }
    if (!contains(adoption.wanted, p)) continue;
    if (contains(adoption.taken, p)) {
      return Error{ErrorCode::kBadData, str("partition ", p, " has two images")};
    }
    DP_TRY_VOID(memory_.make_room(image));
    DP_TRY_VOID(partitions_.adopt(image, adoption.ownership_generation, adoption.sealed_epochs,
                                  adoption.plan_hash));
    insert(adoption.taken, p);
  }
  if (more) return {};
  std::optional<PartitionId> missing;
  for_each(adoption.wanted, [&](PartitionId p) {
    if (contains(adoption.taken, p)) return;
    if (contains(adoption.has_image, p)) {
      missing = p;
    } else {
      partitions_.adopt(p, adoption.ownership_generation, adoption.sealed_epochs);
    }
  });
  if (missing) return Error{ErrorCode::kBadData, str("no image of partition ", *missing)};
  return {};
}

void Loading::on_view(const wire::View& view) {
  for (Adoption& adoption : adoptions_) {
    if (view.id < adoption.ownership_generation) continue;
    for (uint32_t p = 0; p < partitions_.count(); ++p) {
      const bool given = session_.is_owner(PartitionId(p)) &&
                         view.partitions[p].ownership_generation == adoption.ownership_generation;
      if (!contains(adoption.wanted, PartitionId(p)) || given) continue;
      defended(Defence::kPsViewEndsLoad);
      erase(adoption.wanted, PartitionId(p));
    }
  }
}

void Loading::release(const Bits& parts) {
  Bits held = parts;
  for (size_t w = 0; w < held.size(); ++w) held[w] &= partitions_.owned()[w];
  if (none(held)) return;
  partitions_.drop(held);
  saving_.on_dropped(held);
  drop_pushes();
}

void Loading::drop_pushes() {
  handles_.clear();
  staging_.clear();
  commits_.clear();
}

}  // namespace downpour::ps
