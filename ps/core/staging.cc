#include "ps/core/staging.h"

#include <iterator>

#include "shared/base/defence.h"

namespace downpour::ps {
namespace {

uint64_t bytes_of(const wire::Push& push, const Bytes& keys, const Bytes& values) {
  return sizeof(Fragment) + keys.size() + values.size() +
         push.sections.size() * sizeof(wire::Section) +
         push.pulled_versions.size() * sizeof(uint64_t) + push.metrics.size() * sizeof(OutputSums);
}

bool same_cut(const Fragment& a, const wire::Push& push, const Bytes& keys, const Bytes& values) {
  return a.push.handle == push.handle && a.push.sections == push.sections &&
         a.push.records == push.records && a.push.records_hash == push.records_hash &&
         a.keys.size() == keys.size() && a.values.size() == values.size();
}

}  // namespace

Staging::Added Staging::add(const wire::Push& push, const Bits& covered, const Bytes& keys,
                            const Bytes& values, int64_t now_ns) {
  Position stage = find(push.worker, push.batch, covered);
  if (stage != stages_.end()) {
    const bool same = stage->fragments.size() == push.fragments && stage->step == push.step;
    const Fragment* there = same ? &stage->fragments[push.fragment] : nullptr;
    const bool absent = there != nullptr && there->push.fragments == 0;
    if (there != nullptr && !absent && same_cut(*there, push, keys, values)) {
      defended(Defence::kPsFragmentRepeated);
      return {};
    }
    if (!absent) {
      defended(Defence::kPsStageReplaced);
      erase_at(stage);
      stage = stages_.end();
    }
  }
  if (stage == stages_.end()) stage = begin(push, covered, now_ns);
  const uint64_t bytes = bytes_of(push, keys, values);
  if (!make_room(*stage, bytes)) {
    erase_at(stage);
    return {.whole = nullptr, .too_large = true};
  }
  stage->fragments[push.fragment] = {push, keys, values};
  stage->bytes += bytes;
  bytes_ += bytes;
  ++stage->present;
  return {.whole = stage->present == push.fragments ? &*stage : nullptr, .too_large = false};
}

Staging::Position Staging::begin(const wire::Push& push, const Bits& covered, int64_t now_ns) {
  while (!stages_.empty() && stages_.size() >= limits_.stages_max) {
    defended(Defence::kPsStageDropped);
    erase_at(stages_.begin());
  }
  Stage stage{.worker = push.worker,
              .batch = push.batch,
              .covered = covered,
              .step = push.step,
              .born_ns = now_ns,
              .bytes = sizeof(Stage) + push.fragments * sizeof(Fragment),
              .present = 0,
              .fragments = std::vector<Fragment>(push.fragments)};
  for (Fragment& fragment : stage.fragments) fragment.push.fragments = 0;  // 0: missing
  bytes_ += stage.bytes;
  return stages_.insert(stages_.end(), std::move(stage));
}

void Staging::erase(Incarnation worker, BatchId batch, const Bits& covered) {
  const Position stage = find(worker, batch, covered);
  if (stage != stages_.end()) erase_at(stage);
}

void Staging::expire(int64_t now_ns) {
  while (!stages_.empty() && now_ns - stages_.front().born_ns > limits_.stage_age_ns_max) {
    defended(Defence::kPsStageDropped);
    erase_at(stages_.begin());
  }
}

void Staging::clear() {
  stages_.clear();
  bytes_ = 0;
}

Staging::Position Staging::find(Incarnation worker, BatchId batch, const Bits& covered) {
  Position stage = stages_.begin();
  while (stage != stages_.end() &&
         (stage->worker != worker || stage->batch != batch || stage->covered != covered)) {
    ++stage;
  }
  return stage;
}

Staging::Position Staging::erase_at(Position stage) {
  bytes_ -= stage->bytes;
  return stages_.erase(stage);
}

bool Staging::make_room(const Stage& keep, uint64_t bytes) {
  uint64_t of_worker = 0;
  for (const Stage& stage : stages_) {
    if (stage.worker == keep.worker) of_worker += stage.bytes;
  }
  for (Position stage = stages_.begin(); stage != stages_.end();) {
    const bool too_much = bytes_ + bytes > limits_.staged_bytes_max;
    const bool too_much_of_worker = of_worker + bytes > limits_.staged_bytes_per_worker_max;
    if (!too_much && !too_much_of_worker) return true;
    if (&*stage == &keep || (!too_much && stage->worker != keep.worker)) {
      ++stage;
      continue;
    }
    if (stage->worker == keep.worker) of_worker -= stage->bytes;
    defended(Defence::kPsStageDropped);
    stage = erase_at(stage);
  }
  return bytes_ + bytes <= limits_.staged_bytes_max &&
         of_worker + bytes <= limits_.staged_bytes_per_worker_max;
}

}  // namespace downpour::ps
