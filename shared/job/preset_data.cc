#include "shared/job/preset_data.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shared/job/formats.h"
#include "shared/job/ops.h"
#include "shared/job/runs.h"

namespace downpour {
namespace {

/// Sorts fields by the order of their columns, then by name with I2 before I10, because TOML tables
/// have no order.
void sort_fields(DataSpec& data) {
  const auto place = [&](const FieldSpec& field) {
    const std::string& column = field.source_name();
    return std::find(data.columns.begin(), data.columns.end(), column) - data.columns.begin();
  };
  const auto natural = [](const std::string& name) {
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    return std::tuple(name.substr(0, digits), name.size(), name);
  };
  std::vector<std::pair<ptrdiff_t, FieldSpec*>> order;
  for (FieldSpec& field : data.fields) order.emplace_back(place(field), &field);
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return natural(a.second->name) < natural(b.second->name);
  });
  std::vector<FieldSpec> sorted;
  for (const auto& [column, field] : order) sorted.push_back(std::move(*field));
  data.fields = std::move(sorted);
}

/// Fills what the declaration of a single field leaves open from that of a range.
void complete_from(const FieldSpec& range, FieldSpec& field) {
  const auto take = [&](auto FieldSpec::*member) {
    if (field.*member == FieldSpec{}.*member) field.*member = range.*member;
  };
  take(&FieldSpec::type);
  take(&FieldSpec::shape);
  take(&FieldSpec::encoding);
  take(&FieldSpec::fallback);
  take(&FieldSpec::positive);
  take(&FieldSpec::classes);
  take(&FieldSpec::transform);
}

Result<void> expand_fields(DataSpec& data) {
  std::vector<FieldSpec> ranges, fields;
  for (FieldSpec& field : data.fields) (is_run(field.name) ? ranges : fields).push_back(field);
  const size_t singles = fields.size();
  for (const FieldSpec& range : ranges) {
    auto names = expand_run(range.name, data.columns);
    if (!names) {
      names.error().where = "data.fields";
      return std::move(names).error();
    }
    for (std::string& name : *names) {
      const auto end = fields.begin() + ptrdiff_t(singles);
      const auto own = std::ranges::find(fields.begin(), end, name, &FieldSpec::name);
      if (own != end) {
        complete_from(range, *own);
        continue;
      }
      fields.push_back(range);
      fields.back().name = std::move(name);
    }
  }
  data.fields = std::move(fields);
  return {};
}

}  // namespace

Result<void> complete_data(DataSpec& data) {
  DP_TRY_VOID(expand_runs(data.columns).context("data.columns"));
  const std::vector<FieldSpec> preset = default_fields(data.format);
  if (data.columns.empty()) data.columns = default_columns(data.format);
  DP_TRY_VOID(expand_fields(data));
  for (const FieldSpec& field : preset) {
    if (data.find_field(field.name) == nullptr) data.fields.push_back(field);
  }
  for (FieldSpec& field : data.fields) {
    const bool texts = field.type == FieldType::kString && !field.is_label();
    const bool unhashed =
        field.transform.empty() ||
        (field.transform.size() == 1 && info_of(field.transform[0]).stage == OpStage::kWords);
    // Tables are sparse, so the hash needs no number of buckets.
    if (texts && unhashed) field.transform.push_back(ops::Hash{});
  }
  sort_fields(data);
  return {};
}

}  // namespace downpour
