#include "shared/job/number_inputs.h"

#include <algorithm>

#include "shared/base/check.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"

namespace downpour {
namespace {

// Standard deviations from the mean. A lower limit would flatten relations in long tails.
constexpr double kFarthest = 30;

bool is_standardized(const FieldSpec& field) {
  return std::ranges::any_of(field.transform, [](const TransformSpec& op) {
    return std::holds_alternative<ops::Standardize>(op);
  });
}

FieldSpec scaled(const FieldSpec& field, const DataSpec& data) {
  FieldSpec scaled = field;
  scaled.name = field.name + "_scaled";
  while (data.find_field(scaled.name) != nullptr) scaled.name += "_";
  const bool named = !field.column.empty() || !field.feature.empty() || !field.path.empty();
  std::string& place = is_arrays(data.format)                              ? scaled.path
                       : is_frames(data.format) && data.record != "tensor" ? scaled.feature
                                                                           : scaled.column;
  if (!named) place = field.name;
  scaled.transform.back() = ops::Standardize{};
  scaled.transform.emplace_back(ops::Clip{.min = -kFarthest, .max = kFarthest});
  return scaled;
}

}  // namespace

void add_scaled_fields(DataSpec& data) {
  std::vector<FieldSpec> fields;
  for (const FieldSpec& field : data.fields) {
    fields.push_back(field);
    if (is_quantile(field)) fields.push_back(scaled(field, data));
  }
  data.fields = std::move(fields);
}

std::vector<std::string> take_standardized(const DataSpec& data, std::vector<std::string>& names) {
  const auto takes = [&](const std::string& name) {
    const FieldSpec* const field = data.find_field(name);
    return field != nullptr && is_standardized(*field);
  };
  std::vector<std::string> taken;
  std::ranges::copy_if(names, std::back_inserter(taken), takes);
  if (taken.size() == names.size()) return {};
  std::erase_if(names, takes);
  return taken;
}

uint64_t width_of(const Job& job, const std::vector<std::string>& names) {
  uint64_t width = 0;
  for (const std::string& name : names) {
    if (const FieldSpec* field = job.data.find_field(name)) {
      uint64_t columns = 1;
      for (const int64_t n : number_shape(*field)) columns *= uint64_t(n);
      width += columns;
      continue;
    }
    const auto layer = std::ranges::find(job.model.layers, name, &LayerSpec::name);
    DP_CHECK(layer != job.model.layers.end(), name);
    width += layer->type == "embedding" ? layer->inputs.size() * layer->dim
                                        : layer->bins * width_of(job, layer->inputs);
  }
  return width;
}

}  // namespace downpour
