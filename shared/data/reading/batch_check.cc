#include "shared/data/reading/batch_check.h"

#include <algorithm>
#include <cmath>

#include "shared/wire/malformed.h"

namespace downpour::data {
namespace {

bool is_allowed(const TargetRule& rule, float value) {
  switch (rule.kind) {
    case TargetKind::kAny:
      return true;
    case TargetKind::kBinary:
      return value == 0.0F || value == 1.0F;
    case TargetKind::kClass:
      return value >= 0 && value < float(rule.classes) && value == std::floor(value);
    case TargetKind::kCount:
      return value >= 0;
    case TargetKind::kPositive:
      return value == 1.0F;
  }
  return false;
}

Result<void> check_targets(const ReadPlan& plan, const Batch& batch) {
  for (size_t i = 0; i < plan.layout.floats.size(); ++i) {
    for (const TargetRule& rule : plan.targets) {
      if (rule.field != plan.layout.floats[i].field) continue;
      const std::vector<float>& values = batch.floats[i].values;
      const auto allowed = [&](float value) { return is_allowed(rule, value); };
      if (!std::all_of(values.begin(), values.end(), allowed))
        return wire::malformed("a batch with an invalid value of the target ", rule.field);
    }
  }
  return {};
}

}  // namespace

Result<void> check_batch(const ReadPlan& plan, BatchId expected, const Batch& batch) {
  if (batch.id != expected) return wire::malformed("batch ", batch.id, " instead of ", expected);
  if (batch.quarantined) return {};
  if (batch.records == 0 || batch.records > plan.batch_size)
    return wire::malformed("a batch of ", batch.records, " records");
  const InputLayout& layout = plan.layout;
  bool same = batch.floats.size() == layout.floats.size() &&
              batch.bags.size() == layout.bags.size() &&
              batch.tables.size() == layout.tables.size();
  for (size_t i = 0; same && i < layout.floats.size(); ++i)
    same = batch.floats[i].width == layout.floats[i].width;
  for (size_t i = 0; same && i < layout.bags.size(); ++i)
    same = batch.bags[i].table_index == layout.bags[i].table_index;
  for (size_t i = 0; same && i < layout.tables.size(); ++i)
    same = batch.tables[i].table == layout.tables[i];
  if (!same) return wire::malformed("a batch whose columns differ from the columns of the job");
  return check_targets(plan, batch);
}

}  // namespace downpour::data
